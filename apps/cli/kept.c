#include "apps/cli/kept.h"
#include "sluice/sessions.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_note(void *ctx, const char *line) {
    (void)ctx;
    cli_note("%s", line);
}

bool cli_kept_open(cli_conversation *conversation) {
    const cli_options *options = conversation->options;
    const sl_disk_cache_options disk = {.struct_size = sizeof disk,
                                        .folder = options->kv_disk,
                                        .bytes = options->kv_disk_size.bytes,
                                        .note = print_note};
    sl_error err;
    if (options->kv_disk_size_given && options->kv_disk_size.share > 0)
        return cli_fail_text("--kv-disk-size: wanted a size such as 20GiB") == CLI_OK;
    if (options->kv_disk_size_given && !options->kv_disk)
        cli_note("--kv-disk-size has no effect without --kv-disk");
    if (!options->kv_disk || sl_model_cache_on_disk(conversation->model, &disk, &err) == SL_OK)
        return true;
    (void)cli_fail(&err);
    return false;
}

void cli_kept_end_turn(cli_conversation *conversation) {
    sl_error err;
    if (!conversation->options->kv_disk) return;
    if (sl_session_end_turn(conversation->session, &err) != SL_OK) cli_note("%s", err.message);
}

/* The messages of a note: a list of objects.  NULL after a message. */
static json_t *read_messages(const char *path, const char *note, size_t bytes) {
    json_error_t problem;
    json_t *messages = json_loadb(note, bytes, 0, &problem);
    bool good = json_is_array(messages);
    for (size_t i = 0; good && i < json_array_size(messages); i++)
        good = json_is_object(json_array_get(messages, i));
    if (good) return messages;
    json_decref(messages);
    (void)cli_fail_text("%s: a session without the messages of a conversation", path);
    return NULL;
}

/* A system message of the options comes first in a new conversation only. */
static bool take_messages(cli_conversation *c, json_t *messages) {
    const json_t *first = json_array_get(messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    const char *text = json_string_value(json_object_get(first, "content"));
    const bool has_system = role && text && strcmp(role, "system") == 0;
    if (c->system && !(has_system && strcmp(text, c->system) == 0))
        cli_note("%s has a conversation, which is continued; the system message is not used",
                 c->options->session);
    json_decref(c->messages);
    c->messages = messages;
    return true;
}

bool cli_kept_load(cli_conversation *conversation) {
    const char *path = conversation->options->session;
    char *note = NULL;
    size_t bytes = 0;
    sl_error err;
    if (!path || access(path, F_OK) != 0) return true;
    if (sl_session_load(conversation->session, path, &note, &bytes, &err) != SL_OK) {
        (void)cli_fail(&err);
        return false;
    }
    const sl_token *tokens;
    const size_t count = sl_session_tokens(conversation->session, &tokens);
    if (count) memcpy(conversation->tokens, tokens, count * sizeof *tokens);
    json_t *messages = read_messages(path, note, bytes);
    sl_free(note);
    if (cli_is_verbose()) cli_note("%s: %zu tokens", path, count);
    return messages && take_messages(conversation, messages);
}

bool cli_conversation_save(const cli_conversation *conversation) {
    const char *path = conversation->options->session;
    sl_error err = {SL_NO_MEMORY, "no memory for the messages"};
    if (!path) return true;
    char *note = cli_json_dump(conversation->messages, JSON_COMPACT);
    const sl_status status =
        note ? sl_session_save(conversation->session, path, note, strlen(note), &err)
             : SL_NO_MEMORY;
    free(note);
    if (status != SL_OK) (void)cli_fail(&err);
    return status == SL_OK;
}
