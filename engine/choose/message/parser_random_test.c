/* parser_random_test.c - Random texts made of markers and what stands between them: the events do
 * not depend on how a text is cut, arguments are JSON objects, nothing is lost, and the work is
 * linear in the length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "base/memory.h"
#include "tests/support/message_log.h"
#include "tests/support/rounds.h"
#include <jansson.h>

enum { MOST_WORDS = 24, MOST_BYTES = 4096, LONG_ROUNDS = 1000000 };

#define TOOLS                                                                                      \
    "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"s\": {\"type\": \"string\"}, \"n\": "  \
    "{\"type\": \"integer\"}, \"m\": {\"type\": [\"string\", \"null\"]}}}}]"

/* What stands in all families. */
static const char *const words[] = {
    "<think>",
    "</think>",
    "hm",
    " ",
    "\n",
    "\n\n",
    "Hello",
    "\xE4\xB8\x96\xE7\x95\x8C",
    "\xF0\x9F\x98\x80",
    "\xFF",
    "\xE4\xB8",
    "<",
    "{",
    "}",
    "\"",
    "\\",
    "f",
    "g",
    "```",
    "[",
    "]",
    ",",
    "1",
    "null",
    "{\"name\": \"f\", \"arguments\": {}}",
    "{\"name\": \"f\", \"arguments\": {\"s\": \"",
    "\"}}",
    "{\"n\": 1}",
    "{\"s\": \"a\\n",
    "{\"arguments\": {\"n\": [1, {}]}, \"name\": \"g\"}",
    "true",
    "s",
    "n",
    "\"arguments\": ",
    "\\u00e9",
    "\\ud83d\\ude00",
    "{}",
};
enum { WORDS = sizeof words / sizeof *words };

/* Whole calls, so that not all is malformed. */
static const struct {
    const char *family, *calls[3];
} calls[] = {
    {"hermes",
     {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}}\n</tool_call>", "<tool_call>",
      "</tool_call>"}},
    {"json", {"{\"name\": \"f\", \"parameters\": {}}", "{\"name\":", "\"f\"}"}},
    {"none", {"<tool_call>", "<tool_call>", "</tool_call>"}},
    {"qwen_xml",
     {"<tool_call>\n<function=f>\n<parameter=s>\na\n</parameter>\n<parameter=n>\n1\n</"
      "parameter>\n</function>\n</tool_call>",
      "<tool_call>\n<function=f>\n<parameter=m>", "</parameter>\n</function>"}},
    {"glm",
     {"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
      "<tool_call>f<arg_key>n</arg_key><arg_value>", "</arg_value></tool_call>"}},
    {"deepseek_v3",
     {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<"
      "｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n", "\n```<｜tool▁call▁end｜>"}},
    {"deepseek_v3_1",
     {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
      "｜tool▁calls▁end｜>",
      "<｜tool▁call▁begin｜>f<｜tool▁sep｜>", "<｜tool▁call▁end｜>"}},
    {"deepseek_v3_2",
     {"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"s\" "
      "string=\"true\">x</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
      "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"n\" "
      "string=\"false\">",
      "</｜DSML｜parameter></｜DSML｜invoke>"}},
    {"deepseek_v4",
     {"<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\"></｜DSML｜invoke></｜DSML｜tool_calls>",
      "<｜DSML｜tool_calls>", "</｜DSML｜invoke>"}},
    {"harmony",
     {"<|start|>assistant<|channel|>commentary to=functions.f "
      "<|constrain|>json<|message|>{}<|call|>",
      "<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>"}},
    {"mistral",
     {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]", "[TOOL_CALLS]f[ARGS]",
      "[TOOL_CALLS]f[CALL_ID]abc[ARGS]{}"}},
};
enum { FAMILIES = sizeof calls / sizeof *calls };

static uint64_t draw_state;
static uint32_t draw(uint32_t below) {
    draw_state = draw_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(draw_state >> 33) % below;
}

/* A literal of the family's tables. */
static const char *draw_marker(const sl_message_family *family) {
    const uint32_t kind = draw(8);
    if (kind == 0 && family->starts[0].text)
        return family->starts[draw(family->starts[1].text ? 2 : 1)].text;
    if (kind == 1) return draw(2) ? family->think : family->think_end;
    if (kind == 2 && family->traits & SL_FAMILY_CHANNELS) return sl_harmony_ends[draw(3)].text;
    const char *text = family->steps[draw(family->step_count)].on[draw(SL_STEP_MARKERS)].text;
    return text ? text : "";
}

static size_t make_text(char *out, size_t which) {
    const sl_message_family *family = sl_message_family_find(calls[which].family);
    size_t bytes = 0;
    for (uint32_t left = 1 + draw(MOST_WORDS); left; left--) {
        const uint32_t kind = draw(10);
        const char *word = kind < 3   ? draw_marker(family)
                           : kind < 5 ? calls[which].calls[draw(3)]
                                      : words[draw(WORDS)];
        size_t length = strlen(word);
        if (draw(16) == 0) length = draw((uint32_t)length + 1); /* cut off */
        if (bytes + length > MOST_BYTES) break;
        memcpy(out + bytes, word, length);
        bytes += length;
    }
    return bytes;
}

static json_t *parse(const char *text, size_t bytes) {
    return json_loadb(text, bytes, JSON_ALLOW_NUL, NULL);
}

/* Arguments are objects; what was not parsed is still there. */
static void check_message(const char *json, const char *text, size_t bytes,
                          const sl_message_parser_options *options, uint64_t *complete) {
    json_t *message = parse(json, strlen(json));
    const json_t *list = json_object_get(message, "tool_calls");
    const json_t *content = json_object_get(message, "content");
    assert_non_null(message);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *function = json_object_get(json_array_get(list, i), "function");
        const json_t *arguments = json_object_get(function, "arguments");
        json_t *parsed = parse(json_string_value(arguments), json_string_length(arguments));
        if (!json_is_object(parsed))
            fail_msg("'%.*s': arguments %s", (int)bytes, text, json_string_value(arguments));
        json_decref(parsed);
        ++*complete;
    }
    const bool channels = strcmp(options->family, "harmony") == 0;
    if (!list && !channels && options->reasoning == SL_REASONING_NONE) {
        char whole[3 * (MOST_BYTES + 8)];
        sl_utf8_stream stream = {{0}, 0};
        size_t length = sl_utf8_stream_push(&stream, text, bytes, whole);
        length += sl_utf8_stream_finish(&stream, whole + length);
        if (json_string_length(content) != length ||
            memcmp(json_string_value(content), whole, length) != 0)
            fail_msg("'%.*s'\ncontent: %s", (int)bytes, text, json_string_value(content));
    }
    json_decref(message);
}

static void check_case(size_t which, uint64_t *complete) {
    char text[MOST_BYTES];
    const size_t bytes = make_text(text, which);
    sl_status status;
    uint64_t state = draw_state;
    sl_message_parser_options options = {
        .struct_size = sizeof options,
        .family = calls[which].family,
        .tools_json = draw(12) ? TOOLS : NULL,
        .prompt = draw(4)   ? NULL
                  : draw(2) ? "<think>\n"
                            : "<|start|>assistant",
        .reasoning = (sl_reasoning_format)draw(3),
        .id_seed = 5,
    };
    message_log whole = message_log_of(&options, text, bytes, message_cut_all, NULL, &status);
    assert_int_equal(status, SL_OK);
    check_message(whole.json, text, bytes, &options, complete);
    for (int i = 0; i < 3; i++) {
        if (i == 2) options.whole_calls = 1;
        message_log log = message_log_of(
            &options, text, bytes, i ? message_cut_random : message_cut_bytes, &state, &status);
        assert_int_equal(status, SL_OK);
        if ((i < 2 && strcmp(log.text, whole.text) != 0) || strcmp(log.json, whole.json) != 0)
            fail_msg("%s: '%.*s'\nat once: %s\n%s\ndivided: %s\n%s", options.family, (int)bytes,
                     text, whole.text, whole.json, log.text, log.json);
        message_log_free(&log);
    }
    message_log_free(&whole);
}

static void test_random(void **state) {
    (void)state;
    const int count = is_long_run() ? LONG_ROUNDS : rounds(20000);
    uint64_t complete = 0;
    for (int i = 0; i < count; i++) {
        draw_state = (uint64_t)i;
        (void)draw(2);
        check_case((size_t)i % FAMILIES, &complete);
    }
    print_message("%d texts, %llu complete calls\n", count, (unsigned long long)complete);
    assert_true(complete > (uint64_t)count / 10);
}

/* Any family of the table is drawn. */
static void test_all_families(void **state) {
    (void)state;
    assert_int_equal(FAMILIES, sl_message_family_count);
    for (size_t i = 0; i < FAMILIES; i++) assert_non_null(sl_message_family_find(calls[i].family));
}

/* ---- Linear work ---- */

static void check_work(const char *family, const char *start, const char *repeated) {
    enum { BYTES = 2 << 20 };
    const size_t length = strlen(repeated), before = strlen(start);
    char *text = malloc(BYTES);
    sl_status status;
    uint64_t work[2];
    assert_non_null(text);
    for (int i = 0; i < 2; i++) {
        const size_t bytes = i ? BYTES : BYTES / 4;
        memcpy(text, start, before);
        for (size_t at = before; at < bytes; at++) text[at] = repeated[(at - before) % length];
        const sl_message_parser_options options = {
            .struct_size = sizeof options, .family = family, .tools_json = TOOLS, .id_seed = 5};
        message_log log = message_log_of(&options, text, bytes, message_cut_all, NULL, &status);
        assert_int_equal(status, SL_OK);
        work[i] = log.work;
        message_log_free(&log);
    }
    free(text);
    if (work[1] > 4.2 * (double)work[0] || work[1] > UINT64_C(200) * BYTES)
        fail_msg("%s: '%s' '%s': %llu for a quarter, %llu for %d bytes", family, start, repeated,
                 (unsigned long long)work[0], (unsigned long long)work[1], BYTES);
}

static void test_linear(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"hermes", "", "<tool_call"},
        {"hermes", "", "<tool_call>"},
        {"hermes", "", "<tool_call>{\"name\": \"f\", \"arguments\": {"},
        {"hermes", "", "<tool_call>{\"name\": \"f\"}</tool_cal"},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"", "</tool_call>"},
        {"hermes", "<tool_call>", " "},
        {"hermes", "<think>", "</thin\n"},
        {"hermes", "x", "\n"},
        {"json", "", "{"},
        {"json", "{\"name\": \"f\", \"arguments\": ", "["},
        {"qwen_xml", "", "<tool_call><function=f>"},
        {"qwen_xml", "<tool_call><function=f><parameter=s>", "</parameter"},
        {"qwen_xml", "<tool_call><function=f><parameter=s>", "\n"},
        {"qwen_xml", "<tool_call><function=f>", "<parameter=n>1</parameter>"},
        {"glm", "<tool_call>", "f"},
        {"glm", "<tool_call>f<arg_key>n</arg_key><arg_value>", "<"},
        {"glm", "", "<tool_call>f</tool_call>"},
        {"deepseek_v3", "", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n``"},
        {"deepseek_v3_1", "", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}"},
        {"deepseek_v3_2", "<｜DSML｜function_calls>",
         "<｜DSML｜invoke name=\"f\"></｜DSML｜invoke>"},
        {"harmony", "", "<|channel|>"},
        {"harmony", "", "<|start|>assistant to=functions.f<|message|>{}"},
        {"harmony", "<|channel|>analysis<|message|>", "<|en"},
        {"mistral", "[TOOL_CALLS][", "{\"name\": \"f\"},"},
        {"mistral", "", "[TOOL_CALLS]f[ARGS]{"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_work(rows[i][0], rows[i][1], rows[i][2]);
}

/* ---- Memory ---- */

static void *failing_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    int *left = ctx;
    if (new_bytes && (*left)-- <= 0) return NULL;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

static void test_no_memory(void **state) {
    (void)state;
    for (size_t which = 0; which < FAMILIES; which++) {
        bool done = false;
        for (int most = 0; !done; most++) {
            int left = most;
            char text[MOST_BYTES];
            sl_status status;
            (void)snprintf(text, sizeof text, "<think>hm</think>Hello\n%s%s{\"n\"",
                           calls[which].calls[0], calls[which].calls[1]);
            const sl_message_parser_options options = {.struct_size = sizeof options,
                                                       .family = calls[which].family,
                                                       .tools_json = TOOLS,
                                                       .allocator = {failing_resize, &left}};
            message_log log =
                message_log_of(&options, text, strlen(text), message_cut_bytes, NULL, &status);
            assert_true(status == SL_OK || status == SL_NO_MEMORY);
            done = status == SL_OK;
            message_log_free(&log);
            assert_true(most < 200);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_families),
                                       cmocka_unit_test(test_random), cmocka_unit_test(test_linear),
                                       cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
