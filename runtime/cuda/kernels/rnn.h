/* rnn.h - Arguments of the kernels in rnn.cu: recurrent layers of any float type.
 * Types are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_RNN_H
#define SL_RUNTIME_CUDA_KERNELS_RNN_H
#include "core/cell.h"
#include "runtime/gpu/fault.h"

enum { SL_LAYER_THREADS = 512, SL_LAYER_VECTORS = 3 };

/* x [steps,batch,inputs]; the other operands as in core/ops/rnn.def, NULL where absent. */
typedef struct {
    const void *x, *w, *r, *bias, *lengths, *hidden, *content, *peepholes;
    void *y, *y_h, *y_c;
    double *from_inputs; /* [steps,batch,directions,rows] */
    double *room;        /* [directions,batch,rows + SL_LAYER_VECTORS * width] */
    sl_fault *fault;
    int64_t steps, batch, inputs, width, rows; /* width: hidden size; rows: of all gates */
    int32_t directions, reverse, type, length_type;
    sl_cell cells[2]; /* one per direction */
} sl_layered;
#endif
