/* prefix_disk.h - Prefixes of conversations in a folder, which any number of processes may share.
 *
 * An entry is a file of state_file.h, MODEL-FROM-TO-HASH.kv, where MODEL is the fingerprint of the
 * model, [FROM, TO) are its positions and HASH is that of all tokens [0, TO).  An entry appears by
 * a rename and never changes, and its bytes are checked when they are read, so that a process that
 * is killed loses the entry that it writes, and readers see whole entries only.  Who adds an entry
 * holds a lock on the folder's file "lock" and makes room first: the entry that was used longest
 * ago goes, of any model.  Other files are left alone.
 *
 * Whatever fails costs speed only: one line is reported, and the work goes on. */
#ifndef SL_ENGINE_SESSION_PREFIX_DISK_H
#define SL_ENGINE_SESSION_PREFIX_DISK_H
#include "engine/session/prefix_tree.h"
#include "sluice/sessions.h"

typedef struct sl_prefix_disk sl_prefix_disk;
typedef struct {
    const char *folder; /* made if it is not there; copied */
    uint64_t bytes;     /* of all entries and of what is being written */
    sl_forward *forward;
    const sl_fingerprint *fingerprint;
    uint32_t vocab;
    const sl_allocator *allocator;
    sl_note_fn *note; /* NULL: nobody is told */
    void *note_ctx;
} sl_prefix_disk_options;
SL_CHECKED sl_status sl_prefix_disk_create(const sl_prefix_disk_options *options,
                                           sl_prefix_disk **out, sl_error *err);
void sl_prefix_disk_destroy(sl_prefix_disk *disk); /* NULL is allowed */

/* For another view of the same folder; they borrow from the disk. */
sl_prefix_disk_options sl_prefix_disk_options_of(const sl_prefix_disk *disk);

/* As sl_prefix_tree_find.  Looks at the folder again if it has changed. */
sl_prefix_match sl_prefix_disk_find(sl_prefix_disk *disk, const sl_token *tokens, size_t count,
                                    size_t limit);
typedef enum { SL_DISK_ALL, SL_DISK_PART, SL_DISK_DAMAGED } sl_disk_loaded;
/* Writes the blocks from *next on, and then the recurrent state, of what the last find has found
 * into a slot.  Unless `seconds` is 0, it ends after about so many with a part, of 8 MiB at
 * least, *next being the first block that is missing.  SL_DISK_DAMAGED: something is damaged or
 * gone, was reported and is not found again, and the recurrent state of the slot is as it was. */
sl_disk_loaded sl_prefix_disk_load(sl_prefix_disk *disk, size_t length, uint64_t *next,
                                   uint32_t slot, double seconds);
/* Writes what the folder lacks of content [0, to), beginning at content->from at the latest.
 * Content that is SL_CANCELLED is not reported.  During a load, which may make room by dropping
 * others, it does nothing: it would forget what the load goes by. */
void sl_prefix_disk_add(sl_prefix_disk *disk, const sl_state_content *content);
#endif
