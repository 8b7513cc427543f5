#include "apps/cli/profile.h"
#include "apps/cli/inspect.h"

bool cli_profile_is_wanted(const cli_options *options) {
    return options->profile || options->trace;
}

int cli_profile_check(cli_command command, const cli_options *options) {
    if (!cli_profile_is_wanted(options) && (options->profile_labels || options->trace_steps_given))
        return cli_misuse(command, "%s has an effect with --profile or --trace only",
                          options->profile_labels ? "--profile-labels" : "--trace-steps");
    return CLI_OK;
}

sl_status cli_profile_start(const cli_options *options, sl_session *session, sl_error *err) {
    const sl_session_profile_options given = {
        .struct_size = sizeof given,
        .labels = options->profile_labels,
        .first_pass = options->trace_steps.first,
        .passes = options->trace_steps.end - options->trace_steps.first,
        .trace_path = options->trace,
    };
    return sl_session_profile_begin(session, &given, err);
}

bool cli_profile_print(const cli_options *options, sl_session *session) {
    sl_session_profile profile = {.struct_size = sizeof profile};
    sl_error err;
    char *text = NULL;
    sl_status status = sl_session_profile_end(session, &profile, &err);
    if (status == SL_OK && options->profile)
        status = sl_session_profile_text(&profile, &text, &err);
    if (text) (void)fputs(text, stderr);
    if (status != SL_OK) (void)cli_fail(&err);
    sl_free(text);
    sl_session_profile_deinit(&profile);
    return status == SL_OK;
}

json_t *cli_phase_json(const sl_session_phase *p) {
    json_t *layers = json_array();
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const sl_inspect_layer *l = &p->layers[i];
        cli_json_append(layers, json_pack("{s:i, s:f, s:f, s:I, s:I, s:f, s:f}", "layer",
                                          (int)l->layer, "seconds", l->seconds, "share", l->share,
                                          "reads", (json_int_t)l->reads, "bytes_read",
                                          (json_int_t)l->bytes_read, "read_seconds",
                                          l->read_seconds, "wait_seconds", l->wait_seconds));
    }
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:o, s:o, s:o}", "passes",
                     (json_int_t)p->passes, "tokens", (json_int_t)p->tokens, "seconds", p->seconds,
                     "compile_seconds", p->compile_seconds, "step_seconds", p->step_seconds,
                     "busy_share", p->busy_share, "reads", (json_int_t)p->reads, "bytes_read",
                     (json_int_t)p->bytes_read, "read_seconds", p->read_seconds, "wait_seconds",
                     p->wait_seconds, "ops", cli_rows_json(p->ops, p->op_count), "layers", layers,
                     "labels", cli_rows_json(p->labels, p->label_count));
}

json_t *cli_profile_json(sl_session *session) {
    sl_session_profile profile = {.struct_size = sizeof profile};
    sl_error err;
    if (sl_session_profile_end(session, &profile, &err) != SL_OK) {
        (void)cli_fail(&err);
        return NULL;
    }
    json_t *json =
        json_pack("{s:I, s:I, s:o, s:o}", "passes", (json_int_t)profile.passes, "events_dropped",
                  (json_int_t)profile.events_dropped, "prefill", cli_phase_json(profile.prefill),
                  "decode", cli_phase_json(profile.decode));
    sl_session_profile_deinit(&profile);
    return json;
}
