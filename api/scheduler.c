/* scheduler.c - Schedulers and their tickets (sluice/batch.h): checks what it is given. */
#include "engine/session/scheduler.h"
#include "api/needs.h"
#include "api/sampling.h"
#include "base/structs.h"
#include <string.h>

static const sl_grammar_calls grammars = {.mask = sl_grammar_state_mask,
                                          .accept = sl_grammar_state_accept,
                                          .rollback = sl_grammar_state_rollback,
                                          .forced = sl_grammar_state_forced,
                                          .ended = sl_grammar_state_ended};

sl_status sl_scheduler_create(sl_model *model, const sl_scheduler_options *given,
                              sl_scheduler **out, sl_error *err) {
    SL_NEED(model && out);
    sl_scheduler_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_scheduler_options, &options, given, err));
    return sl_scheduler_make(model, &options, &grammars, out, err);
}

void sl_scheduler_destroy(sl_scheduler *scheduler) {
    if (scheduler) sl_scheduler_release(scheduler);
}

/* Only a sampler knows masks. */
static sl_status make_sampler(const sl_model *model, const sl_sampling *sampling, sl_sampler **out,
                              sl_error *err) {
    const sl_sampler_options options = {.struct_size = sizeof options,
                                        .temperature = sampling->temperature,
                                        .top_k = sampling->top_k,
                                        .top_p = sampling->top_p,
                                        .min_p = sampling->min_p,
                                        .seed = sampling->seed};
    return sl_sampler_create(model, &options, out, err);
}

sl_status sl_scheduler_submit(sl_scheduler *scheduler, const sl_request *given, sl_ticket **out,
                              sl_error *err) {
    SL_NEED(scheduler && given && out);
    sl_request request = {0};
    sl_sampling sampling = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_request, &request, given, err));
    SL_NEED(request.session);
    SL_NEED(request.prompt || !request.prompt_count);
    SL_NEED(request.stops || !request.stop_count);
    if (request.sampling) SL_TRY(sl_sampling_take(request.sampling, &sampling, err));
    sl_sampler *sampler = NULL;
    if (request.grammar && !request.sampler)
        SL_TRY(make_sampler(scheduler->model, &sampling, &sampler, err));
    const sl_status status = sl_scheduler_queue(scheduler, &request, &sampling, sampler, out, err);
    if (status != SL_OK) sl_sampler_destroy(sampler);
    return status;
}

sl_status sl_scheduler_step(sl_scheduler *scheduler, uint32_t *out_left, sl_error *err) {
    SL_NEED(scheduler);
    return sl_scheduler_advance(scheduler, out_left, err);
}

sl_status sl_scheduler_describe(sl_scheduler *scheduler, sl_scheduler_stats *out, sl_error *err) {
    SL_NEED(scheduler && out);
    SL_TRY(SL_STRUCT_CHECK(sl_scheduler_stats, out, err));
    (void)pthread_mutex_lock(&scheduler->lock);
    sl_scheduler_stats stats = scheduler->stats;
    stats.live = scheduler->live_count;
    stats.queued = scheduler->queued;
    (void)pthread_mutex_unlock(&scheduler->lock);
    SL_STRUCT_GIVE(sl_scheduler_stats, out, &stats);
    return SL_OK;
}

sl_status sl_ticket_look(const sl_ticket *ticket, sl_ticket_state *out, sl_error *err) {
    SL_NEED(ticket && out);
    SL_TRY(SL_STRUCT_CHECK(sl_ticket_state, out, err));
    sl_ticket_state state = {0};
    (void)pthread_mutex_lock(&ticket->scheduler->lock);
    state.phase = sl_scheduler_phase(ticket);
    state.end = state.phase == SL_TICKET_ENDED ? ticket->end : SL_END_NONE;
    state.place = sl_scheduler_place(ticket);
    state.tokens = ticket->count;
    state.prompt_tokens = ticket->request.prompt_count;
    state.prompt_done = ticket->done;
    state.reused = ticket->reuse.reused;
    (void)pthread_mutex_unlock(&ticket->scheduler->lock);
    SL_STRUCT_GIVE(sl_ticket_state, out, &state);
    return SL_OK;
}

size_t sl_ticket_tokens(const sl_ticket *ticket, size_t first, sl_token *tokens, size_t capacity) {
    SL_NEED_OR(0, ticket && (tokens || !capacity));
    (void)pthread_mutex_lock(&ticket->scheduler->lock);
    const size_t left = first < ticket->count ? ticket->count - first : 0;
    const size_t count = left < capacity ? left : capacity;
    if (count) memcpy(tokens, ticket->tokens + first, count * sizeof *tokens);
    (void)pthread_mutex_unlock(&ticket->scheduler->lock);
    return count;
}

sl_status sl_ticket_status(const sl_ticket *ticket, sl_error *err) {
    SL_NEED(ticket);
    (void)pthread_mutex_lock(&ticket->scheduler->lock);
    const sl_error error = ticket->error;
    (void)pthread_mutex_unlock(&ticket->scheduler->lock);
    if (error.status != SL_OK && err) *err = error;
    return error.status;
}

sl_status sl_ticket_reuse(const sl_ticket *ticket, sl_sync_report *out, sl_error *err) {
    SL_NEED(ticket && out);
    SL_TRY(SL_STRUCT_CHECK(sl_sync_report, out, err));
    (void)pthread_mutex_lock(&ticket->scheduler->lock);
    const bool known = ticket->request.whole && ticket->has_begun;
    const sl_reuse reuse = ticket->reuse;
    (void)pthread_mutex_unlock(&ticket->scheduler->lock);
    if (!known)
        return sl_fail(err, SL_INVALID, "what the prompt reuses: %s",
                       ticket->request.whole ? "it has not begun" : "it is no whole conversation");
    sl_sync_report report = {0};
    sl_reuse_describe(&reuse, ticket->request.prompt_count, &report);
    SL_STRUCT_GIVE(sl_sync_report, out, &report);
    return SL_OK;
}

void sl_ticket_constrain(sl_ticket *ticket) {
    if (ticket) atomic_store(&ticket->grammar.holds, true);
}

void sl_ticket_cancel(sl_ticket *ticket) {
    if (ticket) atomic_store(&ticket->cancels, true);
}

void sl_ticket_release(sl_ticket *ticket) {
    if (ticket) sl_scheduler_drop(ticket);
}
