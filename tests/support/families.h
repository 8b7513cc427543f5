/* families.h - The ops of families that tests of every op go through; those of the others have
 * tests of their own, with fixtures that serve for text form, evaluator and kernels alike. */
#ifndef SL_TESTS_SUPPORT_FAMILIES_H
#define SL_TESTS_SUPPORT_FAMILIES_H
#include "core/ops.h"

static const sl_op first_families[] = {
    SL_OP_split,
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/model_ops.def"
#include "core/ops.def"
#undef SL_FAMILY
};
enum { FIRST_FAMILIES = sizeof first_families / sizeof first_families[0] };
#endif
