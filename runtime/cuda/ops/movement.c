/* movement.c - Data movement of any plain type. */
#include "runtime/cuda/kernels/movement.h"
#include "runtime/cuda/ops/strides.h"

static int64_t element_bytes(const sl_type *type) {
    return sl_dtype_infos[type->dtype].bytes;
}
/* The number of contiguous runs dims[axis..], and the bytes of one. */
static int64_t stretches(const sl_type *type, uint32_t axis) {
    return sl_type_elements(type) / sl_dims_tail(&type->shape, axis);
}
static int64_t stretch_bytes(const sl_type *type, uint32_t axis) {
    return sl_dims_tail(&type->shape, axis) * element_bytes(type);
}

/* ---- units ---- */

enum { UNIT_SIZES = 5 };

/* The largest power of two that divides addresses and distances with these bits set, which is the
 * unit that a thread moves; its exponent is also the index in SL_UNIT_FORMS. */
static int unit_of(uint64_t bits) {
    int power = 0;
    while (power < UNIT_SIZES - 1 && (bits >> power & 1) == 0) power++;
    return power;
}

/* ---- slice, concat, split: copies of contiguous runs ---- */

/* All sizes and strides in bytes. */
typedef struct {
    const char *from;
    char *to;
    int64_t stretches, bytes, from_step, to_step;
} bytes_copy;

static uint64_t bits_of(const bytes_copy *c) {
    return (uintptr_t)c->from | (uintptr_t)c->to | (uint64_t)c->bytes | (uint64_t)c->from_step |
           (uint64_t)c->to_step;
}

static sl_copy copy_of(const bytes_copy *c, int power) {
    return (sl_copy){.from = c->from,
                     .to = c->to,
                     .units = c->stretches * c->bytes >> power,
                     .stretch = c->bytes >> power,
                     .from_step = c->from_step >> power,
                     .to_step = c->to_step >> power};
}

static void plan_copies(sl_gpu_planner *planner, const bytes_copy *copies, uint32_t count) {
    uint64_t bits = 0;
    int64_t most = 0;
    sl_copies launch = {0};
    for (uint32_t i = 0; i < count; i++) bits |= bits_of(&copies[i]);
    const int power = unit_of(bits);
    for (uint32_t i = 0; i < count; i++) {
        launch.parts[i] = copy_of(&copies[i], power);
        if (launch.parts[i].units > most) most = launch.parts[i].units;
    }
    ADD_PLAIN(planner, SL_CUDA_FN_OF_FORM(SL_CUDA_FN(sl_copy), power), most, launch)->grid[1] =
        count;
}

PLAN(slice) {
    const sl_slice_args *a = args;
    const uint32_t axis = a->attrs.axis;
    const int64_t bytes = stretch_bytes(&a->out.type, axis);
    const bytes_copy copy = {
        .from = (const char *)a->x.data + a->attrs.start * stretch_bytes(&a->x.type, axis + 1),
        .to = a->out.data,
        .stretches = stretches(&a->out.type, axis),
        .bytes = bytes,
        .from_step = stretch_bytes(&a->x.type, axis),
        .to_step = bytes,
    };
    plan_copies(planner, &copy, 1);
    return SL_OK;
}

/* Copies of parts, SL_MOST_COPIES of them in a launch. */
typedef struct {
    sl_gpu_planner *planner;
    bytes_copy copies[SL_MOST_COPIES];
    uint32_t held;
} copying;

static void plan_held(copying *c) {
    if (c->held) plan_copies(c->planner, c->copies, c->held);
    c->held = 0;
}
static void add_copy(copying *c, bytes_copy copy) {
    if (copy.bytes) c->copies[c->held++] = copy;
    if (c->held == SL_MOST_COPIES) plan_held(c);
}

static sl_status check_parts(const sl_gpu_planner *planner, uint32_t parts, sl_error *err) {
    enum { MOST_PARTS = SL_MOST_COPIES * SL_GPU_MAX_LAUNCHES };
    if (parts <= MOST_PARTS) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED, "%s: %u parts, the cuda device copies up to %d",
                   planner->label, parts, MOST_PARTS);
}

PLAN(concat) {
    const sl_concat_args *c = args;
    const uint32_t axis = sl_axis(c->attrs.axis, c->out.type.shape.rank);
    const int64_t row = stretch_bytes(&c->out.type, axis), count = stretches(&c->out.type, axis);
    char *out = c->out.data;
    copying copies = {.planner = planner};
    SL_TRY(check_parts(planner, SL_LIST_COUNT(c->parts), err));
    for (uint32_t i = 0; i < SL_LIST_COUNT(c->parts); i++) {
        const sl_cview *part = &c->parts.items[i];
        const int64_t bytes = stretch_bytes(&part->type, axis);
        add_copy(&copies, (bytes_copy){part->data, out, count, bytes, bytes, row});
        out += bytes;
    }
    plan_held(&copies);
    return SL_OK;
}

/* Parts that are contiguous in x are left to slices, which copy nothing. */
PLAN(split) {
    const sl_split_args *a = args;
    const uint32_t axis = sl_axis(a->attrs.axis, a->x.type.shape.rank);
    const int64_t row = stretch_bytes(&a->x.type, axis), count = stretches(&a->x.type, axis);
    const char *x = a->x.data;
    copying copies = {.planner = planner};
    if (count == 1)
        return sl_fail(err, SL_UNSUPPORTED, "%s: the parts are slices without a copy",
                       planner->label);
    SL_TRY(check_parts(planner, SL_LIST_COUNT(a->parts), err));
    for (uint32_t i = 0; i < SL_LIST_COUNT(a->parts); i++) {
        const sl_view *part = &a->parts.items[i];
        const int64_t bytes = stretch_bytes(&part->type, axis);
        add_copy(&copies, (bytes_copy){x, part->data, count, bytes, row, bytes});
        x += bytes;
    }
    plan_held(&copies);
    return SL_OK;
}

/* ---- gather ---- */

PLAN(gather) {
    const sl_gather_args *a = args;
    const uint32_t axis = sl_axis(a->attrs.axis, a->x.type.shape.rank);
    const int64_t count = sl_type_elements(&a->indices.type), extent = dim(&a->x.type, axis);
    const int64_t bytes = stretch_bytes(&a->x.type, axis + 1);
    const int power = unit_of((uintptr_t)a->x.data | (uintptr_t)a->out.data | (uint64_t)bytes);
    if (extent > INT32_MAX)
        return sl_fail(err, SL_UNSUPPORTED, "%s: gather from %lld elements, at most %d",
                       planner->label, (long long)extent, INT32_MAX);
    const sl_gathering launch = {
        .x = a->x.data,
        .indices = a->indices.data,
        .out = a->out.data,
        .fault = planner->fault,
        .units = stretches(&a->x.type, axis) * count * bytes >> power,
        .stretch = bytes >> power,
        .count = count,
        .extent = extent,
    };
    ADD_PLAIN(planner, SL_CUDA_FN_OF_FORM(SL_CUDA_FN(sl_gather), power), launch.units, launch);
    return SL_OK;
}

/* ---- transpose ---- */

/* The dim that is contiguous in x, if a tiled transpose with the last dim is worthwhile; or -1. */
static int tiled_dim(const sl_walk *w) {
    enum { LEAST = 8 };
    const int last = w->rank - 1;
    for (int i = 0; i < last; i++)
        if (w->x[i] == 1) return w->dims[i] >= LEAST && w->dims[last] >= LEAST ? i : -1;
    return -1;
}

static void plan_tiles(sl_gpu_planner *planner, const sl_transpose_args *a, const sl_walk *w,
                       int across) {
    const int last = w->rank - 1;
    sl_tiles launch = {.x = a->x.data, .out = a->out.data};
    launch.rows = w->dims[last];
    launch.cols = w->dims[across];
    launch.x_row = w->x[last];
    launch.out_col = w->y[across];
    launch.row_tiles = parts_of(launch.rows, SL_TILE);
    launch.col_tiles = parts_of(launch.cols, SL_TILE);
    for (int i = 0; i < last; i++)
        if (i != across) walk_push(&launch.others, w->dims[i], w->x[i], w->y[i]);
    walk_end(&launch.others);
    const int power = unit_of((uint64_t)element_bytes(&a->x.type));
    SL_CUDA_ADD(planner, SL_CUDA_FN_OF_FORM(SL_CUDA_FN(sl_tiles), power),
                launch.row_tiles * launch.col_tiles * walk_elements(&launch.others),
                SL_TILE_THREADS, launch);
}

/* If the last dim stays innermost, moves several elements as one larger unit. */
static void widen(sl_strided *s, int *power) {
    sl_walk *w = &s->walk;
    const int last = w->rank - 1;
    uint64_t bits = (uintptr_t)s->x | (uintptr_t)s->out | (uint64_t)(w->dims[last] << *power);
    for (int i = 0; i < last; i++) bits |= (uint64_t)(w->x[i] << *power);
    const int wide = unit_of(bits), more = wide - *power;
    if (w->x[last] != 1 || more <= 0) return;
    for (int i = 0; i < last; i++) w->x[i] >>= more;
    w->dims[last] >>= more;
    *power = wide;
}

PLAN(transpose) {
    const sl_transpose_args *a = args;
    const sl_dims *out = &a->out.type.shape;
    sl_strided launch = {.x = a->x.data, .out = a->out.data};
    sl_walk *w = &launch.walk;
    for (uint32_t i = 0; i < out->rank; i++)
        walk_push(w, out->dims[i],
                  sl_dims_tail(&a->x.type.shape, (uint32_t)a->attrs.perm.dims[i] + 1),
                  sl_dims_tail(out, i + 1));
    walk_end(w);
    const int across = element_bytes(&a->x.type) <= 4 ? tiled_dim(w) : -1;
    if (across >= 0) {
        plan_tiles(planner, a, w, across);
        return SL_OK;
    }
    int power = unit_of((uint64_t)element_bytes(&a->x.type));
    widen(&launch, &power);
    launch.units = walk_elements(w);
    ADD_PLAIN(planner, SL_CUDA_FN_OF_FORM(SL_CUDA_FN(sl_strided), power), launch.units, launch);
    return SL_OK;
}
