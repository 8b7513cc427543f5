/* inspect.c - Looking inside and measuring (sluice/inspect.h). */
#include "api/inspect_options.h"
#include "api/needs.h"
#include "base/structs.h"

enum { DEFAULT_RUNS = 4, MOST_RUNS = 100000 };

sl_status sl_inspect_complete(const sl_inspect_options *given, sl_inspect_options *out,
                              sl_error *err) {
    *out = (sl_inspect_options){0};
    SL_TRY(SL_STRUCT_TAKE(sl_inspect_options, out, given, err));
    out->struct_size = sizeof *out;
    if (!out->runs && out->trace_path) out->runs = DEFAULT_RUNS;
    if (out->runs > MOST_RUNS)
        return sl_fail(err, SL_INVALID, "%u runs, wanted at most %d", out->runs, MOST_RUNS);
    return SL_OK;
}

static sl_status complete(const sl_model *model, const sl_inspect_options *given,
                          sl_inspect_options *out, sl_error *err) {
    SL_TRY(sl_inspect_complete(given, out, err));
    if (!out->tokens) out->tokens = 1;
    if (!out->wanted) out->wanted = 1;
    if (!model == !out->shape)
        return sl_fail(err, SL_INVALID, "%s to inspect",
                       model ? "give either a model or a shape, not both"
                             : "a model or a shape is required");
    if (out->tokens > SL_MAX_FORWARD_ROWS || (out->wanted != 1 && out->wanted != out->tokens))
        return sl_fail(err, SL_INVALID,
                       "a forward pass of %u tokens with logits of %u, wanted at most %d tokens, "
                       "and logits of one or of all",
                       out->tokens, out->wanted, SL_MAX_FORWARD_ROWS);
    if (model && out->depth >= model->context_tokens)
        return sl_fail(err, SL_INVALID, "a depth of %u, the context has %u tokens", out->depth,
                       model->context_tokens);
    if (out->runs && (!model || !model->device))
        return sl_fail(err, SL_UNSUPPORTED,
                       "only a model on a device can be run and traced, not on ref");
    return SL_OK;
}

sl_status sl_inspect_hand_out(sl_status status, sl_inspect_report *report, sl_inspect_report *out) {
    if (status != SL_OK) {
        sl_report_deinit(report);
        return status;
    }
    SL_STRUCT_GIVE(sl_inspect_report, out, report);
    return SL_OK;
}

sl_status sl_inspect_check_size(const sl_inspect_report *out, sl_error *err) {
    SL_TRY(SL_STRUCT_CHECK(sl_inspect_report, out, err));
    if (out->struct_size >= 2 * sizeof(void *)) return SL_OK;
    return sl_fail(err, SL_INVALID, "sl_inspect_report: struct_size is %zu, wanted %zu",
                   out->struct_size, sizeof *out);
}

sl_status sl_inspect(sl_model *model, const sl_inspect_options *given, sl_inspect_report *out,
                     sl_error *err) {
    SL_NEED(out);
    sl_inspect_options options;
    sl_inspect_report report;
    SL_TRY(sl_inspect_check_size(out, err));
    SL_TRY(complete(model, given, &options, err));
    SL_TRY(sl_report_init(&report, err));
    const sl_status status = sl_inspect_forward(model, &options, &report, err);
    return sl_inspect_hand_out(status, &report, out);
}

void sl_inspect_report_deinit(sl_inspect_report *report) {
    if (report) sl_report_deinit(report);
}

sl_status sl_compare(sl_model *first, sl_model *second, const sl_compare_options *given,
                     sl_compare_report *out, sl_error *err) {
    SL_NEED(first && second && out);
    sl_compare_options options = {0};
    sl_compare_report report = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_compare_options, &options, given, err));
    SL_TRY(SL_STRUCT_CHECK(sl_compare_report, out, err));
    if (!second->device)
        return sl_fail(err, SL_INVALID, "the second device to compare must not be ref");
    if (options.tokens > SL_MAX_FORWARD_ROWS || options.tokens > second->context_tokens)
        return sl_fail(
            err, SL_INVALID,
            "a forward pass of %u tokens, wanted at most %d and at most the context's %u",
            options.tokens, SL_MAX_FORWARD_ROWS, second->context_tokens);
    SL_TRY(sl_compare_steps(first, second, &options, &report, err));
    SL_STRUCT_GIVE(sl_compare_report, out, &report);
    return SL_OK;
}

sl_status sl_measure_gpu(sl_model *model, sl_gpu_floors *out, sl_error *err) {
    SL_NEED(model && out);
    SL_TRY(SL_STRUCT_CHECK(sl_gpu_floors, out, err));
    sl_device_floors floors = {0};
    if (model->device && model->device->ops->measure)
        SL_TRY(model->device->ops->measure(model->device, &floors, err));
    const sl_gpu_floors found = {.copy_bytes_per_second = floors.copy_bytes_per_second,
                                 .bf16_operations_per_second = floors.bf16_operations_per_second,
                                 .host_bytes_per_second = floors.host_bytes_per_second};
    SL_STRUCT_GIVE(sl_gpu_floors, out, &found);
    return SL_OK;
}

sl_status sl_measure_disk(const sl_model *model, sl_disk_floor *out, sl_error *err) {
    SL_NEED(model && out);
    sl_disk_floor floor;
    SL_TRY(SL_STRUCT_CHECK(sl_disk_floor, out, err));
    SL_TRY(sl_disk_measure(model, &floor, err));
    SL_STRUCT_GIVE(sl_disk_floor, out, &floor);
    return SL_OK;
}

sl_status sl_model_token_cost(const sl_model *model, sl_token_cost *out, sl_error *err) {
    SL_NEED(model && out);
    SL_TRY(SL_STRUCT_CHECK(sl_token_cost, out, err));
    const sl_token_cost cost = sl_token_cost_of(model);
    SL_STRUCT_GIVE(sl_token_cost, out, &cost);
    return SL_OK;
}

sl_status sl_model_expert_uses(const sl_model *model, sl_expert_use *uses, size_t capacity,
                               sl_expert_totals *totals, sl_error *err) {
    SL_NEED(model && totals);
    SL_TRY(SL_STRUCT_CHECK(sl_expert_totals, totals, err));
    const sl_expert_table *table = &model->experts;
    const size_t count = (size_t)table->layers * table->experts;
    if (uses && capacity < count)
        return sl_fail(err, SL_INVALID, "room for the uses of %zu experts, wanted %zu", capacity,
                       count);
    const sl_expert_stats stats = sl_expert_store_stats(model->store);
    const sl_expert_totals found = {.layers = table->layers,
                                    .experts = table->experts,
                                    .hits = stats.hits,
                                    .misses = stats.misses,
                                    .first_reads = stats.first_reads,
                                    .bytes_read = stats.bytes_read,
                                    .read_seconds = stats.read_seconds,
                                    .stall_seconds = stats.stall_seconds};
    if (uses) sl_expert_store_uses(model->store, uses);
    SL_STRUCT_GIVE(sl_expert_totals, totals, &found);
    return SL_OK;
}
