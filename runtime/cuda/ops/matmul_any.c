/* matmul_any.c - Matrix products of any number type, and grouped_matmul. */
#include "runtime/cuda/kernels/matmul_any.h"
#include "runtime/cuda/ops/strides.h"

PLAN(any_matmul) {
    const sl_matmul_args *p = args;
    const sl_dims *out = &p->out.type.shape;
    sl_product_any launch = {.left = p->a.data, .right = p->b.data, .out = p->out.data};
    launch.type = number_of(&p->out.type);
    launch.rows = out->dims[out->rank - 2];
    launch.cols = out->dims[out->rank - 1];
    launch.inner = last_dim(&p->a.type);
    launch.count = sl_type_elements(&p->out.type);
    for (uint32_t i = 0; i + 2 < out->rank; i++)
        walk_push(&launch.batch, out->dims[i], broadcast_stride(&p->a.type.shape, out, i),
                  broadcast_stride(&p->b.type.shape, out, i));
    walk_end(&launch.batch);
    ADD_EACH(planner, SL_CUDA_FN(sl_product), launch.count, SL_PRODUCT_THREADS, launch);
    return SL_OK;
}

PLAN(grouped_matmul) {
    const sl_grouped_matmul_args *p = args;
    sl_product_any launch = {.left = p->x.data, .right = p->w.data, .out = p->out.data, .rows = 1};
    launch.type = number_of(&p->out.type);
    launch.cols = last_dim(&p->w.type);
    launch.inner = last_dim(&p->x.type);
    launch.count = sl_type_elements(&p->out.type);
    launch.choice = indices_of(planner, &p->experts);
    launch.choices = dim(&p->w.type, 0);
    walk_push(&launch.batch, dim(&p->x.type, 0), launch.inner, 0);
    walk_end(&launch.batch);
    ADD_EACH(planner, SL_CUDA_FN(sl_product), launch.count, SL_PRODUCT_THREADS, launch);
    return SL_OK;
}
