/* join_row.c - The norm of one row, with the products that use it, and with the convolution after
 * one of them. */
#include "runtime/cuda/joining.h"
#include "runtime/cuda/kernels/gemv_panel.h"
#include "runtime/cuda/kernels/row.h"
#include <string.h>

/* A step that computes a row, the indices of its results, and its kind.  Other norms, of parts of a
 * row or with a gate, cost more when every block recomputes them than a launch of their own. */
typedef struct {
    uint32_t out, codes;
    int kind;
    const sl_norm_rows *norm;
} row_maker;

static row_maker maker_of(const sl_joining *j, uint32_t step) {
    const sl_gpu_launch *launch = launch_of(j, step, 0);
    if (sl_cuda_fn_is(launch->function, SL_FN_sl_norm_rms_coded))
        return (row_maker){2, 3, SL_ROW_RMS, SL_CUDA_ARGS(launch, sl_norm_rms_coded)};
    return (row_maker){4, 5, SL_ROW_ADD, SL_CUDA_ARGS(launch, sl_norm_add_coded)};
}

/* The arguments of the norm; false if it has several rows, or a row that the kernels do not
 * support. */
static bool describe_row(const row_maker *maker, sl_row_products *out) {
    enum { WHOLE = 4 * SL_CUDA_WARP };
    out->norm = *maker->norm;
    out->kind = maker->kind;
    out->width = out->norm.count;
    return out->norm.rows == 1 && out->width % WHOLE == 0;
}

/* ---- products ---- */

typedef struct {
    uint32_t step; /* UINT32_MAX: none */
    sl_row_product how;
    bool is_q8;
} row_product;

/* The first product that uses `row`, by kernels of this family. */
static row_product product_of(const sl_joining *j, const sl_operand *row,
                              sl_linear_panels_fn family, int32_t width) {
    row_product p = {.step = UINT32_MAX};
    for (uint32_t s = j->segment->first; s < j->segment->end; s++) {
        if (!sl_joining_is(j, s, family.id) || step_at(j, s)->operands[0].buffer.v != row->buffer.v)
            continue;
        const sl_gpu_launch *launch = launch_of(j, s, 0);
        const int type = sl_cuda_fn_infos[launch->function].weight;
        const sl_linear_panels *panels = SL_CUDA_TYPED_ARGS(launch, family);
        const int finish = panels->finish.kind;
        if (!sl_joining_is_same(&step_at(j, s)->operands[0], row) ||
            (type != SL_DTYPE_q4 && type != SL_DTYPE_q8) || panels->d.tokens != 1 ||
            panels->w[0].cols != width ||
            (finish != SL_FINISH_STORE && finish != SL_FINISH_QUANTISE))
            continue;
        p.step = s;
        p.how.finish = panels->finish;
        p.how.d = panels->d;
        memcpy(p.how.w, panels->w, sizeof p.how.w);
        p.is_q8 = type == SL_DTYPE_q8;
        return p;
    }
    return p;
}

/* Every block computes the row, so blocks have enough panels for all blocks to be resident at once,
 * one per multiprocessor if possible.  False if there are too many panels for that. */
static bool divide(row_product *p, const sl_joining *j, int32_t others) {
    enum { MOST_BLOCKS = 100, FEW_WARPS = 16 }; /* a lane loads what is above a super-group */
    sl_linear_division *d = &p->how.d;
    const bool groups = p->how.finish.kind == SL_FINISH_QUANTISE;
    const int32_t all = groups ? d->first[1] : d->first[d->weights];
    const int32_t in_panel = (p->how.w[0].groups + 1) / 2;
    const int32_t blocks = (int32_t)j->exe->base.gpu->multiprocessors - others;
    d->units = groups ? 2 : 1; /* a group is two panels */
    while (!groups && d->units < SL_ROW_UNITS && (all + d->units - 1) / d->units > blocks)
        d->units++;
    d->tasks = (all + d->units - 1) / d->units;
    if (groups) d->units *= 2; /* of both weights */
    const int32_t warps = d->units > 4 ? SL_ROW_WARPS : FEW_WARPS;
    p->how.blocks = sl_share_blocks(&p->how.w[0], warps / d->units);
    if (p->how.blocks < 1) return false;
    d->split = (in_panel + p->how.blocks - 1) / p->how.blocks;
    p->how.share_bytes = (int32_t)sl_share_bytes(&p->how.w[0], p->how.blocks);
    return d->tasks <= 2 * blocks && p->how.blocks <= MOST_BLOCKS;
}

/* The convolution that is the only user of a result of the product, and becomes part of it; results
 * come after the row and the weights. */
static uint32_t conv_after(const sl_joining *j, const row_product *p, int32_t *out_weight) {
    enum { CONV_X, CONV_W, CONV_SLOTS, CONV_POSITIONS, CONV_WINDOW };
    const sl_step *product = step_at(j, p->step);
    const sl_linear_division *d = &p->how.d;
    if (p->how.finish.kind != SL_FINISH_STORE) return UINT32_MAX;
    for (uint32_t s = j->segment->first; s < j->segment->end; s++) {
        const sl_step *conv = step_at(j, s);
        if (conv->op != SL_OP_causal_conv || !sl_joining_is(j, s, SL_FN_sl_conv_few)) continue;
        const sl_operand *x = &conv->operands[CONV_X];
        if (sl_joining_uses(j, x) != 2 || !sl_joining_is_input(j, &conv->operands[CONV_SLOTS]) ||
            !sl_joining_is_input(j, &conv->operands[CONV_POSITIONS]) ||
            sl_joining_uses(j, &conv->operands[CONV_WINDOW]) != 1)
            continue;
        for (int32_t w = 0; w < d->weights; w++)
            if (sl_joining_is_same(x, &product->operands[1 + d->weights + w])) {
                *out_weight = w;
                return s;
            }
    }
    return UINT32_MAX;
}

/* ---- the launch ---- */

/* SL_FN_none for types without a kernel. */
static sl_row_products_fn function_for(const row_product *coded, const row_product *exact) {
    const bool coded_q8 = coded->step == UINT32_MAX ? exact->is_q8 : coded->is_q8;
    const bool exact_q8 = exact->step == UINT32_MAX ? coded->is_q8 : exact->is_q8;
    if (coded_q8 && !exact_q8) return (sl_row_products_fn){SL_FN_none};
    if (!coded_q8 && exact_q8) return SL_CUDA_FN(sl_row_q4_q8);
    return coded_q8 ? SL_CUDA_FN(sl_row_q8_q8) : SL_CUDA_FN(sl_row_q4_q4);
}

static uint32_t warps_of(const row_product *p) {
    return p->step == UINT32_MAX ? 0 : (uint32_t)(p->how.d.units * p->how.d.split);
}
static uint32_t shares_of(const row_product *p) {
    return warps_of(p) * (uint32_t)p->how.share_bytes;
}
static uint32_t most(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* Grid, threads and shared memory. */
static sl_gpu_launch shape_of(sl_row_products *row, const row_product *coded,
                              const row_product *exact) {
    enum { WHOLE = 4 * SL_CUDA_WARP };
    row->product[SL_ROW_OF_CODES] = coded->how;
    row->product[SL_ROW_OF_ITSELF] = exact->how;
    row->exact_blocks = exact->step == UINT32_MAX ? 0 : exact->how.d.tasks;
    row->row_at = (int32_t)most(shares_of(coded), shares_of(exact));
    const int32_t blocks = row->exact_blocks + (coded->step == UINT32_MAX ? 0 : coded->how.d.tasks);
    row->stored = blocks < 1 ? 0 : (row->width / WHOLE + blocks - 1) / blocks * WHOLE;
    return (sl_gpu_launch){.grid = {(uint32_t)blocks, 1, 1},
                           .threads = most(warps_of(coded), warps_of(exact)) * SL_CUDA_WARP,
                           .shared_bytes = (uint32_t)row->row_at + sl_row_bytes(row->width)};
}

static sl_status launch_row(const sl_joining *j, sl_row_products *row, const row_product *coded,
                            const row_product *exact, sl_error *err) {
    const sl_gpu_launch shape = shape_of(row, coded, exact);
    sl_cuda_joined *joined = NULL;
    SL_TRY(sl_joining_own(j, coded->step != UINT32_MAX ? coded->step : exact->step, &joined, err));
    joined->launch = shape;
    SL_JOINING_SET(j, joined, 0, function_for(coded, exact), *row);
    return SL_OK;
}

static bool has_room(const sl_joining *j, sl_row_products *row, const row_product *coded,
                     const row_product *exact) {
    enum { STATIC_BYTES = 4096 };
    return function_for(coded, exact).id &&
           shape_of(row, coded, exact).shared_bytes + STATIC_BYTES <=
               j->exe->base.gpu->shared_limit;
}

sl_status sl_join_row(const sl_joining *j, uint32_t step, sl_error *err) {
    const row_maker maker = maker_of(j, step);
    sl_row_products row = {.conv_weight = -1};
    if (!describe_row(&maker, &row)) return SL_OK;
    const sl_operand *results = step_at(j, step)->operands;
    row_product coded = product_of(j, &results[maker.codes], SL_CUDA_FN(sl_linear_a8_1), row.width);
    row_product exact =
        product_of(j, &results[maker.out], SL_CUDA_FN(sl_linear_exact_2), row.width);
    if (exact.step != UINT32_MAX &&
        (exact.how.finish.kind != SL_FINISH_STORE || !divide(&exact, j, 0)))
        exact.step = UINT32_MAX;
    if (coded.step != UINT32_MAX &&
        !divide(&coded, j, exact.step == UINT32_MAX ? 0 : exact.how.d.tasks))
        coded.step = UINT32_MAX;
    if (coded.step == UINT32_MAX && exact.step == UINT32_MAX) return SL_OK;
    if (!has_room(j, &row, &coded, &exact)) return SL_OK;
    const uint32_t leader = coded.step != UINT32_MAX ? coded.step : exact.step;
    uint32_t members[3] = {step}, count = 1;
    if (leader == coded.step && exact.step != UINT32_MAX) members[count++] = exact.step;
    int32_t weight = 0;
    const uint32_t conv = leader == coded.step ? conv_after(j, &coded, &weight) : UINT32_MAX;
    if (conv != UINT32_MAX) members[count++] = conv;
    if (!sl_joining_add(j, leader, members, count, NULL)) return SL_OK;
    if (conv != UINT32_MAX) {
        row.conv = *SL_CUDA_ARGS(launch_of(j, conv, 0), sl_conv_few);
        row.conv_weight = weight;
    }
    return launch_row(j, &row, &coded, &exact, err);
}

/* A product of one row that another step quantised. */
sl_status sl_join_codes(const sl_joining *j, uint32_t step, sl_error *err) {
    const sl_linear_panels *panels = SL_CUDA_ARGS(launch_of(j, step, 0), sl_linear_a8_1);
    sl_row_products row = {.kind = SL_ROW_CODED,
                           .conv_weight = -1,
                           .x8 = panels->x8,
                           .width = panels->w[0].groups * SL_CUDA_GROUP_COLS};
    row_product coded = product_of(j, &step_at(j, step)->operands[0], SL_CUDA_FN(sl_linear_a8_1),
                                   panels->w[0].cols);
    const row_product exact = {.step = UINT32_MAX};
    if (coded.step != step || !divide(&coded, j, 0) || !has_room(j, &row, &coded, &exact))
        return SL_OK;
    return launch_row(j, &row, &coded, &exact, err);
}
