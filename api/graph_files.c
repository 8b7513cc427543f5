/* graph_files.c - Graphs in files (sluice/graph.h): written whole or not at all, mapped to be read.
 */
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

static void release_map(void *ctx) {
    sl_file_map *map = ctx;
    sl_file_map_close(map);
    sl_release(NULL, map, sizeof *map, _Alignof(sl_file_map));
}

sl_status sl_graph_load(const char *path, const sl_custom_ops *ops, sl_graph **out, sl_error *err) {
    SL_NEED(path && out);
    sl_file_map *map = sl_allocate(NULL, sizeof *map, _Alignof(sl_file_map));
    if (!map) return sl_no_memory(err, "a file", sizeof *map);
    sl_graph *graph = NULL;
    const sl_load_options options = {.customs = ops, .in_place = true};
    sl_status status = sl_file_map_open(path, map, err);
    if (status == SL_OK) {
        status = sl_graph_load_bytes(map->data, map->bytes, &options, &graph, err);
        if (status != SL_OK) status = sl_fail_in(err, status, "%s", sl_file_name(path));
    }
    if (status != SL_OK) {
        release_map(map);
        return status;
    }
    graph->release = release_map;
    graph->release_ctx = map;
    *out = graph;
    return SL_OK;
}
