/* arguments.h - The argument struct of a step: views of its operands, then its attributes. */
#ifndef SL_RUNTIME_ARGUMENTS_H
#define SL_RUNTIME_ARGUMENTS_H
#include "core/program.h"

/* An sl_<op>_args with types and attributes set and no data, in the arena; NULL without memory. */
void *sl_arguments_create(const sl_step *step, sl_arena *arena);
/* The view of an operand, wherever it lies. */
sl_view *sl_argument(const sl_step *step, void *args, uint32_t operand);
#endif
