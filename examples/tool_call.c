/* tool_call.c - Takes apart, piece by piece, what a model wrote: tool_call [FAMILY]. */
#include "sluice/messages.h"
#include <stdio.h>
#include <string.h>

#define TOOLS                                                                                      \
    "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"type\": "      \
    "\"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": "              \
    "\"integer\"}}}}}]"

/* As tokens come: cut anywhere. */
static const char *const pieces[] = {
    "<think>\n",   "A sum",    ".\n</th",   "ink>\n\nI add", " them.\n<tool", "_call>\n{\"name",
    "\": \"add\"", ", \"argu", "ments\": ", "{\"a\": 17, ",  "\"b\": 25}}",   "\n</tool_call>"};
enum { PIECES = sizeof pieces / sizeof *pieces };

static void print_events(sl_message_parser *parser) {
    static const char *const names[] = {"",          "reasoning", "content", "call",
                                        "arguments", "call end",  "dropped"};
    sl_message_event event = {.struct_size = sizeof event};
    while (sl_message_parser_next(parser, &event))
        (void)printf("%-10s %s%.*s\n", names[event.kind],
                     event.kind == SL_MESSAGE_CALL ? event.name : "", (int)event.bytes, event.text);
}

static sl_status parse(sl_message_parser *parser, sl_error *err) {
    sl_status status = SL_OK;
    char *json = NULL;
    for (int i = 0; i < PIECES && status == SL_OK; i++) {
        status = sl_message_parser_feed(parser, pieces[i], strlen(pieces[i]), err);
        print_events(parser);
    }
    if (status == SL_OK) status = sl_message_parser_finish(parser, err);
    print_events(parser);
    if (status == SL_OK) status = sl_message_parser_json(parser, &json, err);
    if (status == SL_OK) (void)puts(json);
    sl_free(json);
    return status;
}

int main(int count, char **words) {
    const sl_message_parser_options options = {.struct_size = sizeof options,
                                               .family = count > 1 ? words[1] : "hermes",
                                               .tools_json = TOOLS,
                                               .id_seed = 1};
    sl_message_parser *parser = NULL;
    sl_error err = {0};
    sl_status status = sl_message_parser_create(&options, &parser, &err);
    if (status == SL_OK) status = parse(parser, &err);
    if (status != SL_OK) (void)fprintf(stderr, "%s\n", err.message);
    sl_message_parser_destroy(parser);
    return status != SL_OK;
}
