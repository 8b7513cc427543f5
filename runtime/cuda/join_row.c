/* join_row.c - One row's norm with the products that take it, and with the convolution after one of
 * them. */
#include "runtime/cuda/joining.h"
#include "runtime/cuda/kernels/row.h"
#include <string.h>

/* A step that makes a row, the numbers of its results (0: there is no such), and how. */
typedef struct {
    sl_op op;
    uint32_t out, codes;
    const char *function; /* its name begins so */
    int kind;
} row_maker;
static const row_maker makers[] = {
    {SL_OP_rms_norm_quantise, 2, 3, "sl_norm_rms_coded_", SL_ROW_RMS},
    {SL_OP_add_rms_norm_quantise, 4, 5, "sl_norm_add_coded_", SL_ROW_ADD},
    {SL_OP_gated_rms_norm_quantise, 0, 3, "sl_norm_gated_coded_", SL_ROW_GATED},
    {SL_OP_sigmoid_gate_quantise, 0, 2, "sl_gate_quantise_fours", SL_ROW_GATE},
};

static const row_maker *maker_of(const sl_joining *j, uint32_t step) {
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++)
        if (step_at(j, step)->op == makers[i].op)
            return sl_joining_is_any(j, step, makers[i].function) ? &makers[i] : NULL;
    return NULL;
}

/* The norm's arguments; false where it is of more than a row, or of one that kernels do not take. */
static bool describe_row(const sl_joining *j, uint32_t step, const row_maker *maker,
                         sl_row_products *out) {
    enum { WHOLE = 4 * SL_CUDA_WARP };
    const sl_cuda_launch *launch = launch_of(j, step, 0);
    int64_t width;
    out->kind = maker->kind;
    if (maker->kind == SL_ROW_GATE) {
        const sl_quantise_groups *q = (const void *)launch->args;
        width = q->all_groups * SL_CUDA_GROUP_COLS;
        if (q->count % SL_CUDA_GROUP_COLS) return false;
        out->norm = (sl_norm_rows){.x = q->x, .other = q->gate, .codes = q->codes};
    } else {
        memcpy(&out->norm, launch->args, sizeof out->norm);
        width = out->norm.rows * out->norm.count;
        if (maker->kind == SL_ROW_GATED ? out->norm.count != SL_ROW_HEAD : out->norm.rows != 1)
            return false;
    }
    out->width = (int32_t)width;
    return width % WHOLE == 0 && width <= SL_ROW_FOURS * SL_ROW_WARPS * WHOLE;
}

/* ---- products ---- */

typedef struct {
    uint32_t step; /* UINT32_MAX: none */
    sl_linear_panels panels;
    uint32_t threads, blocks;
    bool is_q8;
} row_product;

/* The first product that takes `row`, by kernels whose names begin so. */
static row_product product_of(const sl_joining *j, const sl_operand *row, const char *names,
                              int32_t width) {
    row_product p = {.step = UINT32_MAX};
    for (uint32_t s = j->segment->first; s < j->segment->end; s++) {
        if (!sl_joining_is_any(j, s, names) || step_at(j, s)->operands[0].buffer.v != row->buffer.v)
            continue;
        const sl_cuda_launch *launch = launch_of(j, s, 0);
        const char *type = launch->function + strlen(names);
        memcpy(&p.panels, launch->args, sizeof p.panels);
        const int finish = p.panels.finish.kind;
        if (!sl_joining_is_same(&step_at(j, s)->operands[0], row) ||
            (strcmp(type, "q4") != 0 && strcmp(type, "q8") != 0) || p.panels.d.tokens != 1 ||
            p.panels.w[0].cols != width || p.panels.slab < p.panels.w[0].groups ||
            (finish != SL_FINISH_STORE && finish != SL_FINISH_QUANTISE))
            continue;
        p.step = s;
        p.threads = launch->threads;
        p.blocks = launch->grid[0];
        p.is_q8 = type[1] == '8';
        return p;
    }
    return p;
}

/* So that every block has one task, and two blocks are on a multiprocessor; as it was planned where
 * that cannot be.  Of 8 bits a thread takes more registers. */
static void divide(row_product *p, int64_t multiprocessors, int64_t others) {
    sl_linear_division *d = &p->panels.d;
    const int32_t all = d->first[d->weights];
    if (p->panels.finish.kind != SL_FINISH_STORE) return;
    for (int32_t units = 1; units <= SL_ROW_UNITS; units++) {
        const int32_t tasks = (all + units - 1) / units;
        const int32_t most = tasks + others <= multiprocessors ? SL_ROW_WARPS : p->is_q8 ? 8 : 12;
        if (tasks + others > 2 * multiprocessors) continue;
        d->units = units;
        d->tasks = tasks;
        d->split = 1;
        while (2 * d->split * units <= most &&
               2 * d->split * SL_LINEAR_BATCH <= p->panels.w[0].groups)
            d->split *= 2;
        p->threads = (uint32_t)(units * d->split * SL_CUDA_WARP);
        p->blocks = (uint32_t)tasks;
        return;
    }
}

/* The convolution that alone takes a result of the product, which then goes with it; results begin
 * after the row and the weights. */
static uint32_t conv_after(const sl_joining *j, const row_product *p, int32_t *out_weight) {
    enum { CONV_X, CONV_W, CONV_SLOTS, CONV_POSITIONS, CONV_WINDOW };
    const sl_step *product = step_at(j, p->step);
    const sl_linear_division *d = &p->panels.d;
    if (p->panels.finish.kind != SL_FINISH_STORE || d->units > SL_ROW_UNITS ||
        (uint32_t)d->tasks != p->blocks)
        return UINT32_MAX;
    for (uint32_t s = j->segment->first; s < j->segment->end; s++) {
        const sl_step *conv = step_at(j, s);
        if (conv->op != SL_OP_causal_conv || !sl_joining_is_one(j, s, "sl_conv_few")) continue;
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

static uint32_t most(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}
static uint32_t shared_of(const row_product *p, uint32_t columns, uint32_t threads) {
    if (p->step == UINT32_MAX) return 0;
    return (uint32_t)p->panels.x_bytes + threads / SL_CUDA_WARP * columns * SL_CUDA_PANEL_ROWS *
                                             (uint32_t)sizeof(float);
}

static sl_status make_launch(const sl_joining *j, sl_row_products *row, const row_product *coded,
                             const row_product *exact, sl_error *err) {
    enum { EXACT_COLUMNS = 3, ROUND = 15 };
    const bool has_coded = coded->step != UINT32_MAX, has_exact = exact->step != UINT32_MAX;
    const uint32_t threads = most(has_coded ? coded->threads : 0, has_exact ? exact->threads : 0);
    const uint32_t products =
        most(shared_of(coded, 1, threads), shared_of(exact, EXACT_COLUMNS, threads));
    sl_cuda_joined *joined = NULL;
    SL_TRY(sl_joining_own(j, has_coded ? coded->step : exact->step, &joined, err));
    row->coded = coded->panels;
    row->exact = exact->panels;
    row->exact_blocks = has_exact ? (int32_t)exact->blocks : 0;
    row->row_at = (int32_t)((products + ROUND) & ~(uint32_t)ROUND);
    const char *function = "sl_row_q4_q4";
    if (has_exact && exact->is_q8) function = "sl_row_q4_q8";
    if (has_coded ? coded->is_q8 : exact->is_q8) function = "sl_row_q8_q8";
    sl_joining_set(joined, function, row, sizeof *row);
    joined->launch.threads = threads;
    joined->launch.grid[0] = (uint32_t)row->exact_blocks + (has_coded ? coded->blocks : 0);
    joined->launch.shared_bytes = (uint32_t)row->row_at + (uint32_t)row->width * sizeof(float);
    return SL_OK;
}

/* Registers of every function are for so many threads. */
static bool has_room(const sl_row_products *row, const row_product *p) {
    return p->threads <= SL_ROW_WARPS * SL_CUDA_WARP &&
           (uint32_t)row->width <= SL_ROW_FOURS * 4 * p->threads;
}

sl_status sl_join_row(const sl_joining *j, uint32_t step, sl_error *err) {
    const row_maker *maker = maker_of(j, step);
    sl_row_products row = {.conv_weight = -1};
    if (!maker || !describe_row(j, step, maker, &row)) return SL_OK;
    const sl_operand *results = step_at(j, step)->operands;
    row_product coded = product_of(j, &results[maker->codes], "sl_linear_a8_1_", row.width);
    row_product exact = {.step = UINT32_MAX};
    if (maker->out) exact = product_of(j, &results[maker->out], "sl_linear_exact_2_", row.width);
    if (exact.step != UINT32_MAX && exact.panels.finish.kind != SL_FINISH_STORE)
        exact.step = UINT32_MAX;
    if (coded.step != UINT32_MAX && coded.is_q8 && exact.step != UINT32_MAX && !exact.is_q8)
        exact.step = UINT32_MAX; /* there is no such function */
    if (coded.step != UINT32_MAX)
        divide(&coded, j->exe->device->multiprocessors,
               exact.step == UINT32_MAX ? 0 : exact.blocks);
    const row_product *first = coded.step != UINT32_MAX ? &coded : &exact;
    if (first->step == UINT32_MAX || !has_room(&row, first)) return SL_OK;
    uint32_t members[3] = {step}, count = 1;
    if (first == &coded && exact.step != UINT32_MAX) {
        if (exact.threads <= SL_ROW_WARPS * SL_CUDA_WARP)
            members[count++] = exact.step;
        else
            exact.step = UINT32_MAX;
    }
    int32_t weight = 0;
    const uint32_t conv = first == &coded ? conv_after(j, &coded, &weight) : UINT32_MAX;
    if (conv != UINT32_MAX) members[count++] = conv;
    if (!sl_joining_add(j, first->step, members, count, NULL)) return SL_OK;
    if (conv != UINT32_MAX) {
        memcpy(&row.conv, launch_of(j, conv, 0)->args, sizeof row.conv);
        row.conv_weight = weight;
    }
    return make_launch(j, &row, &coded, &exact, err);
}
