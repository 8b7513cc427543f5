/* matmul.c - Matrix products of two f32 activations, with broadcast batch dims. */
#include "runtime/cuda/kernels/matmul.h"
#include "runtime/cuda/ops/strides.h"

PLAN(matmul) {
    const sl_matmul_args *p = args;
    const sl_dims *out = &p->out.type.shape, *a = &p->a.type.shape, *b = &p->b.type.shape;
    sl_products launch = {.left = p->a.data, .right = p->b.data, .out = p->out.data};
    launch.rows = out->dims[out->rank - 2];
    launch.cols = out->dims[out->rank - 1];
    launch.inner = last_dim(&p->a.type);
    launch.row_tiles = parts_of(launch.rows, SL_MATMUL_TILE);
    launch.col_tiles = parts_of(launch.cols, SL_MATMUL_TILE);
    for (uint32_t i = 0; i + 2 < out->rank; i++)
        walk_push(&launch.batch, out->dims[i], broadcast_stride(a, out, i),
                  broadcast_stride(b, out, i));
    walk_end(&launch.batch);
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_matmul),
                launch.row_tiles * launch.col_tiles * walk_elements(&launch.batch),
                SL_MATMUL_THREADS, launch);
    return SL_OK;
}
