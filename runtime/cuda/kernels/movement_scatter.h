/* movement_scatter.h - Arguments of the kernels in movement_scatter.cu: scatter of any plain type.
 * Types are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOVEMENT_SCATTER_H
#define SL_RUNTIME_CUDA_KERNELS_MOVEMENT_SCATTER_H
#include "runtime/cuda/kernels/movement_any.h"

enum { SL_SCATTER_THREADS = 128 };

/* Destination of each update: places [count] from tuples of `length` indices into dims. */
typedef struct {
    sl_indices indices;
    int64_t *places;
    int64_t count, length;
    int64_t dims[SL_PLACE_DIMS];
} sl_tuple_places;
/* The same from one index per update along `axis`; its other coordinates are the update's own. */
typedef struct {
    sl_indices indices;
    int64_t *places;
    int64_t count;
    int32_t rank, axis;
    int64_t dims[SL_PLACE_DIMS], own[SL_PLACE_DIMS]; /* dims of the result; of indices */
} sl_axis_places;

/* Scatters updates [outer, count, inner] into out [outer, extent, inner], which starts as x (NULL:
 * zeros).  `order` sorts the updates by destination, stably; updates of one destination are
 * combined in their original order. */
typedef struct {
    const void *x, *updates;
    void *out;
    const int64_t *places; /* [count] */
    const int32_t *order;  /* [count] */
    int64_t outer, extent, inner, count;
    int32_t type, how;
} sl_scattered;
#endif
