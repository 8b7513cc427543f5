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
    uint8_t number;    /* of the op; 0: the second operand times the derivative, at the first, of */
    uint8_t attribute; /* the function of this number; else the attribute of the step */
    uint8_t types[SL_POINT_OPERANDS], out_type;
} sl_point_op;

typedef struct {
    const void *in[SL_POINT_OPERANDS];
    void *out;
    int64_t count;
    sl_point_op point;
    int32_t rank;
    int64_t dims[SL_POINT_DIMS]; /* of the result, and how far apart operands' elements are */
    int64_t steps[SL_POINT_OPERANDS][SL_POINT_DIMS];
} sl_point_each;

/* A program of steps on registers: register i holds input i at first, and results of steps take the
 * place of what is not needed any more. */
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
    int64_t dims[SL_POINT_DIMS]; /* of the result, and how far apart inputs' elements are */
    int64_t strides[SL_POINT_INPUTS][SL_POINT_DIMS];
} sl_point_region;
#endif
