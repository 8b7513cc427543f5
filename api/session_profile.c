/* session_profile.c - Recording the forward passes of a session (sluice/inspect.h). */
#include "api/inspect_options.h"
#include "api/needs.h"
#include "base/structs.h"
#include "engine/inspect/page.h"
#include "engine/inspect/watch.h"
#include <stdio.h>

static sl_status start(sl_session *session, const sl_session_profile_options *options,
                       sl_error *err) {
    sl_watcher *watcher;
    if (!session->model->device)
        return sl_fail(err, SL_UNSUPPORTED,
                       "only a session on a device can be recorded, not on ref");
    if (sl_watcher_of(session))
        return sl_fail(err, SL_INVALID, "the session is being recorded already");
    SL_TRY(sl_session_drain(session, err));
    return sl_watcher_create(session, options, &watcher, err);
}

sl_status sl_session_profile_begin(sl_session *session, const sl_session_profile_options *given,
                                   sl_error *err) {
    SL_NEED(session);
    sl_session_profile_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_session_profile_options, &options, given, err));
    (void)pthread_mutex_lock(&session->model->lock);
    const sl_status status = start(session, &options, err);
    (void)pthread_mutex_unlock(&session->model->lock);
    return status;
}

sl_status sl_session_profile_end(sl_session *session, sl_session_profile *out, sl_error *err) {
    SL_NEED(session);
    sl_session_profile profile = {0};
    if (out) SL_TRY(SL_STRUCT_CHECK(sl_session_profile, out, err));
    if (out && out->struct_size < 2 * sizeof(void *))
        return sl_fail(err, SL_INVALID, "sl_session_profile: struct_size is %zu, wanted %zu",
                       out->struct_size, sizeof *out);
    (void)pthread_mutex_lock(&session->model->lock);
    sl_watcher *watcher = sl_watcher_of(session);
    const sl_status status = watcher
                                 ? sl_watcher_finish(watcher, out ? &profile : NULL, err)
                                 : sl_fail(err, SL_INVALID, "the session is not being recorded");
    (void)pthread_mutex_unlock(&session->model->lock);
    if (status != SL_OK || !out) return status;
    SL_STRUCT_GIVE(sl_session_profile, out, &profile);
    return SL_OK;
}

void sl_session_profile_deinit(sl_session_profile *profile) {
    if (!profile || !profile->memory) return;
    sl_arena arena = *(sl_arena *)profile->memory;
    sl_arena_deinit(&arena);
    profile->memory = NULL;
}

/* ---- text ---- */

static void print_layers(FILE *to, const sl_session_phase *p) {
    char size[SL_BYTES_TEXT];
    if (!p->layer_count) return;
    (void)fprintf(to, "\n%-12s %12s %7s %8s %10s %12s %12s\n", "layer", "us", "share", "reads",
                  "bytes", "read us", "waited us");
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const sl_inspect_layer *l = &p->layers[i];
        (void)fprintf(to, "%-12u %12.1f %6.1f%% %8llu %10s %12.1f %12.1f\n", l->layer,
                      l->seconds * 1e6, l->share * 100, (unsigned long long)l->reads,
                      sl_bytes_text(l->bytes_read, size), l->read_seconds * 1e6,
                      l->wait_seconds * 1e6);
    }
}

static void print_phase(FILE *to, const char *name, const sl_session_phase *p) {
    char size[SL_BYTES_TEXT];
    if (!p->passes) return;
    (void)fprintf(to,
                  "%-10s %llu forward passes over %llu tokens in %.3f ms, threads busy %.0f %%; "
                  "compiled in %.3f ms\n",
                  name, (unsigned long long)p->passes, (unsigned long long)p->tokens,
                  p->seconds * 1e3, p->busy_share * 100, p->compile_seconds * 1e3);
    (void)fprintf(to, "%-10s %llu experts, %s, in %.3f ms of reads; waited %.3f ms\n", "read",
                  (unsigned long long)p->reads, sl_bytes_text(p->bytes_read, size),
                  p->read_seconds * 1e3, p->wait_seconds * 1e3);
    sl_inspect_print_rows(to, "op", p->ops, p->op_count);
    print_layers(to, p);
    sl_inspect_print_rows(to, "label", p->labels, p->label_count);
}

static void print(FILE *to, const void *what) {
    const sl_session_profile *profile = what;
    print_phase(to, "prefill", profile->prefill);
    if (profile->prefill->passes && profile->decode->passes) (void)fputc('\n', to);
    print_phase(to, "decode", profile->decode);
    if (!profile->prefill->passes && !profile->decode->passes)
        (void)fprintf(to, "no forward pass was recorded, of %llu\n",
                      (unsigned long long)profile->passes);
    if (profile->events_dropped)
        (void)fprintf(to, "%llu events are missing: there was no room for them\n",
                      (unsigned long long)profile->events_dropped);
}

sl_status sl_session_profile_text(const sl_session_profile *profile, char **out_text,
                                  sl_error *err) {
    SL_NEED(profile && profile->prefill && profile->decode && out_text);
    return sl_inspect_print_text(print, profile, out_text, err);
}
