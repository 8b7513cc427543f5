/* together.c - Continue several texts at the same time: together [MODEL TEXT...].  Each step
 * computes the next token of all of them, and reads the weights once. */
#include "sluice/batch.h"
#include <stdio.h>
#include <string.h>

enum { MOST_TEXTS = 8, MOST_TOKENS = 16, MOST_PROMPT = 256 };

typedef struct {
    sl_model *model;
    sl_scheduler *scheduler;
    sl_session *sessions[MOST_TEXTS];
    sl_ticket *tickets[MOST_TEXTS];
    int count;
} texts;

static sl_status submit(texts *t, const char *text, sl_error *err) {
    sl_token prompt[MOST_PROMPT];
    size_t count = 0;
    const int i = t->count++;
    sl_status status =
        sl_model_tokenize(t->model, text, strlen(text), prompt, MOST_PROMPT, &count, err);
    if (status == SL_OK) status = sl_session_create(t->model, NULL, &t->sessions[i], err);
    const sl_request request = {.struct_size = sizeof request,
                                .session = t->sessions[i],
                                .prompt = prompt,
                                .prompt_count = count < MOST_PROMPT ? count : MOST_PROMPT,
                                .most_tokens = MOST_TOKENS};
    return status == SL_OK ? sl_scheduler_submit(t->scheduler, &request, &t->tickets[i], err)
                           : status;
}

static void print(const texts *t, int i, const char *text) {
    sl_token tokens[MOST_TOKENS];
    const size_t count = sl_ticket_tokens(t->tickets[i], 0, tokens, MOST_TOKENS);
    (void)printf("%s|", text);
    for (size_t k = 0; k < count; k++) {
        size_t bytes;
        const char *piece = sl_model_token_text(t->model, tokens[k], &bytes);
        for (size_t b = 0; b < bytes; b++) (void)putchar(piece[b] == '\n' ? ' ' : piece[b]);
    }
    (void)putchar('\n');
}

static sl_status run(texts *t, const char *const *words, int count, sl_error *err) {
    sl_status status = sl_scheduler_create(t->model, NULL, &t->scheduler, err);
    for (int i = 0; i < count && status == SL_OK; i++) status = submit(t, words[i], err);
    for (uint32_t left = 1; left && status == SL_OK;)
        status = sl_scheduler_step(t->scheduler, &left, err);
    for (int i = 0; i < count && status == SL_OK; i++) {
        status = sl_ticket_status(t->tickets[i], err);
        if (status == SL_OK) print(t, i, words[i]);
    }
    sl_scheduler_stats stats = {.struct_size = sizeof stats};
    if (status == SL_OK) status = sl_scheduler_describe(t->scheduler, &stats, err);
    if (status == SL_OK)
        (void)printf("%llu steps for %llu tokens\n", (unsigned long long)stats.steps,
                     (unsigned long long)(stats.decoded_tokens + stats.prefilled_tokens));
    return status;
}

int main(int count, char **words) {
    static const char *const usual[] = {"Once upon a time", "The brave fox", "A little girl"};
    const int given = count - 2 < MOST_TEXTS ? count - 2 : MOST_TEXTS;
    const sl_model_options options = {.struct_size = sizeof options, .max_sessions = MOST_TEXTS};
    texts t = {0};
    sl_error err = {0};
    const char *path = count > 1 ? words[1] : "models/fable";
    sl_status status = sl_model_open(path, &options, &t.model, &err);
    if (status == SL_OK)
        status = given > 0 ? run(&t, (const char *const *)words + 2, given, &err)
                           : run(&t, usual, 3, &err);
    if (status != SL_OK) (void)fprintf(stderr, "%s\n", err.message);
    for (int i = 0; i < t.count; i++) sl_ticket_release(t.tickets[i]);
    sl_scheduler_destroy(t.scheduler);
    for (int i = 0; i < t.count; i++) sl_session_destroy(t.sessions[i]);
    sl_model_close(t.model);
    return status != SL_OK;
}
