/* splat.h - Arguments of the kernels in splat.cu: Gaussian splatting (core/splat.h). */
#ifndef SL_RUNTIME_CUDA_KERNELS_SPLAT_H
#define SL_RUNTIME_CUDA_KERNELS_SPLAT_H
#include "core/splat.h"
#include "runtime/gpu/fault.h"

/* A block has a tile of the image, a thread for each pixel; it looks at as many splats at once. */
enum { SL_SPLAT_TILE = 16, SL_SPLAT_THREADS = SL_SPLAT_TILE * SL_SPLAT_TILE };

typedef struct {
    const float *positions, *scales, *rotations, *opacities, *colors, *harmonics, *camera;
    int64_t count, harmonic_count, width, height;
    double radius, cutoff;
} sl_splat_scene;

/* A thread prepares a splat, and then finds its place in the order. */
typedef struct {
    sl_splat_scene scene;
    sl_splat *splats;
    double *distances; /* [count], for the kernels alone */
    int32_t *order, *boxes;
} sl_splat_preparation;

typedef struct {
    const sl_splat *splats;
    const int32_t *order, *boxes;
    const float *camera;
    float *out;
    sl_fault *fault;
    int64_t count, width, height;
    double cutoff, enough;
} sl_splat_image;

/* Sums of gradients over pixels: of each block's own tiles. */
typedef struct {
    sl_splat_image image;
    const float *grad;
    sl_splat *sums;   /* [blocks, count] */
    double *starts;   /* [blocks, parts of the order, threads]: what came through to a part */
    double *throughs; /* [blocks, threads, threads]: and to each splat of one; below 0: not seen */
} sl_splat_sums;

/* A thread makes the gradients of a splat. */
typedef struct {
    sl_splat_scene scene;
    const sl_splat *sums;
    int64_t blocks;
    float *positions, *scales, *rotations, *opacities, *colors, *harmonics;
} sl_splat_gradients;
#endif
