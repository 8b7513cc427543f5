/* resume_bench.c - resume_bench MODEL TOKENS [KV [FILE]]: how long a conversation takes to be
 * saved, and to be continued by a process that has the model open.  Its keys and values are noise.
 */
#include "base/clock.h"
#include "sluice/inspect.h"
#include "sluice/sessions.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static sl_error err;

static void must(sl_status status) {
    if (status == SL_OK) return;
    (void)fprintf(stderr, "%s\n", err.message);
    exit(1);
}

/* The file is read from the disk again. */
static void drop_pages(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    (void)close(fd);
}

static void report(sl_session *session, const char *path) {
    struct stat info = {0};
    const sl_sampling greedy = {.struct_size = sizeof greedy};
    sl_token token;
    double clock = sl_clock_seconds();
    must(sl_session_save(session, path, NULL, 0, &err));
    (void)stat(path, &info);
    (void)printf("saved %zu tokens, %.1f MB, in %.3f s\n", sl_session_length(session),
                 (double)info.st_size / 1e6, sl_clock_lap(&clock));
    for (int cold = 0; cold < 6; cold++) {
        must(sl_session_rewind(session, 0, &err));
        if (cold % 2) drop_pages(path);
        (void)sl_clock_lap(&clock);
        must(sl_session_load(session, path, NULL, NULL, &err));
        const double loaded = sl_clock_lap(&clock);
        must(sl_session_next(session, &greedy, &token, &err));
        (void)printf("loaded from %s in %.3f s, next token after %.3f s more\n",
                     cold % 2 ? "disk" : "page cache", loaded, sl_clock_lap(&clock));
    }
}

int main(int count, char **words) {
    if (count < 3) return 2;
    const uint32_t tokens = (uint32_t)strtoul(words[2], NULL, 10);
    const sl_model_options options = {.struct_size = sizeof options,
                                      .device = "cpu",
                                      .context_tokens = tokens + 64,
                                      .kv = count > 3 ? words[3] : NULL};
    sl_model *model;
    sl_session *session;
    const sl_token first[] = {1, 2, 3, 4};
    const char *path = count > 4 ? words[4] : "/tmp/sluice-resume-bench.kv";
    must(sl_model_open(words[1], &options, &model, &err));
    must(sl_session_create(model, NULL, &session, &err));
    must(sl_session_extend(session, first, 4, &err));
    must(sl_session_fake_context(session, tokens, &err));
    must(sl_session_extend(session, first, 1, &err));
    report(session, path);
    (void)unlink(path);
    sl_session_destroy(session);
    sl_model_close(model);
    return 0;
}
