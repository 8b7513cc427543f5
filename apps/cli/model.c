/* model.c - Opens models with the given options, and reports on them. */
#include "apps/cli/catalog.h"
#include "apps/cli/cli.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define BUNDLED_MODEL "models/fable"

/* The path of this program, also where /proc is not mounted. */
static bool find_program(char path[PATH_MAX]) {
    const char *started_as = (const char *)(uintptr_t)getauxval(AT_EXECFN);
    const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length <= 0) return started_as && realpath(started_as, path);
    path[length] = '\0';
    return true;
}

/* Relative to the program: in the build folder (build/sluice), or where it is installed.  NULL: it
 * is in neither place. */
const char *cli_bundled_model(void) {
    static char path[PATH_MAX + 64];
    static const char *const places[] = {"/../" BUNDLED_MODEL, "/../share/sluice/" BUNDLED_MODEL};
    char program[PATH_MAX];
    if (access(BUNDLED_MODEL, R_OK) == 0) return BUNDLED_MODEL;
    if (!find_program(program)) return NULL;
    *strrchr(program, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", program, places[i]);
        if (access(path, R_OK) == 0) return path;
    }
    return NULL;
}

/* A path, or the name of a model that `sluice list` shows.  NULL after a message. */
static const char *find_model(const char *name) {
    static char *found;
    static const char *found_for;
    if (name[0] == '/' || name[0] == '.' || access(name, F_OK) == 0) return name;
    if (found_for && strcmp(found_for, name) == 0) return found;
    free(found);
    found_for = NULL;
    if (!cli_catalog_resolve(name, &found)) return NULL;
    found_for = name;
    if (!found)
        (void)cli_fail_text("%s: there is no such file, and sluice list shows no such model", name);
    return found;
}

const char *cli_model_path(const cli_options *options) {
    const char *path = options->model ? find_model(options->model) : cli_bundled_model();
    if (options->model) return path;
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

bool cli_open_model(const cli_options *options, uint32_t context, sl_model **out) {
    char words[CLI_COMPILE_TEXT];
    if (options->kv_memory.share > 0)
        return cli_fail_text("--kv-memory: wanted a size such as 2GiB") == CLI_OK;
    const char *path = cli_model_path(options);
    const sl_model_options given = {
        .struct_size = sizeof given,
        .device = options->device,
        .threads = options->threads,
        .max_sessions = options->sessions,
        .prefix_cache_bytes = options->prefix_cache_bytes,
        .isa = options->isa,
        .reader = options->reader,
        .context_tokens = options->context_given ? options->context : context,
        .compile = cli_compile_words(options, words),
        .pin_threads = options->pin,
        .deterministic = options->deterministic,
        .kv = options->kv,
        .kv_bytes = options->kv_memory.bytes,
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
    if (status != SL_OK) return cli_fail(&err) == CLI_OK;
    cli_explain_model(options, path, context, *out);
    const sl_model_info info = cli_model_info(*out);
    if (info.note) cli_note("%s", info.note);
    return true;
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
