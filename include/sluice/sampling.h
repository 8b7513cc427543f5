/* sampling.h - Choosing tokens with more than a temperature: penalties, biases, constraints,
 * limits, and what belongs to it: log-probabilities and stop texts.  May still change.
 *
 *   sl_sampler_options options = {.struct_size = sizeof options};
 *   sl_sampler_defaults(model, &options, err);          // what the model was published with
 *   sl_sampler_set(&options, "repeat_penalty", "1.1", err);
 *   sl_sampler_create(model, &options, &sampler, err);
 *   sl_session_extend(session, prompt, count, err);
 *   sl_session_next_by(session, sampler, NULL, &token, err);   // as often as wanted
 *
 * docs/sampling.md has the formulas.  samplers.def is the table of the options. */
#ifndef SLUICE_SAMPLING_H
#define SLUICE_SAMPLING_H
#include "sluice/sluice.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- Options ---- */

typedef struct {
    sl_token token;
    float bias;  /* is added to its logit; -INFINITY: the token is impossible */
} sl_logit_bias; /* closed */

#define SL_SAMPLER_NONE INT32_MIN /* of a field where 0 means a default: no tokens */

/* Zeros mean what samplers.def says, and are not what a model recommends. */
typedef struct {
    size_t struct_size;
    float temperature, top_p, min_p; /* as in sl_sampling */
    uint32_t top_k;
    uint64_t seed;
    float dynatemp_range, dynatemp_exponent, typical_p, top_n_sigma;
    float repeat_penalty, presence_penalty, frequency_penalty;
    int32_t repeat_last_n;
    int penalty_prompt;
    float dry_multiplier, dry_base;
    uint32_t dry_allowed_length;
    int32_t dry_penalty_last_n;
    const char *const *dry_breakers; /* valid UTF-8; NULL: newline, colon, quote, asterisk */
    uint32_t dry_breaker_count;      /* with dry_breakers; 0: there are none */
    uint32_t mirostat;               /* 0, 1 or 2 */
    float mirostat_tau, mirostat_eta;
    float xtc_probability, xtc_threshold;
    const sl_logit_bias *logit_bias; /* of one token several add up */
    uint32_t logit_bias_count;
    uint32_t min_tokens; /* end tokens are impossible before so many tokens were accepted */
    int ignore_eos;
    const char *samplers; /* names, separated by ; or , */
    uint32_t logprobs;    /* of each choice, how many log-probabilities sl_sampler_logprobs has: the
                           * token's and logprobs - 1 most likely ones; 0: none */
    int32_t thinking_budget;
    /* Texts of tokens that begin and end a thought, and what is put in before the end when the
     * budget is used up.  NULL: those of the vocabulary, <think> or the channels of gpt-oss; no
     * message. */
    const char *thinking_start, *thinking_end, *thinking_message;
} sl_sampler_options;

/* Fills in all fields: those of generation_config.json or of the "general.sampling" keys of a GGUF
 * file, as sl_model_sampling, and penalties, mirostat and the like; elsewhere zero. */
SL_API SL_CHECKED sl_status sl_sampler_defaults(const sl_model *model, sl_sampler_options *out,
                                                sl_error *err);
/* Sets the option of this name or alias from text.  "samplers" borrows the text; lists cannot be
 * set in this way.  SL_INVALID: there is no such option, or the value is not in its range. */
SL_API SL_CHECKED sl_status sl_sampler_set(sl_sampler_options *options, const char *name,
                                           const char *value, sl_error *err);

/* A row of samplers.def. */
typedef struct {
    size_t struct_size;                                      /* set by the caller */
    const char *name, *aliases, *kind, *flag, *value, *help; /* constant; kind "list": of texts */
    double least, most, usual;
} sl_sampler_option;
SL_API uint32_t sl_sampler_option_count(void);
SL_API SL_CHECKED sl_status sl_sampler_option_at(uint32_t index, sl_sampler_option *out,
                                                 sl_error *err);

/* ---- Samplers ---- */

/* What chooses the tokens of one sequence: options, and the tokens so far.  A choice depends on the
 * logits, the options, the tokens and nothing else.  Used by one thread at a time. */
typedef struct sl_sampler sl_sampler;
/* The model is borrowed, options and their texts are copied. */
SL_API SL_CHECKED sl_status sl_sampler_create(const sl_model *model,
                                              const sl_sampler_options *options, sl_sampler **out,
                                              sl_error *err);
/* A copy that goes its own way from here. */
SL_API SL_CHECKED sl_status sl_sampler_fork(const sl_sampler *sampler, sl_sampler **out,
                                            sl_error *err);
SL_API void sl_sampler_destroy(sl_sampler *sampler); /* NULL is fine */

/* The sequence is these tokens, all of which are prompt. */
SL_API SL_CHECKED sl_status sl_sampler_begin(sl_sampler *sampler, const sl_token *tokens,
                                             size_t count, sl_error *err);
/* Appends tokens to the answer. */
SL_API SL_CHECKED sl_status sl_sampler_accept(sl_sampler *sampler, const sl_token *tokens,
                                              size_t count, sl_error *err);
/* Goes back to the first `length` tokens, and to the state after them. */
SL_API SL_CHECKED sl_status sl_sampler_rewind(sl_sampler *sampler, size_t length, sl_error *err);
SL_API size_t sl_sampler_length(const sl_sampler *sampler); /* tokens in the sequence */

/* Chooses the next token from logits[count], count being the model's vocabulary; the sequence stays
 * as it is.  allowed: bit i % 32 of word i / 32 is set if token i is possible; NULL: all are.
 * SL_FORMAT: no logit is a number; SL_INVALID: no token is possible. */
SL_API SL_CHECKED sl_status sl_sampler_choose(sl_sampler *sampler, const float *logits,
                                              size_t count, const uint32_t *allowed, sl_token *out,
                                              sl_error *err);

/* As sl_session_sample and sl_session_next, by a sampler.  It follows the session: tokens of the
 * session that it has not seen become prompt, and it goes back where the session was rewound.
 * sl_session_next_by also appends the token to its sequence.  Where only what sl_sampling has is
 * set, tokens are those of sl_session_next, and a GPU may choose them; else the host does. */
SL_API SL_CHECKED sl_status sl_session_sample_by(sl_session *session, sl_sampler *sampler,
                                                 const uint32_t *allowed, sl_token *out,
                                                 sl_error *err);
SL_API SL_CHECKED sl_status sl_session_next_by(sl_session *session, sl_sampler *sampler,
                                               const uint32_t *allowed, sl_token *out,
                                               sl_error *err);

typedef struct {
    size_t struct_size;      /* set by the caller */
    uint64_t plain_choices;  /* tokens chosen as by sl_session_next, by a GPU that can */
    uint64_t host_choices;   /* tokens that the host had to choose */
    uint64_t forced_tokens;  /* of the thinking budget */
    double host_seconds;     /* that host choices took */
    const char *host_reason; /* the first option that makes the host choose; NULL: none does */
    uint64_t bytes;          /* memory of the sampler */
} sl_sampler_info;
SL_API SL_CHECKED sl_status sl_sampler_describe(const sl_sampler *sampler, sl_sampler_info *out,
                                                sl_error *err);

/* ---- Log-probabilities ---- */

#define SL_LOGPROB_LEAST (-9999.0)
typedef struct {
    sl_token token;
    double logprob; /* natural; at least SL_LOGPROB_LEAST, which also stands for impossible */
} sl_logprob;       /* closed */
/* The log-probability of a token and those of the `top` most likely ones, from the softmax of the
 * logits in double precision: out[0] is the token, then top entries (fewer if the vocabulary has
 * fewer), likely first.  To score a prompt, give row i of sl_session_extend_all and token i + 1.  A
 * logit that is NaN or -infinity gives SL_LOGPROB_LEAST; SL_FORMAT: no logit is a number. */
SL_API SL_CHECKED sl_status sl_logprobs_compute(const float *logits, size_t count, sl_token token,
                                                uint32_t top, sl_logprob *out, sl_error *err);
/* Of the token that was chosen last: out_count entries, valid until the next choice. */
SL_API const sl_logprob *sl_sampler_logprobs(const sl_sampler *sampler, uint32_t *out_count);

/* ---- Stop texts ---- */

/* Finds the first of several texts in a stream of bytes, in time linear in the bytes. */
typedef struct sl_stops sl_stops; /* immutable: shared by threads */
/* Each is valid UTF-8 and not empty; 16384 bytes in all.  Copied. */
SL_API SL_CHECKED sl_status sl_stops_create(const char *const *texts, uint32_t count,
                                            sl_stops **out, sl_error *err);
SL_API void sl_stops_destroy(sl_stops *stops); /* NULL is fine */
/* The largest number of bytes that a stream holds back. */
SL_API size_t sl_stops_held_bytes(const sl_stops *stops);
/* A stream begins as zeros and may be copied. */
typedef struct {
    uint32_t node;
    uint32_t found; /* 0: none; else 1 + the index of the text that was found */
} sl_stop_stream;   /* closed */
/* Takes bytes and writes those to out that belong to no stop text and cannot begin one; out needs
 * room for count + sl_stops_held_bytes.  Returns how many it wrote.  Of texts that end first the
 * longest is found; it is not written, and what follows it is dropped. */
SL_API size_t sl_stops_push(const sl_stops *stops, sl_stop_stream *stream, const char *bytes,
                            size_t count, char *out);
/* Writes what was held back. */
SL_API size_t sl_stops_finish(const sl_stops *stops, sl_stop_stream *stream, char *out);

#ifdef __cplusplus
}
#endif
#endif
