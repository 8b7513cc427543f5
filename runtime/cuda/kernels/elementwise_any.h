/* elementwise_any.h - Arguments of the kernels in elementwise_any.cu: any elementwise op, and
 * regions of them, on operands of any plain type that may broadcast.
 *
 * Ops and types are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ELEMENTWISE_ANY_H
#define SL_RUNTIME_CUDA_KERNELS_ELEMENTWISE_ANY_H
#include "core/elementwise_steps.h"
#include <stdint.h>

enum { SL_POINT_OPERANDS = 3, SL_POINT_DIMS = 8 };

typedef struct {
    uint8_t number;    /* op; 0: gradient, f'(first operand) * second operand */
    uint8_t attribute; /* of the op; for op 0 the number of f */
    uint8_t types[SL_POINT_OPERANDS], out_type;
} sl_point_op;

typedef struct {
    const void *in[SL_POINT_OPERANDS];
    void *out;
    int64_t count;
    sl_point_op point;
    int32_t rank;
    int64_t dims[SL_POINT_DIMS]; /* of the result; steps: strides of the operands */
    int64_t steps[SL_POINT_OPERANDS][SL_POINT_DIMS];
} sl_point_each;

/* A region as a program of steps on registers.  Register i initially holds input i; results go to
 * registers whose values are not needed any more. */
enum { SL_POINT_INPUTS = 8, SL_POINT_STEPS = 16, SL_POINT_REGISTERS = 12 };
typedef struct {
    const void *in[SL_POINT_INPUTS]; /* in order; NULL after the last */
    void *out;
    int64_t count;
    int32_t steps, rank;
    uint8_t types[SL_POINT_INPUTS];
    struct {
        sl_point_op point;
        uint8_t from[SL_POINT_OPERANDS], to;
    } code[SL_POINT_STEPS];
    int64_t dims[SL_POINT_DIMS]; /* of the result; strides: of the inputs */
    int64_t strides[SL_POINT_INPUTS][SL_POINT_DIMS];
} sl_point_region;
#endif
