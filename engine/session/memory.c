#include "engine/session/memory.h"
#include "engine/choose/sampler.h"
#include "engine/session/checkpoints.h"
#include "engine/session/sample.h"

enum {
    /* Code and data of the program and its libraries, stacks, and what the C library holds for
     * small blocks; what each thread of a team adds. */
    PROCESS_BYTES = 10 << 20,
    THREAD_BYTES = 256 << 10,
    PAGE_TABLE_SHARE = 512,    /* bytes per byte of page tables, without huge pages */
    STAGING_BYTES = 256 << 20, /* of host memory, when a GPU holds all experts */
    GIGABYTE = 1 << 30,
    GROUP_MARGIN = 20, /* one part in so many of a control group's memory stays free */
};

/* ---- the parts ---- */

static uint64_t sum(const sl_memory_use *use) {
    return use->weight_bytes + use->expert_bytes + use->state_bytes + use->checkpoint_bytes +
           use->session_bytes + use->workspace_bytes + use->program_bytes + use->text_bytes +
           use->file_bytes + use->loading_bytes + use->process_bytes + use->prefix_bytes;
}

static uint64_t session_bytes(const sl_model *model) {
    return sizeof(sl_token) * (uint64_t)model->context_tokens +
           sizeof(float) * (uint64_t)model->config.vocab +
           sizeof(sl_candidate) * (uint64_t)sl_choose_candidates(model->config.vocab) +
           2 * sizeof(int32_t) * (uint64_t)model->chunk_tokens +
           sl_sampler_most_bytes(model->config.vocab, model->context_tokens);
}

/* Conversion takes memory while weights are loaded, when that of experts and sessions is not in use
 * yet. */
static uint64_t loading_bytes(const sl_model *model, const sl_memory_use *use) {
    const uint64_t unused = use->expert_bytes + use->state_bytes + use->checkpoint_bytes;
    return model->loading_bytes > unused ? model->loading_bytes - unused : 0;
}

void sl_memory_measure(const sl_model *model, uint64_t expert_bytes, sl_memory_use *use) {
    const sl_device_stats device = sl_device_stats_of(model->device);
    const sl_checkpoint_memory checkpoints = sl_checkpoints_memory(model->forward, 0);
    const uint64_t prefix_pages = model->prefix_pages * sl_forward_page_bytes(model->forward);
    *use = (sl_memory_use){.struct_size = sizeof *use};
    use->weight_bytes = sl_weights_bytes(&model->weights);
    use->expert_bytes = expert_bytes;
    use->session_bytes =
        (uint64_t)model->slots * session_bytes(model) + sl_forward_table_bytes(model->forward);
    if (device.total_bytes == 0) { /* it uses host memory */
        use->state_bytes = sl_forward_describe(model->forward).state_bytes - prefix_pages;
        use->checkpoint_bytes = (uint64_t)model->slots * checkpoints.count * checkpoints.bytes_each;
        use->workspace_bytes = device.workspace_bytes;
    }
    use->prefix_bytes = model->prefix_host_bytes + (device.total_bytes == 0 ? prefix_pages : 0);
    use->program_bytes = model->program_bytes;
    use->text_bytes = model->text_meter.bytes;
    use->file_bytes = model->file_bytes;
    use->loading_bytes = loading_bytes(model, use);
    use->process_bytes = PROCESS_BYTES + (uint64_t)model->device_info.threads * THREAD_BYTES;
    use->process_bytes += sum(use) / PAGE_TABLE_SHARE;
    use->promised_bytes = sum(use);
    const sl_memory_left left = sl_memory_available();
    use->machine_left_bytes = left.machine;
    use->group_left_bytes = left.group;
}

/* ---- the expert budget ---- */

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

uint64_t sl_memory_device_budget(const sl_model *model, const sl_model_options *options) {
    const double share = options->device_budget_share;
    return share > 0 ? (uint64_t)((double)model->experts.memory_bytes * share)
                     : options->device_budget_bytes;
}

/* Whether the device will have room for all experts beside everything else. */
static bool fits_device(const sl_model *model, const sl_model_options *options) {
    if (!model->device_info.holds_experts) return false;
    uint64_t room = sl_memory_device_budget(model, options);
    if (room == 0)
        room = less(sl_device_stats_of(model->device).free_bytes,
                    sl_weights_bytes(&model->weights) + 2ull * GIGABYTE);
    return room >= model->experts.memory_bytes;
}

/* What the process will still allocate.  Half of its own part exists by now, as code and as memory
 * of the kernel, which sl_memory_own does not count. */
static uint64_t still_to_come(const sl_memory_use *use) {
    return less(use->promised_bytes, sl_memory_own() + use->process_bytes / 2);
}

/* The memory that can be had: on a machine that others use too half of what is left, within the
 * limit of a control group nearly all. */
static uint64_t obtainable(const sl_memory_use *use) {
    const uint64_t later = less(still_to_come(use), use->expert_bytes);
    uint64_t machine = use->machine_left_bytes, group = use->group_left_bytes;
    if (machine != UINT64_MAX) machine = less(machine, later) / 2;
    if (group != UINT64_MAX) group = less(group - group / GROUP_MARGIN, later);
    return machine < group ? machine : group;
}

static sl_status refuse(const sl_model *model, const sl_memory_use *use, sl_error *err) {
    const uint64_t state = use->state_bytes + use->checkpoint_bytes;
    const uint64_t left = use->machine_left_bytes < use->group_left_bytes ? use->machine_left_bytes
                                                                          : use->group_left_bytes;
    return sl_fail(err, SL_NO_MEMORY,
                   "the model needs %.1f MB: weights %.1f, experts %.1f, state %.1f for a context "
                   "of %u tokens, other parts %.1f; %.1f MB are left: lower the context or the "
                   "expert budget",
                   (double)use->promised_bytes / 1e6, (double)use->weight_bytes / 1e6,
                   (double)use->expert_bytes / 1e6, (double)state / 1e6, model->context_tokens,
                   (double)(use->promised_bytes - use->weight_bytes - use->expert_bytes - state) /
                       1e6,
                   (double)(left + sl_memory_own()) / 1e6);
}

/* The budget that the options ask for in bytes; 0: all experts. */
static uint64_t given_budget(const sl_model *model, const sl_model_options *options) {
    const double share = options->expert_budget_share;
    if (model->experts.memory_bytes == 0) return 0;
    if (share == 0) return options->expert_budget_bytes;
    if (share == 1) return 0;
    const uint64_t bytes = (uint64_t)((double)model->experts.memory_bytes * share);
    return bytes ? bytes : 1; /* too small, but not all of them */
}

/* A budget that was asked for may exceed what is free on the machine now, but not the limit of a
 * control group, which would end the process. */
static sl_status check_budget(const sl_model *model, uint64_t budget, sl_error *err) {
    sl_memory_use use;
    sl_expert_stats plan;
    SL_TRY(sl_expert_store_plan(&model->experts, model->reader, budget, &plan, err));
    sl_memory_measure(model, plan.used_bytes, &use);
    if (use.group_left_bytes == UINT64_MAX || still_to_come(&use) <= use.group_left_bytes)
        return SL_OK;
    return refuse(model, &use, err);
}

/* All experts if they fit, otherwise as many as do.  Where a GPU holds all of them, they only pass
 * through. */
static sl_status default_budget(const sl_model *model, const sl_model_options *options,
                                uint64_t *out, sl_error *err) {
    const uint64_t minimum = sl_expert_store_minimum(&model->experts, model->reader);
    const uint64_t staging = minimum > STAGING_BYTES ? minimum : STAGING_BYTES;
    sl_expert_stats whole;
    sl_memory_use use;
    *out = 0;
    if (fits_device(model, options)) {
        *out = staging < model->experts.memory_bytes ? staging : 0;
        return SL_OK;
    }
    SL_TRY(sl_expert_store_plan(&model->experts, model->reader, 0, &whole, err));
    sl_memory_measure(model, whole.used_bytes, &use);
    if (whole.used_bytes <= obtainable(&use)) return SL_OK;
    sl_memory_measure(model, minimum, &use);
    *out = obtainable(&use);
    if (*out >= minimum) return SL_OK;
    *out = minimum; /* what others may need is taken too, where nothing else works */
    return still_to_come(&use) > use.machine_left_bytes ||
                   still_to_come(&use) > use.group_left_bytes
               ? refuse(model, &use, err)
               : SL_OK;
}

sl_status sl_memory_choose_budget(const sl_model *model, const sl_model_options *options,
                                  uint64_t *out, sl_error *err) {
    const double share = options->expert_budget_share;
    if (!(share >= 0 && share <= 1))
        return sl_fail(err, SL_INVALID, "a budget of %g %%, wanted 0 to 100", share * 100);
    if (share == 0 && options->expert_budget_bytes == 0)
        return default_budget(model, options, out, err);
    *out = given_budget(model, options);
    return check_budget(model, *out, err);
}
