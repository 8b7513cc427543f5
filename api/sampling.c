/* sampling.c - Samplers, log-probabilities and stop texts (sluice/sampling.h). */
#include "sluice/sampling.h"
#include "api/needs.h"
#include "base/structs.h"
#include "engine/choose/logprobs.h"
#include "engine/choose/sampler.h"
#include "engine/choose/stops.h"
#include "engine/session/model.h"
#include <string.h>

/* ---- options ---- */

sl_status sl_sampler_defaults(const sl_model *model, sl_sampler_options *out, sl_error *err) {
    SL_NEED(model && out);
    SL_TRY(SL_STRUCT_CHECK(sl_sampler_options, out, err));
    SL_STRUCT_GIVE(sl_sampler_options, out, &model->text.sampler);
    return SL_OK;
}

sl_status sl_sampler_set(sl_sampler_options *options, const char *name, const char *value,
                         sl_error *err) {
    SL_NEED(options && name && value);
    SL_TRY(SL_STRUCT_CHECK(sl_sampler_options, options, err));
    sl_sampler_options all = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_sampler_options, &all, options, err));
    SL_TRY(sl_option_set(&all, name, value, err));
    SL_STRUCT_GIVE(sl_sampler_options, options, &all);
    return SL_OK;
}

uint32_t sl_sampler_option_count(void) {
    return sl_option_rows();
}

sl_status sl_sampler_option_at(uint32_t index, sl_sampler_option *out, sl_error *err) {
    SL_NEED(out);
    SL_TRY(SL_STRUCT_CHECK(sl_sampler_option, out, err));
    if (index >= sl_option_rows())
        return sl_fail(err, SL_INVALID, "sampling option %u: there are %u", index,
                       sl_option_rows());
    const sl_sampler_option row = sl_option_row(index);
    SL_STRUCT_GIVE(sl_sampler_option, out, &row);
    return SL_OK;
}

/* ---- thoughts ---- */

/* Texts that begin and end a thought; forced: what ends it when its budget is used up. */
typedef struct {
    const char *start, *end, *forced;
} thought_texts;

static thought_texts thoughts_of(const sl_tokenizer *tokenizer, const sl_sampler_options *o) {
    static const thought_texts tagged = {"<think>", "</think>", "</think>"};
    static const thought_texts channels = {"<|channel|>analysis<|message|>", "<|end|>",
                                           "<|end|><|start|>assistant<|channel|>final<|message|>"};
    const bool has_channels = sl_tokenizer_find(tokenizer, "<|channel|>", 11) >= 0 &&
                              sl_tokenizer_find(tokenizer, "<|message|>", 11) >= 0;
    thought_texts texts = has_channels ? channels : tagged;
    if (o->thinking_start) texts.start = o->thinking_start;
    if (o->thinking_end) texts.end = texts.forced = o->thinking_end;
    return texts;
}

static sl_status tokens_of(const sl_tokenizer *tokenizer, const char *text, sl_arena *arena,
                           sl_token_list *out, sl_error *err) {
    const size_t bytes = strlen(text);
    size_t count;
    SL_TRY(sl_tokenizer_encode(tokenizer, text, bytes, NULL, 0, &count, err));
    if (count > UINT32_MAX) return sl_fail(err, SL_INVALID, "a text of %zu tokens", count);
    sl_token *tokens = SL_ARENA_NEW_ARRAY(arena, sl_token, count + 1);
    if (!tokens) return sl_no_memory(err, "tokens of a sampler", count);
    *out = (sl_token_list){tokens, (uint32_t)count};
    return sl_tokenizer_encode(tokenizer, text, bytes, tokens, count, &count, err);
}

static sl_status resolve_thoughts(const sl_model *model, const sl_sampler_options *o,
                                  sl_arena *arena, sl_choose_vocabulary *v, sl_error *err) {
    const sl_tokenizer *tokenizer = model->text.tokenizer;
    if (o->thinking_budget == 0 || o->thinking_budget == -1) return SL_OK;
    if (!tokenizer) return sl_fail(err, SL_UNSUPPORTED, "a thinking budget needs a tokenizer.json");
    const thought_texts texts = thoughts_of(tokenizer, o);
    const char *message = o->thinking_message ? o->thinking_message : "";
    const char *forced = sl_arena_format(arena, "%s%s", message, texts.forced);
    if (!forced) return sl_no_memory(err, "a sampler", 0);
    SL_TRY(tokens_of(tokenizer, texts.start, arena, &v->thought_start, err));
    SL_TRY(tokens_of(tokenizer, texts.end, arena, &v->thought_end, err));
    return tokens_of(tokenizer, forced, arena, &v->thought_forced, err);
}

/* ---- samplers ---- */

static const char *text_of(const void *ctx, sl_token token, size_t *out_bytes) {
    return sl_model_token_text(ctx, token, out_bytes);
}

sl_status sl_sampler_create(const sl_model *model, const sl_sampler_options *given,
                            sl_sampler **out, sl_error *err) {
    SL_NEED(model && out);
    sl_sampler_options options = model->text.sampler;
    if (given) {
        options = (sl_sampler_options){0};
        SL_TRY(SL_STRUCT_TAKE(sl_sampler_options, &options, given, err));
    }
    sl_choose_vocabulary vocabulary = {.size = model->config.vocab,
                                       .ends = {model->text.end_tokens, model->text.end_count},
                                       .text = text_of,
                                       .ctx = model};
    sl_arena scratch;
    sl_arena_init(&scratch, &model->allocator);
    sl_status status = resolve_thoughts(model, &options, &scratch, &vocabulary, err);
    if (status == SL_OK)
        status = sl_sampler_make(&vocabulary, &options, &model->allocator, out, err);
    sl_arena_deinit(&scratch);
    return status;
}

sl_status sl_sampler_fork(const sl_sampler *sampler, sl_sampler **out, sl_error *err) {
    SL_NEED(sampler && out);
    return sl_sampler_copy(sampler, out, err);
}

void sl_sampler_destroy(sl_sampler *sampler) {
    sl_sampler_free(sampler);
}

sl_status sl_sampler_begin(sl_sampler *sampler, const sl_token *tokens, size_t count,
                           sl_error *err) {
    SL_NEED(sampler && (tokens || !count));
    sl_history_rewind(&sampler->history, 0);
    return sl_sampler_append(sampler, tokens, count, false, err);
}

sl_status sl_sampler_accept(sl_sampler *sampler, const sl_token *tokens, size_t count,
                            sl_error *err) {
    SL_NEED(sampler && (tokens || !count));
    return sl_sampler_append(sampler, tokens, count, true, err);
}

sl_status sl_sampler_rewind(sl_sampler *sampler, size_t length, sl_error *err) {
    SL_NEED(sampler);
    if (length > sampler->history.length)
        return sl_fail(err, SL_INVALID, "cannot rewind to %zu tokens: the sampler has %zu", length,
                       sampler->history.length);
    sl_history_rewind(&sampler->history, length);
    return SL_OK;
}

size_t sl_sampler_length(const sl_sampler *sampler) {
    SL_NEED_OR(0, sampler);
    return sampler->history.length;
}

sl_status sl_sampler_choose(sl_sampler *sampler, const float *logits, size_t count,
                            const uint32_t *allowed, sl_token *out, sl_error *err) {
    SL_NEED(sampler && logits && out);
    if (count != sampler->plan->vocabulary.size)
        return sl_fail(err, SL_INVALID, "%zu logits, the vocabulary has %u", count,
                       sampler->plan->vocabulary.size);
    return sl_sampler_pick(sampler, logits, allowed, out, err);
}

sl_status sl_sampler_describe(const sl_sampler *sampler, sl_sampler_info *out, sl_error *err) {
    SL_NEED(sampler && out);
    SL_TRY(SL_STRUCT_CHECK(sl_sampler_info, out, err));
    sl_sampler_info info = sampler->info;
    info.bytes = sl_sampler_bytes(sampler);
    SL_STRUCT_GIVE(sl_sampler_info, out, &info);
    return SL_OK;
}

/* ---- log-probabilities ---- */

sl_status sl_logprobs_compute(const float *logits, size_t count, sl_token token, uint32_t top,
                              sl_logprob *out, sl_error *err) {
    SL_NEED(logits && out);
    if (count > INT32_MAX || token < 0 || (size_t)token >= count)
        return sl_fail(err, SL_INVALID, "log-probability of token %d of %zu logits", token, count);
    return sl_logprobs_find(logits, (uint32_t)count, token, top, out, err);
}

const sl_logprob *sl_sampler_logprobs(const sl_sampler *sampler, uint32_t *out_count) {
    SL_NEED_OR(NULL, sampler && out_count);
    *out_count = sampler->logprob_count;
    return sampler->logprob_count ? sampler->logprobs : NULL;
}

/* ---- stop texts ---- */

/* sl_stops is a matcher. */
static const sl_text_matcher *matcher_of(const sl_stops *stops) {
    return (const sl_text_matcher *)stops;
}

sl_status sl_stops_create(const char *const *texts, uint32_t count, sl_stops **out, sl_error *err) {
    SL_NEED((texts || !count) && out);
    sl_text_matcher *matcher;
    SL_TRY(sl_stop_texts_create(texts, count, NULL, &matcher, err));
    *out = (sl_stops *)matcher;
    return SL_OK;
}

void sl_stops_destroy(sl_stops *stops) {
    sl_text_matcher_destroy((sl_text_matcher *)stops);
}

size_t sl_stops_held_bytes(const sl_stops *stops) {
    SL_NEED_OR(0, stops);
    return matcher_of(stops)->deepest;
}

size_t sl_stops_push(const sl_stops *stops, sl_stop_stream *stream, const char *bytes, size_t count,
                     char *out) {
    SL_NEED_OR(0, stops && stream && (bytes || !count) && out);
    if (stream->node >= matcher_of(stops)->count) return 0;
    return sl_stop_texts_push(matcher_of(stops), stream, bytes, count, out);
}

size_t sl_stops_finish(const sl_stops *stops, sl_stop_stream *stream, char *out) {
    SL_NEED_OR(0, stops && stream && out);
    if (stream->node >= matcher_of(stops)->count) return 0;
    return sl_stop_texts_finish(matcher_of(stops), stream, out);
}
