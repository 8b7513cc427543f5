/* experts.h - Sources of experts for graphs (sluice/experts.h): what graphs see of them. */
#ifndef SL_API_EXPERTS_H
#define SL_API_EXPERTS_H
#include "compiler/graph.h"
#include "core/program.h"
#include "sluice/experts.h"

struct sl_experts {
    sl_expert_shape shape;
    sl_type gate, down; /* of one expert; up is like gate */
    sl_expert_source *source;
};

/* Checks the experts of a graph against the source: shapes, types and the layers that nodes name.
 * source NULL: an error if the graph has experts. */
SL_CHECKED sl_status sl_experts_check_graph(const sl_experts *experts, const sl_graph *graph,
                                            sl_error *err);
/* Checks that one layer is requested at a time, whatever order the device runs the steps in. */
SL_CHECKED sl_status sl_experts_check_program(const sl_program *program, sl_error *err);
#endif
