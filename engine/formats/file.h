/* file.h - File access for the formats: mapping, reading text, and writing under a temporary name
 * until the file is complete. */
#ifndef SL_ENGINE_FORMATS_FILE_H
#define SL_ENGINE_FORMATS_FILE_H
#include "base/memory.h"
#include <stdbool.h>

/* The last component of a path, for messages. */
const char *sl_file_name(const char *path);
bool sl_file_exists(const char *path);

/* A file mapped read-only without read-ahead. */
typedef struct {
    const uint8_t *data; /* NULL if the file is empty */
    uint64_t bytes;
} sl_file_map;
SL_CHECKED sl_status sl_file_map_open(const char *path, sl_file_map *out, sl_error *err);
void sl_file_map_close(sl_file_map *map); /* a zeroed map is allowed */
/* Prefetches mapped bytes with large reads, if all of them are about to be used. */
void sl_file_read_ahead(const void *data, uint64_t bytes);

/* Releases mapped bytes that are not needed again; the page cache may keep them. */
void sl_file_let_go(const void *data, uint64_t bytes);

/* Reads a file of at most max_bytes into arena, with a NUL after the last byte. */
SL_CHECKED sl_status sl_file_read_text(const char *path, size_t max_bytes, sl_arena *arena,
                                       const char **out_text, size_t *out_bytes, sl_error *err);

/* A file that gets its final name only when it is complete.  After a failed call only close is
 * useful; commit fails then. */
typedef struct {
    sl_arena arena; /* owns the names and the buffer */
    const char *path, *temporary;
    uint8_t *buffer;
    size_t buffered;
    uint64_t position; /* bytes appended so far */
    int fd;
    bool failed, committed;
} sl_file_writer;
/* Creates `path`.tmp-<process id> beside path.  Close the writer even if this fails. */
SL_CHECKED sl_status sl_file_writer_open(sl_file_writer *writer, const char *path,
                                         const sl_allocator *allocator, sl_error *err);
SL_CHECKED sl_status sl_file_writer_append(sl_file_writer *writer, const void *data, uint64_t bytes,
                                           sl_error *err);
/* Appends zeros up to the next multiple of align, a power of two of at most 4096. */
SL_CHECKED sl_status sl_file_writer_align(sl_file_writer *writer, uint64_t align, sl_error *err);
/* Replaces the first bytes of what was appended. */
SL_CHECKED sl_status sl_file_writer_patch(sl_file_writer *writer, const void *data, size_t bytes,
                                          sl_error *err);
/* Syncs the file to disk and renames it. */
SL_CHECKED sl_status sl_file_writer_commit(sl_file_writer *writer, sl_error *err);
/* Removes the temporary file unless committed. */
void sl_file_writer_close(sl_file_writer *writer);
#endif
