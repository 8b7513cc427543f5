/* verbose.c - What --verbose says of a model that was opened: what was chosen, and why. */
#include "apps/cli/cli.h"

static const char *by_option(bool set, const char *option, const char *otherwise) {
    return set ? option : otherwise;
}

static void explain_compute(const cli_options *o, const sl_model_info *i) {
    cli_note("device: %s%s%s (%s)", i->device, i->device_name[0] ? ", " : "", i->device_name,
             by_option(o->device, "--device", "default: a GPU that works, else the cpu"));
    if (i->isa[0])
        cli_note("instruction set: %s (%s)", i->isa,
                 by_option(o->isa, "--isa", "the best of this machine and build"));
    cli_note("threads: %u (%s)", i->threads,
             by_option(o->threads || o->thread_list, "--threads", "one per core"));
    cli_note("reader: %s (%s)", i->reader,
             by_option(o->reader, "--reader", "the best of this machine and build"));
}

static const char *reason_of_budget(const cli_options *o, const sl_model_info *i) {
    if (o->budget.bytes || o->budget.share > 0) return "--budget or SLUICE_BUDGET";
    if (i->slot_count == i->expert_count) return "all fit";
    return "what was free when the model was opened; --budget sets another";
}

static void explain_memory(const cli_options *o, const sl_model_info *i, uint32_t context) {
    char size[32];
    if (i->experts)
        cli_note("budget: %s, %llu of %llu experts in memory (%s)",
                 cli_bytes(i->budget_bytes, size, sizeof size), (unsigned long long)i->slot_count,
                 (unsigned long long)i->expert_count, reason_of_budget(o, i));
    cli_note("context: %u tokens of at most %u (%s)", i->context_tokens, i->max_context_tokens,
             o->context_given ? "--context"
             : context        ? "what the tokens need"
                              : "default: at most 4096");
}

static void explain_text(const cli_options *o, const sl_model *model) {
    const bool given = o->temperature_given || o->top_k_given || o->top_p_given || o->min_p_given;
    const sl_sampling sampling = cli_sampling(model, o);
    char text[CLI_SAMPLING_TEXT];
    cli_note("sampling: %s (%s)", cli_sampling_text(&sampling, text),
             by_option(given, "with options", "of the model, or the default"));
    cli_note("chat template: %s", o->raw                              ? "unused (--raw)"
                                  : sl_model_has_chat_template(model) ? "the model's"
                                                                      : "none");
}

void cli_explain_model(const cli_options *options, const char *path, uint32_t context,
                       const sl_model *model) {
    const sl_model_info info = cli_model_info(model);
    char size[32], count[32];
    if (!cli_is_verbose()) return;
    if (options->config_path) cli_note("settings of %s", options->config_path);
    cli_note("model: %s (%s): %s of format %s, %s, %s parameters", path,
             by_option(options->model, "--model, SLUICE_MODEL or a setting", "bundled"),
             info.architecture, info.format, cli_bytes(info.file_bytes, size, sizeof size),
             cli_count(info.parameters, count, sizeof count));
    explain_compute(options, &info);
    explain_memory(options, &info, context);
    explain_text(options, model);
}
