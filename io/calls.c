/* calls.c - A reader whose reads are calls of a function (reader.h). */
#include "io/task.h"

enum { THREADS = 4 };

static sl_status describe(const sl_read_calls *calls, sl_read_files *files, sl_error *err) {
    files->files = SL_ARENA_NEW_ARRAY(&files->arena, sl_read_file, calls->files);
    if (!files->files) return sl_no_memory(err, calls->name, calls->files * sizeof(sl_read_file));
    for (uint32_t i = 0; i < calls->files; i++)
        files->files[i] = (sl_read_file){
            .path = calls->name, .bytes = calls->file_bytes, .direct_fd = -1, .buffered_fd = -1};
    files->count = calls->files;
    return SL_OK;
}

sl_status sl_reader_open_calls(const sl_read_calls *calls, const sl_allocator *allocator,
                               sl_reader **out, sl_error *err) {
    if (calls->threads > SL_MAX_READER_DEPTH)
        return sl_fail(err, SL_INVALID, "%u threads for reading, at most %d are possible",
                       calls->threads, SL_MAX_READER_DEPTH);
    sl_read_files files = {.depth = calls->threads ? calls->threads : THREADS,
                           .alignment = calls->alignment,
                           .call = calls->read,
                           .call_ctx = calls->ctx};
    sl_arena_init(&files.arena, allocator);
    sl_status status = describe(calls, &files, err);
    if (status == SL_OK) status = sl_threads_open(&files, out, err);
    if (status != SL_OK) sl_read_files_deinit(&files);
    return status;
}
