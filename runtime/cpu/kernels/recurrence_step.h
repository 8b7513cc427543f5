/* recurrence_step.h - Recurrences of one sequence; included once per REAL (reals.h). */

/* Channels [first, first + n) of one batch entry; their state is state[n, size]. */
static void NAMED(scan)(const sl_selective_scan_args *a, const block *k, REAL *state,
                        REAL *scratch) {
    const sl_dtype dtype = a->x.type.dtype;
    const int64_t steps = dim(&a->x.type, 1), width = dim(&a->x.type, 2), size = k->size;
    REAL *x_room = scratch, *delta_room = x_room + k->n, *b_room = delta_room + k->n;
    REAL *c_room = b_room + size, *rates = c_room + size, *terms = rates + k->n * size;
    REAL *out = terms + size;
    NAMED(copy)(dtype, a->a.data, k->first * size, k->n * size, rates);
    for (int64_t row = k->batch * steps; row < (k->batch + 1) * steps; row++) {
        const int64_t at = row * width + k->first;
        const REAL *x = NAMED(load)(dtype, a->x.data, at, k->n, x_room);
        const REAL *delta = NAMED(load)(dtype, a->delta.data, at, k->n, delta_room);
        const REAL *b = NAMED(load)(dtype, a->b.data, row * size, size, b_room);
        const REAL *c = NAMED(load)(dtype, a->c.data, row * size, size, c_room);
        for (int64_t h = 0; h < k->n; h++) {
            REAL *own = state + h * size;
            const REAL change = delta[h] * x[h];
            for (int64_t i = 0; i < size; i++) terms[i] = delta[h] * rates[h * size + i];
            (void)NAMED(terms)(terms, size, 0);
            for (int64_t i = 0; i < size; i++) own[i] = terms[i] * own[i] + change * b[i];
            out[h] = NAMED(dot)(c, own, size);
        }
        NAMED(store)(dtype, a->out.data, at, k->n, out);
    }
}

/* One head: M *= e^decay; d = beta (v - M^T k); M += k d^T; out = scale M^T q. */
static void NAMED(delta_step)(const delta_shape *s, const REAL *q, const REAL *k,
                              const REAL gates[2], REAL *memory, REAL *out) {
    const REAL decay = NAMED(exponential)(gates[0]), beta = gates[1];
    REAL *restrict change = out + s->value_dim; /* holds v on entry */
    REAL *restrict found = change + s->value_dim;
    memset(found, 0, (size_t)s->value_dim * sizeof *found);
    memset(out, 0, (size_t)s->value_dim * sizeof *out);
    for (int64_t i = 0; i < s->key_dim; i++) {
        REAL *restrict row = memory + i * s->value_dim;
        for (int64_t j = 0; j < s->value_dim; j++) {
            row[j] *= decay;
            found[j] += row[j] * k[i];
        }
    }
    for (int64_t j = 0; j < s->value_dim; j++) change[j] = beta * (change[j] - found[j]);
    for (int64_t i = 0; i < s->key_dim; i++) {
        REAL *restrict row = memory + i * s->value_dim, *restrict to = out;
        for (int64_t j = 0; j < s->value_dim; j++) {
            row[j] += k[i] * change[j];
            to[j] += row[j] * q[i];
        }
    }
    for (int64_t j = 0; j < s->value_dim; j++) out[j] *= (REAL)s->scale;
}

/* All steps of one head of one batch entry; `memory` is its state. */
static void NAMED(delta_head)(const sl_gated_delta_net_args *a, const delta_shape *s, int64_t item,
                              REAL *memory, REAL *scratch) {
    const sl_dtype dtype = a->q.type.dtype;
    const int64_t heads = dim(&a->v.type, 2), key_heads = dim(&a->q.type, 2);
    const int64_t batch = item / heads, head = item % heads;
    REAL *q_room = scratch, *k_room = q_room + s->key_dim, *out = k_room + s->key_dim;
    for (int64_t row = batch * s->steps; row < (batch + 1) * s->steps; row++) {
        const int64_t key = (row * key_heads + head / (heads / key_heads)) * s->key_dim;
        const int64_t at = row * heads + head;
        const REAL *q = NAMED(load)(dtype, a->q.data, key, s->key_dim, q_room);
        const REAL *k = NAMED(load)(dtype, a->k.data, key, s->key_dim, k_room);
        const REAL gates[2] = {NAMED(element)(dtype, a->decay.data, at),
                               NAMED(element)(dtype, a->beta.data, at)};
        NAMED(copy)(dtype, a->v.data, at * s->value_dim, s->value_dim, out + s->value_dim);
        NAMED(delta_step)(s, q, k, gates, memory, out);
        NAMED(store)(dtype, a->out.data, at * s->value_dim, s->value_dim, out);
    }
}

/* The initial state: elements of `given` from `at` on, or 0 if it is empty. */
static void NAMED(state_of)(const sl_cview_list *given, sl_dtype dtype, int64_t at, int64_t n,
                            REAL *state) {
    if (SL_LIST_COUNT(*given))
        NAMED(copy)(dtype, given->items[0].data, at, n, state);
    else
        memset(state, 0, (size_t)n * sizeof *state);
}

static void NAMED(run_scan)(const sl_selective_scan_args *a, const block *k, void *scratch) {
    const sl_dtype dtype = a->x.type.dtype;
    const int64_t at = (k->batch * dim(&a->x.type, 2) + k->first) * k->size, n = k->n * k->size;
    REAL *state = scratch;
    NAMED(state_of)(&a->state, dtype, at, n, state);
    NAMED(scan)(a, k, state, state + n);
    NAMED(store)(dtype, a->next.data, at, n, state);
}

static void NAMED(run_delta)(const sl_gated_delta_net_args *a, const delta_shape *s, int64_t item,
                             void *scratch) {
    const sl_dtype dtype = a->q.type.dtype;
    const int64_t n = s->key_dim * s->value_dim;
    REAL *memory = scratch;
    NAMED(state_of)(&a->state, dtype, item * n, n, memory);
    NAMED(delta_head)(a, s, item, memory, memory + n);
    NAMED(store)(dtype, a->next.data, item * n, n, memory);
}
