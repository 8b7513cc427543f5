/* model.c - Opens models with the given options, and reports on them. */
#include "apps/cli/cli.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUNDLED_MODEL "models/fable"

/* Relative to the program: in the build folder (build/sluice), or where it is installed.  NULL: it
 * is in neither place. */
static const char *bundled_model(void) {
    static char path[PATH_MAX + 64];
    static const char *const places[] = {"/../" BUNDLED_MODEL, "/../share/sluice/" BUNDLED_MODEL};
    char program[PATH_MAX];
    if (access(BUNDLED_MODEL, R_OK) == 0) return BUNDLED_MODEL;
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) return NULL;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", program, places[i]);
        if (access(path, R_OK) == 0) return path;
    }
    return NULL;
}

const char *cli_model_path(const cli_options *options) {
    const char *path = options->model ? options->model : bundled_model();
    if (!path)
        (void)cli_fail_text("no model is given, and the bundled demo model (" BUNDLED_MODEL
                            ") is not installed; give one with -m PATH or in SLUICE_MODEL");
    return path;
}

const char *cli_compile_words(const cli_options *options, char text[CLI_COMPILE_TEXT]) {
    char lookahead[32] = "";
    if (options->lookahead_given)
        (void)snprintf(lookahead, sizeof lookahead, "lookahead=%u,", options->lookahead);
    (void)snprintf(
        text, CLI_COMPILE_TEXT, "%s%s%s%s%s%s%s%s%s%s%s", options->exact ? "exact," : "",
        options->launch ? options->launch : "", options->launch ? "," : "",
        options->no_simplify ? "no-simplify," : "", options->no_fusion ? "no-fusion," : "",
        options->no_reorder ? "no-reordering," : "", options->no_sharing ? "no-sharing," : "",
        options->no_in_place ? "no-in-place," : "", options->two_submits ? "two-submits," : "",
        lookahead, options->schedule ? options->schedule : "");
    return text;
}

static void print_opened(const char *path, const sl_model *model) {
    const sl_model_info info = cli_model_info(model);
    char size[32];
    if (cli_is_verbose())
        cli_note("%s: %s, %s, %s, %u threads, %llu of %llu experts in memory, context of %u", path,
                 info.architecture, cli_bytes(info.file_bytes, size, sizeof size), info.device,
                 info.threads, (unsigned long long)info.slot_count,
                 (unsigned long long)info.expert_count, info.context_tokens);
    if (info.note) cli_note("%s", info.note);
}

bool cli_open_model(const cli_options *options, uint32_t context, sl_model **out) {
    char words[CLI_COMPILE_TEXT];
    const char *path = cli_model_path(options);
    const sl_model_options given = {
        .struct_size = sizeof given,
        .device = options->device,
        .threads = options->threads,
        .max_sessions = options->sessions,
        .isa = options->isa,
        .reader = options->reader,
        .context_tokens = options->context_given ? options->context : context,
        .compile = cli_compile_words(options, words),
        .pin_threads = options->pin,
        .deterministic = options->deterministic,
        .kv = options->kv,
        .progress = cli_progress,
        .expert_budget_bytes = options->budget.bytes,
        .expert_budget_share = options->budget.share,
        .device_budget_bytes = options->device_budget.bytes,
        .device_budget_share = options->device_budget.share,
    };
    sl_error err;
    if (!path) return false;
    const sl_status status = sl_model_open(path, &given, out, &err);
    cli_progress_end();
    if (status == SL_OK)
        print_opened(path, *out);
    else
        (void)cli_fail(&err);
    return status == SL_OK;
}

bool cli_open_session(sl_model *model, const cli_options *options, sl_session **out) {
    const sl_session_options given = {.struct_size = sizeof given, .chunk_tokens = options->chunk};
    sl_error err;
    if (sl_session_create(model, &given, out, &err) == SL_OK) return true;
    (void)cli_fail(&err);
    return false;
}

sl_model_info cli_model_info(const sl_model *model) {
    sl_model_info info = {.struct_size = sizeof info};
    if (sl_model_describe(model, &info, NULL) != SL_OK) info = (sl_model_info){0};
    return info;
}

sl_sampling cli_model_sampling(const sl_model *model) {
    sl_sampling sampling = {.struct_size = sizeof sampling};
    if (sl_model_sampling(model, &sampling, NULL) != SL_OK) sampling.temperature = 0;
    return sampling;
}

sl_stats cli_session_stats(const sl_session *session) {
    sl_stats stats = {.struct_size = sizeof stats};
    if (sl_session_stats(session, &stats, NULL) != SL_OK) stats = (sl_stats){0};
    return stats;
}

/* The sampling defaults of the model, overridden by the options. */
sl_sampling cli_sampling(const sl_model *model, const cli_options *options) {
    sl_sampling sampling = cli_model_sampling(model);
    if (options->temperature_given) sampling.temperature = options->temperature;
    if (options->top_k_given) sampling.top_k = options->top_k;
    if (options->top_p_given) sampling.top_p = options->top_p;
    if (options->min_p_given) sampling.min_p = options->min_p;
    sampling.seed = options->seed_given ? options->seed : cli_random_seed();
    return sampling;
}

size_t cli_next_piece(const sl_model *model, const cli_options *options, size_t left) {
    const size_t chunk = options->chunk ? options->chunk : cli_model_info(model).chunk_tokens;
    return left <= chunk + 1 ? left : chunk;
}
