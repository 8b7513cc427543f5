/* graph_files.c - Graphs in files (sluice/graph.h): written whole or not at all, read whole. */
#include "api/needs.h"
#include "compiler/binary.h"
#include "engine/formats/file.h"
#include "sluice/graph.h"

static sl_status append(void *ctx, const void *bytes, size_t count, sl_error *err) {
    return sl_file_writer_append(ctx, bytes, count, err);
}

sl_status sl_graph_save(const sl_graph *graph, const char *path, sl_error *err) {
    SL_NEED(graph && path);
    sl_file_writer writer;
    sl_status status = sl_file_writer_open(&writer, path, NULL, err);
    if (status == SL_OK) status = sl_graph_write(graph, &(sl_sink){append, &writer}, err);
    if (status == SL_OK) status = sl_file_writer_commit(&writer, err);
    sl_file_writer_close(&writer);
    return status;
}

/* The contents of a file; the graph uses its constants in place. */
typedef struct {
    uint64_t bytes;
    _Alignas(64) unsigned char data[];
} contents;

static void release_contents(void *ctx) {
    contents *file = ctx;
    sl_release(NULL, file, sizeof *file + file->bytes, _Alignof(contents));
}

static sl_status read_contents(const char *path, contents **out, sl_error *err) {
    sl_file file;
    SL_TRY(sl_file_open(path, &file, err));
    sl_status status = SL_OK;
    contents *read = sl_resize(NULL, NULL, 0, sizeof *read + file.bytes, _Alignof(contents));
    if (!read) {
        status = sl_no_memory(err, path, file.bytes);
    } else {
        read->bytes = file.bytes;
        status = sl_file_read(&file, 0, read->data, file.bytes, err);
    }
    sl_file_close(&file);
    if (status == SL_OK)
        *out = read;
    else if (read)
        release_contents(read);
    return status;
}

sl_status sl_graph_load(const char *path, sl_graph **out, sl_error *err) {
    return sl_graph_load_using(path, NULL, out, err);
}

sl_status sl_graph_load_using(const char *path, const sl_custom_ops *ops, sl_graph **out,
                              sl_error *err) {
    SL_NEED(path && out);
    contents *file;
    sl_graph *graph = NULL;
    const sl_load_options options = {.customs = ops, .in_place = true};
    SL_TRY(read_contents(path, &file, err));
    const sl_status status = sl_graph_load_bytes(file->data, file->bytes, &options, &graph, err);
    if (status != SL_OK) {
        release_contents(file);
        return sl_fail_in(err, status, "%s", sl_file_name(path));
    }
    graph->release = release_contents;
    graph->release_ctx = file;
    *out = graph;
    return SL_OK;
}
