/* splat.c - Gaussian splatting. */
#include "runtime/cuda/kernels/splat.h"
#include "runtime/cuda/ops/ops.h"
#include <stddef.h>

_Static_assert(offsetof(sl_gaussian_splat_prepare_args, splats) ==
                       offsetof(sl_gaussian_splat_backward_args, grad) &&
                   offsetof(sl_gaussian_splat_prepare_attrs, cutoff) ==
                       offsetof(sl_gaussian_splat_backward_attrs, cutoff),
               "operands and attributes begin alike");

/* For prepare and for the gradient, whose arguments begin with the same fields. */
static sl_splat_scene scene_of(const sl_gaussian_splat_prepare_args *a,
                               const sl_gaussian_splat_prepare_attrs *attrs) {
    return (sl_splat_scene){.positions = a->positions.data,
                            .scales = a->scales.data,
                            .rotations = a->rotations.data,
                            .opacities = a->opacities.data,
                            .colors = a->colors.data,
                            .harmonics = a->harmonics.data,
                            .camera = a->camera.data,
                            .count = dim(&a->positions.type, 0),
                            .harmonic_count = dim(&a->harmonics.type, 1),
                            .width = attrs->width,
                            .height = attrs->height,
                            .radius = (double)attrs->radius,
                            .cutoff = (double)attrs->cutoff};
}

static void add_preparation(sl_gpu_planner *planner, sl_splat_preparation *p) {
    const int64_t count = p->scene.count;
    p->distances = sl_gpu_scratch(planner, (uint64_t)count * sizeof *p->distances);
    ADD_EACH(planner, SL_CUDA_FN(sl_prepare_splats), count, SL_SPLAT_THREADS, *p);
    ADD_EACH(planner, SL_CUDA_FN(sl_order_splats), count, SL_SPLAT_THREADS, *p);
}
PLAN(gaussian_splat_prepare) {
    const sl_gaussian_splat_prepare_args *a = args;
    sl_splat_preparation p = {.scene = scene_of(a, &a->attrs),
                              .splats = a->splats.data,
                              .order = a->order.data,
                              .boxes = a->boxes.data};
    add_preparation(planner, &p);
    return SL_OK;
}

static int64_t tiles_of(int64_t width, int64_t height) {
    return parts_of(width, SL_SPLAT_TILE) * parts_of(height, SL_SPLAT_TILE);
}

PLAN(gaussian_splat_rasterize) {
    const sl_gaussian_splat_rasterize_args *a = args;
    const sl_splat_image launch = {.splats = a->splats.data,
                                   .order = a->order.data,
                                   .boxes = a->boxes.data,
                                   .camera = a->camera.data,
                                   .out = a->out.data,
                                   .fault = planner->fault,
                                   .count = dim(&a->order.type, 0),
                                   .width = a->attrs.width,
                                   .height = a->attrs.height,
                                   .cutoff = (double)a->attrs.cutoff,
                                   .enough = (double)a->attrs.enough};
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_draw_splats), tiles_of(launch.width, launch.height),
                SL_SPLAT_THREADS, launch);
    return SL_OK;
}

/* ---- gradients ---- */

static sl_splat_preparation prepare_backward(sl_gpu_planner *planner,
                                             const sl_gaussian_splat_backward_args *a) {
    sl_splat_preparation p = {.scene = scene_of((const void *)a, (const void *)&a->attrs)};
    const uint64_t count = (uint64_t)p.scene.count;
    p.splats = sl_gpu_scratch(planner, count * sizeof *p.splats);
    p.order = sl_gpu_scratch(planner, count * sizeof *p.order);
    p.boxes = sl_gpu_scratch(planner, count * 4 * sizeof *p.boxes);
    add_preparation(planner, &p);
    return p;
}

/* Per-block sums of the gradients; returns the number of blocks, limited by scratch memory. */
static int64_t add_sums(sl_gpu_planner *planner, const sl_gaussian_splat_backward_args *a,
                        const sl_splat_preparation *p, sl_splat_sums *s) {
    enum { MOST = 256, ROOM_BYTES = 1 << 30 };
    const int64_t count = p->scene.count, room = ROOM_BYTES / (count * (int64_t)sizeof *s->sums);
    const int64_t blocks =
        least(tiles_of(p->scene.width, p->scene.height), least(MOST, room > 1 ? room : 1));
    const uint64_t threads = (uint64_t)blocks * SL_SPLAT_THREADS;
    const uint64_t parts = (uint64_t)parts_of(count, SL_SPLAT_THREADS);
    s->image = (sl_splat_image){.splats = p->splats,
                                .order = p->order,
                                .boxes = p->boxes,
                                .camera = p->scene.camera,
                                .fault = planner->fault,
                                .count = count,
                                .width = p->scene.width,
                                .height = p->scene.height,
                                .cutoff = p->scene.cutoff,
                                .enough = (double)a->attrs.enough};
    s->grad = a->grad.data;
    s->sums = sl_gpu_scratch(planner, (uint64_t)(blocks * count) * sizeof *s->sums);
    s->starts = sl_gpu_scratch(planner, threads * parts * sizeof *s->starts);
    s->throughs = sl_gpu_scratch(planner, threads * SL_SPLAT_THREADS * sizeof *s->throughs);
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_add_splats), blocks, SL_SPLAT_THREADS, *s);
    return blocks;
}

PLAN(gaussian_splat_backward) {
    const sl_gaussian_splat_backward_args *a = args;
    const sl_splat_preparation p = prepare_backward(planner, a);
    sl_splat_sums s;
    const int64_t blocks = add_sums(planner, a, &p, &s);
    const sl_splat_gradients launch = {.scene = p.scene,
                                       .sums = s.sums,
                                       .blocks = blocks,
                                       .positions = a->d_positions.data,
                                       .scales = a->d_scales.data,
                                       .rotations = a->d_rotations.data,
                                       .opacities = a->d_opacities.data,
                                       .colors = a->d_colors.data,
                                       .harmonics = a->d_harmonics.data};
    ADD_EACH(planner, SL_CUDA_FN(sl_chain_splats), p.scene.count, SL_SPLAT_THREADS, launch);
    return SL_OK;
}
