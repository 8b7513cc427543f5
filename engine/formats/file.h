/* file.h - File access for the formats: positioned reads, reading text, and writing under a
 * temporary name until the file is complete.
 *
 * Files are read, never mapped: a mapped file that shrinks or fails ends the process with SIGBUS,
 * while a failed read is an error that names the file. */
#ifndef SL_ENGINE_FORMATS_FILE_H
#define SL_ENGINE_FORMATS_FILE_H
#include "base/memory.h"
#include <stdbool.h>

/* The last component of a path, for messages. */
const char *sl_file_name(const char *path);
bool sl_file_exists(const char *path);

/* A regular file that is open for reading. */
typedef struct {
    const char *path; /* borrowed */
    uint64_t bytes;   /* when it was opened */
    int fd;
    bool is_open;
} sl_file;
SL_CHECKED sl_status sl_file_open(const char *path, sl_file *out, sl_error *err);
void sl_file_close(sl_file *file); /* a zeroed file is allowed */
/* Reads exactly `bytes` from offset; fails if the file has become shorter. */
SL_CHECKED sl_status sl_file_read(const sl_file *file, uint64_t offset, void *out, uint64_t bytes,
                                  sl_error *err);

/* Reads a file of at most max_bytes into arena, with a NUL after the last byte. */
SL_CHECKED sl_status sl_file_read_text(const char *path, size_t max_bytes, sl_arena *arena,
                                       const char **out_text, size_t *out_bytes, sl_error *err);

/* Whether a regular file begins with these bytes, at most 16. */
SL_CHECKED sl_status sl_file_begins_with(const char *path, const char *magic, bool *out,
                                         sl_error *err);
/* Whether two paths lead to the same file, which exists. */
bool sl_file_is_same(const char *left, const char *right);

/* Before long work: fails if path is there and not a regular file, or is one that must not be
 * replaced. */
SL_CHECKED sl_status sl_file_check_new(const char *path, bool replace, sl_error *err);
/* Fails if the disk of a path has no room for a file of this size. */
SL_CHECKED sl_status sl_file_check_space(const char *path, uint64_t bytes, sl_error *err);

/* A file that gets its final name only when it is complete.  A symbolic link stays: what it leads
 * to is replaced.  What is not a regular file is never replaced but written to as it is.  After a
 * failed call only close is useful; commit fails then. */
typedef struct {
    sl_arena arena;     /* owns the names and the buffer */
    const char *path;   /* as given */
    const char *target; /* with links resolved */
    const char *temporary;
    bool replaces, through; /* a regular file; written to directly */
    uint32_t mode;          /* permissions of what is replaced */
    uint8_t *buffer;
    size_t buffered;
    uint64_t position; /* bytes appended so far */
    int fd;
    bool failed, committed;
} sl_file_writer;
/* Creates a temporary file beside path, and removes those that killed processes have left of it.
 * Close the writer even if this fails. */
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
