/* optimiser.c - Writing states in place, and the steps of optimisers. */
#include "compiler/ops/check.h"
#include <math.h>
#include <string.h>

/* Inputs 1 to last have the type of input 0, which was checked. */
static sl_status check_alike(const sl_infer_args *a, sl_op op, uint32_t last, sl_error *err) {
    char found[SL_TYPE_TEXT], wanted[SL_TYPE_TEXT];
    for (uint32_t i = 1; i <= last; i++) {
        SL_TRY(sl_type_check_shape(&a->in[i], a->label, err));
        if (!sl_type_equal(&a->in[i], &a->in[0]))
            return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s as x", a->label,
                           sl_op_info_of(op)->input_names[i],
                           sl_type_format(&a->in[i], found, sizeof found),
                           sl_type_format(&a->in[0], wanted, sizeof wanted));
    }
    return SL_OK;
}

/* Input i is f32 with so many elements. */
static sl_status check_count(const sl_infer_args *a, uint32_t i, const char *name, int64_t count,
                             sl_error *err) {
    char found[SL_TYPE_TEXT];
    SL_TRY(sl_type_check_shape(&a->in[i], a->label, err));
    if (a->in[i].dtype == SL_DTYPE_f32 && sl_type_elements(&a->in[i]) == count) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must have %lld f32", a->label, name,
                   sl_type_format(&a->in[i], found, sizeof found), (long long)count);
}

/* states: how many states of one shape a step has; then follow the gradient and the rate. */
static sl_status check_step(const sl_infer_args *a, sl_op op, uint32_t states, sl_error *err) {
    SL_TRY(sl_type_check_shape(&a->in[0], a->label, err));
    if (a->in[0].dtype != SL_DTYPE_f32)
        return sl_fail(err, SL_INVALID, "%s: x is %s, must be f32", a->label,
                       sl_dtype_infos[a->in[0].dtype].name);
    SL_TRY(check_alike(a, op, states, err));
    return check_count(a, states + 1, "rate", 1, err);
}

sl_status sl_infer_assign(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_type_check_shape(&a->in[0], a->label, err));
    if (!sl_dtype_infos[a->in[0].dtype].bytes)
        return sl_fail(err, SL_INVALID, "%s: x is %s, must have plain elements", a->label,
                       sl_dtype_infos[a->in[0].dtype].name);
    return check_alike(a, SL_OP_assign, 1, err);
}

sl_status sl_infer_sgd_step(const sl_infer_args *a, sl_error *err) {
    return check_step(a, SL_OP_sgd_step, 2, err);
}

sl_status sl_infer_adamw_step(const sl_infer_args *a, sl_error *err) {
    SL_TRY(check_step(a, SL_OP_adamw_step, 3, err));
    return check_count(a, 5, "corrections", 2, err);
}

sl_status sl_infer_lion_step(const sl_infer_args *a, sl_error *err) {
    return check_step(a, SL_OP_lion_step, 2, err);
}

/* Results are written to `out`, which is the state's own memory when a graph runs. */

sl_status sl_eval_assign(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    memmove(a->out[0].data, in[1], (size_t)sl_type_slots(&a->out[0].type) * sizeof(double));
    return SL_OK;
}

sl_status sl_eval_sgd_step(const sl_eval_args *a, sl_error *err) {
    const sl_sgd_step_attrs *attrs = a->attrs;
    const double mu = (double)attrs->mu, decay = (double)attrs->decay, *in[4];
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double x = in[0][i], g = in[2][i] + decay * x, m = mu * in[1][i] + g;
        a->out[1].data[i] = m;
        a->out[0].data[i] = x - in[3][0] * (attrs->nesterov ? g + mu * m : m);
    }
    return SL_OK;
}

sl_status sl_eval_adamw_step(const sl_eval_args *a, sl_error *err) {
    const sl_adamw_step_attrs *attrs = a->attrs;
    const double b1 = (double)attrs->beta1, b2 = (double)attrs->beta2, *in[6];
    SL_TRY(sl_eval_inputs(a, 6, in, err));
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double x = in[0][i], g = in[3][i];
        const double m = b1 * in[1][i] + (1 - b1) * g, v = b2 * in[2][i] + (1 - b2) * g * g;
        const double u = m / in[5][0] / (sqrt(v / in[5][1]) + (double)attrs->eps);
        a->out[1].data[i] = m;
        a->out[2].data[i] = v;
        a->out[0].data[i] = x - in[4][0] * (u + (double)attrs->decay * x);
    }
    return SL_OK;
}

sl_status sl_eval_lion_step(const sl_eval_args *a, sl_error *err) {
    const sl_lion_step_attrs *attrs = a->attrs;
    const double b1 = (double)attrs->beta1, b2 = (double)attrs->beta2, *in[4];
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double x = in[0][i], m = in[1][i], g = in[2][i], mixed = b1 * m + (1 - b1) * g;
        const double u = mixed > 0 ? 1 : mixed < 0 ? -1 : mixed; /* NaN stays */
        a->out[1].data[i] = b2 * m + (1 - b2) * g;
        a->out[0].data[i] = x - in[3][0] * (u + (double)attrs->decay * x);
    }
    return SL_OK;
}
