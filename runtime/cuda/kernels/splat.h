/* splat.h - Arguments of the kernels in splat.cu: Gaussian splatting (core/splat.h). */
#ifndef SL_RUNTIME_CUDA_KERNELS_SPLAT_H
#define SL_RUNTIME_CUDA_KERNELS_SPLAT_H
#include "core/splat.h"
#include "runtime/gpu/fault.h"

/* A block renders a tile of the image, one thread per pixel, and takes as many splats per batch. */
enum { SL_SPLAT_TILE = 16, SL_SPLAT_THREADS = SL_SPLAT_TILE * SL_SPLAT_TILE };

typedef struct {
    const float *positions, *scales, *rotations, *opacities, *colors, *harmonics, *camera;
    int64_t count, harmonic_count, width, height;
    double radius, cutoff;
} sl_splat_scene;

/* One thread per splat: prepares it, then finds its position in the depth order. */
typedef struct {
    sl_splat_scene scene;
    sl_splat *splats;
    double *distances; /* [count], scratch */
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

/* Gradients summed over the pixels of each block's own tiles. */
typedef struct {
    sl_splat_image image;
    const float *grad;
    sl_splat *sums;   /* [blocks, count] */
    double *starts;   /* [blocks, batches, threads]: transmittance in front of a batch */
    double *throughs; /* [blocks, threads, threads]: of each splat of a batch; -1: invisible */
} sl_splat_sums;

/* Gradients of the inputs, one thread per splat. */
typedef struct {
    sl_splat_scene scene;
    const sl_splat *sums;
    int64_t blocks;
    float *positions, *scales, *rotations, *opacities, *colors, *harmonics;
} sl_splat_gradients;
#endif
