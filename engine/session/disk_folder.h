/* disk_folder.h - The folder of a prefix cache on disk: names, room, and the lock. */
#ifndef SL_ENGINE_SESSION_DISK_FOLDER_H
#define SL_ENGINE_SESSION_DISK_FOLDER_H
#include "base/memory.h"
#include <limits.h>
#include <stdbool.h>
#include <time.h>

enum { SL_DISK_PATH = PATH_MAX + 96 };

/* MODEL-FROM-TO-HASH.kv */
typedef struct {
    uint64_t model, from, to, hash;
} sl_disk_name;

typedef struct {
    const char *path; /* borrowed */
    uint64_t bytes;   /* that all entries may have */
    const sl_allocator *allocator;
    sl_disk_name *names; /* as of the last list */
    size_t count, room;
    struct timespec changed; /* the folder's time then */
    bool listed;
    int lock;
} sl_disk_folder;

/* Makes the folder if it is not there; only its owner can read it then.  Close it in either case.
 */
SL_CHECKED sl_status sl_disk_folder_open(sl_disk_folder *folder, const char *path, uint64_t bytes,
                                         const sl_allocator *allocator, sl_error *err);
void sl_disk_folder_close(sl_disk_folder *folder);

void sl_disk_folder_path(const sl_disk_folder *folder, const sl_disk_name *name,
                         char path[SL_DISK_PATH]);
/* Whether files may have come or gone since the last list. */
bool sl_disk_folder_changed(const sl_disk_folder *folder);
SL_CHECKED sl_status sl_disk_folder_list(sl_disk_folder *folder, sl_error *err);
/* The entry was used now. */
void sl_disk_folder_touch(const sl_disk_folder *folder, const sl_disk_name *name);
void sl_disk_folder_remove(const sl_disk_folder *folder, const sl_disk_name *name);

/* Only one process at a time has the lock; waits for a second.  It ends with the process. */
SL_CHECKED sl_status sl_disk_folder_lock(sl_disk_folder *folder, sl_error *err);
void sl_disk_folder_unlock(sl_disk_folder *folder);
/* With the lock: removes what killed writers left, and the entries that were used longest ago until
 * there is room for so many bytes. */
SL_CHECKED sl_status sl_disk_folder_make_room(sl_disk_folder *folder, uint64_t bytes,
                                              sl_error *err);
#endif
