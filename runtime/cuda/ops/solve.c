/* solve.c - Linear systems and determinants. */
#include "runtime/cuda/kernels/solve.h"
#include "runtime/cuda/ops/strides.h"

static void add_systems(sl_gpu_planner *planner, sl_systems_fn function, const sl_cview *a,
                        sl_systems *s) {
    s->a = a->data;
    s->type = number_of(&a->type);
    s->size = last_dim(&a->type);
    s->count = sl_type_elements(&a->type) / (s->size * s->size);
    s->fault = planner->fault;
    const int64_t numbers = s->count * s->size * (s->size + s->cols);
    s->work = sl_gpu_scratch(planner, (uint64_t)numbers * sizeof *s->work);
    SL_CUDA_ADD(planner, function, s->count, SL_SOLVE_THREADS, *s);
}

_Static_assert(sizeof(sl_dense_solve_args) == sizeof(sl_batched_dense_solve_args),
               "one struct serves both");

/* Also plans batched_dense_solve. */
PLAN(dense_solve) {
    const sl_dense_solve_args *p = args;
    sl_systems s = {.b = p->b.data, .out = p->out.data};
    s.cols = sl_type_elements(&p->b.type) / rows_of(&p->a.type);
    add_systems(planner, SL_CUDA_FN(sl_solve), &p->a, &s);
    return SL_OK;
}
PLAN(det) {
    const sl_det_args *p = args;
    sl_systems s = {.out = p->out.data};
    add_systems(planner, SL_CUDA_FN(sl_determinant), &p->x, &s);
    return SL_OK;
}
