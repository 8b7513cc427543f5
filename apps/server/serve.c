/* serve.c - The command: options, start, signals, and the end. */
#include "apps/cli/cli.h"
#include "apps/server/checks.h"
#include "apps/server/server.h"
#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STORED_RESPONSES = 1024, STORED_BYTES = 64 << 20, CONNECTIONS = 1024 };

static volatile sig_atomic_t signals;

static void on_signal(int number) {
    (void)number;
    if (++signals > 1) _exit(CLI_INTERRUPTED);
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

/* ---- Options ---- */

/* Adds the items of a list that is separated by commas or lines; # begins a comment.  The text is
 * changed, and must stay. */
static bool add_items(char *text, const char *separators, const char **items, uint32_t *count) {
    char *rest = NULL;
    for (char *item = strtok_r(text, separators, &rest); item;
         item = strtok_r(NULL, separators, &rest)) {
        while (isspace((unsigned char)*item)) item++;
        char *end = item + strlen(item);
        while (end > item && isspace((unsigned char)end[-1])) *--end = '\0';
        if (!*item || *item == '#') continue;
        if (*count == SERVER_MOST_LIST) return false;
        items[(*count)++] = item;
    }
    return true;
}

static bool read_lists(const cli_options *options, char *owned[3], server_options *out) {
    const char *const texts[] = {options->api_key, options->cors};
    for (int i = 0; i < 2; i++) {
        if (!texts[i]) continue;
        owned[i] = cli_copy(texts[i]);
        const bool good =
            owned[i] && (i == 0 ? add_items(owned[i], ",", out->keys, &out->key_count)
                                : add_items(owned[i], ",", out->origins, &out->origin_count));
        if (!good) return !cli_misuse(CLI_serve, "at most %d keys or origins", SERVER_MOST_LIST);
    }
    /* Who asks for a key must not get a server that is open to all. */
    if (options->api_key && out->key_count == 0)
        return !cli_misuse(CLI_serve, "--api-key: there is no key in it");
    if (options->api_key_file) {
        owned[2] = cli_read_text(options->api_key_file);
        if (!owned[2]) return false;
        if (!add_items(owned[2], "\n", out->keys, &out->key_count) || out->key_count == 0)
            return !cli_misuse(CLI_serve, "--api-key-file: expected one to %d keys, one in a line",
                               SERVER_MOST_LIST);
    }
    return true;
}

static bool read_options(const cli_options *options, char *owned[3], server_options *out) {
    *out = (server_options){
        .host = options->host ? options->host : "127.0.0.1",
        .port = options->port_given ? (uint16_t)options->port : 8080,
        .body_bytes = options->body_limit.bytes ? options->body_limit.bytes : (size_t)32 << 20,
        .connections = CONNECTIONS,
        .sessions = options->parallel_given ? options->parallel : 8,
        .request_seconds = options->timeout_given ? options->timeout : 0,
        .ping_seconds = 5,
        .idle_seconds = 30,
        .quiet = options->quiet,
    };
    if (options->models && (options->model_given || options->alias))
        return !cli_misuse(CLI_serve, "--models: not with -m or --alias");
    if (options->port_given && options->port > 65535)
        return !cli_misuse(CLI_serve, "--port: expected a number up to 65535");
    if (out->sessions == 0 || out->sessions > 512)
        return !cli_misuse(CLI_serve, "--parallel: expected a number from 1 to 512");
    return read_lists(options, owned, out);
}

/* ---- Start ---- */

static void note_line(void *ctx, const char *line) {
    (void)ctx;
    cli_note("%s", line);
}

static bool open_caches(const cli_options *options, sl_model *model) {
    const sl_disk_cache_options how = {.struct_size = sizeof how,
                                       .folder = options->kv_disk,
                                       .bytes = options->kv_disk_size.bytes,
                                       .note = note_line};
    sl_error err;
    if (!options->kv_disk || sl_model_cache_on_disk(model, &how, &err) == SL_OK) return true;
    (void)cli_fail(&err);
    return false;
}

static bool open_model(const cli_options *options, const char *path, const char *name, server *s) {
    cli_options how = *options;
    sl_model *model = NULL;
    sl_error err;
    how.model = path;
    how.sessions = s->options.sessions;
    how.prefix_cache_bytes =
        options->prefix_cache.bytes ? options->prefix_cache.bytes : (uint64_t)512 << 20;
    if (!cli_open_model(&how, 0, &model)) return false;
    if (!open_caches(options, model)) {
        sl_model_close(model);
        return false;
    }
    if (server_model_open(path, name, model, &s->model, &err)) return true;
    (void)cli_fail(&err);
    server_model_close(&s->model);
    return false;
}

static void unload(server *s) {
    server_engine_stop(s->engine);
    s->engine = NULL;
    server_model_close(&s->model);
}

/* As server_load_fn; what is wrong is printed. */
static bool load(server *s, const char *path, const char *name, sl_error *err) {
    const cli_options *options = s->models.load_ctx;
    const server_engine_options how = {
        .sessions = s->options.sessions,
        .queue = options->queue_given ? options->queue : 256,
        .buffer_bytes = (size_t)1 << 20,
        .limits_kv = options->kv_memory.bytes > 0,
    };
    *err = (sl_error){SL_INVALID, "the server's messages say why"};
    if (!path) {
        unload(s);
        return true;
    }
    if (!open_model(options, path, name, s)) return false;
    if (server_engine_start(&s->model, &how, &s->engine, err)) return true;
    (void)cli_fail(err);
    unload(s);
    return false;
}

/* The model of the options, or the first of the folder that can be loaded. */
static bool load_first(const cli_options *options, server *s) {
    sl_error err;
    if (options->models && !server_models_find(&s->models, options->models, &err))
        return cli_fail(&err) == CLI_OK;
    if (!options->models) {
        const char *path = cli_model_path(options);
        return path && load(s, path, options->alias, &err);
    }
    for (uint32_t i = 0; i < s->models.count; i++) {
        if (!load(s, s->models.paths[i], s->models.names[i], &err)) continue;
        s->models.current = i;
        return true;
    }
    return false;
}

static bool start(server *s, server_http **http, uint16_t *port) {
    sl_error err = {SL_NO_MEMORY, "no memory for the server"};
    s->store = server_store_create(STORED_RESPONSES, STORED_BYTES);
    s->loopback = server_address_is_loopback(s->options.host);
    s->started = server_seconds();
    if (s->store && server_http_start(s, http, port, &err)) return true;
    (void)cli_fail(&err);
    return false;
}

static void print_address(const server *s, uint16_t port) {
    const bool brackets = strchr(s->options.host, ':') != NULL;
    char host[300];
    (void)snprintf(host, sizeof host, "%s%s%s", brackets ? "[" : "", s->options.host,
                   brackets ? "]" : "");
    (void)printf("sluice serves %s at http://%s:%u  (%u at once, context of %u tokens)\n",
                 s->model.id, host, port, s->options.sessions, s->model.info.context_tokens);
    (void)printf("try: open it in a browser, or point OPENAI_BASE_URL at http://%s:%u/v1 or "
                 "ANTHROPIC_BASE_URL at http://%s:%u\n",
                 host, port, host, port);
    (void)fflush(stdout);
    if (s->models.count > 1)
        cli_note("the other %u models of the folder are loaded when a request names them",
                 s->models.count - 1);
    if (!s->loopback && s->options.key_count == 0)
        cli_note("everyone who reaches %s can use this server; --api-key asks for a key",
                 s->options.host);
}

/* ---- The end ---- */

/* The handler may run on a thread of the model, which does not wake this one. */
static void wait_for_signal(void) {
    const struct timespec second = {.tv_sec = 1};
    sigset_t none;
    (void)sigemptyset(&none);
    while (!signals) (void)ppoll(NULL, 0, &second, &none);
}

/* Lets requests that were begun come to their end; a second signal ends the process at once. */
static void drain(server *s, server_http *http) {
    s->draining = true;
    server_http_quiesce(http);
    const uint32_t left = server_http_exchanges(http);
    if (left) cli_note("%u requests come to their end; a second signal ends them", left);
    while (server_http_exchanges(http)) (void)usleep(20000);
}

/* Signals are for the thread that waits for them. */
static void block_signals(bool blocked) {
    sigset_t both;
    (void)sigemptyset(&both);
    (void)sigaddset(&both, SIGINT);
    (void)sigaddset(&both, SIGTERM);
    (void)sigprocmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &both, NULL);
}

int cli_run_serve(const cli_options *options) {
    server s = {0};
    server_http *http = NULL;
    char *owned[3] = {NULL, NULL, NULL};
    uint16_t port = 0;
    int result = CLI_USAGE;
    server_models_init(&s.models);
    s.models.load = load;
    s.models.load_ctx = options;
    if (!read_options(options, owned, &s.options)) goto done;
    result = CLI_FAILED;
    if (!load_first(options, &s)) goto done;
    catch_signals();
    block_signals(true);
    if (start(&s, &http, &port)) {
        print_address(&s, port);
        wait_for_signal();
        block_signals(false);
        drain(&s, http);
        result = CLI_OK;
    }
    server_http_stop(http);
    server_store_destroy(s.store);
    if (s.models.current != SERVER_NO_MODEL) unload(&s);
done:
    server_models_deinit(&s.models);
    for (int i = 0; i < 3; i++) free(owned[i]);
    return result;
}
