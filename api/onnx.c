/* onnx.c - Graphs from ONNX files (sluice/graph.h). */
#include "api/needs.h"
#include "frontend/onnx/import.h"
#include "sluice/graph.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHAPES = 64 };

static sl_status wrong_shapes(const char *at, sl_error *err) {
    return sl_fail(err, SL_INVALID, "shapes: expected NAME=1,3,224,224; .., found '%.40s'", at);
}

/* "1,3,224,224" up to a semicolon or the end; nothing is a shape without dims. */
static sl_status parse_dims(const char **at, sl_dims *out, sl_error *err) {
    *out = (sl_dims){0};
    while (**at && **at != ';') {
        char *end;
        const long long dim = strtoll(*at, &end, 10);
        if (end == *at || dim < 0 || out->rank == SL_MAX_RANK) return wrong_shapes(*at, err);
        out->dims[out->rank++] = dim;
        *at = end;
        while (isspace((unsigned char)**at)) ++*at;
        if (**at == ',') ++*at;
    }
    return SL_OK;
}

static sl_status parse_shapes(const char *text, sl_arena *arena, sl_onnx_options *options,
                              sl_onnx_shape *shapes, sl_error *err) {
    for (const char *at = text; at && *at; at += *at == ';') {
        while (isspace((unsigned char)*at)) at++;
        const char *equals = strchr(at, '=');
        if (!equals || options->shape_count == MAX_SHAPES) return wrong_shapes(at, err);
        sl_onnx_shape *shape = &shapes[options->shape_count++];
        shape->name = sl_arena_copy_text(arena, at, (size_t)(equals - at));
        if (!shape->name) return sl_no_memory(err, "a shape", (uint64_t)(equals - at));
        at = equals + 1;
        SL_TRY(parse_dims(&at, &shape->shape, err));
    }
    return SL_OK;
}

sl_status sl_graph_import_onnx(const void *bytes, size_t count, const char *shapes, sl_graph **out,
                               sl_error *err) {
    SL_NEED(bytes && out);
    sl_onnx_shape given[MAX_SHAPES];
    sl_onnx_options options = {.shapes = given};
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_status status = parse_shapes(shapes, &arena, &options, given, err);
    if (status == SL_OK) status = sl_onnx_import(bytes, count, &options, NULL, out, err);
    sl_arena_deinit(&arena);
    return status;
}
