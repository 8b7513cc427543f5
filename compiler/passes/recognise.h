/* recognise.h - What the passes that recognise ops share. */
#ifndef SL_COMPILER_PASSES_RECOGNISE_H
#define SL_COMPILER_PASSES_RECOGNISE_H
#include "compiler/graph.h"

/* The value of all elements of a float constant; NaN if they differ, or if it is something else. */
double sl_only_number(const sl_value_info *info);
#endif
