/* stats.c - What a session did: sampling, speed, the expert cache, memory. */
#include "apps/cli/sampling.h"

static sl_stats stats_of(const cli_report *report) {
    sl_stats stats = cli_session_stats(report->session);
    stats.decode_tokens -= report->end_tokens;
    return stats;
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

const char *cli_sampling_text(const sl_sampling *s, char text[CLI_SAMPLING_TEXT]) {
    size_t length =
        (size_t)snprintf(text, CLI_SAMPLING_TEXT, s->temperature > 0 ? "temperature %g" : "greedy",
                         (double)s->temperature);
    if (s->temperature <= 0) return text;
    if (s->top_k)
        length +=
            (size_t)snprintf(text + length, CLI_SAMPLING_TEXT - length, ", top-k %u", s->top_k);
    if (s->top_p > 0)
        length += (size_t)snprintf(text + length, CLI_SAMPLING_TEXT - length, ", top-p %g",
                                   (double)s->top_p);
    if (s->min_p > 0)
        (void)snprintf(text + length, CLI_SAMPLING_TEXT - length, ", min-p %g", (double)s->min_p);
    return text;
}

json_t *cli_sampling_json(const sl_sampling *s) {
    return json_pack("{s:f, s:i, s:f, s:f}", "temperature", (double)s->temperature, "top_k",
                     (int)s->top_k, "top_p", (double)s->top_p, "min_p", (double)s->min_p);
}

static void print_sampling(FILE *to, const sl_sampling *sampling) {
    char text[CLI_SAMPLING_TEXT];
    (void)fprintf(to, "sampling: %s", cli_sampling_text(sampling, text));
    if (sampling->temperature > 0)
        (void)fprintf(to, ", seed %llu", (unsigned long long)sampling->seed);
}

/* Which tokens the host had to choose, and why. */
static void print_sampler(FILE *to, const cli_report *report) {
    char text[CLI_SAMPLERS_TEXT];
    sl_sampler_info info = {.struct_size = sizeof info};
    if (report->sampler_options) (void)fputs(cli_samplers_text(report->sampler_options, text), to);
    if (report->sampler && sl_sampler_describe(report->sampler, &info, NULL) == SL_OK &&
        info.host_choices)
        (void)fprintf(to, "; %llu tokens chosen by the host (%s) in %.1f ms",
                      (unsigned long long)info.host_choices,
                      info.host_reason ? info.host_reason : "min_tokens", info.host_seconds * 1e3);
    (void)fputc('\n', to);
}

/* A first read is no miss: no cache could have avoided it. */
static void print_experts(FILE *to, const sl_stats *s, const char *reader) {
    const uint64_t again = s->expert_misses - s->expert_first_reads;
    const uint64_t uses = s->expert_hits + again;
    char size[32];
    (void)fprintf(
        to,
        "experts: %llu hits, %llu misses (%.1f %% hits), %llu first reads; %s read by %s, "
        "stalled %.3f s\n",
        (unsigned long long)s->expert_hits, (unsigned long long)again,
        uses ? 100.0 * (double)s->expert_hits / (double)uses : 100.0,
        (unsigned long long)s->expert_first_reads, cli_bytes(s->bytes_read, size, sizeof size),
        reader, s->stall_seconds);
}

void cli_print_stats(FILE *to, const cli_report *report) {
    const sl_stats s = stats_of(report);
    const sl_model_info info = cli_model_info(report->model);
    char a[32], b[32], c[32], d[32];
    (void)fflush(stdout);
    if (report->sampling) {
        print_sampling(to, report->sampling);
        print_sampler(to, report);
    }
    print_first(to, &info, s.first_seconds);
    (void)fprintf(
        to, "prefill %llu tokens in %.3f s (%.1f tok/s), decode %llu in %.3f s (%.1f tok/s)\n",
        (unsigned long long)s.prefill_tokens, s.prefill_seconds,
        per_second(s.prefill_tokens, s.prefill_seconds), (unsigned long long)s.decode_tokens,
        s.decode_seconds, per_second(s.decode_tokens, s.decode_seconds));
    print_experts(to, &s, info.reader);
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

json_t *cli_stats_json(const cli_report *report) {
    const sl_stats s = stats_of(report);
    const sl_model_info info = cli_model_info(report->model);
    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:I, s:f, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:I, "
        "s:I, s:I}",
        "files_seconds", info.files_seconds, "memory_seconds", info.memory_seconds,
        "weights_seconds", info.weights_seconds, "text_seconds", info.text_seconds, "first_seconds",
        s.first_seconds, "prefill_tokens", (json_int_t)s.prefill_tokens, "prefill_seconds",
        s.prefill_seconds, "decode_tokens", (json_int_t)s.decode_tokens, "decode_seconds",
        s.decode_seconds, "expert_hits", (json_int_t)s.expert_hits, "expert_misses",
        (json_int_t)s.expert_misses, "bytes_read", (json_int_t)s.bytes_read, "read_seconds",
        s.read_seconds, "stall_seconds", s.stall_seconds, "resident_bytes",
        (json_int_t)info.resident_bytes, "budget_bytes", (json_int_t)info.budget_bytes,
        "state_bytes", (json_int_t)info.state_bytes, "workspace_bytes",
        (json_int_t)info.workspace_bytes, "expert_first_reads", (json_int_t)s.expert_first_reads);
}
