/* parser_test.c - Each family: plain text, calls, reasoning, and what models get wrong.  Every case
 * is fed at once, byte by byte and cut at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "tests/support/message_log.h"
#include <jansson.h>

#define TOOLS                                                                                      \
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "        \
    "\"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, " \
    "\"b\": {\"type\": \"boolean\"}, \"o\": {\"type\": \"object\"}, \"m\": {\"type\": "            \
    "[\"string\", \"null\"]}, \"a\": {\"anyOf\": [{\"type\": \"integer\"}, {\"type\": "            \
    "\"null\"}]}, \"e\": {\"enum\": [\"x\", \"y\"]}, \"r\": {\"$ref\": \"#/$defs/t\"}}, "          \
    "\"$defs\": {\"t\": {\"type\": \"string\"}}}}}, {\"name\": \"g\"}]"

typedef struct {
    const char *family, *prompt, *text, *log;
} test_case;

static void same(const test_case *c, const char *how, const message_log *one,
                 const message_log *other) {
    if (strcmp(one->text, other->text) != 0 || strcmp(one->json, other->json) != 0)
        fail_msg("%s, %s: '%s'\nat once: %s\n%s\ndivided: %s\n%s", c->family, how, c->text,
                 one->text, one->json, other->text, other->json);
}

static void check_with(const test_case *c, sl_message_parser_options options) {
    sl_status status;
    const size_t bytes = strlen(c->text);
    uint64_t state = bytes;
    message_log whole = message_log_of(&options, c->text, bytes, message_cut_all, NULL, &status);
    assert_int_equal(status, SL_OK);
    if (strcmp(whole.text, c->log) != 0)
        fail_msg("%s: '%s'\nfound:  %s\nwanted: %s", c->family, c->text, whole.text, c->log);
    message_log each = message_log_of(&options, c->text, bytes, message_cut_bytes, NULL, &status);
    assert_int_equal(status, SL_OK);
    same(c, "by bytes", &whole, &each);
    message_log_free(&each);
    for (int i = 0; i < 20; i++) {
        each = message_log_of(&options, c->text, bytes, message_cut_random, &state, &status);
        assert_int_equal(status, SL_OK);
        same(c, "at random", &whole, &each);
        message_log_free(&each);
    }
    /* Whole calls: the same message, and nothing is dropped. */
    options.whole_calls = 1;
    each = message_log_of(&options, c->text, bytes, message_cut_random, &state, &status);
    assert_int_equal(status, SL_OK);
    assert_string_equal(each.json, whole.json);
    assert_null(strstr(each.text, "|D"));
    message_log_free(&each);
    message_log_free(&whole);
}

static void check(const test_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++)
        check_with(&cases[i],
                   (sl_message_parser_options){.struct_size = sizeof(sl_message_parser_options),
                                               .family = cases[i].family,
                                               .tools_json = TOOLS,
                                               .prompt = cases[i].prompt,
                                               .id_seed = 7});
}
#define CHECK(CASES) check(CASES, sizeof(CASES) / sizeof *(CASES))

#define CALL(NAME, ARGS)                                                                           \
    "<tool_call>\n{\"name\": \"" NAME "\", \"arguments\": " ARGS "}\n</tool_call>"
static void test_hermes(void **state) {
    (void)state;
    static const test_case cases[] = {
        {"hermes", NULL, "Hello.\n", "C:Hello.\n"},
        {"hermes", NULL, CALL("f", "{\"n\": 1}"), "B0:f|A0:{\"n\": 1}|E0"},
        {"hermes", NULL,
         "Let me see.\n\n" CALL("f", "{}") "\n" CALL("g", "{\"x\": [1, \"]\"]}") "\n",
         "C:Let me see.|B0:f|A0:{}|E0|B1:g|A1:{\"x\": [1, \"]\"]}|E1"},
        {"hermes", NULL, "A\n" CALL("f", "{}") "\n\nB", "C:A|B0:f|A0:{}|E0|C:\n\nB"},
        {"hermes", NULL, CALL("f", "{}") "\n\nB ", "B0:f|A0:{}|E0|C:B "},
        {"hermes", NULL, "<think>\nhm <tool_call>\n</think>\n\nYes\n" CALL("f", "{}"),
         "R:hm <tool_call>|C:Yes|B0:f|A0:{}|E0"},
        {"hermes", "<|im_start|>assistant\n<think>\n", "hm\n\n</think>\n\nYes", "R:hm|C:Yes"},
        {"hermes", "<think>\n\n</think>\n\n", "Yes", "C:Yes"},
        {"hermes", NULL, "<think>\nno end\n", "R:no end"},
        {"hermes", NULL, "a <think> b </think>", "C:a <think> b </think>"},
        {"hermes", NULL, "<think>\na\n</think>\n<think>b</think>", "R:a\nb"},
        /* keys in another order, arguments as a string, none at all */
        {"hermes", NULL,
         "<tool_call>{\"arguments\": {\"s\": \"\xC3\xA9\"}, \"name\": \"f\"}</tool_call>",
         "B0:f|A0:{\"s\": \"\xC3\xA9\"}|E0"},
        {"hermes", NULL,
         "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"n\\\": 2}\"}</tool_call>",
         "B0:f|A0:{\"n\": 2}|E0"},
        {"hermes", NULL, "<tool_call>{\"name\": \"f\"}</tool_call>", "B0:f|A0:{}|E0"},
        {"hermes", NULL,
         "<tool_call>{\"name\": \"\\u0066\\u00e9\\ud83d\\ude00\\u4E16\\/\", \"arguments\": "
         "\"{\\n\\\"s\\\": \\\"a\\\\n\\u00E9\\\"\\t}\"}</tool_call>",
         "B0:f\xC3\xA9\xF0\x9F\x98\x80\xE4\xB8\x96/|A0:{\n\"s\": \"a\\n\xC3\xA9\"\t}|E0"},
        {"hermes", NULL,
         "<tool_call>{\"id\": 3, \"name\": \"f\", \"parameters\": {\"n\":1}}</tool_call>",
         "B0:f|A0:{\"n\":1}|E0"},
        /* tags in strings, in code, line breaks in strings */
        {"hermes", NULL, CALL("f", "{\"s\": \"</tool_call>\"}"),
         "B0:f|A0:{\"s\": \"</tool_call>\"}|E0"},
        {"hermes", NULL, "```\n" CALL("f", "{}") "\n```", "C:```|B0:f|A0:{}|E0|C:\n```"},
        {"hermes", NULL, CALL("f", "{\"s\": \"a\n\tb\"}"), "B0:f|A0:{\"s\": \"a\\n\\tb\"}|E0"},
        /* closing tags are missing */
        {"hermes", NULL, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}", "B0:f|A0:{}|E0"},
        {"hermes", NULL, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_c",
         "B0:f|A0:{}|E0"},
        {"hermes", NULL, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\nDone",
         "B0:f|A0:{}|E0|C:Done"},
        /* malformed: exactly what was written */
        {"hermes", NULL, "A <tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1",
         "C:A|B0:f|A0:{\"n\": 1|D0|C: <tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1"},
        {"hermes", NULL, "<tool_call>\n{\"name\": \"f\"; }\n</tool_call>\n",
         "C:<tool_call>\n{\"name\": \"f\"; }\n</tool_call>\n"},
        {"hermes", NULL, "<tool_call>\n{\"arguments\": {}}</tool_call>",
         "C:<tool_call>\n{\"arguments\": {}}</tool_call>"},
        {"hermes", NULL, "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
         "C:<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"},
        {"hermes", NULL, "<tool_call>{\"name\": \"f\", \"name\": \"g\"}</tool_call>",
         "C:<tool_call>{\"name\": \"f\", \"name\": \"g\"}</tool_call>"},
        {"hermes", NULL,
         "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"\\ud800\"}}</tool_call>",
         "B0:f|A0:{\"s\": \"\\ud800|D0|C:<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": "
         "\"\\ud800\"}}</tool_call>"},
        {"hermes", NULL, "<tool_call><tool_call>\n{\"name\": \"f\"}</tool_call>",
         "C:<tool_call>|B0:f|A0:{}|E0"},
        {"hermes", NULL, "<tool_call>{\"name\": <tool_call>{\"name\": \"f\"}</tool_call>",
         "C:<tool_call>{\"name\":|B0:f|A0:{}|E0"},
        {"hermes", NULL, "a <tool_", "C:a <tool_"},
        {"hermes", NULL, "a <tool_call>", "C:a <tool_call>"},
        {"hermes", NULL, "</tool_call>", "C:</tool_call>"},
        {"hermes", NULL, "<think>a</thi", "R:a</thi"},
        {"hermes", NULL, "\xE4\xB8\x96 <tool_\xE7\x95\x8C", "C:\xE4\xB8\x96 <tool_\xE7\x95\x8C"},
        {"hermes", NULL, "\xE4\xB8 \xFF", "C:\xEF\xBF\xBD \xEF\xBF\xBD"},
        {"hermes", NULL, "", ""},
        {"json", NULL, "{\"name\": \"f\", \"parameters\": {\"n\": 1}}", "B0:f|A0:{\"n\": 1}|E0"},
        {"json", NULL, "{\"name\": \"Ann\", \"age\": 3}", "C:{\"name\": \"Ann\", \"age\": 3}"},
        {"json", NULL, "See {\"name\": \"f\"}", "C:See {\"name\": \"f\"}"},
        {"none", NULL, "<think>a</think>b " CALL("f", "{}"), "R:a|C:b " CALL("f", "{}")},
    };
    CHECK(cases);
}

#define P(K, V)       "<parameter=" K ">\n" V "\n</parameter>\n"
#define X(NAME, BODY) "<tool_call>\n<function=" NAME ">\n" BODY "</function>\n</tool_call>"
static void test_qwen_xml(void **state) {
    (void)state;
    static const test_case cases[] = {
        {"qwen_xml", NULL, X("f", P("s", "hi") P("n", "3")), "B0:f|A0:{\"s\":\"hi\",\"n\":3}|E0"},
        {"qwen_xml", NULL, X("f", ""), "B0:f|A0:{}|E0"},
        {"qwen_xml", NULL, "Look:\n\n" X("f", P("b", "True")) "\n" X("g", P("z", "[1, 2]")),
         "C:Look:|B0:f|A0:{\"b\":true}|E0|B1:g|A1:{\"z\":[1, 2]}|E1"},
        {"qwen_xml", NULL, X("f", P("s", "\n a\n\"b\"\\\n")),
         "B0:f|A0:{\"s\":\"\\n a\\n\\\"b\\\"\\\\\\n\"}|E0"},
        {"qwen_xml", NULL, X("f", P("s", "</parameter></param")),
         "B0:f|A0:{\"s\":\"\"|D0|C:" X("f", P("s", "</parameter></param"))},
        {"qwen_xml", NULL, X("f", P("s", "<b></para</p>")), "B0:f|A0:{\"s\":\"<b></para</p>\"}|E0"},
        {"qwen_xml", NULL, X("f", P("s", "null") P("m", "null") P("a", "null")),
         "B0:f|A0:{\"s\":\"null\",\"m\":null,\"a\":null}|E0"},
        {"qwen_xml", NULL, X("f", P("m", "5") P("a", "5") P("n", "five") P("e", "x") P("r", "7")),
         "B0:f|A0:{\"m\":\"5\",\"a\":5,\"n\":\"five\",\"e\":\"x\",\"r\":\"7\"}|E0"},
        {"qwen_xml", NULL, X("f", P("o", "{\"k\": [null]}") P("o2", "{broken")),
         "B0:f|A0:{\"o\":{\"k\": [null]},\"o2\":\"{broken\"}|E0"},
        {"qwen_xml", NULL, X("f", "<parameter=s></parameter><parameter=n></parameter>"),
         "B0:f|A0:{\"s\":\"\",\"n\":\"\"}|E0"},
        {"qwen_xml", NULL, "<think>\n" X("f", "") "</think>" X("g", ""),
         "R:" X("f", "") "|B0:g|A0:{}|E0"},
        /* the first tag is forgotten: only for tools that there are */
        {"qwen_xml", NULL, "<function=f>\n" P("n", "1") "</function>\n</tool_call>",
         "B0:f|A0:{\"n\":1}|E0"},
        {"qwen_xml", NULL, "<function=h>\n</function>", "C:<function=h>\n</function>"},
        {"qwen_xml", NULL, "<tool_call>\n<function=f>\n</function> more", "B0:f|A0:{}|E0|C:more"},
        /* malformed */
        {"qwen_xml", NULL, "<tool_call>\n<function=f>\n<parameter=s>\nabc",
         "B0:f|A0:{\"s\":\"abc|D0|C:<tool_call>\n<function=f>\n<parameter=s>\nabc"},
        {"qwen_xml", NULL, "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>",
         "B0:f|A0:{\"n\":1|D0|C:<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>"},
        {"qwen_xml", NULL, "<tool_call>\n<function=f\n</tool_call>",
         "C:<tool_call>\n<function=f\n</tool_call>"},
        {"qwen_xml", NULL, "<tool_call>\n<funk>\n</tool_call>",
         "C:<tool_call>\n<funk>\n</tool_call>"},
        {"qwen_xml", NULL, "<tool_call>\n<function=f>\n</tool_call>",
         "B0:f|D0|C:<tool_call>\n<function=f>\n</tool_call>"},
        {"qwen_xml", NULL, "<tool_call>\n<function=>\n</function></tool_call>",
         "C:<tool_call>\n<function=>\n</function></tool_call>"},
        {"qwen_xml", NULL, "<tool_call>{\"name\": \"f\"}</tool_call>",
         "C:<tool_call>{\"name\": \"f\"}</tool_call>"},
        {"qwen_xml", NULL, "<tool_call><function=f><tool_call><function=g></function></tool_call>",
         "B0:f|D0|C:<tool_call><function=f>|B1:g|A1:{}|E1"},
    };
    CHECK(cases);
}

static void test_glm(void **state) {
    (void)state;
    static const test_case cases[] = {
        {"glm", NULL,
         "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a\n</arg_value>\n</tool_call>",
         "B0:f|A0:{\"s\":\"a\\n\"}|E0"},
        {"glm", NULL,
         "<tool_call>f<arg_key>s</arg_key><arg_value>x</arg_value><arg_key>n</arg_key>"
         "<arg_value>-1e3</arg_value></tool_call><tool_call>g</tool_call>",
         "B0:f|A0:{\"s\":\"x\",\"n\":-1e3}|E0|B1:g|A1:{}|E1"},
        {"glm", NULL, "<tool_call>g\n</tool_call>", "B0:g|A0:{}|E0"},
        {"glm", "<|assistant|>\n<think>", "why</think>\nSo:\n<tool_call>g\n</tool_call>\nbye",
         "R:why|C:So:|B0:g|A0:{}|E0|C:\nbye"},
        {"glm", NULL, "<tool_call> is a tag, see </tool_call>",
         "C:<tool_call> is a tag, see </tool_call>"},
        {"glm", NULL, "<tool_call>is <tool_call>g</tool_call>", "C:<tool_call>is|B0:g|A0:{}|E0"},
        {"glm", NULL, "<tool_call>f<arg_key>s</arg_key><arg_key>",
         "B0:f|D0|C:<tool_call>f<arg_key>s</arg_key><arg_key>"},
        {"glm", NULL, "<tool_call>f<arg_key>s</arg_key><arg_value>x</arg_value>",
         "B0:f|A0:{\"s\":\"x\"|D0|C:<tool_call>f<arg_key>s</arg_key><arg_value>x</arg_value>"},
        {"glm", NULL, "<tool_call>f<arg_k", "C:<tool_call>f<arg_k"},
    };
    CHECK(cases);
}

#define BEGIN "<｜tool▁calls▁begin｜>"
#define END   "<｜tool▁calls▁end｜>"
#define V3(NAME, ARGS)                                                                             \
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" NAME "\n```json\n" ARGS "\n```<"                 \
    "｜tool▁call▁end｜>"
#define V31(NAME, ARGS)    "<｜tool▁call▁begin｜>" NAME "<｜tool▁sep｜>" ARGS "<｜tool▁call▁end｜>"
#define D(TEXT)            "｜DSML｜" TEXT
#define INVOKE(NAME, BODY) "<" D("invoke name=\"" NAME "\">\n") BODY "</" D("invoke>\n")
#define PARAM(K, S, V)     "<" D("parameter name=\"" K "\" string=\"" S "\">") V "</" D("parameter>\n")
#define BLOCK(BODY)        "<" D("function_calls>\n") BODY "</" D("function_calls>")
static void test_deepseek(void **state) {
    (void)state;
    static const test_case cases[] = {
        {"deepseek_v3", NULL, BEGIN V3("f", "{\"n\": 1}") "\n" V3("g", "{\"s\": \"```\"}") END,
         "B0:f|A0:{\"n\": 1}|E0|B1:g|A1:{\"s\": \"```\"}|E1"},
        {"deepseek_v3", "<｜Assistant｜><think>\n", "hm</think>\n\nOk." BEGIN V3("f", "{}") END "!",
         "R:hm|C:Ok.|B0:f|A0:{}|E0|C:!"},
        {"deepseek_v3", NULL, BEGIN "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}",
         "B0:f|A0:{}|E0"},
        {"deepseek_v3", NULL, BEGIN V3("f", "{}"), "B0:f|A0:{}|E0"},
        {"deepseek_v3", NULL, BEGIN V3("f", "{") END, "B0:f|A0:{\n|D0|C:" BEGIN V3("f", "{") END},
        {"deepseek_v3", NULL, BEGIN V3("f", "{}") "\n" BEGIN, "B0:f|A0:{}|E0|C:" BEGIN},
        {"deepseek_v3", NULL, BEGIN END, "C:" BEGIN END},
        {"deepseek_v3", NULL, "<｜tool▁calls", "C:<｜tool▁calls"},
        {"deepseek_v3_1", "<｜Assistant｜></think>",
         "Hm" BEGIN V31("f", "{\"n\":1}") V31("g", "{}") END,
         "C:Hm|B0:f|A0:{\"n\":1}|E0|B1:g|A1:{}|E1"},
        {"deepseek_v3_1", NULL, V31("f", "{}") "x", "B0:f|A0:{}|E0|C:x"},
        {"deepseek_v3_1", NULL, BEGIN V31("f", "{}") V31("g", "1") END,
         "B0:f|A0:{}|E0|B1:g|D1|C:" V31("g", "1") END},
        {"deepseek_v3_1", NULL, BEGIN "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}" V31("g", "{}") END,
         "B0:f|A0:{}|E0|B1:g|A1:{}|E1"},
        {"deepseek_v3_2", "<think>",
         "a</think>b\n\n" BLOCK(INVOKE("f", PARAM("s", "true", "1\n") PARAM("n", "false", "1"))),
         "R:a|C:b|B0:f|A0:{\"s\":\"1\\n\",\"n\":1}|E0"},
        {"deepseek_v3_2", NULL,
         BLOCK(INVOKE("f", "") INVOKE("g", PARAM("x", "false", "{]"))) "\nEnd",
         "B0:f|A0:{}|E0|B1:g|A1:{\"x\":\"{]\"}|E1|C:End"},
        {"deepseek_v3_2", NULL, BLOCK(INVOKE("f", PARAM("s", "maybe", "1"))),
         "B0:f|D0|C:" BLOCK(INVOKE("f", PARAM("s", "maybe", "1")))},
        {"deepseek_v3_2", NULL, BLOCK(""), "C:" BLOCK("")},
        {"deepseek_v3_2", NULL, "<" D("function_calls>\n") INVOKE("f", ""), "B0:f|A0:{}|E0"},
        {"deepseek_v3_2", NULL, BLOCK(INVOKE("f", "") "text"),
         "B0:f|A0:{}|E0|C:text</" D("function_calls>")},
        {"deepseek_v4", NULL,
         "<" D("tool_calls>") INVOKE("f", PARAM("s", "true", "\"q\"")) "</" D("tool_calls>"),
         "B0:f|A0:{\"s\":\"\\\"q\\\"\"}|E0"},
    };
    CHECK(cases);
}

#define H(CHANNEL, TEXT) "<|channel|>" CHANNEL "<|message|>" TEXT
#define START            "<|start|>assistant"
#define TO_F             "commentary to=functions.f <|constrain|>json"
static void test_harmony(void **state) {
    (void)state;
    static const test_case cases[] = {
        {"harmony", START, H("analysis", "hm") "<|end|>" START H("final", "Hello <b>") "<|return|>",
         "R:hm|C:Hello <b>"},
        {"harmony", START, H("analysis", "hm") "<|end|>" START H(TO_F, "{\"n\":1}") "<|call|>",
         "R:hm|B0:f|A0:{\"n\":1}|E0"},
        {"harmony", START, H(TO_F, "{\"n\":1}"), "B0:f|A0:{\"n\":1}|E0"},
        {"harmony", START, " to=functions.f" H("commentary json", "{}") "<|call|>",
         "B0:f|A0:{}|E0"},
        {"harmony", START " to=functions.f", H("commentary json", "{}"), "B0:f|A0:{}|E0"},
        {"harmony", START,
         H("commentary", "I look.") "<|end|>" START H(
             TO_F, "{}") "<|call|>" START
                         " to=functions.g" H("analysis", "{}") "<|call|>" START H("final", "Done."),
         "C:I look.|B0:f|A0:{}|E0|B1:g|A1:{}|E1|C:\nDone."},
        {"harmony", START,
         H("analysis", "a") "<|end|>" START H("analysis", "b") START H("final", "c"), "R:a\nb|C:c"},
        {"harmony", START, "<|message|>Hi", "C:Hi"},
        {"harmony", START H("final", ""), "on", "C:on"},
        {"harmony", START H("analysis", "so"), " on<|end|>", "R: on"},
        {"harmony", START, H("commentary to=browser.search", "{\"q\": \"x\"}"),
         "B0:browser.search|A0:{\"q\": \"x\"}|E0"},
        {"harmony", START, H(TO_F, "{\"n\":<|call|>"),
         "B0:f|A0:{\"n\":|D0|C:" H(TO_F, "{\"n\":<|call|>")},
        {"harmony", START, H("analysis to=python code", "print(1)") "<|call|>",
         "B0:python|D0|C:" H("analysis to=python code", "print(1)") "<|call|>"},
        {"harmony", START, H(TO_F, "{\"n\":1"), "B0:f|A0:{\"n\":1|D0|C:" H(TO_F, "{\"n\":1")},
        {"harmony", START, H(TO_F, "{}") START H("final", "x"), "B0:f|A0:{}|E0|C:x"},
        {"harmony", START, "<|channel|>fin", "C:<|channel|>fin"},
        {"harmony", START, "<|channel|>final<|end|>", "C:<|channel|>final<|end|>"},
        {"harmony", NULL, "plain <|mess", "C:plain <|mess"},
    };
    CHECK(cases);
}

static void test_mistral(void **state) {
    (void)state;
    static const test_case cases[] = {
        {"mistral", NULL,
         "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"n\": 1}, \"id\": \"abcdefghi\"}]",
         "B0:f|A0:{\"n\": 1}|E0"},
        {"mistral", NULL,
         "Ok. [TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": "
         "{}}] Bye",
         "C:Ok.|B0:f|A0:{}|E0|B1:g|A1:{}|E1|C: Bye"},
        {"mistral", NULL,
         "[TOOL_CALLS]f[ARGS]{\"s\": \"[ARGS]\"}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}",
         "B0:f|A0:{\"s\": \"[ARGS]\"}|E0|B1:g|A1:{}|E1"},
        {"mistral", "[/INST][THINK]", "hm[/THINK]Yes", "R:hm|C:Yes"},
        {"mistral", NULL, "[THINK]hm[/THINK]\n[TOOL_CALLS]f[ARGS]{}", "R:hm|B0:f|A0:{}|E0"},
        {"mistral", NULL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\"",
         "B0:f|A0:{}|E0|C:, {\"name\""},
        {"mistral", NULL, "[TOOL_CALLS]f[ARGS][]", "B0:f|D0|C:[TOOL_CALLS]f[ARGS][]"},
        {"mistral", NULL, "[TOOL_CALLS]f g[ARGS]{}", "C:[TOOL_CALLS]f g[ARGS]{}"},
        {"mistral", NULL, "[TOOL_CALLS][]", "C:[TOOL_CALLS][]"},
        {"mistral", NULL, "[TOOL_CALLS]", "C:[TOOL_CALLS]"},
        {"mistral", NULL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}", "B0:f|A0:{}|E0"},
        {"mistral", NULL, "[1, 2] [TOOL", "C:[1, 2] [TOOL"},
    };
    CHECK(cases);
}

/* ---- Options ---- */

static message_log parse(sl_message_parser_options options, const char *text) {
    sl_status status;
    options.struct_size = sizeof options;
    message_log log = message_log_of(&options, text, strlen(text), message_cut_all, NULL, &status);
    assert_int_equal(status, SL_OK);
    return log;
}

static void test_reasoning_formats(void **state) {
    (void)state;
    static const struct {
        const char *family, *text, *logs[3];
    } rows[] = {
        {"hermes",
         "<think>\nhm\n</think>\n\nYes",
         {"R:hm|C:Yes", "C:<think>\nhm\n</think>\n\nYes",
          "C:<think>|R:hm|C:\nhm\n</think>\n\nYes"}},
        {"hermes",
         "<think>\n" CALL("f", "{}") "</think>" CALL("g", "{}"),
         {"R:" CALL("f", "{}") "|B0:g|A0:{}|E0",
          "C:<think>\n" CALL("f", "{}") "</think>|B0:g|A0:{}|E0", NULL}},
        {"harmony",
         START H("analysis", "hm") "<|end|>" START H("final", "Yes"),
         {"R:hm|C:Yes", "C:" START H("analysis", "hm") "<|end|>\nYes", NULL}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int format = 0; format < 3; format++) {
            message_log log =
                parse((sl_message_parser_options){.family = rows[i].family,
                                                  .tools_json = "[]",
                                                  .reasoning = (sl_reasoning_format)format},
                      rows[i].text);
            if (format < 2) assert_string_equal(log.text, rows[i].logs[format]);
            json_t *message = json_loads(log.json, 0, NULL);
            const char *thought = json_string_value(json_object_get(message, "reasoning_content"));
            assert_int_equal(thought == NULL, format == SL_REASONING_NONE);
            json_decref(message);
            message_log_free(&log);
        }
}

static void test_message(void **state) {
    (void)state;
    message_log log =
        parse((sl_message_parser_options){.family = "hermes", .tools_json = "[]", .id_seed = 1},
              "<think>hm</think>" CALL("f", "{\"a\": 1}") CALL("g", "{}"));
    json_t *message = json_loads(log.json, 0, NULL);
    const json_t *calls = json_object_get(message, "tool_calls"), *call = json_array_get(calls, 0);
    assert_int_equal(json_array_size(calls), 2);
    assert_true(json_is_null(json_object_get(message, "content")));
    assert_string_equal(json_string_value(json_object_get(message, "reasoning_content")), "hm");
    assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
    const char *id = json_string_value(json_object_get(call, "id"));
    assert_int_equal(strlen(id), 29);
    assert_memory_equal(id, "call_", 5);
    assert_string_not_equal(id, json_string_value(json_object_get(json_array_get(calls, 1), "id")));
    call = json_object_get(call, "function");
    assert_string_equal(json_string_value(json_object_get(call, "name")), "f");
    assert_string_equal(json_string_value(json_object_get(call, "arguments")), "{\"a\": 1}");
    json_decref(message);
    message_log_free(&log);
    /* An id of the model counts where the family has ids, if it comes before the arguments. */
    log = parse((sl_message_parser_options){.family = "mistral", .tools_json = "[]"},
                "[TOOL_CALLS]f[CALL_ID]abc456789[ARGS]{}");
    assert_non_null(strstr(log.json, "\"abc456789\""));
    message_log_free(&log);
    log = parse((sl_message_parser_options){.family = "mistral", .tools_json = "[]"},
                "[TOOL_CALLS]f[ARGS]{}");
    message = json_loads(log.json, 0, NULL);
    call = json_array_get(json_object_get(message, "tool_calls"), 0);
    assert_int_equal(json_string_length(json_object_get(call, "id")), 9);
    json_decref(message);
    message_log_free(&log);
}

static void test_no_template(void **state) {
    (void)state;
    assert_string_equal(sl_message_family_detect((sl_slice){0})->name, "none");
    assert_string_equal(sl_message_family_detect((sl_slice){"x", 1})->name, "none");
}

/* Without tools, calls are text. */
static void test_no_tools(void **state) {
    (void)state;
    message_log log =
        parse((sl_message_parser_options){.family = "hermes"}, "<think>a</think>" CALL("f", "{}"));
    assert_string_equal(log.text, "R:a|C:" CALL("f", "{}"));
    message_log_free(&log);
    log = parse((sl_message_parser_options){.family = "harmony", .prompt = START},
                H(TO_F, "{}") "<|call|>");
    assert_string_equal(log.text, "C:" H(TO_F, "{}") "<|call|>");
    message_log_free(&log);
}

static void test_pieces(void **state) {
    (void)state;
    static const char *const pieces[] = {"<think>", "\n", "hm", "</think>", "\n", "Yes"};
    const sl_message_parser_options options = {.struct_size = sizeof options, .family = "hermes"};
    sl_message_parser *parser;
    sl_error err;
    assert_int_equal(sl_parser_create(&options, &parser, &err), SL_OK);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(
            sl_parser_feed(parser, (sl_slice){pieces[i], strlen(pieces[i])}, true, &err), SL_OK);
        assert_int_equal(sl_parser_is_reasoning(parser), i < 3);
    }
    assert_int_equal(sl_parser_reasoning_pieces(parser), 4);
    assert_int_equal(sl_parser_finish(parser, &err), SL_OK);
    assert_int_equal(sl_parser_feed(parser, (sl_slice){"x", 1}, true, &err), SL_INVALID);
    sl_parser_destroy(parser);
}

/* Where markers are special tokens, their spelling in ordinary ones is text. */
static void test_control(void **state) {
    (void)state;
    const sl_message_parser_options options = {
        .struct_size = sizeof options, .family = "mistral", .tools_json = "[]"};
    sl_message_parser *parser;
    sl_message_event event;
    sl_error err;
    assert_int_equal(sl_parser_create(&options, &parser, &err), SL_OK);
    static const struct {
        const char *text;
        bool marks;
    } pieces[] = {{"[TOOL_CALLS]", false}, {"f[ARGS]{}", false}, {"[TOOL_CALLS]", true},
                  {"f[ARGS", false},       {"[ARGS]", true},     {"{}", false}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sl_parser_feed(parser, (sl_slice){pieces[i].text, strlen(pieces[i].text)},
                                        pieces[i].marks, &err),
                         SL_OK);
    assert_true(sl_parser_next(parser, &event));
    assert_int_equal(event.kind, SL_MESSAGE_CONTENT);
    assert_int_equal(event.bytes, strlen("[TOOL_CALLS]f[ARGS]{}"));
    assert_false(sl_parser_next(parser, &event));
    sl_parser_destroy(parser);
    assert_true(sl_message_family_marks(sl_message_family_find("harmony"),
                                        (sl_slice){"<|constrain|>", 13}));
    assert_true(
        sl_message_family_marks(sl_message_family_find("mistral"), (sl_slice){"[ARGS]", 6}));
    assert_false(
        sl_message_family_marks(sl_message_family_find("harmony"), (sl_slice){"<|im_end|>", 10}));
}

static void test_wrong_options(void **state) {
    (void)state;
    sl_message_parser *parser;
    sl_error err;
    sl_message_parser_options options = {.struct_size = sizeof options, .family = "klingon"};
    assert_int_equal(sl_parser_create(&options, &parser, &err), SL_INVALID);
    assert_string_equal(err.message, "message family 'klingon' is unknown");
    options = (sl_message_parser_options){.tools_json = "{}"};
    assert_int_equal(sl_parser_create(&options, &parser, &err), SL_INVALID);
    options.tools_json = "[";
    assert_int_equal(sl_parser_create(&options, &parser, &err), SL_FORMAT);
    options = (sl_message_parser_options){.reasoning = (sl_reasoning_format)9};
    assert_int_equal(sl_parser_create(&options, &parser, &err), SL_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hermes),        cmocka_unit_test(test_qwen_xml),
        cmocka_unit_test(test_glm),           cmocka_unit_test(test_deepseek),
        cmocka_unit_test(test_harmony),       cmocka_unit_test(test_mistral),
        cmocka_unit_test(test_message),       cmocka_unit_test(test_reasoning_formats),
        cmocka_unit_test(test_no_template),   cmocka_unit_test(test_no_tools),
        cmocka_unit_test(test_pieces),        cmocka_unit_test(test_control),
        cmocka_unit_test(test_wrong_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
