/* writer_test.c - Events of a job in the forms of all endpoints, streamed and whole. */
#include "apps/server/writer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What an answer came to: reasoning, content, a call in three pieces. */
static const struct {
    server_event_kind kind;
    const char *data;
    size_t bytes;
} story[] = {{SERVER_EVENT_REASONING, "Hm. ", 4},
             {SERVER_EVENT_REASONING, "So.", 3},
             {SERVER_EVENT_CONTENT, "I ", 2},
             {SERVER_EVENT_CONTENT, "look.", 5},
             {SERVER_EVENT_CALL, "call_1\0find", 11},
             {SERVER_EVENT_ARGUMENTS, "{\"a\":", 5},
             {SERVER_EVENT_ARGUMENTS, "1}", 2},
             {SERVER_EVENT_CALL_END, "", 0},
             {SERVER_EVENT_END, "", 0}};

typedef struct {
    server_request request;
    server_model model;
    server_writer writer;
    server_result result;
} stage;

/* text may be NULL. */
static void append(char *to, size_t size, const char *text) {
    const size_t length = strlen(to);
    if (text) (void)snprintf(to + length, size - length, "%s", text);
}

static void open_stage(stage *s, server_shape shape, bool stream) {
    *s = (stage){.request = {.shape = shape, .n = 1, .stream = stream, .body = json_object()},
                 .model = {.id = "m"},
                 .result = {.finish = SERVER_FINISH_CALLS,
                            .prompt_tokens = 10,
                            .reused_tokens = 4,
                            .tokens = 7,
                            .reasoning_tokens = 3}};
    assert_true(server_writer_init(&s->writer, &s->request, &s->model, NULL, 1));
    if (s->writer.messages) s->writer.messages[0].result = &s->result;
}

static void tell(stage *s, server_event_kind kind, const char *data, size_t bytes) {
    server_event *event = calloc(1, sizeof *event + bytes + 1);
    *event = (server_event){.kind = kind, .bytes = bytes};
    memcpy(event->data, data, bytes);
    server_writer_take(&s->writer, event);
    free(event);
}

static void tell_story(stage *s) {
    for (size_t i = 0; i < sizeof story / sizeof story[0]; i++)
        tell(s, story[i].kind, story[i].data, story[i].bytes);
    if (s->request.stream) server_writer_finish(&s->writer);
}

static void close_stage(stage *s) {
    server_writer_deinit(&s->writer);
    json_decref(s->request.body);
}

/* The next event of a stream: its data, or NULL at the end.  Its name must be the type in it. */
static json_t *next_event(const char **at, char *type, size_t capacity) {
    char name[64] = "";
    if (strncmp(*at, "event: ", 7) == 0) {
        const size_t length = strcspn(*at + 7, "\n");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, *at + 7);
        *at += 7 + length + 1;
    }
    if (strncmp(*at, "data: {", 7) != 0) return NULL;
    const char *end = strstr(*at, "\n\n");
    assert_non_null(end);
    json_t *data = json_loadb(*at + 6, (size_t)(end - *at) - 6, 0, NULL);
    assert_non_null(data);
    *at = end + 2;
    const char *said = server_json_string(data, "type");
    if (name[0]) assert_string_equal(name, said);
    (void)snprintf(type, capacity, "%s", said ? said : "");
    return data;
}

static json_t *at_path(json_t *value, const char *path) {
    char copy[128], *rest = NULL;
    (void)snprintf(copy, sizeof copy, "%s", path);
    for (char *name = strtok_r(copy, ".", &rest); name; name = strtok_r(NULL, ".", &rest))
        value = name[0] >= '0' && name[0] <= '9' ? json_array_get(value, strtoul(name, NULL, 10))
                                                 : json_object_get(value, name);
    return value;
}

static void is_text(json_t *value, const char *path, const char *wanted) {
    const char *found = json_string_value(at_path(value, path));
    if (!found) fail_msg("%s is missing", path);
    assert_string_equal(found, wanted);
}

static void is_whole(json_t *value, const char *path, json_int_t wanted) {
    const json_t *found = at_path(value, path);
    if (!json_is_integer(found)) fail_msg("%s is missing", path);
    assert_int_equal(json_integer_value(found), wanted);
}

/* The types of all events in one line. */
static void has_types(const stage *s, const char *wanted) {
    const char *at = s->writer.out.bytes;
    char all[2048] = "", type[64];
    for (json_t *event; (event = next_event(&at, type, sizeof type));) {
        (void)snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", all[0] ? " " : "",
                       type);
        json_decref(event);
    }
    assert_string_equal(all, wanted);
}

/* ---- Chat ---- */

static void chat_streams_deltas(void **state) {
    (void)state;
    stage s;
    open_stage(&s, SERVER_CHAT, true);
    s.request.include_usage = true;
    tell_story(&s);
    const char *at = s.writer.out.bytes;
    char type[64], reasoning[32] = "", content[32] = "", arguments[32] = "";
    const char *finish = "", *name = "";
    json_t *events = json_array();
    for (json_t *event; (event = next_event(&at, type, sizeof type));) {
        (void)json_array_append_new(events, event);
        is_text(event, "id", s.writer.id);
        const json_t *delta = at_path(event, "choices.0.delta");
        const char *text = server_json_string(delta, "reasoning_content");
        append(reasoning, sizeof reasoning, text);
        text = server_json_string(delta, "content");
        append(content, sizeof content, text);
        text = json_string_value(at_path(event, "choices.0.delta.tool_calls.0.function.arguments"));
        append(arguments, sizeof arguments, text);
        text = json_string_value(at_path(event, "choices.0.delta.tool_calls.0.function.name"));
        if (text) name = text;
        text = json_string_value(at_path(event, "choices.0.finish_reason"));
        if (text) finish = text;
    }
    assert_string_equal(at, "data: [DONE]\n\n");
    assert_string_equal(reasoning, "Hm. So.");
    assert_string_equal(content, "I look.");
    assert_string_equal(arguments, "{\"a\":1}");
    assert_string_equal(name, "find");
    assert_string_equal(finish, "tool_calls");
    is_text(json_array_get(events, 0), "choices.0.delta.role", "assistant");
    json_t *last = json_array_get(events, json_array_size(events) - 1);
    is_whole(last, "usage.prompt_tokens_details.cached_tokens", 4);
    is_whole(last, "usage.total_tokens", 17);
    is_whole(last, "timings.prompt_n", 6);
    json_decref(events);
    close_stage(&s);
}

static void chat_has_one_message(void **state) {
    (void)state;
    stage s;
    open_stage(&s, SERVER_CHAT, false);
    tell_story(&s);
    assert_int_equal(s.writer.out.length, 0);
    json_t *whole = server_writer_whole(&s.writer);
    is_text(whole, "choices.0.message.content", "I look.");
    is_text(whole, "choices.0.message.reasoning_content", "Hm. So.");
    is_text(whole, "choices.0.message.tool_calls.0.id", "call_1");
    is_text(whole, "choices.0.message.tool_calls.0.function.arguments", "{\"a\":1}");
    is_whole(whole, "usage.completion_tokens_details.reasoning_tokens", 3);
    json_decref(whole);
    close_stage(&s);
}

/* A call that turns out to be none is text; what was begun of it is no part of the message. */
static void dropped_calls_are_left_out(void **state) {
    (void)state;
    for (server_shape shape = SERVER_CHAT; shape < SERVER_SHAPE_COUNT; shape++) {
        stage s;
        open_stage(&s, shape, false);
        s.result.finish = SERVER_FINISH_STOP;
        tell(&s, SERVER_EVENT_CALL, "call_1\0find", 11);
        tell(&s, SERVER_EVENT_ARGUMENTS, "{\"a", 3);
        tell(&s, SERVER_EVENT_CALL_DROP, "", 0);
        tell(&s, SERVER_EVENT_CONTENT, "find {\"a", 8);
        tell(&s, SERVER_EVENT_END, "", 0);
        json_t *whole = server_writer_whole(&s.writer);
        char *text = server_json_dump(whole);
        if (shape != SERVER_COMPLETIONS) assert_null(strstr(text, "call_1"));
        assert_non_null(strstr(text, "find {\\\"a"));
        free(text);
        json_decref(whole);
        close_stage(&s);
    }
}

/* ---- Messages ---- */

static void messages_open_one_block_at_a_time(void **state) {
    (void)state;
    stage s;
    open_stage(&s, SERVER_MESSAGES, true);
    tell_story(&s);
    has_types(&s, "message_start content_block_start content_block_delta content_block_delta "
                  "content_block_delta content_block_stop content_block_start content_block_delta "
                  "content_block_delta content_block_stop content_block_start content_block_delta "
                  "content_block_delta content_block_stop message_delta message_stop");
    const char *at = s.writer.out.bytes;
    char type[64];
    int open = -1, blocks = 0;
    for (json_t *event; (event = next_event(&at, type, sizeof type));) {
        const json_t *index = json_object_get(event, "index");
        if (strcmp(type, "content_block_start") == 0) {
            assert_int_equal(open, -1);
            open = (int)json_integer_value(index);
            assert_int_equal(open, blocks++);
        } else if (index) {
            assert_int_equal(json_integer_value(index), open);
        }
        if (strcmp(type, "content_block_stop") == 0) open = -1;
        if (strcmp(type, "message_start") == 0) is_whole(event, "message.usage.input_tokens", 6);
        if (strcmp(type, "message_delta") == 0) is_text(event, "delta.stop_reason", "tool_use");
        json_decref(event);
    }
    assert_int_equal(blocks, 3);
    close_stage(&s);
}

static void messages_have_blocks_in_order(void **state) {
    (void)state;
    stage s;
    open_stage(&s, SERVER_MESSAGES, false);
    tell_story(&s);
    json_t *whole = server_writer_whole(&s.writer);
    is_text(whole, "content.0.thinking", "Hm. So.");
    is_text(whole, "content.1.text", "I look.");
    is_text(whole, "content.2.type", "tool_use");
    is_whole(whole, "content.2.input.a", 1);
    is_whole(whole, "usage.cache_read_input_tokens", 4);
    json_decref(whole);
    close_stage(&s);
}

static void stops_have_the_names_of_each_api(void **state) {
    (void)state;
    static const struct {
        server_finish finish;
        const char *chat, *messages, *responses;
    } rows[] = {{SERVER_FINISH_STOP, "stop", "end_turn", "completed"},
                {SERVER_FINISH_TEXT, "stop", "stop_sequence", "completed"},
                {SERVER_FINISH_LENGTH, "length", "max_tokens", "incomplete"},
                {SERVER_FINISH_CONTEXT, "length", "model_context_window_exceeded", "incomplete"},
                {SERVER_FINISH_CALLS, "tool_calls", "tool_use", "completed"}};
    static const struct {
        server_shape shape;
        const char *path;
    } places[] = {{SERVER_CHAT, "choices.0.finish_reason"},
                  {SERVER_MESSAGES, "stop_reason"},
                  {SERVER_RESPONSES, "status"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *const wanted[] = {rows[i].chat, rows[i].messages, rows[i].responses};
        for (size_t p = 0; p < 3; p++) {
            stage s;
            open_stage(&s, places[p].shape, false);
            s.result.finish = rows[i].finish;
            tell(&s, SERVER_EVENT_CONTENT, "x", 1);
            tell(&s, SERVER_EVENT_END, "", 0);
            json_t *whole = server_writer_whole(&s.writer);
            is_text(whole, places[p].path, wanted[p]);
            json_decref(whole);
            close_stage(&s);
        }
    }
}

/* ---- Responses ---- */

static void responses_have_numbered_events(void **state) {
    (void)state;
    stage s;
    open_stage(&s, SERVER_RESPONSES, true);
    tell_story(&s);
    has_types(&s,
              "response.created response.in_progress response.output_item.added "
              "response.content_part.added response.reasoning_text.delta "
              "response.reasoning_text.delta response.reasoning_text.done "
              "response.content_part.done response.output_item.done response.output_item.added "
              "response.content_part.added response.output_text.delta response.output_text.delta "
              "response.output_text.done response.content_part.done response.output_item.done "
              "response.output_item.added response.function_call_arguments.delta "
              "response.function_call_arguments.delta response.function_call_arguments.done "
              "response.output_item.done response.completed");
    const char *at = s.writer.out.bytes;
    char type[64];
    json_int_t number = 0;
    for (json_t *event; (event = next_event(&at, type, sizeof type));) {
        is_whole(event, "sequence_number", number++);
        if (strstr(type, "_text.")) is_whole(event, "content_index", 0);
        if (strstr(type, "item") || strstr(type, "delta"))
            assert_non_null(json_object_get(event, "output_index"));
        if (strcmp(type, "response.completed") == 0) {
            is_text(event, "response.output.2.arguments", "{\"a\":1}");
            is_whole(event, "response.usage.input_tokens_details.cached_tokens", 4);
        }
        json_decref(event);
    }
    close_stage(&s);
}

/* ---- What is told while nothing comes ---- */

static void silence_has_events_where_clients_wait_for_them(void **state) {
    (void)state;
    static const char *const wanted[] = {
        [SERVER_CHAT] = "",
        [SERVER_COMPLETIONS] = "",
        [SERVER_RESPONSES] = "response.created response.in_progress response.in_progress "
                             "response.in_progress response.output_item.added "
                             "response.content_part.added response.output_text.delta",
        [SERVER_MESSAGES] = "message_start ping ping content_block_start content_block_delta"};
    for (server_shape shape = 0; shape < SERVER_SHAPE_COUNT; shape++) {
        stage s;
        open_stage(&s, shape, true);
        server_writer_ping(&s.writer);
        server_writer_ping(&s.writer);
        if (wanted[shape][0]) {
            tell(&s, SERVER_EVENT_CONTENT, "a", 1);
            has_types(&s, wanted[shape]);
        } else {
            assert_string_equal(s.writer.out.bytes, ": waiting\n\n: waiting\n\n");
        }
        close_stage(&s);
    }
}

static void progress_has_the_form_of_its_stream(void **state) {
    (void)state;
    static const char *const objects[] = {
        [SERVER_CHAT] = "chat.completion.chunk", [SERVER_COMPLETIONS] = "text_completion"};
    const sl_ticket_state half = {.struct_size = sizeof half,
                                  .phase = SL_TICKET_PREFILL,
                                  .prompt_tokens = 10,
                                  .prompt_done = 5};
    char type[64];
    for (server_shape shape = 0; shape <= SERVER_COMPLETIONS; shape++) {
        stage s;
        open_stage(&s, shape, true);
        server_writer_progress(&s.writer, &half);
        server_writer_progress(&s.writer, &half); /* it is not repeated */
        const char *at = s.writer.out.bytes;
        json_t *event = next_event(&at, type, sizeof type);
        is_text(event, "object", objects[shape]);
        is_whole(event, "prompt_progress.processed", 5);
        assert_string_equal(at, "");
        json_decref(event);
        close_stage(&s);
    }
    stage s;
    open_stage(&s, SERVER_RESPONSES, true);
    server_writer_progress(&s.writer, &half);
    has_types(&s, "response.created response.in_progress response.in_progress");
    close_stage(&s);
}

/* ---- Log-probabilities ---- */

static void places_are_counted_in_characters(void **state) {
    (void)state;
    const sl_logprob likely = {.token = 1, .logprob = -0.5f},
                     never = {.token = 1, .logprob = -INFINITY};
    char type[64];
    stage s;
    open_stage(&s, SERVER_COMPLETIONS, true);
    s.request.logprobs = true;
    tell(&s, SERVER_EVENT_LOGPROBS, (const char *)&likely, sizeof likely);
    tell(&s, SERVER_EVENT_CONTENT, "\xc3\xa4\xe2\x82\xac", 5);
    tell(&s, SERVER_EVENT_LOGPROBS, (const char *)&never, sizeof never);
    tell(&s, SERVER_EVENT_CONTENT, "b", 1);
    const char *at = s.writer.out.bytes;
    json_t *first = next_event(&at, type, sizeof type);
    json_t *second = next_event(&at, type, sizeof type);
    is_whole(first, "choices.0.logprobs.text_offset.0", 0);
    is_whole(second, "choices.0.logprobs.text_offset.0", 2);
    json_t *prob = at_path(second, "choices.0.logprobs.token_logprobs.0");
    assert_true(json_number_value(prob) == -9999);
    json_decref(first);
    json_decref(second);
    close_stage(&s);
}

static void failures_end_a_stream(void **state) {
    (void)state;
    static const char *const wanted[] = {"\"type\":\"server_error\"", "\"type\":\"server_error\"",
                                         "event: response.failed", "event: error"};
    for (server_shape shape = SERVER_CHAT; shape < SERVER_SHAPE_COUNT; shape++) {
        stage s;
        open_stage(&s, shape, true);
        s.result.finish = SERVER_FINISH_FAILED;
        s.result.error = (sl_error){SL_IO, "the disk is gone"};
        tell(&s, SERVER_EVENT_CONTENT, "x", 1);
        tell(&s, SERVER_EVENT_END, "", 0);
        server_writer_finish(&s.writer);
        assert_non_null(strstr(s.writer.out.bytes, wanted[shape]));
        assert_non_null(strstr(s.writer.out.bytes, "the disk is gone"));
        close_stage(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chat_streams_deltas),
        cmocka_unit_test(chat_has_one_message),
        cmocka_unit_test(dropped_calls_are_left_out),
        cmocka_unit_test(messages_open_one_block_at_a_time),
        cmocka_unit_test(messages_have_blocks_in_order),
        cmocka_unit_test(stops_have_the_names_of_each_api),
        cmocka_unit_test(responses_have_numbered_events),
        cmocka_unit_test(silence_has_events_where_clients_wait_for_them),
        cmocka_unit_test(progress_has_the_form_of_its_stream),
        cmocka_unit_test(places_are_counted_in_characters),
        cmocka_unit_test(failures_end_a_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
