/* functions.h - Kernel ids, and the arguments of each kernel (functions.def).
 *
 * An id is a kernel or a family of kernels.  A typed id says which struct its kernels take: kernels
 * that take sl_copies have ids of type sl_copies_fn, so that launching one with another struct does
 * not compile. */
#ifndef SL_RUNTIME_CUDA_FUNCTIONS_H
#define SL_RUNTIME_CUDA_FUNCTIONS_H
#include "core/type.h"
#include "runtime/cuda/kernels/arguments.h"
#include "runtime/gpu/plan.h"
#include <stdbool.h>

typedef enum {
    SL_FN_none,
#define FUNCTION(NAME, ARGS) SL_FN_##NAME,
#define FAMILY(NAME, ARGS)   SL_FN_##NAME,
#include "runtime/cuda/functions.def"
    SL_FN_COUNT
} sl_cuda_fn;

typedef struct {
    const char *name;  /* NULL for a family */
    sl_cuda_fn family; /* the kernel itself if it belongs to none */
    int weight;        /* sl_dtype of the weights; SL_CUDA_ANY_WEIGHT: not specific to one */
    uint32_t args_bytes;
} sl_cuda_fn_info;
enum { SL_CUDA_ANY_WEIGHT = -1 };
extern const sl_cuda_fn_info sl_cuda_fn_infos[SL_FN_COUNT];

/* Whether fn is that kernel, or a member of that family. */
static inline bool sl_cuda_fn_is(sl_cuda_fn fn, sl_cuda_fn what) {
    return fn == what || (fn != SL_FN_none && sl_cuda_fn_infos[fn].family == what);
}
/* Members of a family: by weight type, SL_FN_none if there is none; and by its index in the list of
 * the family's forms. */
sl_cuda_fn sl_cuda_fn_of_type(sl_cuda_fn family, sl_dtype weight);
sl_cuda_fn sl_cuda_fn_of_form(sl_cuda_fn family, int place);

/* ---- typed ids ---- */

#define ARGUMENTS(ARGS)                                                                            \
    typedef union {                                                                                \
        sl_cuda_fn id;                                                                             \
        const ARGS *takes; /* only its type is used */                                             \
    } ARGS##_fn;                                                                                   \
    _Static_assert(sizeof(ARGS) <= SL_GPU_ARGS_BYTES, #ARGS " fits into a launch");
#define FUNCTION(NAME, ARGS)                                                                       \
    typedef ARGS##_fn sl_fn_of_##NAME;                                                             \
    typedef ARGS sl_args_of_##NAME;
#define FAMILY FUNCTION
#include "runtime/cuda/functions.def"

#define SL_CUDA_FN(NAME) ((sl_fn_of_##NAME){SL_FN_##NAME})
/* Members of a typed family. */
#define SL_CUDA_FN_OF_TYPE(FN, WEIGHT) ((__typeof__(FN)){sl_cuda_fn_of_type((FN).id, (WEIGHT))})
#define SL_CUDA_FN_OF_FORM(FN, PLACE)  ((__typeof__(FN)){sl_cuda_fn_of_form((FN).id, (PLACE))})
/* For tables of ids: the id of kernel or family NAME, which must take ARGS. */
#define SL_CUDA_ID(NAME, ARGS) ((sl_cuda_fn)(SL_FN_##NAME + SL_CUDA_SAME(sl_args_of_##NAME, ARGS)))
/* The size of ARGS, which must be the struct that FN takes. */
#define SL_CUDA_TAKEN_BYTES(FN, ARGS)                                                              \
    (sizeof(ARGS) + SL_CUDA_SAME(__typeof__(*(FN).takes), __typeof__(ARGS)))
/* 0; different types do not compile, because the array size is negative. */
#define SL_CUDA_SAME(WANTED, GIVEN)                                                                \
    (0 * sizeof(char[__builtin_types_compatible_p(WANTED, GIVEN) ? 1 : -1]))
#endif
