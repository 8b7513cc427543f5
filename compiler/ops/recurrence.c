/* recurrence.c - Linear recurrences with explicit state. */
#include "compiler/ops/attention.h"
#include <string.h>

/* The initial state: the given one, or 0. */
static sl_status start_state(const sl_eval_args *a, uint32_t named, double *state, sl_error *err) {
    const double *in[6];
    const size_t bytes = (size_t)sl_type_elements(&a->out[1].type) * sizeof *state;
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    if (a->in_count > named)
        memmove(state, in[named], bytes);
    else
        memset(state, 0, bytes);
    return SL_OK;
}

static sl_status check_state(const sl_infer_args *a, uint32_t named, sl_error *err) {
    a->out[0].dtype = a->out[1].dtype = a->in[0].dtype;
    if (a->in_count == named) return SL_OK;
    SL_TRY(sl_check_extra_count(a, named, 1, " (the state) or none", err));
    return sl_check_extra(a, named, "state", &a->out[1], err);
}

sl_status sl_infer_selective_scan(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "delta", "a", "b", "c"};
    SL_TRY(sl_match(a,
                    "x float[B,S,H], delta float[B,S,H], a float[H,N], b float[B,S,N], "
                    "c float[B,S,N] -> float[B,S,H], float[B,H,N]",
                    err));
    SL_TRY(sl_check_one_type(a, names, 5, err));
    return check_state(a, 5, err);
}

sl_status sl_eval_selective_scan(const sl_eval_args *a, sl_error *err) {
    const int64_t steps = sl_eval_dim(a, 0, 1), width = sl_eval_dim(a, 0, 2);
    const int64_t size = sl_eval_dim(a, 2, 1);
    const double *in[5];
    double *state = a->out[1].data;
    SL_TRY(sl_eval_inputs(a, 5, in, err));
    SL_TRY(start_state(a, 5, state, err));
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const int64_t row = i / width, h = i % width;
        const double x = in[0][i], delta = in[1][i];
        double *own = state + (row / steps * width + h) * size, sum = 0;
        for (int64_t n = 0; n < size; n++) {
            own[n] = exp(delta * in[2][h * size + n]) * own[n] + delta * in[3][row * size + n] * x;
            sum += in[4][row * size + n] * own[n];
        }
        a->out[0].data[i] = sum;
    }
    return SL_OK;
}

sl_status sl_infer_gated_delta_net(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"q", "k", "v", "decay", "beta"};
    SL_TRY(sl_match(a,
                    "q float[B,S,Hk,N], k float[B,S,Hk,N], v float[B,S,H,V], decay float[B,S,H], "
                    "beta float[B,S,H] -> float[B,S,H,V], float[B,H,N,V]",
                    err));
    SL_TRY(sl_check_one_type(a, names, 5, err));
    const int64_t heads = a->in[2].shape.dims[2], key_heads = a->in[0].shape.dims[2];
    if (heads % key_heads)
        return sl_fail(err, SL_INVALID, "%s: v has %lld heads, must be a multiple of q's %lld",
                       a->label, (long long)heads, (long long)key_heads);
    const float scale = ((const sl_gated_delta_net_attrs *)a->attrs)->scale;
    if (!isfinite(scale))
        return sl_fail(err, SL_INVALID, "%s: scale is %g, must be finite", a->label, (double)scale);
    return check_state(a, 5, err);
}

/* One step of one head. */
typedef struct {
    const double *q, *k, *v;
    double decay, beta, scale;
    int64_t key_dim, value_dim;
} delta_step;

static void delta(const delta_step *s, double *memory, double *out) {
    for (int64_t j = 0; j < s->value_dim; j++) {
        double found = 0, sum = 0;
        for (int64_t i = 0; i < s->key_dim; i++) {
            memory[i * s->value_dim + j] *= exp(s->decay);
            found += memory[i * s->value_dim + j] * s->k[i];
        }
        const double change = s->beta * (s->v[j] - found);
        for (int64_t i = 0; i < s->key_dim; i++) {
            memory[i * s->value_dim + j] += s->k[i] * change;
            sum += memory[i * s->value_dim + j] * s->q[i];
        }
        out[j] = s->scale * sum;
    }
}

sl_status sl_eval_gated_delta_net(const sl_eval_args *a, sl_error *err) {
    const float given = ((const sl_gated_delta_net_attrs *)a->attrs)->scale;
    const int64_t steps = sl_eval_dim(a, 2, 1), heads = sl_eval_dim(a, 2, 2);
    const int64_t key_heads = sl_eval_dim(a, 0, 2), size = sl_eval_dim(a, 0, 3);
    const int64_t width = sl_eval_dim(a, 2, 3);
    const double *in[5];
    SL_TRY(sl_eval_inputs(a, 5, in, err));
    SL_TRY(start_state(a, 5, a->out[1].data, err));
    for (int64_t i = 0; i < sl_eval_dim(a, 2, 0) * steps * heads; i++) {
        const int64_t row = i / heads, head = i % heads;
        const int64_t key = (row * key_heads + head / (heads / key_heads)) * size;
        const delta_step s = {.q = in[0] + key,
                              .k = in[1] + key,
                              .v = in[2] + i * width,
                              .decay = in[3][i],
                              .beta = in[4][i],
                              .scale = given != 0 ? (double)given : 1 / sqrt((double)size),
                              .key_dim = size,
                              .value_dim = width};
        delta(&s, a->out[1].data + (row / steps * heads + head) * size * width,
              a->out[0].data + i * width);
    }
    return SL_OK;
}
