/* bench_json.c - The measurements as JSON. */
#include "apps/cli/bench.h"
#include "apps/cli/profile.h"
#include <string.h>

static json_t *rates_json(const double best_rates[2], const double medians[2]) {
    return json_pack("{s:[f, f], s:[f, f]}", "best", best_rates[0], best_rates[1], "median",
                     medians[0], medians[1]);
}

static json_t *machine_json(const bench_run *run) {
    const sl_floors *f = &run->floors;
    json_t *json =
        json_pack("{s:i, s:f, s:I, s:o, s:o, s:o}", "threads", (int)f->threads, "core_share",
                  f->core_share, "block_bytes", (json_int_t)f->block_bytes, "read_bytes_per_second",
                  rates_json(f->read_bytes_per_second, f->median_read_bytes_per_second),
                  "int8_operations_per_second",
                  rates_json(f->int8_operations_per_second, f->median_int8_operations_per_second),
                  "f32_operations_per_second",
                  rates_json(f->f32_operations_per_second, f->median_f32_operations_per_second));
    if (run->disk.reads_in_flight)
        (void)json_object_set_new(json, "disk",
                                  json_pack("{s:f, s:f, s:I, s:i}", "best_bytes_per_second",
                                            run->disk.read_bytes_per_second,
                                            "median_bytes_per_second",
                                            run->disk.median_read_bytes_per_second, "expert_bytes",
                                            (json_int_t)run->disk.expert_bytes, "reads_in_flight",
                                            (int)run->disk.reads_in_flight));
    return json;
}

static json_t *token_json(const bench_run *run) {
    const sl_token_cost *c = &run->cost;
    const double depth = bench_mean_depth(run);
    return json_pack(
        "{s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:f, s:I, s:b}", "weight_bytes",
        (json_int_t)c->weight_bytes, "recurrent_bytes", (json_int_t)c->recurrent_bytes,
        "kv_bytes_per_position", (json_int_t)c->kv_bytes_per_position, "kv_bytes",
        (double)c->kv_bytes_per_position * depth, "mean_depth", depth, "decode_operations",
        (json_int_t)c->decode_operations, "prefill_operations", (json_int_t)c->prefill_operations,
        "prefill_bytes", bench_prefill_bytes(run, &run->ways[0]), "operations_per_position",
        (json_int_t)c->operations_per_position, "int8_activations", c->int8_activations);
}

static json_t *phase_json(const bench_run *run, const bench_way *w, const bench_phase *p) {
    if (p->tokens == 0) return json_null();
    json_t *json = json_pack("{s:I, s:f, s:f, s:I, s:I, s:I, s:f}", "tokens", (json_int_t)p->tokens,
                             "best_tokens_per_second", bench_best(p), "median_tokens_per_second",
                             bench_median(p), "expert_hits", (json_int_t)p->hits, "expert_misses",
                             (json_int_t)p->misses, "bytes_read", (json_int_t)p->bytes_read,
                             "bytes_read_per_token", bench_bytes_per_token(p));
    if (p->device_runs)
        (void)json_object_set_new(json, "launch_seconds_per_step",
                                  json_real(p->launch_seconds / (double)p->device_runs));
    if (p->device_hits + p->device_misses)
        (void)json_object_set_new(json, "on_gpu",
                                  json_pack("{s:I, s:I, s:I}", "hits", (json_int_t)p->device_hits,
                                            "misses", (json_int_t)p->device_misses, "bytes_copied",
                                            (json_int_t)p->bytes_copied));
    if (!run->compares) {
        const bench_limits limits = bench_limits_of(run, w, p);
        (void)json_object_set_new(json, "limit_tokens_per_second", json_real(limits.machine));
        (void)json_object_set_new(json, "limit_share",
                                  json_real(bench_share_of(p, limits.machine)));
        if (limits.disk > 0) {
            (void)json_object_set_new(json, "disk_tokens_per_second", json_real(limits.disk));
            (void)json_object_set_new(json, "disk_share",
                                      json_real(bench_share_of(p, limits.disk)));
        }
    }
    const sl_session_profile *profile = &w->profile;
    if (profile->memory && w->options.profile)
        cli_json_set(json, "profile",
                     cli_phase_json(p == &w->decode ? profile->decode : profile->prefill));
    return json;
}

static json_t *split_json(const bench_way *w) {
    const sl_stats s = cli_session_stats(w->session);
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "programs",
                     (json_int_t)s.programs_compiled, "seconds", s.compile_seconds, "build_seconds",
                     s.build_seconds, "fuse_seconds", s.fuse_seconds, "lower_seconds",
                     s.lower_seconds, "schedule_seconds", s.schedule_seconds, "plan_seconds",
                     s.plan_seconds, "load_seconds", s.load_seconds);
}

static json_t *way_json(const bench_run *run, const bench_way *w) {
    return json_pack("{s:i, s:s, s:o, s:o, s:o}", "threads", (int)cli_model_info(w->model).threads,
                     "options", w->compile, "compile", split_json(w), "prefill",
                     phase_json(run, w, &w->prefill), "decode", phase_json(run, w, &w->decode));
}

int bench_print_json(const bench_run *run) {
    const sl_model_info info = cli_model_info(run->ways[0].model);
    json_t *ways = json_array();
    for (int i = 0; i < run->count; i++)
        (void)json_array_append_new(ways, way_json(run, &run->ways[i]));
    json_t *json = json_pack(
        "{s:o, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:i, s:o, s:o}", "model",
        cli_json_text(run->path, strlen(run->path)), "file_bytes", (json_int_t)info.file_bytes,
        "parameters", (json_int_t)info.parameters, "version", sl_version(), "architecture",
        info.architecture, "expert_dtype", info.expert_dtype, "device", info.device, "isa",
        info.isa, "slot_count", (json_int_t)info.slot_count, "expert_count",
        (json_int_t)info.expert_count, "repeats", (int)run->ways[0].decode.repeats, "token",
        token_json(run), "runs", ways);
    if (run->gpu.copy_bytes_per_second > 0)
        (void)json_object_set_new(
            json, "gpu",
            json_pack("{s:s, s:f, s:f, s:f}", "name", info.device_name, "copy_bytes_per_second",
                      run->gpu.copy_bytes_per_second, "bf16_operations_per_second",
                      run->gpu.bf16_operations_per_second, "host_bytes_per_second",
                      run->gpu.host_bytes_per_second));
    else if (!run->compares)
        (void)json_object_set_new(json, "machine", machine_json(run));
    return cli_print_json(json);
}
