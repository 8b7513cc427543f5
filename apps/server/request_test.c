/* request_test.c - What bodies of each endpoint become, and which are refused. */
#include "apps/server/request.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static server_error err;

static json_t *parse(const char *text) {
    char *copy = strdup(text);
    json_t *body = server_json_parse(copy, strlen(copy), &err);
    free(copy);
    return body;
}

static server_request decode(server_shape shape, const char *text) {
    server_request request;
    err = (server_error){0};
    json_t *body = parse(text);
    assert_non_null(body);
    if (!server_request_decode(shape, body, &request, &err)) fail_msg("%s", err.message);
    return request;
}

static void refuses(server_shape shape, const char *text, const char *param, const char *message) {
    server_request request;
    json_t *body = parse(text);
    assert_non_null(body);
    assert_false(server_request_decode(shape, body, &request, &err));
    assert_int_equal(err.status, 400);
    assert_string_equal(err.param, param);
    if (!strstr(err.message, message)) fail_msg("'%s' in '%s'", message, err.message);
    server_request_deinit(&request);
}

/* The messages of a request in one line. */
static void has_messages(const server_request *r, const char *wanted) {
    char *text = server_json_dump(r->messages);
    assert_string_equal(text, wanted);
    free(text);
}

static void has_option(const server_request *r, const char *name, const char *value) {
    const char *found = server_json_string(r->sampling, name);
    assert_non_null(found);
    assert_string_equal(found, value);
}

/* ---- JSON ---- */

static void half_characters_become_one(void **state) {
    (void)state;
    static const struct {
        const char *text, *wanted;
    } rows[] = {{"{\"a\":\"x\\ud83dy\"}", "x\xef\xbf\xbdy"},
                {"{\"a\":\"x\\ude00y\"}", "x\xef\xbf\xbdy"},
                {"{\"a\":\"x\\u0000y\"}", "x\xef\xbf\xbdy"},
                {"{\"a\":\"\\uD83D\\uDE00\"}", "\xf0\x9f\x98\x80"},
                {"{\"a\":\"\\ud83d\\ud83d\\ude00\"}", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
                {"{\"a\":\"\\\\ud83d\"}", "\\ud83d"},
                {"{\"a\":\"\\\\\\ud83d\"}", "\\\xef\xbf\xbd"},
                {"{\"a\":\"\\ud83d\"}", "\xef\xbf\xbd"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *body = parse(rows[i].text);
        assert_non_null(body);
        assert_string_equal(server_json_string(body, "a"), rows[i].wanted);
        json_decref(body);
    }
}

static void what_is_no_object_is_refused(void **state) {
    (void)state;
    static const char *const rows[] = {"",
                                       "5",
                                       "[]",
                                       "{",
                                       "{\"a\":}",
                                       "{\"a\":\"\\u12\"}",
                                       "\"\\u",
                                       "{\"a\":\"\xff\"}",
                                       "{\"a\":1e999}"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        err.status = 0;
        assert_null(parse(rows[i]));
        assert_int_equal(err.status, 400);
    }
}

/* ---- Chat ---- */

static void chat_is_decoded(void **state) {
    (void)state;
    server_request r = decode(
        SERVER_CHAT,
        "{\"model\":\"m\",\"messages\":[{\"role\":\"developer\",\"content\":\"s\"},{\"role\":"
        "\"user\","
        "\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}],"
        "\"max_tokens\":7,\"max_completion_tokens\":5,\"stop\":\"x\",\"n\":3,\"seed\":9,"
        "\"temperature\":0.5,\"repetition_penalty\":1.5,\"typ_p\":null,\"samplers\":[\"top_k\","
        "\"temperature\"],\"ignore_eos\":true,\"stream\":true,\"unknown\":{\"x\":1},"
        "\"stream_options\":{\"include_usage\":true},\"logprobs\":true,\"top_logprobs\":4}");
    has_messages(
        &r, "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\\nb\"}]");
    assert_string_equal(r.model, "m");
    assert_int_equal(r.most_tokens, 5);
    assert_int_equal(r.n, 3);
    assert_int_equal(json_array_size(r.stops), 1);
    has_option(&r, "temperature", "0.5");
    has_option(&r, "repeat_penalty", "1.5");
    has_option(&r, "samplers", "top_k;temperature");
    has_option(&r, "ignore_eos", "1");
    has_option(&r, "seed", "9");
    assert_true(r.stream && r.include_usage && r.logprobs && !r.continues);
    assert_int_equal(r.top_logprobs, 4);
    server_request_deinit(&r);
}

static void tools_are_decoded(void **state) {
    (void)state;
    server_request r = decode(
        SERVER_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":"
                     "\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"web_search\"}],"
                     "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
                     "\"parallel_tool_calls\":false}");
    assert_int_equal(json_array_size(r.tools), 1);
    assert_int_equal(r.choice, SERVER_TOOLS_REQUIRED);
    assert_string_equal(r.tool, "f");
    assert_true(r.serial_calls);
    server_request_deinit(&r);
}

static void effort_and_thinking_are_decoded(void **state) {
    (void)state;
    static const struct {
        const char *field;
        server_think think;
    } rows[] = {{"\"reasoning_effort\":\"none\"", SERVER_THINK_OFF},
                {"\"reasoning_effort\":\"minimal\"", SERVER_THINK_ON},
                {"\"chat_template_kwargs\":{\"enable_thinking\":false}", SERVER_THINK_OFF},
                {"\"chat_template_kwargs\":{\"enable_thinking\":true}", SERVER_THINK_ON},
                {"\"n\":1", SERVER_THINK_DEFAULT}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[200];
        (void)snprintf(text, sizeof text,
                       "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],%s}", rows[i].field);
        server_request r = decode(SERVER_CHAT, text);
        assert_int_equal(r.think, rows[i].think);
        server_request_deinit(&r);
    }
}

static void the_last_message_is_continued(void **state) {
    (void)state;
    server_request r = decode(SERVER_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
                                           "{\"role\":\"assistant\",\"content\":\"y\"}]}");
    assert_true(r.continues);
    server_request_deinit(&r);
}

static void bad_chats_are_refused(void **state) {
    (void)state;
#define USER "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
    refuses(SERVER_CHAT, "{}", "messages", "messages");
    refuses(SERVER_CHAT,
            "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
            "messages[0].content", "image_url");
    refuses(SERVER_CHAT, "{" USER ",\"temperature\":-1}", "temperature", "temperature");
    refuses(SERVER_CHAT, "{" USER ",\"top_p\":\"high\"}", "top_p", "top_p");
    refuses(SERVER_CHAT, "{" USER ",\"n\":1.5}", "n", "whole number");
    refuses(SERVER_CHAT, "{" USER ",\"tool_choice\":\"required\"}", "tool_choice", "no tools");
    refuses(SERVER_CHAT, "{" USER ",\"logit_bias\":{\"x\":1}}", "logit_bias", "logit_bias");
    refuses(SERVER_CHAT, "{" USER ",\"response_format\":{\"type\":\"json_schema\"}}",
            "response_format", "schema");
}

/* ---- Completions ---- */

static void prompts_are_decoded(void **state) {
    (void)state;
    static const struct {
        const char *prompt;
        size_t count;
    } rows[] = {{"\"a\"", 1}, {"[1,2]", 1}, {"[\"a\",\"b\"]", 2}, {"[[1],[2,3],\"c\"]", 3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, "{\"prompt\":%s,\"logprobs\":0}", rows[i].prompt);
        server_request r = decode(SERVER_COMPLETIONS, text);
        assert_int_equal(json_array_size(r.prompts), rows[i].count);
        assert_true(r.logprobs);
        assert_int_equal(r.top_logprobs, 0);
        assert_int_equal(r.most_tokens, 16);
        server_request_deinit(&r);
    }
    refuses(SERVER_COMPLETIONS, "{\"prompt\":[]}", "prompt", "prompt");
    refuses(SERVER_COMPLETIONS, "{\"prompt\":[1.5]}", "prompt", "prompt");
    refuses(SERVER_COMPLETIONS, "{\"prompt\":\"a\",\"best_of\":3}", "best_of", "best_of");
    refuses(SERVER_COMPLETIONS, "{\"prompt\":[\"a\",\"b\"],\"n\":65}", "n", "128");
}

/* ---- Responses ---- */

static void items_become_messages(void **state) {
    (void)state;
    server_request r = decode(
        SERVER_RESPONSES,
        "{\"instructions\":\"i\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_"
        "text\","
        "\"text\":\"u\"}]},{\"type\":\"reasoning\",\"content\":[{\"type\":\"reasoning_text\","
        "\"text\":"
        "\"t\"}]},{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}"
        "\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"r\"},{\"type\":"
        "\"web_search_call\"}],\"text\":{\"format\":{\"type\":\"json_object\"}},\"store\":false}");
    has_messages(&r,
                 "[{\"role\":\"system\",\"content\":\"i\"},{\"role\":\"user\",\"content\":\"u\"},"
                 "{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"t\","
                 "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                 "\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"content\":\"r\","
                 "\"tool_call_id\":\"c\"}]");
    assert_false(r.keeps);
    assert_non_null(r.schema);
    server_request_deinit(&r);
    r = decode(SERVER_RESPONSES, "{\"input\":\"x\",\"previous_response_id\":\"resp_1\"}");
    assert_true(r.keeps);
    assert_string_equal(r.previous, "resp_1");
    server_request_deinit(&r);
    refuses(SERVER_RESPONSES, "{\"input\":[]}", "input", "input");
    refuses(SERVER_RESPONSES, "{\"input\":[{\"type\":\"function_call\"}]}", "input[0]", "call_id");
}

/* ---- Messages ---- */

static void blocks_become_messages(void **state) {
    (void)state;
    server_request r = decode(
        SERVER_MESSAGES,
        "{\"max_tokens\":9,\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: "
        "1\"},"
        "{\"type\":\"text\",\"text\":\"s\"}],\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
        "{\"role\":\"user\",\"content\":\"b\"},{\"role\":\"assistant\",\"content\":[{\"type\":"
        "\"thinking\",\"thinking\":\"t\"},{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"f\","
        "\"input\":"
        "{\"z\":1,\"a\":2}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
        "\"tool_use_id\":\"i\",\"content\":[{\"type\":\"text\",\"text\":\"r\"}]},{\"type\":"
        "\"text\","
        "\"text\":\"c\"}]}],\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}},"
        "{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}],\"tool_choice\":{\"type\":"
        "\"any\"},"
        "\"stop_sequences\":[\"x\",\"\"],\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":5}}");
    has_messages(
        &r,
        "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\\nb\"},"
        "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"i\",\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"z\\\":1,\\\"a\\\":2}\"}}],"
        "\"reasoning_content\":\"t\"},{\"role\":\"tool\",\"content\":\"r\",\"tool_call_id\":"
        "\"i\"},{\"role\":\"user\",\"content\":\"c\"}]");
    assert_int_equal(json_array_size(r.tools), 1);
    assert_int_equal(r.choice, SERVER_TOOLS_REQUIRED);
    assert_int_equal(json_array_size(r.stops), 1);
    assert_int_equal(r.think, SERVER_THINK_ON);
    has_option(&r, "thinking_budget", "5");
    server_request_deinit(&r);
    refuses(SERVER_MESSAGES, "{" USER "}", "max_tokens", "max_tokens");
    refuses(SERVER_MESSAGES, "{" USER ",\"max_tokens\":5,\"tools\":[{\"name\":\"f\"}]}", "tools",
            "input_schema");
    refuses(SERVER_MESSAGES,
            "{" USER ",\"max_tokens\":5,\"thinking\":{\"type\":\"enabled\","
            "\"budget_tokens\":5}}",
            "thinking", "budget_tokens");
}

static void counting_needs_no_limit(void **state) {
    (void)state;
    server_request r;
    json_t *body = parse("{" USER ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2000}}");
    assert_true(server_request_decode_count(SERVER_MESSAGES, body, &r, &err));
    server_request_deinit(&r);
}

/* ---- Errors ---- */

static void allowed_tools_are_those_that_are_offered(void **state) {
    (void)state;
    static const char tools[] = "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},"
                                "{\"type\":\"function\",\"function\":{\"name\":\"b\"}}]";
    char text[600];
    (void)snprintf(
        text, sizeof text,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],%s,\"tool_choice\":{\"type\":"
        "\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[{\"type\":"
        "\"function\",\"function\":{\"name\":\"b\"}},5]}}}",
        tools);
    server_request r = decode(SERVER_CHAT, text);
    assert_int_equal(r.choice, SERVER_TOOLS_REQUIRED);
    assert_int_equal(json_array_size(r.tools), 1);
    assert_string_equal(
        server_json_string(json_object_get(json_array_get(r.tools, 0), "function"), "name"), "b");
    server_request_deinit(&r);
    r = decode(SERVER_RESPONSES,
               "{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"a\"}],"
               "\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\","
               "\"tools\":[{\"type\":\"function\",\"name\":\"a\"}]}}");
    assert_int_equal(r.choice, SERVER_TOOLS_AUTO);
    server_request_deinit(&r);
    (void)snprintf(
        text, sizeof text,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],%s,\"tool_choice\":{\"type\":"
        "\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[]}}}",
        tools);
    refuses(SERVER_CHAT, text, "tool_choice", "no such tool");
}

/* What other servers have of the chat is read of messages and responses too. */
static void extensions_are_for_all_endpoints(void **state) {
    (void)state;
    static const char *const bodies[] = {
        [SERVER_RESPONSES] = "{\"input\":\"x\",\"structured_outputs\":{\"regex\":\"a+\"},"
                             "\"chat_template_kwargs\":{\"k\":1}}",
        [SERVER_MESSAGES] =
            "{\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
            "\"structured_outputs\":{\"regex\":\"a+\"},"
            "\"output_config\":{\"effort\":\"low\"},"
            "\"chat_template_kwargs\":{\"k\":1}}"};
    for (server_shape shape = SERVER_RESPONSES; shape <= SERVER_MESSAGES; shape++) {
        server_request r = decode(shape, bodies[shape]);
        assert_string_equal(r.grammar, "a+");
        assert_int_equal(r.kind, SL_GRAMMAR_REGEX);
        assert_int_equal(json_integer_value(json_object_get(r.variables, "k")), 1);
        /* Effort alone does not make a model think. */
        assert_int_equal(r.think, SERVER_THINK_DEFAULT);
        server_request_deinit(&r);
    }
}

static void errors_have_the_form_of_their_vendor(void **state) {
    (void)state;
    static const struct {
        int status;
        server_vendor vendor;
        const char *wanted;
    } rows[] = {{400, SERVER_OPENAI,
                 "{\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\",\"param\":\"p\","
                 "\"code\":null}}"},
                {401, SERVER_ANTHROPIC,
                 "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":"
                 "\"m\"},\"request_id\":\"r\"}"},
                {429, SERVER_OPENAI,
                 "{\"error\":{\"message\":\"m\",\"type\":\"rate_limit_exceeded\",\"param\":\"p\","
                 "\"code\":null}}"},
                {503, SERVER_ANTHROPIC,
                 "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"},"
                 "\"request_id\":\"r\"}"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_false(server_refuse(&err, rows[i].status, "p", "%s", "m"));
        json_t *json = server_error_json(&err, rows[i].vendor, "r");
        char *text = server_json_dump(json);
        assert_string_equal(text, rows[i].wanted);
        free(text);
        json_decref(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_characters_become_one),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(chat_is_decoded),
        cmocka_unit_test(tools_are_decoded),
        cmocka_unit_test(effort_and_thinking_are_decoded),
        cmocka_unit_test(the_last_message_is_continued),
        cmocka_unit_test(bad_chats_are_refused),
        cmocka_unit_test(prompts_are_decoded),
        cmocka_unit_test(items_become_messages),
        cmocka_unit_test(blocks_become_messages),
        cmocka_unit_test(counting_needs_no_limit),
        cmocka_unit_test(allowed_tools_are_those_that_are_offered),
        cmocka_unit_test(extensions_are_for_all_endpoints),
        cmocka_unit_test(errors_have_the_form_of_their_vendor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
