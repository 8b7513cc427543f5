/* fable.h - The small model of this repository, and the graphs of its steps. */
#ifndef SL_TESTS_SUPPORT_FABLE_H
#define SL_TESTS_SUPPORT_FABLE_H
#include "engine/session/model.h"

enum { FABLE_CONTEXT = 64 };

/* Opened on the reference evaluator: graphs are compiled and run by the tests themselves.  All
 * experts are in memory. */
sl_model *fable_open(void);
/* The step of `rows` tokens of one sequence; released with sl_graph_destroy. */
sl_graph *fable_graph(sl_model *model, uint32_t rows, uint32_t wanted);
#endif
