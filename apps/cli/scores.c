#include "apps/cli/scores.h"
#include <stdlib.h>
#include <string.h>

/* Bounds the memory for logits; a multiple of 64, so that the bits are those of one call. */
enum { BLOCK_TOKENS = 64 };

typedef struct {
    const sl_token *tokens;
    size_t count;
    uint32_t vocab, top;
    float *logits; /* [BLOCK_TOKENS * vocab] */
} scored_prompt;

/* The logits after a token belong to the next one. */
static sl_status score_block(const scored_prompt *p, size_t first, size_t count, cli_answer *answer,
                             sl_error *err) {
    const uint32_t each = answer->prompt_logprobs_each;
    sl_status status = SL_OK;
    for (size_t i = 0; i < count && first + i + 1 < p->count && status == SL_OK; i++)
        status = sl_logprobs_compute(p->logits + i * p->vocab, p->vocab, p->tokens[first + i + 1],
                                     p->top, answer->prompt_logprobs + (first + i) * each, err);
    return status;
}

static sl_status score(sl_session *session, const scored_prompt *p, cli_answer *answer,
                       sl_error *err) {
    sl_status status = sl_session_rewind(session, 0, err);
    for (size_t at = 0; at < p->count && status == SL_OK; at += BLOCK_TOKENS) {
        const size_t left = p->count - at, block = left < BLOCK_TOKENS ? left : BLOCK_TOKENS;
        (void)cli_progress(NULL, "reading", at, p->count);
        status = sl_session_extend_all(session, p->tokens + at, block, p->logits, NULL, err);
        if (status == SL_OK) status = score_block(p, at, block, answer, err);
    }
    return status;
}

sl_status cli_score_prompt(cli_conversation *c, const sl_token *tokens, size_t count,
                           cli_answer *answer, sl_error *err) {
    const uint32_t vocab = cli_model_info(c->model).vocab, top = c->options->prompt_logprobs;
    scored_prompt p = {.tokens = tokens,
                       .count = count,
                       .vocab = vocab,
                       .top = top < vocab ? top : vocab,
                       .logits = malloc(sizeof(float) * BLOCK_TOKENS * vocab)};
    answer->prompt_logprobs_each = p.top + 1;
    answer->prompt_logprobs = calloc(count * (p.top + 1), sizeof *answer->prompt_logprobs);
    memcpy(c->tokens, tokens, count * sizeof *tokens);
    *err = (sl_error){SL_NO_MEMORY, "no memory for the log-probabilities of the prompt"};
    sl_status status = SL_NO_MEMORY;
    if (p.logits && answer->prompt_logprobs) status = score(c->session, &p, answer, err);
    cli_progress_end();
    free(p.logits);
    return status;
}
