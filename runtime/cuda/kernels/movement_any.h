/* movement_any.h - Arguments of the kernels in movement_any.cu: data movement of any plain type
 * with strides or indices; one thread per element of the result. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOVEMENT_ANY_H
#define SL_RUNTIME_CUDA_KERNELS_MOVEMENT_ANY_H
#include "runtime/cuda/kernels/number.h"
#include "runtime/gpu/fault.h"
#include <stdint.h>

enum { SL_PLACE_DIMS = 8, SL_PLACE_THREADS = 128 };

/* Common arguments: elements of `bytes` bytes, `count` of them in the result. */
typedef struct {
    const void *x;
    void *out;
    int64_t count;
    int32_t bytes, rank;
} sl_moved;

/* Element (i, j, ..) is x[i * steps[0] + j * steps[1] + ..]. */
typedef struct {
    sl_moved m;
    int64_t dims[SL_PLACE_DIMS], steps[SL_PLACE_DIMS];
} sl_stepped;

/* x padded with `before` elements in front; mode 0: constant, 1: reflect, 2: edge, 3: wrap. */
typedef struct {
    sl_moved m;
    const void *value;
    int64_t dims[SL_PLACE_DIMS], before[SL_PLACE_DIMS], extents[SL_PLACE_DIMS]; /* extents: of x */
    int32_t mode, reserved;
} sl_padded;

typedef struct {
    sl_moved m;
    int64_t rows, cols, k;
    int32_t upper, reserved;
} sl_triangle;

/* Indices are i64 where `wide`, else i32; negative ones count from the end. */
typedef struct {
    const void *data;
    sl_fault *fault;
    int32_t wide, reserved;
} sl_indices;

/* Gather from x[.., extent, inner] by indices [n] (sl_gathered), or by one index per element of the
 * result (sl_taken). */
typedef struct {
    sl_moved m;
    sl_indices indices;
    int64_t extent, inner, n;
} sl_gathered;
typedef struct {
    sl_moved m;
    sl_indices indices;
    int64_t extent, axis;
    int64_t dims[SL_PLACE_DIMS], steps[SL_PLACE_DIMS]; /* of indices; strides of x */
} sl_taken;

/* gather_nd with tuples of `length` indices; `per_batch` tuples share one batch of `slices`
 * elements of x. */
typedef struct {
    sl_moved m;
    sl_indices indices;
    int64_t length, inner, per_batch, slices;
    int64_t dims[SL_PLACE_DIMS]; /* the dims that a tuple indexes */
} sl_tuples;

/* A slice of x at run-time starts, clamped so that it fits: copied out, or replaced by `update`. */
typedef struct {
    sl_moved m;
    const void *update; /* NULL: copied out */
    sl_indices starts;
    int64_t dims[SL_PLACE_DIMS], part[SL_PLACE_DIMS];
} sl_part;

typedef struct {
    void *out;
    int64_t count, inner, size;
    int32_t type, reserved;
} sl_counted;
typedef struct {
    sl_moved m; /* x: the off and the on value */
    sl_indices indices;
    int64_t inner, depth;
} sl_marked;
#endif
