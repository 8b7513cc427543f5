/* model.c - Opens models with the given options, and reports on them. */
#include "apps/cli/cli.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_MODEL "models/fable"

/* Relative to the program: in the build folder (build/sluice), or where it is installed. */
static const char *default_model(void) {
    static char path[PATH_MAX + 64];
    static const char *const places[] = {"/../" DEFAULT_MODEL, "/../share/sluice/" DEFAULT_MODEL};
    char program[PATH_MAX];
    if (access(DEFAULT_MODEL, R_OK) == 0) return DEFAULT_MODEL;
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) return DEFAULT_MODEL;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", program, places[i]);
        if (access(path, R_OK) == 0) return path;
    }
    return DEFAULT_MODEL;
}

const char *cli_model_path(const cli_options *options) {
    return options->model ? options->model : default_model();
}

/* "25%" is a share of all experts, anything else a size. */
static bool read_budget(const char *text, uint64_t *bytes, double *share) {
    char *end;
    const double value = strtod(text, &end);
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1},         {"K", 1024.0},   {"KiB", 1024.0}, {"KB", 1e3},     {"M", 0x1p20},
                 {"MiB", 0x1p20}, {"MB", 1e6},     {"G", 0x1p30},   {"GiB", 0x1p30}, {"GB", 1e9},
                 {"T", 0x1p40},   {"TiB", 0x1p40}, {"TB", 1e12}};
    if (end == text || !(value > 0) || value > 1e15) return false;
    if (strcmp(end, "%") == 0) {
        *share = value / 100;
        return value <= 100;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].unit) == 0) {
            *bytes = (uint64_t)(value * units[i].bytes);
            return true;
        }
    return false;
}

/* False, with a message, if the budget is invalid; no budget is allowed. */
static bool take_budget(const char *option, const char *text, uint64_t *bytes, double *share) {
    if (!text || read_budget(text, bytes, share)) return true;
    (void)cli_fail_text("--%s '%s': expected a size (1500000000, 1.5GB, 2GiB) or a share (25%%)",
                        option, text);
    return false;
}

const char *cli_compile_words(const cli_options *options, char text[CLI_COMPILE_TEXT]) {
    (void)snprintf(
        text, CLI_COMPILE_TEXT, "%s%s%s%s%s%s%s%s", options->exact ? "exact," : "",
        options->launch ? options->launch : "", options->launch ? "," : "",
        options->no_simplify ? "no-simplify," : "", options->no_fusion ? "no-fusion," : "",
        options->no_reorder ? "no-reordering," : "", options->no_sharing ? "no-sharing," : "",
        options->schedule ? options->schedule : "");
    return text;
}

bool cli_open_model(const cli_options *options, uint32_t context, sl_model **out) {
    char words[CLI_COMPILE_TEXT];
    sl_model_options given = {
        .struct_size = sizeof given,
        .device = options->device,
        .threads = options->threads,
        .isa = options->isa,
        .reader = options->reader,
        .context_tokens = options->context_given ? options->context : context,
        .compile = cli_compile_words(options, words),
        .pin_threads = options->pin,
        .kv = options->kv,
        .progress = cli_progress,
    };
    if (!take_budget("budget", options->budget, &given.expert_budget_bytes,
                     &given.expert_budget_share) ||
        !take_budget("device-budget", options->device_budget, &given.device_budget_bytes,
                     &given.device_budget_share))
        return false;
    sl_error err;
    const sl_status status = sl_model_open(cli_model_path(options), &given, out, &err);
    cli_progress_end();
    if (status != SL_OK) {
        (void)cli_fail(&err);
        return false;
    }
    const char *note = sl_model_describe(*out).note;
    if (note) (void)fprintf(stderr, "note: %s\n", note);
    return true;
}

bool cli_open_session(sl_model *model, const cli_options *options, sl_session **out) {
    const sl_session_options given = {.struct_size = sizeof given, .chunk_tokens = options->chunk};
    sl_error err;
    if (sl_session_create(model, &given, out, &err) == SL_OK) return true;
    (void)cli_fail(&err);
    return false;
}

/* The sampling defaults of the model, overridden by the options. */
sl_sampling cli_sampling(const sl_model *model, const cli_options *options) {
    sl_sampling sampling = sl_model_sampling(model);
    if (options->temperature_given) sampling.temperature = options->temperature;
    if (options->top_k_given) sampling.top_k = options->top_k;
    if (options->top_p_given) sampling.top_p = options->top_p;
    if (options->min_p_given) sampling.min_p = options->min_p;
    sampling.seed = options->seed_given ? options->seed : (uint64_t)time(NULL);
    return sampling;
}

static double per_second(uint64_t count, double seconds) {
    return seconds > 0 ? (double)count / seconds : 0;
}

/* What was done before the first token. */
static void print_first(FILE *to, const sl_model_info *i, double prompt_seconds) {
    const double opening =
        i->files_seconds + i->memory_seconds + i->weights_seconds + i->text_seconds;
    char size[32];
    (void)fprintf(to,
                  "first token after %.2f s: files %.2f, memory %.2f, resident weights %.2f (%s), "
                  "text %.2f, prompt %.2f\n",
                  opening + prompt_seconds, i->files_seconds, i->memory_seconds, i->weights_seconds,
                  cli_bytes(i->resident_bytes, size, sizeof size), i->text_seconds, prompt_seconds);
}

void cli_print_stats(FILE *to, const sl_model *model, const sl_session *session) {
    const sl_stats s = sl_session_stats(session);
    const sl_model_info info = sl_model_describe(model);
    char a[32], b[32], c[32], d[32];
    print_first(to, &info, s.first_seconds);
    (void)fprintf(
        to, "prefill %llu tokens in %.3f s (%.1f tok/s), decode %llu in %.3f s (%.1f tok/s)\n",
        (unsigned long long)s.prefill_tokens, s.prefill_seconds,
        per_second(s.prefill_tokens, s.prefill_seconds), (unsigned long long)s.decode_tokens,
        s.decode_seconds, per_second(s.decode_tokens, s.decode_seconds));
    const uint64_t uses = s.expert_hits + s.expert_misses;
    (void)fprintf(to,
                  "experts: %llu hits, %llu misses (%.1f %% hits), %s read by %s, stalled %.3f s\n",
                  (unsigned long long)s.expert_hits, (unsigned long long)s.expert_misses,
                  uses ? 100.0 * (double)s.expert_hits / (double)uses : 0.0,
                  cli_bytes(s.bytes_read, a, sizeof a), info.reader, s.stall_seconds);
    (void)fprintf(
        to,
        "memory: %s resident weights, %s of expert slots (%llu of %llu experts), %s state, "
        "%s workspace\n",
        cli_bytes(info.resident_bytes, a, sizeof a), cli_bytes(info.budget_bytes, b, sizeof b),
        (unsigned long long)info.slot_count, (unsigned long long)info.expert_count,
        cli_bytes(info.state_bytes, c, sizeof c), cli_bytes(info.workspace_bytes, d, sizeof d));
    (void)fprintf(to, "compute: %u threads, %s, %llu programs compiled in %.1f ms\n", info.threads,
                  info.isa, (unsigned long long)s.programs_compiled, s.compile_seconds * 1e3);
}

json_t *cli_stats_json(const sl_model *model, const sl_session *session) {
    const sl_stats s = sl_session_stats(session);
    const sl_model_info info = sl_model_describe(model);
    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:I, s:f, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:I, "
        "s:I}",
        "files_seconds", info.files_seconds, "memory_seconds", info.memory_seconds,
        "weights_seconds", info.weights_seconds, "text_seconds", info.text_seconds, "first_seconds",
        s.first_seconds, "prefill_tokens", (json_int_t)s.prefill_tokens, "prefill_seconds",
        s.prefill_seconds, "decode_tokens", (json_int_t)s.decode_tokens, "decode_seconds",
        s.decode_seconds, "expert_hits", (json_int_t)s.expert_hits, "expert_misses",
        (json_int_t)s.expert_misses, "bytes_read", (json_int_t)s.bytes_read, "read_seconds",
        s.read_seconds, "stall_seconds", s.stall_seconds, "resident_bytes",
        (json_int_t)info.resident_bytes, "budget_bytes", (json_int_t)info.budget_bytes,
        "state_bytes", (json_int_t)info.state_bytes, "workspace_bytes",
        (json_int_t)info.workspace_bytes);
}

size_t cli_next_piece(const sl_model *model, const cli_options *options, size_t left) {
    const size_t chunk = options->chunk ? options->chunk : sl_model_describe(model).chunk_tokens;
    return left <= chunk + 1 ? left : chunk;
}
