/* operands.h - What ops take and give, in graphs and in kernels. */
#ifndef SL_CORE_OPERANDS_H
#define SL_CORE_OPERANDS_H
#include "core/attrs.h"
#include "core/experts.h"

/* Some values of a graph, for a LIST. */
typedef struct {
    uint32_t count;
    const sl_value *items;
} sl_values;
/* Where the values of an OUTS go; count is how many results the node is to have. */
typedef struct {
    uint32_t count;
    sl_value *items;
} sl_value_slots;

/* What a kernel sees of a LIST or an OUTS; laid out like sl_cview. */
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
