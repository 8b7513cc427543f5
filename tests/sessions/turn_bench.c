/* turn_bench.c - turn_bench MODEL TOKENS FOLDER: the second turn of a conversation whose first
 * prompt has TOKENS: tokens that are computed and the time to the first token of the answer,
 * without reuse, by the session of the first turn, by another one from the cache in memory, and by
 * a model that was opened anew, from the cache on disk in the empty FOLDER.  Tokens are random. */
#include "base/clock.h"
#include "sluice/sessions.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { ANSWER = 128, THOUGHT = 96, QUESTION = 200, ROOM = 512 };

static sl_error err;

static void must(sl_status status) {
    if (status == SL_OK) return;
    (void)fprintf(stderr, "%s\n", err.message);
    exit(1);
}

typedef struct {
    const char *path, *folder;
    uint32_t tokens;
    sl_token *first, *second; /* the turns' prompts, and the answer behind the first */
} bench;

static sl_model *open_model(const bench *b) {
    const sl_model_options options = {.struct_size = sizeof options,
                                      .device = "cpu",
                                      .context_tokens = b->tokens + ROOM,
                                      .max_sessions = 2,
                                      .prefix_cache_bytes = (uint64_t)1 << 30};
    const sl_disk_cache_options disk = {.struct_size = sizeof disk, .folder = b->folder};
    sl_model *model;
    must(sl_model_open(b->path, &options, &model, &err));
    must(sl_model_cache_on_disk(model, &disk, &err));
    return model;
}

static sl_session *new_session(sl_model *model) {
    sl_session *session;
    must(sl_session_create(model, NULL, &session, &err));
    return session;
}

/* Brings the session to the tokens and chooses the first one of the answer. */
static void turn(sl_session *session, const sl_token *tokens, size_t count, const char *name) {
    const sl_sampling greedy = {.struct_size = sizeof greedy};
    sl_sync_report report = {.struct_size = sizeof report};
    sl_token token;
    const double start = sl_clock_seconds();
    must(sl_session_sync(session, tokens, count, NULL, &report, &err));
    must(sl_session_next(session, &greedy, &token, &err));
    (void)printf("%-34s %6zu of %zu tokens computed, first token after %8.3f s\n", name,
                 count - report.reused, count, sl_clock_seconds() - start);
}

static void generate_answer(sl_session *session, sl_token *answer, uint32_t count) {
    const sl_sampling greedy = {.struct_size = sizeof greedy};
    for (uint32_t i = 0; i < count; i++) must(sl_session_next(session, &greedy, &answer[i], &err));
}

/* The second turn: the first one, the answer from `skip` on, and a question. */
static size_t make_second(const bench *b, uint32_t skip, uint32_t vocab) {
    size_t count = 0;
    for (uint32_t i = 0; i < b->tokens; i++) b->second[count++] = b->first[i];
    for (uint32_t i = skip; i < ANSWER; i++) b->second[count++] = b->first[b->tokens + i];
    for (uint32_t i = 0; i < QUESTION; i++) b->second[count++] = (sl_token)(rand() % (int)vocab);
    return count;
}

static void run(const bench *b) {
    sl_model *model = open_model(b);
    sl_model_info info = {.struct_size = sizeof info};
    must(sl_model_describe(model, &info, &err));
    for (uint32_t i = 0; i < b->tokens; i++) b->first[i] = (sl_token)(rand() % (int)info.vocab);

    sl_session *session = new_session(model);
    turn(session, b->first, b->tokens, "turn 1");
    must(sl_session_rewind(session, b->tokens, &err));
    generate_answer(session, b->first + b->tokens, ANSWER);
    must(sl_session_end_turn(session, &err));
    turn(session, b->second, make_second(b, 0, info.vocab), "turn 2, same session");
    turn(session, b->second, make_second(b, THOUGHT, info.vocab), "turn 2, thoughts dropped");
    sl_session_destroy(session);
    session = new_session(model);
    turn(session, b->second, make_second(b, 0, info.vocab), "turn 2, from memory");
    sl_session_destroy(session);
    sl_model_close(model);

    model = open_model(b);
    session = new_session(model);
    turn(session, b->second, make_second(b, 0, info.vocab), "turn 2, after a restart, from disk");
    sl_session_destroy(session);
    sl_model_close(model);
}

int main(int count, char **words) {
    if (count < 4) return 2;
    bench b = {words[1], words[3], (uint32_t)strtoul(words[2], NULL, 10), NULL, NULL};
    b.first = malloc((b.tokens + ANSWER) * sizeof *b.first);
    b.second = malloc((b.tokens + ANSWER + QUESTION) * sizeof *b.second);
    const bool has_room = b.first && b.second;
    if (has_room) run(&b);
    free(b.first);
    free(b.second);
    return !has_room;
}
