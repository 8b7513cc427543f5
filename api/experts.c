/* experts.c - Sources of experts for graphs: their making, and what they have to fit. */
#include "api/experts_made.h"
#include "api/needs.h"
#include "api/values.h"
#include "base/sizes.h"
#include "base/structs.h"
#include "engine/models/architecture.h"
#include <string.h>

enum { MATRIX_ALIGNMENT = 64, MOST_SIDE = 1 << 24 };

sl_value sl_graph_add_experts(sl_graph *graph, const char *name, const char *dtype, uint32_t rank,
                              const int64_t *dims) {
    SL_NEED_IN(graph, (sl_value){0}, name && dtype && (dims || !rank));
    sl_type type = {.shape.rank = rank};
    if (rank != 3 || !sl_dtype_find(dtype, strlen(dtype), &type.dtype)) {
        sl_graph_mistake(
            graph, SL_INVALID,
            "experts '%s': %u dims of type '%s', must be 3 (experts, width, hidden) of "
            "a known type",
            name, rank, dtype);
        return (sl_value){0};
    }
    memcpy(type.shape.dims, dims, rank * sizeof *dims);
    return sl_value_seal(graph, sl_graph_declare(graph, SL_VALUE_EXPERTS, name, type));
}

/* ---- shapes ---- */

static sl_status find_type(const char *name, int64_t rows, int64_t cols, sl_type *out,
                           sl_error *err) {
    sl_dtype dtype;
    if (!name || !sl_dtype_find(name, strlen(name), &dtype))
        return sl_fail(err, SL_INVALID, "experts: unknown element type '%s'", name ? name : "");
    const sl_dtype_kind kind = sl_dtype_infos[dtype].kind;
    if (kind != SL_KIND_PANEL && dtype != SL_DTYPE_f32 && dtype != SL_DTYPE_f16 &&
        dtype != SL_DTYPE_bf16)
        return sl_fail(err, SL_INVALID,
                       "experts: element type %s, must be f32, f16, bf16 or of quantised weights",
                       name);
    *out = sl_type_make(dtype, 2, rows, cols);
    return sl_type_check(out, "experts", err);
}

static sl_status keep_shape(sl_experts *x, const sl_expert_shape *given, sl_error *err) {
    sl_expert_shape shape = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_expert_shape, &shape, given, err));
    if (!shape.down_dtype) shape.down_dtype = shape.dtype;
    if (!shape.layers || shape.layers > MOST_SIDE || !shape.experts || shape.experts > MOST_SIDE ||
        shape.width < 1 || shape.width > MOST_SIDE || shape.hidden < 1 || shape.hidden > MOST_SIDE)
        return sl_fail(err, SL_INVALID,
                       "%u layers of %u experts of %lld x %lld: each must be in [1, %d]",
                       shape.layers, shape.experts, (long long)shape.width, (long long)shape.hidden,
                       MOST_SIDE);
    SL_TRY(find_type(shape.dtype, shape.width, shape.hidden, &x->gate, err));
    SL_TRY(find_type(shape.down_dtype, shape.hidden, shape.width, &x->down, err));
    shape.dtype = sl_dtype_infos[x->gate.dtype].name;
    shape.down_dtype = sl_dtype_infos[x->down.dtype].name;
    x->shape = shape;
    return SL_OK;
}

static sl_made_experts *new_experts(void) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_made_experts *x = SL_ARENA_NEW(&arena, sl_made_experts);
    if (x) x->arena = arena;
    return x;
}

/* Hands the source to the caller if all went well, and destroys it otherwise. */
static sl_status end(sl_made_experts *x, sl_status status, sl_experts **out) {
    if (status == SL_OK)
        *out = &x->base;
    else
        sl_experts_destroy(&x->base);
    return status;
}

void sl_experts_destroy(sl_experts *experts) {
    sl_made_experts *x = (sl_made_experts *)experts;
    if (!x) return;
    sl_expert_store_destroy(x->store);
    if (x->reader) sl_reader_close(x->reader);
    sl_source_close(x->files);
    if (x->base.source == &x->called.base) {
        pthread_cond_destroy(&x->called.returned);
        pthread_mutex_destroy(&x->called.lock);
    }
    sl_arena arena = x->arena;
    sl_arena_deinit(&arena);
}

static sl_status open_store(sl_made_experts *x, uint64_t budget_bytes, sl_error *err) {
    SL_TRY(sl_expert_store_create(&x->table, x->reader, budget_bytes, NULL, &x->store, err));
    x->base.source = sl_expert_store_source(x->store);
    return SL_OK;
}

/* ---- a reading function: a file per layer, an expert after the other ---- */

static uint64_t matrix_room(const sl_type *type) {
    return sl_round_up(sl_type_bytes(type), MATRIX_ALIGNMENT);
}

static sl_status call_read(void *ctx, const sl_read *read, sl_error *err) {
    const sl_made_experts *x = ctx;
    char *into = read->into;
    const uint64_t room = matrix_room(&x->base.gate);
    const uint32_t expert = (uint32_t)(read->offset / x->stride);
    return x->function.read(x->function.ctx, read->file, expert, into, into + room, into + 2 * room,
                            err);
}

static sl_status fill_table(sl_made_experts *x, sl_error *err) {
    const uint32_t layers = x->base.shape.layers, experts = x->base.shape.experts;
    sl_expert_layer *layer = SL_ARENA_NEW_ARRAY(&x->arena, sl_expert_layer, layers);
    sl_extent *parts = SL_ARENA_NEW_ARRAY(&x->arena, sl_extent, (size_t)layers * experts);
    if (!layer || !parts) return sl_no_memory(err, "experts", (uint64_t)layers * experts);
    for (uint32_t l = 0; l < layers; l++) {
        layer[l] = (sl_expert_layer){.part_count = 1, .parts = parts + (size_t)l * experts};
        for (uint32_t m = 0; m < SL_EXPERT_MATRICES; m++) {
            const sl_type type = m == SL_DOWN ? x->base.down : x->base.gate;
            layer[l].matrices[m] =
                (sl_expert_matrix){.type = type,
                                   .piece_count = 1,
                                   .pieces = {{.offset = m * matrix_room(&x->base.gate),
                                               .bytes = sl_type_bytes(&type)}}};
        }
        for (uint32_t e = 0; e < experts; e++)
            parts[(size_t)l * experts + e] = (sl_extent){l, e * x->stride, x->stride};
    }
    x->table = (sl_expert_table){.layers = layers,
                                 .experts = experts,
                                 .experts_used = 1,
                                 .layer = layer,
                                 .expert_bytes = x->stride,
                                 .total_bytes = x->stride * layers * experts,
                                 .memory_bytes = x->stride * layers * experts};
    return SL_OK;
}

static sl_status open_function(sl_made_experts *x, const sl_expert_shape *shape,
                               const sl_expert_reader *reader, sl_error *err) {
    uint64_t all;
    SL_TRY(SL_STRUCT_TAKE(sl_expert_reader, &x->function, reader, err));
    if (!x->function.read) return sl_fail(err, SL_INVALID, "experts: there is no function to read");
    SL_TRY(keep_shape(&x->base, shape, err));
    x->stride = 2 * matrix_room(&x->base.gate) + matrix_room(&x->base.down);
    if (!sl_multiply(x->stride * x->base.shape.experts, x->base.shape.layers, &all))
        return sl_fail(err, SL_INVALID, "experts: their size does not fit 64 bits");
    const sl_read_calls calls = {.read = call_read,
                                 .ctx = x,
                                 .name = "experts",
                                 .files = x->base.shape.layers,
                                 .file_bytes = x->stride * x->base.shape.experts,
                                 .alignment = MATRIX_ALIGNMENT,
                                 .threads = x->function.threads};
    SL_TRY(fill_table(x, err));
    SL_TRY(sl_reader_open_calls(&calls, NULL, &x->reader, err));
    return open_store(x, x->function.budget_bytes, err);
}

sl_status sl_experts_create(const sl_expert_shape *shape, const sl_expert_reader *reader,
                            sl_experts **out, sl_error *err) {
    SL_NEED(shape && reader && out);
    sl_made_experts *x = new_experts();
    if (!x) return sl_no_memory(err, "experts", sizeof *x);
    return end(x, open_function(x, shape, reader, err), out);
}

sl_status sl_experts_create_from(const sl_expert_shape *shape, const sl_expert_callbacks *callbacks,
                                 sl_experts **out, sl_error *err) {
    SL_NEED(shape && callbacks && out);
    sl_made_experts *x = new_experts();
    if (!x) return sl_no_memory(err, "experts", sizeof *x);
    sl_status status = keep_shape(&x->base, shape, err);
    if (status == SL_OK) status = sl_called_experts_init(x, callbacks, err);
    return end(x, status, out);
}

/* ---- files ---- */

static sl_status open_reader(sl_made_experts *x, sl_error *err) {
    const uint32_t count = sl_source_file_count(x->files);
    const char **paths = SL_ARENA_NEW_ARRAY(&x->arena, const char *, count + 1);
    if (!paths) return sl_no_memory(err, "file names", count);
    for (uint32_t i = 0; i < count; i++) paths[i] = sl_source_file_path(x->files, i);
    return sl_reader_open(paths, count, NULL, NULL, &x->reader, err);
}

static sl_status open_files(sl_made_experts *x, const char *path, uint64_t budget_bytes,
                            sl_error *err) {
    sl_model_config config;
    size_t bytes;
    SL_TRY(sl_source_open(path, NULL, &x->files, err));
    const char *json = sl_source_text(x->files, "config.json", &bytes);
    if (!json) return sl_fail(err, SL_FORMAT, "%s: the model has no config.json", path);
    SL_TRY(sl_model_config_parse(json, bytes, &x->arena, &config, err));
    SL_TRY(sl_expert_table_build(x->files, &config, &x->arena, &x->table, err));
    const sl_expert_layer *first = sl_expert_table_first(&x->table);
    if (!first) return sl_fail(err, SL_INVALID, "%s: the model has no experts", path);
    x->base.gate = first->matrices[SL_GATE].type;
    x->base.down = first->matrices[SL_DOWN].type;
    x->base.shape = (sl_expert_shape){.layers = x->table.layers,
                                      .experts = x->table.experts,
                                      .width = config.expert_width,
                                      .hidden = config.hidden,
                                      .dtype = sl_dtype_infos[x->base.gate.dtype].name,
                                      .down_dtype = sl_dtype_infos[x->base.down.dtype].name};
    SL_TRY(open_reader(x, err));
    return open_store(x, budget_bytes, err);
}

sl_status sl_experts_open(const char *path, uint64_t budget_bytes, sl_experts **out,
                          sl_error *err) {
    SL_NEED(path && out);
    sl_made_experts *x = new_experts();
    if (!x) return sl_no_memory(err, "experts", sizeof *x);
    return end(x, open_files(x, path, budget_bytes, err), out);
}

/* ---- what is known of a source ---- */

sl_status sl_experts_shape(const sl_experts *x, sl_expert_shape *out, sl_error *err) {
    SL_NEED(x && out);
    SL_TRY(SL_STRUCT_CHECK(sl_expert_shape, out, err));
    SL_STRUCT_GIVE(sl_expert_shape, out, &x->shape);
    return SL_OK;
}

sl_status sl_experts_counts(const sl_experts *x, sl_expert_counts *out, sl_error *err) {
    SL_NEED(x && out);
    SL_TRY(SL_STRUCT_CHECK(sl_expert_counts, out, err));
    const sl_expert_store *store = ((const sl_made_experts *)x)->store;
    const sl_expert_stats stats = store ? sl_expert_store_stats(store) : (sl_expert_stats){0};
    const sl_expert_counts counts = {.hits = stats.hits,
                                     .misses = stats.misses,
                                     .bytes_read = stats.bytes_read,
                                     .slots = stats.slot_count,
                                     .used_bytes = stats.used_bytes,
                                     .stall_seconds = stats.stall_seconds};
    SL_STRUCT_GIVE(sl_expert_counts, out, &counts);
    return SL_OK;
}
