/* movement_any.h - Arguments of the kernels in movement_any.cu: data movement of any plain type
 * with strides or indices; one thread per element of the result. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOVEMENT_ANY_H
#define SL_RUNTIME_CUDA_KERNELS_MOVEMENT_ANY_H
#include "runtime/cuda/kernels/number.h"
#include "runtime/gpu/fault.h"
#include <stdint.h>

enum { SL_PLACE_DIMS = 8, SL_PLACE_THREADS = 128 };

/* What most have: elements of `bytes`, `count` of them in the result. */
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

/* x with `before` elements more in front; mode 0: a value, 1 reflected, 2 the edge, 3 around. */
typedef struct {
    sl_moved m;
    const void *value;
    int64_t dims[SL_PLACE_DIMS], before[SL_PLACE_DIMS], extents[SL_PLACE_DIMS]; /* of x: extents */
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

/* x[.., extent, inner] by indices [n], or by those of the element's own place. */
typedef struct {
    sl_moved m;
    sl_indices indices;
    int64_t extent, inner, n;
} sl_gathered;
typedef struct {
    sl_moved m;
    sl_indices indices;
    int64_t extent, axis;
    int64_t dims[SL_PLACE_DIMS], steps[SL_PLACE_DIMS]; /* of indices; of x */
} sl_taken;

/* Tuples of `length` indices, of which `per_batch` belong to the same `slices` elements of x. */
typedef struct {
    sl_moved m;
    sl_indices indices;
    int64_t length, inner, per_batch, slices;
    int64_t dims[SL_PLACE_DIMS]; /* that a tuple indexes */
} sl_tuples;

/* A part of x that begins where starts say, clamped: taken, or replaced by `update`. */
typedef struct {
    sl_moved m;
    const void *update; /* NULL: taken */
    sl_indices starts;
    int64_t dims[SL_PLACE_DIMS], part[SL_PLACE_DIMS];
} sl_part;

typedef struct {
    void *out;
    int64_t count, inner, size;
    int32_t type, reserved;
} sl_counted;
typedef struct {
    sl_moved m; /* x: the two values */
    sl_indices indices;
    int64_t inner, depth;
} sl_marked;
#endif
