/* plan.h - Launch plans: which kernels a step launches, as data.
 *
 * A plan looks at an op's arguments (whose views hold device addresses) and decides which kernels
 * to launch, one after another, with which grid and which argument struct.  Plans are made once;
 * launches are replayed.  So nothing in them may depend on data: what changes from run to run is
 * read from device memory (tokens, slots, positions).
 *
 * A kind of GPU has a table of kernels with a plan each (sl_gpu_kernels), and its own list of the
 * functions that can be launched, whose ids and argument structs are known to it alone. */
#ifndef SL_RUNTIME_GPU_PLAN_H
#define SL_RUNTIME_GPU_PLAN_H
#include "core/ops.h"
#include "runtime/gpu/experts.h"

enum { SL_GPU_MAX_LAUNCHES = 32, SL_GPU_ARGS_BYTES = 1024, SL_GPU_ANY_WEIGHT = -1 };

typedef struct {
    uint32_t function;         /* an id of the device's own list */
    uint32_t grid[3], threads; /* blocks (workgroups); threads per block */
    uint32_t shared_bytes;     /* shared memory of a block whose size the launch decides */
    uint32_t args_bytes;
    _Alignas(16) unsigned char args[SL_GPU_ARGS_BYTES];
} sl_gpu_launch;

typedef struct {
    sl_gpu_launch *launches; /* [SL_GPU_MAX_LAUNCHES] */
    uint32_t count;
    uint32_t multiprocessors;
    uint32_t shared_limit;       /* bytes of shared memory available to a block */
    bool deterministic;          /* the same order of every sum, however many rows there are */
    const char *label;           /* of the step, for messages */
    sl_fault *fault;             /* in device memory: kernels report bad indices here */
    sl_gpu_expert_places places; /* of steps with experts */
    char *scratch;               /* in device memory; NULL while its size is measured */
    uint64_t scratch_bytes;
} sl_gpu_planner;

typedef sl_status sl_gpu_plan_fn(const void *args, sl_gpu_planner *planner, sl_error *err);

typedef struct {
    sl_op op;
    int weight; /* required sl_dtype of the second input (or the only one), or SL_GPU_ANY_WEIGHT */
    const char *name;
    sl_gpu_plan_fn *plan;
} sl_gpu_kernel;

/* The kernels of a kind of GPU, in the order in which they are preferred. */
struct sl_gpu_kernels {
    const char *device; /* its name, for messages */
    const sl_gpu_kernel *rows;
    size_t count;
    /* Of the smallest device: a larger one can always use the same plan. */
    uint32_t multiprocessors, shared_limit;
    /* Whether a custom op has a callback for this kind of GPU; others run on the host.
     * NULL: none has. */
    bool (*takes_custom)(const sl_custom_attrs *attrs);
};

/* target.c */
bool sl_gpu_takes_custom(const sl_gpu_kernels *kernels, const sl_custom_attrs *attrs);

/* ---- for plans: plan.c ---- */

/* Adds a launch with a one-dimensional grid, unless the returned launch is changed; the argument
 * struct is copied. */
sl_gpu_launch *sl_gpu_add_launch(sl_gpu_planner *planner, uint32_t function, int64_t blocks,
                                 uint32_t threads, const void *args, size_t args_bytes);
/* Turns it into a launch of another function with other arguments, which are copied. */
void sl_gpu_set_launch(sl_gpu_launch *launch, uint32_t function, const void *args,
                       size_t args_bytes);
/* Scratch memory of this step, 256-byte aligned. */
void *sl_gpu_scratch(sl_gpu_planner *planner, uint64_t bytes);

/* ---- for targets: target.c ---- */

/* NULL if there is none. */
const sl_gpu_kernel *sl_gpu_kernel_find(const sl_gpu_kernels *kernels, sl_op op,
                                        const sl_type *input_types);
/* The kernel of a step, NULL if the host runs it; SL_UNSUPPORTED, naming the step, if there is
 * none. */
SL_CHECKED sl_status sl_gpu_find(const sl_gpu_kernels *kernels, const sl_step *step,
                                 const sl_gpu_kernel **out, sl_error *err);
/* For sl_target.accepts: whether there is a kernel whose plan accepts the shapes. */
SL_CHECKED sl_status sl_gpu_accepts(const sl_gpu_kernels *kernels, const sl_step *step,
                                    sl_error *err);
#endif
