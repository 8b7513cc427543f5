/* stats.c - What the server has done, as JSON and for Prometheus. */
#include "apps/server/server.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sl_expert_totals totals_of(const server *s) {
    sl_expert_totals totals = {.struct_size = sizeof totals};
    if (sl_model_expert_uses(s->model.model, NULL, 0, &totals, NULL) != SL_OK)
        return (sl_expert_totals){.struct_size = sizeof totals};
    return totals;
}

static json_t *experts_json(const server *s) {
    const sl_expert_totals t = totals_of(s);
    const sl_model_info *info = &s->model.info;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "layers",
                     (json_int_t)t.layers, "experts", (json_int_t)t.experts, "slots",
                     (json_int_t)info->slot_count, "budget_bytes", (json_int_t)info->budget_bytes,
                     "total_bytes", (json_int_t)info->expert_bytes, "hits", (json_int_t)t.hits,
                     "misses", (json_int_t)t.misses, "first_reads", (json_int_t)t.first_reads,
                     "bytes_read", (json_int_t)t.bytes_read, "read_seconds", t.read_seconds,
                     "stall_seconds", t.stall_seconds);
}

static json_t *memory_json(const server *s) {
    sl_memory_use m = {.struct_size = sizeof m};
    if (sl_model_memory(s->model.model, &m, NULL) != SL_OK) return json_object();
    const struct {
        const char *name;
        uint64_t bytes;
    } rows[] = {{"weights", m.weight_bytes},   {"experts", m.expert_bytes},
                {"state", m.state_bytes},      {"checkpoints", m.checkpoint_bytes},
                {"sessions", m.session_bytes}, {"workspace", m.workspace_bytes},
                {"programs", m.program_bytes}, {"text", m.text_bytes},
                {"files", m.file_bytes},       {"loading", m.loading_bytes},
                {"process", m.process_bytes},  {"prefixes", m.prefix_bytes},
                {"promised", m.promised_bytes}};
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        (void)json_object_set_new(object, rows[i].name, json_integer((json_int_t)rows[i].bytes));
    return object;
}

bool server_handle_stats(server_exchange *x, server_reply *reply, server_error *err) {
    const server *s = x->server;
    server_engine_stats e;
    if (!server_exchange_look(x, err)) return false;
    server_engine_describe(s->engine, &e);
    json_t *requests = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "live", (json_int_t)e.live,
                                 "queued", (json_int_t)e.queued, "finished", (json_int_t)e.finished,
                                 "cancelled", (json_int_t)e.cancelled, "failed",
                                 (json_int_t)e.failed, "refused", (json_int_t)e.refused);
    json_t *tokens =
        json_pack("{s:I, s:I, s:I}", "prompt", (json_int_t)e.prompt_tokens, "reused",
                  (json_int_t)e.reused_tokens, "generated", (json_int_t)e.generated_tokens);
    json_t *rates = json_pack("{s:f, s:f}", "generated_per_second", e.generated_per_second,
                              "prefilled_per_second", e.prefilled_per_second);
    json_t *prefix = json_pack("{s:I, s:I, s:I, s:s}", "queries", (json_int_t)e.queries, "tokens",
                               (json_int_t)e.prompt_tokens, "reused", (json_int_t)e.reused_tokens,
                               "last_text", e.last_reuse);
    reply->json = json_pack("{s:s, s:f, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "model",
                            s->model.id, "uptime_seconds", server_seconds() - s->started, "version",
                            sl_version(), "requests", requests, "tokens", tokens, "rates", rates,
                            "experts", experts_json(s), "memory", memory_json(s), "prefix", prefix,
                            "context_tokens", (json_int_t)s->model.info.context_tokens, "sessions",
                            (json_int_t)s->options.sessions);
    return true;
}

bool server_handle_stats_experts(server_exchange *x, server_reply *reply, server_error *err) {
    const server *s = x->server;
    if (!server_exchange_look(x, err)) return false;
    sl_expert_totals totals = totals_of(s);
    const size_t count = (size_t)totals.layers * totals.experts;
    sl_expert_use *uses = calloc(count + 1, sizeof *uses);
    sl_error cause;
    if (!uses) return server_refuse(err, 500, NULL, "no memory for the experts");
    const sl_status status = sl_model_expert_uses(s->model.model, uses, count, &totals, &cause);
    json_t *used = json_array(), *missed = json_array(), *present = json_array();
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(used, json_integer(uses[i].uses));
        (void)json_array_append_new(missed, json_integer(uses[i].misses));
        (void)json_array_append_new(present, json_integer(uses[i].in_memory));
    }
    free(uses);
    reply->json =
        json_pack("{s:i, s:i, s:o, s:o, s:o}", "layers", (int)totals.layers, "experts",
                  (int)totals.experts, "uses", used, "misses", missed, "in_memory", present);
    return status == SL_OK || server_refuse_status(err, &cause, NULL);
}

/* ---- Prometheus ---- */

typedef struct {
    const char *name, *kind, *help;
    double value;
} metric;

static uint64_t resident_bytes(void) {
    unsigned long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%llu %llu", &pages, &resident) != 2) resident = 0;
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool server_handle_metrics(server_exchange *x, server_reply *reply, server_error *err) {
    const server *s = x->server;
    if (!server_exchange_look(x, err)) return false;
    const sl_expert_totals t = totals_of(s);
    server_engine_stats e;
    server_text text = {0};
    server_engine_describe(s->engine, &e);
    const metric rows[] = {
        {"requests_live", "gauge", "Requests that are computed", e.live},
        {"requests_queued", "gauge", "Requests that wait", e.queued},
        {"requests_finished_total", "counter", "Requests that ended by themselves",
         (double)e.finished},
        {"requests_cancelled_total", "counter", "Requests whose clients went away",
         (double)e.cancelled},
        {"requests_failed_total", "counter", "Requests that failed", (double)e.failed},
        {"requests_refused_total", "counter", "Requests that found the queue full",
         (double)e.refused},
        {"prompt_tokens_total", "counter", "Tokens of prompts", (double)e.prompt_tokens},
        {"prompt_tokens_cached_total", "counter", "Tokens of prompts that were reused",
         (double)e.reused_tokens},
        {"generated_tokens_total", "counter", "Tokens that were generated",
         (double)e.generated_tokens},
        {"generated_tokens_per_second", "gauge", "Over the last seconds", e.generated_per_second},
        {"prompt_tokens_per_second", "gauge", "Over the last seconds", e.prefilled_per_second},
        {"steps_total", "counter", "Forward passes of the scheduler", (double)e.scheduler.steps},
        {"step_seconds_total", "counter", "Time of all steps", e.scheduler.seconds},
        {"expert_hits_total", "counter", "Experts that were in memory", (double)t.hits},
        {"expert_misses_total", "counter", "Experts that had to be read", (double)t.misses},
        {"expert_bytes_read_total", "counter", "Bytes of experts read", (double)t.bytes_read},
        {"expert_read_seconds_total", "counter", "Time of reads, which overlap", t.read_seconds},
        {"expert_stall_seconds_total", "counter", "Time spent only waiting for reads",
         t.stall_seconds},
        {"expert_budget_bytes", "gauge", "Memory for experts", (double)s->model.info.budget_bytes},
        {"resident_memory_bytes", "gauge", "Resident memory of the process",
         (double)resident_bytes()},
        {"uptime_seconds", "gauge", "Time since the start", server_seconds() - s->started},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        server_text_print(&text, "# HELP sluice_%s %s\n# TYPE sluice_%s %s\nsluice_%s %.15g\n",
                          rows[i].name, rows[i].help, rows[i].name, rows[i].kind, rows[i].name,
                          rows[i].value);
    if (text.failed) return server_refuse(err, 500, NULL, "no memory for the metrics");
    *reply = (server_reply){
        .text = text.bytes, .bytes = text.length, .type = "text/plain; version=0.0.4"};
    return true;
}
