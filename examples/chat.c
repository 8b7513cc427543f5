/* chat.c - Answer one prompt: chat [MODEL]. */
#include "sluice/sluice.h"
#include <stdio.h>

#define CHAT                                                                                       \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Tell me a story about a brave fox.\"}],"  \
    " \"add_generation_prompt\": true}"
enum { MAX_PROMPT_TOKENS = 64 };

static sl_status read_prompt(sl_model *model, sl_session *session, sl_error *err) {
    sl_token tokens[MAX_PROMPT_TOKENS];
    size_t count = 0;
    const sl_status status =
        sl_model_tokenize_chat(model, CHAT, tokens, MAX_PROMPT_TOKENS, &count, err);
    if (count > MAX_PROMPT_TOKENS) count = MAX_PROMPT_TOKENS;
    return status == SL_OK ? sl_session_extend(session, tokens, count, err) : status;
}

static sl_status answer(sl_model *model, sl_session *session, sl_error *err) {
    sl_sampling sampling = {.struct_size = sizeof sampling};
    sl_status status = sl_model_sampling(model, &sampling, err);
    if (status == SL_OK) status = read_prompt(model, session, err);
    while (status == SL_OK) {
        sl_token next;
        size_t bytes;
        status = sl_session_next(session, &sampling, &next, err);
        if (status != SL_OK || sl_model_token_ends(model, next)) break;
        const char *piece = sl_model_token_text(model, next, &bytes);
        (void)fwrite(piece, 1, bytes, stdout);
    }
    (void)putchar('\n');
    return status;
}

int main(int count, char **words) {
    sl_error err = {0};
    sl_model *model = NULL;
    sl_session *session = NULL;
    sl_status status = sl_model_open(count > 1 ? words[1] : "models/fable", NULL, &model, &err);
    if (status == SL_OK) status = sl_session_create(model, NULL, &session, &err);
    if (status == SL_OK) status = answer(model, session, &err);
    if (status != SL_OK) (void)fprintf(stderr, "%s\n", err.message);
    sl_session_destroy(session);
    sl_model_close(model);
    return status != SL_OK;
}
