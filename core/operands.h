/* operands.h - Lists of operands and results, in graphs and in kernels. */
#ifndef SL_CORE_OPERANDS_H
#define SL_CORE_OPERANDS_H
#include "core/attrs.h"
#include "core/experts.h"

/* Graph values of a LIST operand. */
typedef struct {
    uint32_t count;
    const sl_value *items;
} sl_values;
/* Receives the values of an OUTS; count is the number of results that the node will have. */
typedef struct {
    uint32_t count;
    sl_value *items;
} sl_value_slots;

/* A LIST or OUTS as a kernel gets it; laid out like sl_cview. */
typedef struct {
    const sl_cview *items;
    sl_type type; /* a list of shape.dims[0] */
} sl_cview_list;
typedef struct {
    const sl_view *items;
    sl_type type;
} sl_view_list;
#define SL_LIST_COUNT(LIST) ((uint32_t)(LIST).type.shape.dims[0])
#endif
