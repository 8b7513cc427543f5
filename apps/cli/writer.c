#include "apps/cli/writer.h"
#include <stdlib.h>
#include <string.h>

/* Thoughts are dimmed on a terminal. */
static void set_dim(cli_writer *w, bool dim) {
    if (w->dim == dim || !w->conversation->streams || !cli_has_colours(stdout)) return;
    (void)fputs(dim ? "\033[2m" : "\033[0m", stdout);
    w->dim = dim;
}

static void print(cli_writer *w, const char *text, size_t bytes) {
    if (bytes == 0 || !w->conversation->streams) return;
    w->answer->newline = text[bytes - 1] == '\n';
    (void)fwrite(text, 1, bytes, stdout);
    (void)fflush(stdout);
}

static void print_text(cli_writer *w, const char *text) {
    print(w, text, strlen(text));
}

/* Thoughts stand between tags, whatever the model writes around them. */
static void set_thinking(cli_writer *w, bool thinking) {
    if (w->thinking == thinking) return;
    w->thinking = thinking;
    if (w->hides) return;
    set_dim(w, true);
    print_text(w, thinking ? "<think>\n" : "\n</think>\n\n");
    set_dim(w, thinking);
}

static void print_call(cli_writer *w, const sl_message_event *call) {
    char number[32];
    (void)snprintf(number, sizeof number, "call %u: ", ++w->calls);
    if (!w->answer->newline) print_text(w, "\n");
    print_text(w, number);
    print_text(w, call->name);
    print_text(w, " ");
    print(w, call->text, call->bytes);
    print_text(w, "\n");
}

/* ---- stop texts ---- */

/* Room for so many more bytes of what is said. */
static char *grow(cli_writer *w, size_t bytes) {
    const size_t needed = w->said_bytes + bytes;
    if (needed > w->said_room) {
        char *larger = realloc(w->said, 2 * needed);
        if (!larger) return NULL;
        w->said = larger;
        w->said_room = 2 * needed;
    }
    return w->said + w->said_bytes;
}

/* Says what the stop texts let through; without a text, what they held back. */
static bool say(cli_writer *w, const char *text, size_t bytes) {
    const sl_stops *stops = w->conversation->stops;
    if (!stops) {
        print(w, text, bytes);
        return true;
    }
    if (w->stops.found) return true;
    char *out = grow(w, bytes + sl_stops_held_bytes(stops) + 1);
    if (!out) return false;
    const size_t passed = text ? sl_stops_push(stops, &w->stops, text, bytes, out)
                               : sl_stops_finish(stops, &w->stops, out);
    print(w, out, passed);
    w->said_bytes += passed;
    return true;
}

/* ---- events ---- */

static bool print_event(cli_writer *w, const sl_message_event *event) {
    const bool thought = event->kind == SL_MESSAGE_REASONING;
    if (event->kind != SL_MESSAGE_CONTENT && !say(w, NULL, 0)) return false;
    if (w->stops.found) return true;
    set_thinking(w, thought);
    if (event->kind == SL_MESSAGE_CONTENT) return say(w, event->text, event->bytes);
    if (thought && !w->hides) print(w, event->text, event->bytes);
    if (event->kind == SL_MESSAGE_ARGUMENTS) print_call(w, event); /* calls are whole */
    return true;
}

static bool print_events(cli_writer *w, sl_error *err) {
    sl_message_event event = {.struct_size = sizeof event};
    while (sl_message_parser_next(w->parser, &event))
        if (!print_event(w, &event)) {
            *err = (sl_error){SL_NO_MEMORY, "no memory for the answer"};
            return false;
        }
    return true;
}

bool cli_writer_open(cli_writer *w, const char *prompt, sl_error *err) {
    const cli_conversation *c = w->conversation;
    const char *think = c->options->think;
    char *tools = c->tools ? cli_json_dump(c->tools, JSON_COMPACT) : NULL;
    const sl_message_parser_options options = {
        .struct_size = sizeof options,
        .family = sl_message_family_of(c->model),
        .tools_json = tools,
        .prompt = prompt,
        .whole_calls = 1,
    };
    w->hides = think && strcmp(think, "hide") == 0;
    sl_status status = SL_NO_MEMORY;
    if (tools || !c->tools)
        status = sl_message_parser_create(&options, &w->parser, err);
    else
        *err = (sl_error){SL_NO_MEMORY, "no memory for the tools"};
    free(tools);
    return status == SL_OK;
}

bool cli_writer_feed(cli_writer *w, sl_token token, sl_error *err) {
    const sl_model *model = w->conversation->model;
    return sl_message_parser_feed_token(w->parser, model, token, err) == SL_OK &&
           print_events(w, err);
}

/* The message of the parser, of which a stop text ends the content. */
static json_t *message_of(const cli_writer *w, const char *json) {
    json_t *message = json_loads(json, JSON_ALLOW_NUL, NULL);
    if (message && w->conversation->stops)
        cli_json_set(message, "content", cli_json_text(w->said ? w->said : "", w->said_bytes));
    return message;
}

bool cli_writer_finish(cli_writer *w, sl_error *err) {
    char *json = NULL;
    if (sl_message_parser_finish(w->parser, err) != SL_OK || !print_events(w, err)) return false;
    *err = (sl_error){SL_NO_MEMORY, "no memory for the answer"};
    if (!say(w, NULL, 0)) return false;
    set_thinking(w, false);
    if (sl_message_parser_json(w->parser, &json, err) != SL_OK) return false;
    w->answer->message = message_of(w, json);
    w->answer->reasoning_tokens = sl_message_parser_reasoning_pieces(w->parser);
    sl_free(json);
    if (!w->answer->message) *err = (sl_error){SL_NO_MEMORY, "no memory for the answer"};
    return w->answer->message != NULL;
}

void cli_writer_close(cli_writer *w) {
    set_dim(w, false);
    (void)fflush(stdout);
    free(w->said);
    sl_message_parser_destroy(w->parser);
}
