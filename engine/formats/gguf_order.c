/* gguf_order.c - Row orders that differ between GGUF files and the models.  Whole rows can be moved
 * in any block type.
 *
 * llama: RoPE rotates the pairs (2j, 2j + 1) of queries and keys; in the checkpoint the pairs are
 * (j, j + half a head).  qwen3next: the rows of in_proj_ba, and in older files those of
 * in_proj_qkvz, are grouped by key head. */
#include "engine/formats/gguf.h"
#include <string.h>

static void copy_2(const sl_raw_matrix *raw, void *out) {
    memcpy(out, raw->parts[0], (size_t)(raw->rows * raw->cols) * 2);
}
static void copy_4(const sl_raw_matrix *raw, void *out) {
    memcpy(out, raw->parts[0], (size_t)(raw->rows * raw->cols) * 4);
}

const sl_tensor_form *sl_gguf_plain_form(sl_dtype dtype) {
    static const sl_tensor_form two = {"rows of 2-byte elements", copy_2},
                                four = {"rows of 4-byte elements", copy_4};
    return sl_dtype_infos[dtype].bytes == 2 ? &two : &four;
}

/* The stored row of each row of the tensor: in each group (one per head) of `stride` rows, a piece
 * of `rows` rows. */
typedef struct {
    uint64_t groups, stride, start, rows;
} piece;

static uint32_t *fill(uint32_t *at, piece p) {
    for (uint64_t g = 0; g < p.groups; g++)
        for (uint64_t i = 0; i < p.rows; i++) *at++ = (uint32_t)(g * p.stride + p.start + i);
    return at;
}

static void fill_halves(uint32_t *at, uint64_t heads, uint64_t head) {
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t half = 0; half < 2; half++)
            for (uint64_t j = 0; j < head / 2; j++) *at++ = (uint32_t)(h * head + 2 * j + half);
}

typedef struct {
    uint64_t heads, kv_heads;                             /* full attention */
    uint64_t key_heads, value_heads, key_dim, value_rows; /* delta nets */
} sizes;

static sl_status get(const sl_gguf *gguf, const char *key, uint64_t *out, sl_error *err) {
    char text[SL_GGUF_KEY_BYTES];
    return sl_gguf_get_count(gguf, sl_gguf_own_key(gguf, key, text), out, err);
}

static sl_status get_sizes(const sl_gguf *gguf, sizes *s, sl_error *err) {
    SL_TRY(get(gguf, "attention.head_count", &s->heads, err));
    s->kv_heads = s->heads;
    SL_TRY(get(gguf, "attention.head_count_kv", &s->kv_heads, err));
    SL_TRY(get(gguf, "ssm.group_count", &s->key_heads, err));
    SL_TRY(get(gguf, "ssm.time_step_rank", &s->value_heads, err));
    SL_TRY(get(gguf, "ssm.state_size", &s->key_dim, err));
    return get(gguf, "ssm.inner_size", &s->value_rows, err);
}

/* How many of all stored rows the tensor gets; 0: the shape does not fit.  Sizes are bounded by the
 * tensor's before they are multiplied. */
static uint64_t rows_of(sl_gguf_rows which, const sizes *s, uint64_t all) {
    const uint64_t heads = which == SL_GGUF_ROWS_QUERY ? s->heads : s->kv_heads;
    if (which == SL_GGUF_ROWS_QUERY || which == SL_GGUF_ROWS_KEY)
        return heads && all % heads == 0 && all / heads % 2 == 0 ? all : 0;
    if (!s->key_heads || s->key_heads > all || s->value_heads > all ||
        s->value_heads % s->key_heads)
        return 0;
    if (which == SL_GGUF_ROWS_BETA || which == SL_GGUF_ROWS_ALPHA)
        return 2 * s->value_heads == all ? s->value_heads : 0;
    if (s->key_dim > all || s->value_rows > all || s->value_rows % s->key_heads) return 0;
    const uint64_t keys = s->key_heads * s->key_dim;
    if (2 * keys + 2 * s->value_rows != all) return 0;
    return which == SL_GGUF_ROWS_Z ? s->value_rows : 2 * keys + s->value_rows;
}

static void fill_all(sl_gguf_rows which, const sizes *s, uint64_t all, uint32_t *at) {
    const uint64_t groups = s->key_heads, d = s->key_dim;
    const uint64_t heads = groups ? s->value_heads / groups : 0;
    const uint64_t values = groups ? s->value_rows / groups : 0;
    const uint64_t stride = 2 * d + 2 * values;
    switch (which) {
    case SL_GGUF_ROWS_QUERY:
        fill_halves(at, s->heads, all / s->heads);
        break;
    case SL_GGUF_ROWS_KEY:
        fill_halves(at, s->kv_heads, all / s->kv_heads);
        break;
    case SL_GGUF_ROWS_BETA:
        (void)fill(at, (piece){groups, 2 * heads, 0, heads});
        break;
    case SL_GGUF_ROWS_ALPHA:
        (void)fill(at, (piece){groups, 2 * heads, heads, heads});
        break;
    case SL_GGUF_ROWS_QKV:
        at = fill(at, (piece){groups, stride, 0, d});
        at = fill(at, (piece){groups, stride, d, d});
        (void)fill(at, (piece){groups, stride, 2 * d, values});
        break;
    case SL_GGUF_ROWS_Z:
        (void)fill(at, (piece){groups, stride, 2 * d + values, values});
        break;
    case SL_GGUF_ROWS_ALL:
        break;
    }
}

sl_status sl_gguf_order_rows(const sl_gguf *gguf, const sl_gguf_tensor *tensor, sl_gguf_rows rows,
                             sl_arena *arena, const sl_row_order **out, int64_t *out_rows,
                             sl_error *err) {
    const uint64_t all = (uint64_t)tensor->shape.dims[0];
    sizes s = {0};
    *out = NULL;
    SL_TRY(get_sizes(gguf, &s, err));
    const uint64_t count =
        tensor->shape.rank <= 2 && all <= UINT32_MAX ? rows_of(rows, &s, all) : 0;
    if (!count) return SL_OK;
    sl_row_order *order = SL_ARENA_NEW(arena, sl_row_order);
    uint32_t *from = SL_ARENA_NEW_ARRAY(arena, uint32_t, count);
    if (!order || !from) return sl_no_memory(err, tensor->name, count * sizeof *from);
    fill_all(rows, &s, all, from);
    *order = (sl_row_order){(uint32_t)all, from};
    *out = order;
    *out_rows = (int64_t)count;
    return SL_OK;
}
