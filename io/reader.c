/* reader.c - Opens files, chooses the kind of reader, and dispatches to it. */
#include "io/reader.h"
#include "io/task.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A descriptor for direct reads, or -1 if the file system does not support them. */
static int open_direct(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0) return -1;
    char block[2 * SL_DIRECT_ALIGNMENT];
    char *aligned = block + SL_DIRECT_ALIGNMENT - (uintptr_t)block % SL_DIRECT_ALIGNMENT;
    ssize_t got = 0;
    do got = pread(fd, aligned, SL_DIRECT_ALIGNMENT, 0);
    while (got < 0 && errno == EINTR);
    if (got >= 0) return fd;
    close(fd);
    return -1;
}

static sl_status open_file(sl_read_file *file, const char *path, bool buffered, sl_arena *arena,
                           sl_error *err) {
    *file = (sl_read_file){.direct_fd = -1, .buffered_fd = -1};
    file->path = sl_arena_copy_text(arena, path, strlen(path));
    if (!file->path) return sl_no_memory(err, "a path", strlen(path) + 1);
    file->buffered_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->buffered_fd < 0)
        return sl_fail(err, SL_IO, "%s: cannot open: %s", path, strerrordesc_np(errno));
    struct stat stat;
    if (fstat(file->buffered_fd, &stat) != 0)
        return sl_fail(err, SL_IO, "%s: cannot stat: %s", path, strerrordesc_np(errno));
    if (!S_ISREG(stat.st_mode)) return sl_fail(err, SL_IO, "%s: not a regular file", path);
    file->bytes = (uint64_t)stat.st_size;
    file->drops_pages = !buffered;
    if (!buffered) file->direct_fd = open_direct(path);
    file->direct = file->direct_fd >= 0;
    return SL_OK;
}

/* On failure `files` contains the files opened so far. */
static sl_status open_files(const char *const *paths, uint32_t count, bool buffered,
                            sl_read_files *files, sl_error *err) {
    files->alignment = 1;
    files->files = SL_ARENA_NEW_ARRAY(&files->arena, sl_read_file, count);
    if (!files->files) return sl_no_memory(err, "open files", count * sizeof(sl_read_file));
    for (uint32_t i = 0; i < count; i++) {
        files->count = i + 1;
        SL_TRY(open_file(&files->files[i], paths[i], buffered, &files->arena, err));
        if (files->files[i].direct) files->alignment = SL_DIRECT_ALIGNMENT;
    }
    return SL_OK;
}

#ifndef SL_HAVE_URING /* uring.c is not part of the build */
sl_status sl_uring_open(const sl_read_files *files, sl_reader **out, sl_error *err) {
    (void)files, (void)out;
    return sl_fail(err, SL_UNSUPPORTED, "io_uring is not available: built without liburing");
}
#endif

sl_status sl_reader_open(const char *const *paths, uint32_t count, const sl_reader_options *options,
                         const sl_allocator *allocator, sl_reader **out, sl_error *err) {
    const sl_reader_options given = options ? *options : (sl_reader_options){0};
    *out = NULL;
    if (given.depth > SL_MAX_READER_DEPTH)
        return sl_fail(err, SL_INVALID, "%u reads in flight requested, at most %d are possible",
                       given.depth, SL_MAX_READER_DEPTH);
    sl_read_files files = {.depth = given.depth ? given.depth : SL_READER_DEPTH};
    sl_arena_init(&files.arena, allocator);
    sl_status status = SL_OK;
    SL_TRY_ELSE(done, open_files(paths, count, given.buffered, &files, err));
    if (given.kind != SL_READER_THREADS) status = sl_uring_open(&files, out, err);
    const bool fall_back = given.kind == SL_READER_AUTO && status == SL_UNSUPPORTED;
    if (given.kind == SL_READER_THREADS || fall_back) status = sl_threads_open(&files, out, err);
done:
    if (status != SL_OK) sl_read_files_deinit(&files);
    return status;
}

void sl_reader_close(sl_reader *reader) {
    if (reader) reader->ops->close(reader);
}

uint32_t sl_reader_alignment(const sl_reader *reader) {
    return reader->alignment;
}

const char *sl_reader_name(const sl_reader *reader) {
    return reader->ops->name;
}

sl_status sl_reader_submit(sl_reader *reader, const sl_read *read, sl_error *err) {
    return reader->ops->submit(reader, read, err);
}

sl_status sl_reader_next(sl_reader *reader, sl_read_result *out, sl_error *err) {
    return reader->ops->next(reader, out, err);
}

bool sl_reader_poll(sl_reader *reader, sl_read_result *out) {
    return reader->ops->poll(reader, out);
}
