/* random.c - Random numbers and sampling. */
#include "runtime/cuda/kernels/random.h"
#include "runtime/cuda/ops/strides.h"

static sl_random_stream stream_of(const sl_cview *key, const sl_cview *counter) {
    return (sl_random_stream){.key = key->data,
                              .counter = counter->data,
                              .counter_words =
                                  (int64_t)(sl_type_bytes(&counter->type) / sizeof(uint32_t))};
}

_Static_assert(sizeof(sl_rng_uniform_args) == sizeof(sl_rng_normal_args), "one struct serves both");

static sl_status plan_numbers(sl_gpu_planner *planner, const sl_rng_uniform_args *a, bool normal) {
    const sl_random launch = {.stream = stream_of(&a->key, &a->counter),
                              .out = a->out.data,
                              .count = sl_type_elements(&a->out.type),
                              .type = number_of(&a->out.type),
                              .normal = normal};
    ADD_EACH(planner, SL_CUDA_FN(sl_random_numbers), launch.count, SL_RANDOM_THREADS, launch);
    return SL_OK;
}
PLAN(rng_uniform) {
    return plan_numbers(planner, args, false);
}
PLAN(rng_normal) {
    return plan_numbers(planner, args, true);
}

PLAN(sample) {
    const sl_sample_args *a = args;
    const int64_t elements = sl_type_elements(&a->logits.type);
    const sl_sampled launch = {.stream = stream_of(&a->key, &a->counter),
                               .logits = a->logits.data,
                               .weights =
                                   sl_gpu_scratch(planner, (uint64_t)elements * sizeof(double)),
                               .out = a->out.data,
                               .fault = planner->fault,
                               .rows = rows_of(&a->logits.type),
                               .cols = last_dim(&a->logits.type),
                               .top_k = a->attrs.top_k,
                               .temperature = (double)a->attrs.temperature,
                               .top_p = (double)a->attrs.top_p,
                               .type = number_of(&a->logits.type)};
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_sample), launch.rows, SL_SAMPLE_THREADS, launch);
    return SL_OK;
}
