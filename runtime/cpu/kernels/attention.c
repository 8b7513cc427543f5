/* attention.c - Attention without a cache, and its gradient. */
#include "core/ops.h"
#include "runtime/cpu/kernels/attention_heads.h"
#include "runtime/cpu/kernels/kernels.h"

/* Operands that attention and attention_backward share. */
typedef struct {
    const sl_cview *q, *k, *v;
    const sl_cview_list *extra;
    sl_attention_form form;
    bool has_sinks;
} operands;

/* KV head i, counted over all batch entries. */
static heads head_at(const operands *o, int64_t i) {
    const sl_type *q = &o->q->type, *k = &o->k->type;
    const int64_t kv_heads = dim(k, 1), group = dim(q, 1) / kv_heads;
    const int64_t batch = i / kv_heads, first = i % kv_heads * group;
    heads h = {.form = &o->form,
               .dtype = q->dtype,
               .q = o->q->data,
               .k = o->k->data,
               .v = o->v->data,
               .queries = dim(q, 2),
               .group = group,
               .keys = dim(k, 2),
               .key_dim = dim(q, 3),
               .value_dim = dim(&o->v->type, 3)};
    h.q_row = h.k_row = h.key_dim, h.v_row = h.value_dim;
    h.q_head = h.queries * h.q_row;
    h.q_at = i * group * h.q_head;
    h.k_at = i * h.keys * h.k_row;
    h.v_at = i * h.keys * h.v_row;
    if (o->form.mask == SL_MASK_CUSTOM || o->form.mask == SL_MASK_BIAS) {
        h.mask = o->extra->items[0].data, h.mask_dtype = o->extra->items[0].type.dtype;
        h.mask_by = sl_strides_of(&o->extra->items[0].type.shape);
        h.mask_at = batch * h.mask_by.by[0] + first * h.mask_by.by[1];
    }
    if (o->has_sinks) {
        h.sinks = o->extra->items[SL_LIST_COUNT(*o->extra) - 1].data;
        h.sinks_at = first;
    }
    return h;
}

/* Arguments and outputs of attention_backward. */
typedef struct {
    operands o;
    const sl_view *outs[3];
    const sl_view *dbias, *dsinks; /* NULL: not an output */
    const sl_cview *dout;
    int64_t items[3]; /* number of items of each kind: KV heads, bias planes, sinks */
} job;

static int64_t plane_of(const sl_type *bias) {
    const uint32_t rank = bias->shape.rank;
    const int64_t last = rank > 0 ? bias->shape.dims[rank - 1] : 1;
    return last * (rank > 1 ? bias->shape.dims[rank - 2] : 1);
}

static job job_of(const sl_attention_backward_args *a) {
    job j = {.o = {&a->q, &a->k, &a->v, &a->extra,
                   SL_ATTENTION_FORM(&a->attrs, last_dim(&a->q.type)), a->attrs.sinks != 0},
             .outs = {&a->dq, &a->dk, &a->dv},
             .dout = &a->dout};
    const uint32_t more = SL_LIST_COUNT(a->dextra);
    if (more && a->attrs.mask == SL_MASK_BIAS) j.dbias = &a->dextra.items[0];
    if (more && a->attrs.sinks) j.dsinks = &a->dextra.items[more - 1];
    j.items[0] = dim(&a->k.type, 0) * dim(&a->k.type, 1);
    j.items[1] = j.dbias ? sl_type_elements(&j.dbias->type) / plane_of(&j.dbias->type) : 0;
    j.items[2] = j.dsinks ? dim(&a->q.type, 1) : 0;
    return j;
}

/* Whether query head `head` of the group reads plane `plane` (one [queries, keys] matrix) of the
 * bias. */
static bool reads_plane(const heads *h, int64_t head, int64_t plane_elements, int64_t plane) {
    return h->mask_at + head * h->mask_by.by[1] == plane * plane_elements;
}

#define REAL     float
#define NAMED(x) x##_f32
#include "runtime/cpu/kernels/attention_backward.h"
#undef REAL
#undef NAMED
#define REAL     double
#define NAMED(x) x##_f64
#include "runtime/cpu/kernels/attention_backward.h" /* NOLINT: once per REAL */

/* ---- attention: an item is a tile of rows of a KV head ---- */

static operands forward_operands(const sl_attention_args *a) {
    return (operands){&a->q,
                      &a->k,
                      &a->v,
                      &a->extra,
                      SL_ATTENTION_FORM(&a->attrs, last_dim(&a->q.type)),
                      a->attrs.sinks != 0};
}

static int64_t tiles_of(const sl_attention_args *a) {
    return parts_of(dim(&a->q.type, 1) / dim(&a->k.type, 1) * dim(&a->q.type, 2), TILE);
}

SPLIT(attention) {
    const sl_attention_args *a = args;
    const int64_t key_dim = last_dim(&a->q.type), value_dim = last_dim(&a->v.type);
    const int64_t rows = least(dim(&a->q.type, 1) / dim(&a->k.type, 1) * dim(&a->q.type, 2), TILE);
    carver c = {NULL, 0};
    if (a->q.type.dtype == SL_DTYPE_f64)
        (void)room_of_f64(&c, key_dim, value_dim);
    else
        (void)room_of_f32(&c, key_dim, value_dim);
    return (sl_split){dim(&a->k.type, 0) * dim(&a->k.type, 1) * tiles_of(a),
                      grain_of(rows * dim(&a->k.type, 2) * (key_dim + value_dim) / 8), c.bytes};
}

RUN(attention) {
    const sl_attention_args *a = args;
    const operands o = forward_operands(a);
    const int64_t tiles = tiles_of(a);
    for (int64_t item = begin; item < end; item++) {
        const heads h = head_at(&o, item / tiles);
        const int64_t row = item % tiles * TILE, all = h.group * h.queries;
        const int64_t rows = least(TILE, all - row), width = h.value_dim;
        const int64_t at = (item / tiles * all + row) * width;
        carver c = {worker->scratch, 0};
        if (h.dtype == SL_DTYPE_f64) {
            room_f64 m = room_of_f64(&c, h.key_dim, width);
            attend_f64(&h, row, rows, &m);
            store_f64(h.dtype, a->out.data, at, rows * width, m.mix);
        } else {
            room_f32 m = room_of_f32(&c, h.key_dim, width);
            attend_f32(&h, row, rows, &m);
            store_f32(h.dtype, a->out.data, at, rows * width, m.mix);
        }
    }
    return SL_OK;
}

/* ---- attention_backward: items are the KV heads, then the bias planes, then the sinks ---- */

SPLIT(attention_backward) {
    const sl_attention_backward_args *a = args;
    const job j = job_of(a);
    const int64_t key_dim = last_dim(&a->q.type), value_dim = last_dim(&a->v.type);
    const int64_t keys = dim(&a->k.type, 2);
    const size_t each = a->q.type.dtype == SL_DTYPE_f64 ? sizeof(double) : sizeof(float);
    carver c = {NULL, 0};
    if (a->q.type.dtype == SL_DTYPE_f64)
        (void)backward_of_f64(&c, key_dim, value_dim);
    else
        (void)backward_of_f32(&c, key_dim, value_dim);
    carver extra = c;
    (void)carve(&c, TILE * key_dim, each);
    (void)carve(&c, keys * key_dim, each);
    (void)carve(&c, keys * value_dim, each);
    (void)carve(&extra, j.dbias ? plane_of(&j.dbias->type) : 1, each);
    const int64_t rows = dim(&a->q.type, 1) / dim(&a->k.type, 1) * dim(&a->q.type, 2);
    return (sl_split){j.items[0] + j.items[1] + j.items[2],
                      grain_of(rows * keys * (key_dim + value_dim) / 2),
                      c.bytes > extra.bytes ? c.bytes : extra.bytes};
}

RUN(attention_backward) {
    const job j = job_of(args);
    for (int64_t item = begin; item < end; item++)
        if (j.o.q->type.dtype == SL_DTYPE_f64)
            run_item_f64(&j, item, worker->scratch);
        else
            run_item_f32(&j, item, worker->scratch);
    return SL_OK;
}
