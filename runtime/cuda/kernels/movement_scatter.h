/* movement_scatter.h - Arguments of the kernels in movement_scatter.cu: scatter of any plain type.
 * Types are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOVEMENT_SCATTER_H
#define SL_RUNTIME_CUDA_KERNELS_MOVEMENT_SCATTER_H
#include "runtime/cuda/kernels/movement_any.h"

enum { SL_SCATTER_THREADS = 128 };

/* Where each update goes: places [count], from tuples of `length` indices each, of dims. */
typedef struct {
    sl_indices indices;
    int64_t *places;
    int64_t count, length;
    int64_t dims[SL_PLACE_DIMS];
} sl_tuple_places;
/* The same from one index each along `axis`, where the rest of the place is the update's own. */
typedef struct {
    sl_indices indices;
    int64_t *places;
    int64_t count;
    int32_t rank, axis;
    int64_t dims[SL_PLACE_DIMS], own[SL_PLACE_DIMS]; /* of the result; of indices */
} sl_axis_places;

/* Into out [outer, extent, inner], which is x (NULL: zeros) at first, what is in updates [outer,
 * count, inner]: in order, for each place, of which `order` has those that are the same together.
 */
typedef struct {
    const void *x, *updates;
    void *out;
    const int64_t *places; /* [count] */
    const int32_t *order;  /* [count] */
    int64_t outer, extent, inner, count;
    int32_t type, how;
} sl_scattered;
#endif
