/* moe.c - Mixture of experts: routing, grouping, expert FFN, combination. */
#include "compiler/ops/check.h"
#include "core/codec.h"
#include <math.h>
#include <string.h>

static sl_status check_positive(const char *label, const char *name, float value, sl_error *err) {
    if (value > 0) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %g, must be greater than 0", label, name,
                   (double)value);
}

sl_status sl_infer_route(const sl_infer_args *a, sl_error *err) {
    const sl_route_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "logits f32[T,E]", err));
    SL_TRY(sl_check_attr(a->label, "k", attrs->k, 1, a->in[0].shape.dims[1], err));
    SL_TRY(sl_check_attr(a->label, "normalise", attrs->normalise, 0, 1, err));
    const int64_t rows = a->in[0].shape.dims[0];
    a->out[0] = sl_type_make(SL_DTYPE_i32, 2, rows, (int64_t)attrs->k);
    a->out[1] = sl_type_make(SL_DTYPE_f32, 2, rows, (int64_t)attrs->k);
    return SL_OK;
}

/* The largest logit that is not among the first `taken` chosen; ties: the lower index.  -1 if all
 * that are left are NaN. */
static int64_t best_left(const double *logits, int64_t count, const double *chosen,
                         uint32_t taken) {
    int64_t best = -1;
    for (int64_t e = 0; e < count; e++) {
        bool used = isnan(logits[e]);
        for (uint32_t j = 0; j < taken; j++) used |= chosen[j] == (double)e;
        if (!used && (best < 0 || logits[e] > logits[best])) best = e;
    }
    return best;
}

sl_status sl_eval_route(const sl_eval_args *a, sl_error *err) {
    const sl_route_attrs *attrs = a->attrs;
    const double *logits;
    SL_TRY(sl_eval_inputs(a, 1, &logits, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), experts = sl_eval_dim(a, 0, 1);
    for (int64_t t = 0; t < rows; t++, logits += experts) {
        double *chosen = a->out[0].data + t * attrs->k, *weights = a->out[1].data + t * attrs->k;
        for (uint32_t j = 0; j < attrs->k; j++) {
            const int64_t best = best_left(logits, experts, chosen, j);
            if (best < 0)
                return sl_fail(err, SL_INVALID,
                               "%s: row %lld has fewer than %u logits that are not NaN", a->label,
                               (long long)t, attrs->k);
            chosen[j] = (double)best;
        }
        const double most = logits[(int64_t)chosen[0]];
        double all = 0, some = 0;
        for (int64_t e = 0; e < experts; e++) all += exp(logits[e] - most);
        for (uint32_t j = 0; j < attrs->k; j++)
            some += weights[j] = exp(logits[(int64_t)chosen[j]] - most);
        for (uint32_t j = 0; j < attrs->k; j++) weights[j] /= attrs->normalise ? some : all;
    }
    return SL_OK;
}

/* ---- route_groups ---- */

sl_status sl_infer_route_groups(const sl_infer_args *a, sl_error *err) {
    const sl_route_groups_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "logits f32[T,E], bias f32[E]", err));
    const int64_t rows = a->in[0].shape.dims[0], experts = a->in[0].shape.dims[1];
    SL_TRY(sl_check_attr(a->label, "normalise", attrs->normalise, 0, 1, err));
    SL_TRY(sl_check_attr(a->label, "groups", attrs->groups, 1, experts, err));
    SL_TRY(sl_check_attr(a->label, "groups_kept", attrs->groups_kept, 1, attrs->groups, err));
    if (experts % attrs->groups)
        return sl_fail(err, SL_INVALID, "%s: %lld experts, must be a multiple of %u groups",
                       a->label, (long long)experts, attrs->groups);
    SL_TRY(sl_check_attr(a->label, "k", attrs->k, 1, experts / attrs->groups * attrs->groups_kept,
                         err));
    SL_TRY(check_positive(a->label, "scale", attrs->scale, err));
    a->out[0] = sl_type_make(SL_DTYPE_i32, 2, rows, (int64_t)attrs->k);
    a->out[1] = sl_type_make(SL_DTYPE_f32, 2, rows, (int64_t)attrs->k);
    return SL_OK;
}

/* Removes the largest number from x and returns its index (ties: the lower one); -1 if there is
 * none. */
static int64_t take_largest(double *x, int64_t count) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++)
        if (x[i] == x[i] && (best < 0 || x[i] > x[best])) best = i;
    if (best >= 0) x[best] = NAN;
    return best;
}

/* The sum of a group's two largest numbers, or its only one; NaN if it has none. */
static double group_score(const double *x, int64_t count) {
    double first = -INFINITY, second = -INFINITY;
    int64_t numbers = 0;
    for (int64_t i = 0; i < count; i++) {
        if (x[i] != x[i]) continue;
        numbers++;
        second = fmax(second, fmin(first, x[i]));
        first = fmax(first, x[i]);
    }
    return numbers == 0 ? NAN : numbers == 1 ? first : first + second;
}

/* Copies the experts of the best groups. */
static void keep_groups(const double *from, double *to, int64_t experts,
                        const sl_route_groups_attrs *attrs, double *scores) {
    const int64_t size = experts / attrs->groups;
    for (uint32_t g = 0; g < attrs->groups; g++) scores[g] = group_score(from + g * size, size);
    for (uint32_t j = 0; j < attrs->groups_kept; j++) {
        const int64_t g = take_largest(scores, attrs->groups);
        if (g < 0) return;
        memcpy(to + g * size, from + g * size, (size_t)size * sizeof *to);
    }
}

static sl_status choose_experts(const sl_eval_args *a, int64_t t, double *left, double *chosen,
                                sl_error *err) {
    const uint32_t k = ((const sl_route_groups_attrs *)a->attrs)->k;
    for (uint32_t j = 0; j < k; j++) {
        const int64_t best = take_largest(left, sl_eval_dim(a, 0, 1));
        if (best < 0)
            return sl_fail(err, SL_INVALID,
                           "%s: row %lld has fewer than %u logits that are not NaN", a->label,
                           (long long)t, k);
        chosen[j] = (double)best;
    }
    return SL_OK;
}

sl_status sl_eval_route_groups(const sl_eval_args *a, sl_error *err) {
    const sl_route_groups_attrs *attrs = a->attrs;
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), experts = sl_eval_dim(a, 0, 1);
    double *all, *left, *scores;
    SL_TRY(sl_eval_scratch(a, experts, &all, err));
    SL_TRY(sl_eval_scratch(a, experts, &left, err));
    SL_TRY(sl_eval_scratch(a, attrs->groups, &scores, err));
    for (int64_t t = 0; t < rows; t++) {
        const double *logits = in[0] + t * experts;
        double *chosen = a->out[0].data + t * attrs->k, *weights = a->out[1].data + t * attrs->k;
        for (int64_t e = 0; e < experts; e++) {
            all[e] = sl_sigmoid(logits[e]) + in[1][e];
            left[e] = NAN;
        }
        keep_groups(all, left, experts, attrs, scores);
        SL_TRY(choose_experts(a, t, left, chosen, err));
        double sum = 1e-20;
        for (uint32_t j = 0; j < attrs->k; j++)
            sum += weights[j] = sl_sigmoid(logits[(int64_t)chosen[j]]);
        for (uint32_t j = 0; j < attrs->k; j++)
            weights[j] *= (double)attrs->scale / (attrs->normalise ? sum : 1);
    }
    return SL_OK;
}

/* ---- moe_group ---- */

sl_status sl_infer_moe_group(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, "chosen i32[T,k], experts weight[E,I,H]", err));
    const sl_dims *chosen = &a->in[0].shape;
    a->out[0] = sl_type_make(SL_DTYPE_i32, 1, chosen->dims[0] * chosen->dims[1]);
    a->out[1] = sl_type_make(SL_DTYPE_i32, 1, a->in[1].shape.dims[0] + 1);
    return SL_OK;
}

static sl_status request_experts(const sl_eval_args *a, const double *starts, int64_t experts,
                                 sl_error *err) {
    const sl_moe_group_attrs *attrs = a->attrs;
    sl_expert_source *source = a->in[1].source;
    if (!source) return sl_fail(err, SL_INVALID, "%s: experts are not bound", a->label);
    int32_t *used = SL_ARENA_NEW_ARRAY(a->scratch, int32_t, experts);
    if (!used) return sl_no_memory(err, a->label, (uint64_t)experts * sizeof *used);
    uint32_t count = 0;
    for (int64_t e = 0; e < experts; e++)
        if (starts[e] != starts[e + 1]) used[count++] = (int32_t)e;
    return source->request(source, (sl_layer_id){attrs->layer}, used, count, err);
}

sl_status sl_eval_moe_group(const sl_eval_args *a, sl_error *err) {
    const double *chosen;
    SL_TRY(sl_eval_inputs(a, 1, &chosen, err));
    const int64_t pairs = sl_eval_dim(a, 0, 0) * sl_eval_dim(a, 0, 1);
    const int64_t experts = sl_eval_dim(a, 1, 0);
    SL_TRY(sl_eval_bounds(a, "chosen", chosen, pairs, experts, err));
    double *order = a->out[0].data, *starts = a->out[1].data;
    int64_t placed = 0;
    for (int64_t e = 0; e < experts; e++) {
        starts[e] = (double)placed;
        for (int64_t p = 0; p < pairs; p++)
            if (chosen[p] == (double)e) order[placed++] = (double)p;
    }
    starts[experts] = (double)placed;
    return request_experts(a, starts, experts, err);
}

/* Checks the pairs and experts of an op whose first inputs are x, order and starts. */
static sl_status infer_experts(const sl_infer_args *a, const sl_type *matrices, uint32_t k,
                               sl_error *err) {
    const int64_t rows = a->in[0].shape.dims[0], width = a->in[0].shape.dims[1];
    const int64_t experts = matrices->shape.dims[0];
    SL_TRY(sl_check_attr(a->label, "k", k, 1, experts, err));
    int64_t pairs;
    if (__builtin_mul_overflow(rows, (int64_t)k, &pairs) || a->in[1].shape.dims[0] != pairs)
        return sl_fail(err, SL_INVALID,
                       "%s: order has %lld pairs, must be %lld rows of x times k %u", a->label,
                       (long long)a->in[1].shape.dims[0], (long long)rows, k);
    if (a->in[2].shape.dims[0] != experts + 1)
        return sl_fail(err, SL_INVALID, "%s: starts has %lld entries, must be %lld experts and one",
                       a->label, (long long)a->in[2].shape.dims[0], (long long)experts);
    a->out[0] = sl_type_make(SL_DTYPE_f32, 3, rows, (int64_t)k, width);
    return SL_OK;
}

sl_status sl_infer_moe_ffn(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match_product(a, "x rows[T,H], order i32[P], starts i32[L], experts weight[E,I,H]",
                            err));
    return infer_experts(a, &a->in[3], ((const sl_moe_ffn_attrs *)a->attrs)->k, err);
}

sl_status sl_infer_moe_ffn_biased(const sl_infer_args *a, sl_error *err) {
    const sl_moe_ffn_biased_attrs *attrs = a->attrs;
    SL_TRY(sl_match_product(a,
                            "x rows[T,H], order i32[P], starts i32[L], gate_bias f32[E,I], "
                            "up_bias f32[E,I], down_bias f32[E,H], experts weight[E,I,H]",
                            err));
    SL_TRY(check_positive(a->label, "limit", attrs->limit, err));
    SL_TRY(check_positive(a->label, "alpha", attrs->alpha, err));
    return infer_experts(a, &a->in[6], attrs->k, err);
}

/* The operands and scratch of moe_ffn. */
typedef struct {
    const double *x, *order, *starts;
    const double *gate_bias, *up_bias, *down_bias; /* of all experts, or NULL */
    double *out;
    int64_t hidden, width, experts, k;
    bool quantised;
    double limit, alpha;          /* only with biases */
    double *row, *up_row, *inner; /* scratch: [max(hidden, width)] twice, [pairs, width] */
} ffn;

static void decode(const sl_cview *matrix, int64_t row, double *out) {
    const sl_eval_tensor tensor = {.type = matrix->type, .coded = matrix->data};
    sl_eval_row(&tensor, row, out);
}

static double dot(const double *x, const double *y, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

/* One input of the down projection, from outputs i of gate and up. */
static double activate(const ffn *f, int64_t i, double gate, double up) {
    if (!f->gate_bias) return sl_silu(gate) * up;
    gate += f->gate_bias[i];
    up += f->up_bias[i];
    gate = gate > f->limit ? f->limit : gate;
    up = up > f->limit ? f->limit : up < -f->limit ? -f->limit : up;
    return (up + 1) * gate * sl_sigmoid(f->alpha * gate);
}

/* Runs the pairs order[begin, end), which all chose the leased expert; every weight row is decoded
 * once. */
static void run_expert(const ffn *f, const sl_expert_lease *lease, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < f->width; i++) {
        decode(&lease->gate, i, f->row);
        decode(&lease->up, i, f->up_row);
        for (int64_t p = begin; p < end; p++) {
            const double *x = f->x + (int64_t)f->order[p] / f->k * f->hidden;
            f->inner[p * f->width + i] =
                activate(f, lease->expert * f->width + i, dot(f->row, x, f->hidden),
                         dot(f->up_row, x, f->hidden));
        }
    }
    if (f->quantised) sl_eval_round_a8(f->inner + begin * f->width, end - begin, f->width);
    for (int64_t n = 0; n < f->hidden; n++) {
        const double bias = f->down_bias ? f->down_bias[lease->expert * f->hidden + n] : 0;
        decode(&lease->down, n, f->row);
        for (int64_t p = begin; p < end; p++)
            f->out[(int64_t)f->order[p] * f->hidden + n] =
                dot(f->row, f->inner + p * f->width, f->width) + bias;
    }
}

static bool is_matrix(const sl_cview *view, int64_t rows, int64_t cols) {
    const sl_dims *shape = &view->type.shape;
    return view->data && shape->rank == 2 && shape->dims[0] == rows && shape->dims[1] == cols;
}

static sl_status run_lease(const sl_eval_args *a, const ffn *f, const sl_expert_lease *lease,
                           int64_t *done, sl_error *err) {
    if (lease->expert >= f->experts || !is_matrix(&lease->gate, f->width, f->hidden) ||
        !is_matrix(&lease->up, f->width, f->hidden) ||
        !is_matrix(&lease->down, f->hidden, f->width))
        return sl_fail(err, SL_INVALID, "%s: the lease of expert %d is not of the declared shape",
                       a->label, lease->expert);
    const int64_t begin = (int64_t)f->starts[lease->expert];
    const int64_t end = (int64_t)f->starts[lease->expert + 1];
    run_expert(f, lease, begin, end);
    *done += end - begin;
    return SL_OK;
}

/* Fills in the common operands; k and the op's other operands are already set. */
static sl_status ffn_open(const sl_eval_args *a, const sl_eval_tensor *matrices, ffn *f,
                          sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    f->x = in[0];
    f->order = in[1];
    f->starts = in[2];
    f->out = a->out[0].data;
    f->hidden = sl_eval_dim(a, 0, 1);
    f->experts = matrices->type.shape.dims[0];
    f->width = matrices->type.shape.dims[1];
    f->quantised = a->in[0].type.dtype == SL_DTYPE_a8;
    const int64_t pairs = sl_eval_dim(a, 1, 0);
    SL_TRY(sl_eval_bounds(a, "order", f->order, pairs, pairs, err));
    SL_TRY(sl_eval_bounds(a, "starts", f->starts, f->experts + 1, pairs + 1, err));
    const int64_t longest = f->hidden > f->width ? f->hidden : f->width;
    SL_TRY(sl_eval_scratch(a, longest, &f->row, err));
    SL_TRY(sl_eval_scratch(a, longest, &f->up_row, err));
    return sl_eval_scratch(a, pairs * f->width, &f->inner, err);
}

static sl_status run_experts(const sl_eval_args *a, const sl_eval_tensor *matrices,
                             sl_layer_id layer, ffn *f, sl_error *err) {
    sl_expert_source *source = matrices->source;
    if (!source) return sl_fail(err, SL_INVALID, "%s: experts are not bound", a->label);
    SL_TRY(ffn_open(a, matrices, f, err));
    int64_t done = 0;
    for (;;) {
        sl_expert_lease lease;
        SL_TRY(source->take(source, layer, &lease, err));
        if (lease.expert < 0) break;
        const sl_status status = run_lease(a, f, &lease, &done, err);
        source->release(source, &lease);
        SL_TRY(status);
    }
    if (done != sl_eval_dim(a, 1, 0))
        return sl_fail(err, SL_INVALID, "%s: the leased experts covered %lld of %lld pairs",
                       a->label, (long long)done, (long long)sl_eval_dim(a, 1, 0));
    return SL_OK;
}

sl_status sl_eval_moe_ffn(const sl_eval_args *a, sl_error *err) {
    const sl_moe_ffn_attrs *attrs = a->attrs;
    ffn f = {.k = attrs->k};
    return run_experts(a, &a->in[3], (sl_layer_id){attrs->layer}, &f, err);
}

sl_status sl_eval_moe_ffn_biased(const sl_eval_args *a, sl_error *err) {
    const sl_moe_ffn_biased_attrs *attrs = a->attrs;
    const double *in[6];
    SL_TRY(sl_eval_inputs(a, 6, in, err));
    ffn f = {.k = attrs->k,
             .gate_bias = in[3],
             .up_bias = in[4],
             .down_bias = in[5],
             .limit = (double)attrs->limit,
             .alpha = (double)attrs->alpha};
    return run_experts(a, &a->in[6], (sl_layer_id){attrs->layer}, &f, err);
}

sl_status sl_infer_moe_combine(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "y f32[T,k,H], weights f32[T,k] -> f32[T,H]", err);
}

sl_status sl_eval_moe_combine(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), k = sl_eval_dim(a, 0, 1);
    const int64_t hidden = sl_eval_dim(a, 0, 2);
    for (int64_t t = 0; t < rows; t++)
        for (int64_t n = 0; n < hidden; n++) {
            double sum = 0;
            for (int64_t j = t * k; j < (t + 1) * k; j++) sum += in[1][j] * in[0][j * hidden + n];
            a->out[0].data[t * hidden + n] = sum;
        }
    return SL_OK;
}

sl_status sl_infer_shared_combine(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "routed f32[T,H], shared f32[T,H], gate f32[T,1] -> f32[T,H]", err);
}

sl_status sl_eval_shared_combine(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), hidden = sl_eval_dim(a, 0, 1);
    for (int64_t i = 0; i < rows * hidden; i++)
        a->out[0].data[i] = in[0][i] + sl_sigmoid(in[2][i / hidden]) * in[1][i];
    return SL_OK;
}

/* ---- fused ---- */

sl_status sl_infer_moe_join(const sl_infer_args *a, sl_error *err) {
    return sl_match(a,
                    "y f32[T,k,H], weights f32[T,k], shared f32[T,H], gate f32[T,1], "
                    "residual f32[T,H] -> f32[T,H]",
                    err);
}

sl_status sl_eval_moe_join(const sl_eval_args *a, sl_error *err) {
    const sl_eval_tensor *in = a->in, *out = a->out;
    SL_TRY(sl_eval_part(a, SL_OP_moe_combine, in, NULL, out, err));
    SL_TRY(sl_eval_part(a, SL_OP_shared_combine, (sl_eval_tensor[]){out[0], in[2], in[3]}, NULL,
                        out, err));
    return sl_eval_part(a, SL_OP_add, (sl_eval_tensor[]){in[4], out[0]}, NULL, out, err);
}

sl_status sl_infer_moe_add(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "y f32[T,k,H], weights f32[T,k], residual f32[T,H] -> f32[T,H]", err);
}

sl_status sl_eval_moe_add(const sl_eval_args *a, sl_error *err) {
    const sl_eval_tensor *in = a->in, *out = a->out;
    SL_TRY(sl_eval_part(a, SL_OP_moe_combine, in, NULL, out, err));
    return sl_eval_part(a, SL_OP_add, (sl_eval_tensor[]){in[2], out[0]}, NULL, out, err);
}

sl_status sl_infer_moe_add_shared(const sl_infer_args *a, sl_error *err) {
    return sl_match(a,
                    "y f32[T,k,H], weights f32[T,k], shared f32[T,H], residual f32[T,H] "
                    "-> f32[T,H]",
                    err);
}

sl_status sl_eval_moe_add_shared(const sl_eval_args *a, sl_error *err) {
    const sl_eval_tensor *in = a->in, *out = a->out;
    SL_TRY(sl_eval_part(a, SL_OP_moe_combine, in, NULL, out, err));
    SL_TRY(sl_eval_part(a, SL_OP_add, (sl_eval_tensor[]){out[0], in[2]}, NULL, out, err));
    return sl_eval_part(a, SL_OP_add, (sl_eval_tensor[]){in[3], out[0]}, NULL, out, err);
}
