/* combine.c - What the experts of a token made, added up. */
#include "runtime/cuda/kernels/combine.h"
#include "runtime/cuda/ops/walk.h"

static void add_mixture(sl_cuda_planner *planner, const char *function, sl_mixture m,
                        const sl_view *out) {
    enum { VECTOR = 4, VECTOR_BYTES = 16 };
    const void *const all[] = {m.y, m.routed, m.shared, m.residual, out->data};
    const int64_t width = last_dim(&out->type);
    m.out = out->data;
    m.vectors = width % VECTOR == 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        m.vectors = m.vectors && is_aligned(all[i], VECTOR_BYTES);
    m.row_units = (int32_t)(m.vectors ? width / VECTOR : width);
    m.units = rows_of(&out->type) * m.row_units;
    ADD_PLAIN(planner, function, m.units, m);
}

PLAN(moe_combine) {
    const sl_moe_combine_args *a = args;
    const sl_mixture m = {
        .y = a->y.data, .weights = a->weights.data, .k = (int32_t)dim(&a->y.type, 1)};
    add_mixture(planner, "sl_moe_combine", m, &a->out);
    return SL_OK;
}

PLAN(shared_combine) {
    const sl_shared_combine_args *a = args;
    const sl_mixture m = {.routed = a->routed.data, .shared = a->shared.data, .gate = a->gate.data};
    add_mixture(planner, "sl_shared_combine", m, &a->out);
    return SL_OK;
}

PLAN(moe_join) {
    const sl_moe_join_args *a = args;
    const sl_mixture m = {.y = a->y.data,
                          .weights = a->weights.data,
                          .k = (int32_t)dim(&a->y.type, 1),
                          .shared = a->shared.data,
                          .gate = a->gate.data,
                          .residual = a->residual.data};
    add_mixture(planner, "sl_moe_join", m, &a->out);
    return SL_OK;
}
