/* buckets.c - Graphs with symbols, compiled for sizes that are rounded up
 * (sluice/experimental.h). */
#include "api/compiled.h"
#include "api/needs.h"
#include "base/structs.h"
#include "sluice/experimental.h"
#include <string.h>

enum { ALIGNMENT = 64, KEPT = 16 };

/* One program. */
typedef struct {
    int64_t *sizes;  /* [symbol] */
    sl_graph *graph; /* with these sizes */
    sl_compiled *compiled;
    uint64_t used; /* when */
} bucket;

struct sl_bucketed {
    sl_arena arena;
    sl_graph *graph; /* a copy, which nobody adds to */
    sl_bucket_options options;
    char *words; /* compile options; NULL: none */
    sl_place place;
    sl_tensor **weights; /* [value of graph]: one copy for all buckets */
    bucket *buckets;
    uint32_t count;
    uint64_t clock;
    bucket *now;       /* of the sizes that were chosen */
    sl_graph *exact;   /* with those sizes themselves */
    sl_block padded;   /* an input on its way */
    sl_block *results; /* [output] */
    sl_symbol *wanted; /* [symbol] */
};

/* Only ever grows. */
static sl_status ensure(const sl_bucketed *b, sl_block *block, size_t bytes, const char *what,
                        sl_error *err) {
    const sl_allocator *allocator = b->place.executor->allocator;
    if (block->data && block->bytes >= bytes) return SL_OK;
    void *fresh = sl_allocate(allocator, bytes ? bytes : 1, ALIGNMENT);
    if (!fresh) return sl_no_memory(err, what, bytes);
    sl_release(allocator, block->data, block->bytes, ALIGNMENT);
    *block = (sl_block){fresh, bytes ? bytes : 1};
    return SL_OK;
}

static void drop_bucket(bucket *b) {
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    sl_compiled_destroy(b->compiled);
    sl_graph_destroy(b->graph);
    b->compiled = NULL;
    b->graph = NULL;
}

void sl_bucketed_destroy(sl_bucketed *b) {
    if (!b) return;
    for (uint32_t i = 0; i < b->count; i++) drop_bucket(&b->buckets[i]);
    const sl_place place = b->place;
    const sl_allocator *allocator = place.executor->allocator;
    for (uint32_t o = 0; b->results && o < b->graph->output_count; o++)
        sl_release(allocator, b->results[o].data, b->results[o].bytes, ALIGNMENT);
    sl_release(allocator, b->padded.data, b->padded.bytes, ALIGNMENT);
    sl_graph_destroy(b->exact);
    sl_graph_destroy(b->graph);
    sl_arena arena = b->arena;
    sl_arena_deinit(&arena);
    sl_place_close(&place);
}

/* States would have to move from program to program; codes cannot be cut. */
static sl_status check_graph(const sl_graph *graph, sl_error *err) {
    SL_TRY(sl_graph_check(graph, err));
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *value = &graph->values[v];
        if (value->kind == SL_VALUE_STATE || value->kind == SL_VALUE_EXPERTS)
            return sl_fail(err, SL_UNSUPPORTED,
                           "graph '%s': '%s' is a state or experts, which buckets do not support",
                           graph->name, value->name);
        if (value->symbols && !sl_dtype_infos[value->type.dtype].bytes)
            return sl_fail(err, SL_UNSUPPORTED, "graph '%s': '%s' has symbols, but is %s",
                           graph->name, value->name, sl_dtype_infos[value->type.dtype].name);
        if (value->symbols && value->kind == SL_VALUE_WEIGHT)
            return sl_fail(
                err, SL_UNSUPPORTED,
                "graph '%s': weight '%s' has symbolic dims, which buckets do not support",
                graph->name, value->name);
    }
    return SL_OK;
}

static sl_status make_room(sl_bucketed *b, sl_error *err) {
    const sl_graph *g = b->graph;
    const uint32_t kept = b->options.most_kept;
    b->buckets = SL_ARENA_NEW_ARRAY(&b->arena, bucket, kept);
    b->weights = SL_ARENA_NEW_ARRAY(&b->arena, sl_tensor *, (size_t)g->value_count + 1);
    b->results = SL_ARENA_NEW_ARRAY(&b->arena, sl_block, (size_t)g->output_count + 1);
    b->wanted = SL_ARENA_NEW_ARRAY(&b->arena, sl_symbol, (size_t)g->symbol_count + 1);
    int64_t *sizes = SL_ARENA_NEW_ARRAY(&b->arena, int64_t, (size_t)kept * g->symbol_count + 1);
    if (!b->buckets || !b->weights || !b->results || !b->wanted || !sizes)
        return sl_no_memory(err, "a bucketed graph", g->value_count);
    for (uint32_t i = 0; i < kept; i++) b->buckets[i].sizes = sizes + (size_t)i * g->symbol_count;
    return SL_OK;
}

static sl_status fill_bucketed(sl_bucketed *b, const sl_graph *graph, const char *words,
                               sl_error *err) {
    if (b->options.least < 1) b->options.least = 1;
    if (!b->options.most_kept) b->options.most_kept = KEPT;
    if (words) {
        b->words = sl_arena_copy_text(&b->arena, words, strlen(words));
        if (!b->words) return sl_no_memory(err, "a bucketed graph", strlen(words));
    }
    SL_TRY(sl_graph_copy(graph, b->place.executor->allocator, &b->graph, err));
    SL_TRY(make_room(b, err));
    return sl_storage_join(b->place.storage, b->graph, b->weights, err);
}

sl_status sl_bucketed_create(const sl_graph *graph, const sl_bucket_options *given,
                             sl_bucketed **out, sl_error *err) {
    SL_NEED(graph && out);
    sl_bucket_options options = {0};
    sl_compile_options compile = {0};
    sl_place place;
    sl_arena arena;
    SL_TRY(SL_STRUCT_TAKE(sl_bucket_options, &options, given, err));
    SL_TRY(SL_STRUCT_TAKE(sl_compile_options, &compile, options.compile, err));
    SL_TRY(check_graph(graph, err));
    SL_TRY(sl_place_open(&compile, &place, err));
    sl_arena_init(&arena, place.executor->allocator);
    sl_bucketed *b = SL_ARENA_NEW(&arena, sl_bucketed);
    if (!b) {
        sl_place_close(&place);
        return sl_no_memory(err, "a bucketed graph", sizeof *b);
    }
    b->arena = arena;
    b->place = place;
    b->options = options;
    const sl_status status = fill_bucketed(b, graph, compile.compile, err);
    if (status == SL_OK)
        *out = b;
    else
        sl_bucketed_destroy(b);
    return status;
}

uint32_t sl_bucketed_count(const sl_bucketed *b) {
    SL_NEED_OR(0, b);
    return b->count;
}

/* ---- choosing ---- */

static int64_t rounded(int64_t size, int64_t least) {
    int64_t up = 1;
    while (up < size || up < least) up *= 2;
    return up;
}

static bucket *find_bucket(sl_bucketed *b) {
    for (uint32_t i = 0; i < b->count; i++) {
        bool same = true;
        for (uint32_t s = 0; s < b->graph->symbol_count; s++)
            same &= b->buckets[i].sizes[s] == b->wanted[s].size;
        if (same) return &b->buckets[i];
    }
    return NULL;
}

/* A free place; the one used longest ago becomes free where there is none. */
static bucket *free_place(sl_bucketed *b) {
    if (b->count < b->options.most_kept || !b->count) return &b->buckets[b->count];
    bucket *oldest = &b->buckets[0];
    for (uint32_t i = 1; i < b->count; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        if (b->buckets[i].used < oldest->used) oldest = &b->buckets[i];
    drop_bucket(oldest);
    bucket *last = &b->buckets[--b->count];
    const bucket swapped = *oldest;
    *oldest = *last;
    *last = swapped;
    return last;
}

static sl_status make_bucket(sl_bucketed *b, bucket **out, sl_error *err) {
    bucket *fresh = free_place(b);
    for (uint32_t s = 0; s < b->graph->symbol_count; s++) fresh->sizes[s] = b->wanted[s].size;
    sl_status status =
        sl_graph_bind(b->graph, b->wanted, b->graph->symbol_count, NULL, &fresh->graph, err);
    if (status == SL_OK) status = sl_graph_check_sizes(fresh->graph, err);
    if (status == SL_OK)
        status = sl_compile_for(fresh->graph, &b->place, b->words, &fresh->compiled, err);
    if (status != SL_OK) {
        drop_bucket(fresh);
        return status;
    }
    b->count++;
    *out = fresh;
    return SL_OK;
}

sl_status sl_bucketed_resize(sl_bucketed *b, const sl_symbol_size *sizes, uint32_t count,
                             sl_error *err) {
    SL_NEED(b && (sizes || !count));
    const sl_graph *g = b->graph;
    sl_graph *exact = NULL;
    SL_TRY(sl_graph_bind(g, sizes, count, NULL, &exact, err));
    sl_graph_destroy(b->exact);
    b->exact = exact;
    b->now = NULL;
    for (uint32_t s = 0; s < g->symbol_count; s++)
        for (uint32_t i = 0; i < count; i++) {
            if (strcmp(sizes[i].name, g->symbols[s].name) != 0) continue;
            if (sizes[i].size > INT64_C(1) << 48)
                return sl_fail(err, SL_INVALID, "symbol '%s' is %lld, which is too large",
                               sizes[i].name, (long long)sizes[i].size);
            b->wanted[s] =
                (sl_symbol){g->symbols[s].name, rounded(sizes[i].size, b->options.least)};
        }
    bucket *found = find_bucket(b);
    if (!found) SL_TRY(make_bucket(b, &found, err));
    found->used = ++b->clock;
    b->now = found;
    return SL_OK;
}

/* ---- padding and cutting: the block of `small` at the begin of every dim of `large` ---- */

typedef struct {
    const sl_dims *small, *large;
    size_t element;
    bool cut; /* out of large; else into it */
} shapes;

static void copy_block(const shapes *s, uint32_t dim, char *small, char *large) {
    if (dim == s->small->rank) {
        memcpy(s->cut ? small : large, s->cut ? large : small, s->element);
        return;
    }
    if (sl_dims_tail(s->small, dim + 1) == sl_dims_tail(s->large, dim + 1)) {
        const size_t bytes = (size_t)sl_dims_tail(s->small, dim) * s->element;
        if (bytes) memcpy(s->cut ? small : large, s->cut ? large : small, bytes);
        return;
    }
    for (int64_t i = 0; i < s->small->dims[dim]; i++)
        copy_block(s, dim + 1, small + (size_t)(i * sl_dims_tail(s->small, dim + 1)) * s->element,
                   large + (size_t)(i * sl_dims_tail(s->large, dim + 1)) * s->element);
}

static bool fits(const sl_type *small, const sl_type *large) {
    bool inside = small->dtype == large->dtype && small->shape.rank == large->shape.rank;
    for (uint32_t d = 0; inside && d < small->shape.rank; d++)
        inside = small->shape.dims[d] <= large->shape.dims[d];
    return inside;
}

static sl_status check_ready(const sl_bucketed *b, sl_error *err) {
    if (b->now) return SL_OK;
    return sl_fail(err, SL_INVALID, "graph '%s': no sizes are chosen yet", b->graph->name);
}

/* Also before there is a bucket. */
static sl_status set_weight(const sl_bucketed *b, sl_tensor *weight, const void *data, size_t bytes,
                            sl_error *err) {
    const sl_executor *executor = b->place.executor;
    const sl_tensor_range range = {.bytes = bytes, .from = data};
    sl_queue_enter(executor->queue);
    const sl_status status = sl_tensor_write(weight, executor, &range, err);
    sl_queue_leave(executor->queue);
    return status;
}

sl_status sl_bucketed_set(sl_bucketed *b, const char *name, const void *data, size_t bytes,
                          sl_error *err) {
    SL_NEED(b && name && (data || !bytes));
    const sl_value value = sl_graph_find(b->graph, name);
    const sl_value_info *info = sl_graph_value(b->graph, value);
    char text[SL_TYPE_TEXT];
    if (info && info->kind == SL_VALUE_WEIGHT && bytes == sl_type_bytes(&info->type))
        return set_weight(b, b->weights[value.v], data, bytes, err);
    if (!info || (info->kind != SL_VALUE_INPUT && info->kind != SL_VALUE_WEIGHT))
        return sl_fail(err, SL_INVALID, "the graph has no input or weight '%s'", name);
    SL_TRY(check_ready(b, err));
    const sl_type *exact = &b->exact->values[value.v].type; /* ids are the same */
    const sl_type *padded = &b->now->graph->values[value.v].type;
    if (bytes != sl_type_bytes(exact))
        return sl_fail(err, SL_INVALID, "'%s' is %s of %llu bytes, but %zu bytes were given", name,
                       sl_type_format(exact, text, sizeof text),
                       (unsigned long long)sl_type_bytes(exact), bytes);
    if (sl_type_equal(exact, padded))
        return sl_compiled_set(b->now->compiled, name, data, bytes, err);
    const size_t room = sl_type_bytes(padded);
    SL_TRY(ensure(b, &b->padded, room, name, err));
    memset(b->padded.data, 0, room);
    const shapes s = {&exact->shape, &padded->shape, sl_dtype_infos[exact->dtype].bytes, false};
    copy_block(&s, 0, (char *)(uintptr_t)data, b->padded.data);
    return sl_compiled_set(b->now->compiled, name, b->padded.data, room, err);
}

sl_status sl_bucketed_run(sl_bucketed *b, sl_error *err) {
    SL_NEED(b);
    SL_TRY(check_ready(b, err));
    SL_TRY(sl_compiled_run(b->now->compiled, err));
    for (uint32_t o = 0; o < b->graph->output_count; o++) {
        const sl_graph_out *out = &b->exact->outputs[o];
        const sl_type *exact = &b->exact->values[out->value.v].type;
        const sl_type *padded = &b->now->graph->values[out->value.v].type;
        if (!fits(exact, padded)) {
            char text[SL_TYPE_TEXT], other[SL_TYPE_TEXT];
            return sl_fail(err, SL_UNSUPPORTED, "output '%s' is %s, which does not fit into %s",
                           out->name, sl_type_format(exact, text, sizeof text),
                           sl_type_format(padded, other, sizeof other));
        }
        SL_TRY(ensure(b, &b->results[o], sl_type_bytes(exact), out->name, err));
        const shapes s = {&exact->shape, &padded->shape, sl_dtype_infos[exact->dtype].bytes, true};
        copy_block(&s, 0, b->results[o].data,
                   (char *)(uintptr_t)sl_compiled_get(b->now->compiled, out->name, NULL));
    }
    return SL_OK;
}

const void *sl_bucketed_get(sl_bucketed *b, const char *name, size_t *out_bytes) {
    SL_NEED_OR(NULL, b && name);
    for (uint32_t o = 0; b->exact && o < b->graph->output_count; o++) {
        if (strcmp(b->graph->outputs[o].name, name) != 0 || !b->results[o].data) continue;
        if (out_bytes)
            *out_bytes = sl_type_bytes(&b->exact->values[b->exact->outputs[o].value.v].type);
        return b->results[o].data;
    }
    return NULL;
}
