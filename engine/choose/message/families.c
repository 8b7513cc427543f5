#include "engine/choose/message/family.h"
#include <string.h>

#define NEXT(...) .on = {__VA_ARGS__}
#define TO(T, N)                                                                                   \
    { (T), (N), false }
#define ENDS(T, N)                                                                                 \
    { (T), (N), true }
#define LEAVE SL_STEP_LEAVE
#define DSML(TEXT)                                                                                 \
    "\xEF\xBD\x9C"                                                                                 \
    "DSML"                                                                                         \
    "\xEF\xBD\x9C" TEXT

static const sl_marker no_starts[] = {{0}};
static const sl_call_step no_steps[] = {{SL_STEP_EXPECT, NEXT({0}), false}};

/* <tool_call>{"name": ..., "arguments": {...}}</tool_call> */
static const sl_marker tool_call_starts[] = {TO("<tool_call>", 0), {0}};
static const sl_call_step hermes_steps[] = {
    {SL_STEP_ENVELOPE, NEXT(TO("", 1)), false},
    {SL_STEP_EXPECT, NEXT(ENDS("</tool_call>", LEAVE)), true},
};

/* The same as the whole message. */
static const sl_marker json_starts[] = {TO("{", 0), {0}};
static const sl_call_step json_steps[] = {{SL_STEP_ENVELOPE, NEXT(ENDS("", LEAVE)), false}};

/* <tool_call><function=N><parameter=K>V</parameter>...</function></tool_call>; models forget the
 * first tag. */
static const sl_marker qwen_xml_starts[] = {TO("<tool_call>", 0), TO("<function=", 1), {0}};
static const sl_call_step qwen_xml_steps[] = {
    {SL_STEP_EXPECT, NEXT(TO("<function=", 1)), false},
    {SL_STEP_NAME, NEXT(TO(">", 2)), false},
    {SL_STEP_EXPECT, NEXT(TO("<parameter=", 3), TO("</function>", 5)), false},
    {SL_STEP_KEY, NEXT(TO(">", 4)), false},
    {SL_STEP_VALUE, NEXT(TO("</parameter>", 2)), false},
    {SL_STEP_EXPECT, NEXT(ENDS("</tool_call>", LEAVE)), true},
};

/* <tool_call>N<arg_key>K</arg_key><arg_value>V</arg_value>...</tool_call> */
static const sl_call_step glm_steps[] = {
    {SL_STEP_NAME, NEXT(TO("<arg_key>", 1), ENDS("</tool_call>", LEAVE)), false},
    {SL_STEP_KEY, NEXT(TO("</arg_key>", 2)), false},
    {SL_STEP_EXPECT, NEXT(TO("<arg_value>", 3)), false},
    {SL_STEP_VALUE, NEXT(TO("</arg_value>", 4)), false},
    {SL_STEP_EXPECT, NEXT(TO("<arg_key>", 1), ENDS("</tool_call>", LEAVE)), false},
};

static const sl_marker deepseek_starts[] = {
    TO("<｜tool▁calls▁begin｜>", 0), TO("<｜tool▁call▁begin｜>", 1), {0}};
/* ...function<sep>N, a fenced block of JSON */
static const sl_call_step deepseek_v3_steps[] = {
    {SL_STEP_EXPECT, NEXT(TO("<｜tool▁call▁begin｜>", 1)), false},
    {SL_STEP_KIND, NEXT(TO("<｜tool▁sep｜>", 2)), false},
    {SL_STEP_NAME, NEXT(TO("```json", 3)), false},
    {SL_STEP_ARGS, NEXT(TO("", 4)), false},
    {SL_STEP_EXPECT, NEXT(TO("```", 5)), true},
    {SL_STEP_EXPECT, NEXT(ENDS("<｜tool▁call▁end｜>", 6)), true},
    {SL_STEP_EXPECT, NEXT(TO("<｜tool▁call▁begin｜>", 1), TO("<｜tool▁calls▁end｜>", LEAVE)),
     false},
};
/* ...N<sep>JSON */
static const sl_call_step deepseek_v3_1_steps[] = {
    {SL_STEP_EXPECT, NEXT(TO("<｜tool▁call▁begin｜>", 1)), false},
    {SL_STEP_NAME, NEXT(TO("<｜tool▁sep｜>", 2)), false},
    {SL_STEP_ARGS, NEXT(TO("", 3)), false},
    {SL_STEP_EXPECT, NEXT(ENDS("<｜tool▁call▁end｜>", 4)), true},
    {SL_STEP_EXPECT, NEXT(TO("<｜tool▁call▁begin｜>", 1), TO("<｜tool▁calls▁end｜>", LEAVE)),
     false},
};

/* A block of <invoke name="N"><parameter name="K" string="true">V</parameter>...</invoke>, each tag
 * with the token of the language in it. */
#define DSML_STEPS(BLOCK)                                                                          \
    {                                                                                              \
        {SL_STEP_EXPECT, NEXT(TO("<" DSML("invoke name=\""), 1), TO("</" DSML(BLOCK ">"), LEAVE)), \
         false},                                                                                   \
            {SL_STEP_NAME, NEXT(TO("\">", 2)), false},                                             \
            {SL_STEP_EXPECT,                                                                       \
             NEXT(TO("<" DSML("parameter name=\""), 3), ENDS("</" DSML("invoke>"), 0)), false},    \
            {SL_STEP_KEY, NEXT(TO("\" string=\"", 4)), false},                                     \
            {SL_STEP_EXPECT, NEXT(TO("true\">", 5), TO("false\">", 6)), false},                    \
            {SL_STEP_TEXT, NEXT(TO("</" DSML("parameter>"), 2)), false},                           \
            {SL_STEP_JSON, NEXT(TO("</" DSML("parameter>"), 2)), false},                           \
    }
static const sl_marker dsml_starts[] = {TO("<" DSML("function_calls>"), 0), {0}};
static const sl_call_step dsml_steps[] = DSML_STEPS("function_calls");
static const sl_marker dsml_v4_starts[] = {TO("<" DSML("tool_calls>"), 0), {0}};
static const sl_call_step dsml_v4_steps[] = DSML_STEPS("tool_calls");

/* [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...], or N[CALL_ID]id[ARGS]JSON */
static const sl_marker mistral_starts[] = {TO("[TOOL_CALLS]", 0), {0}};
static const sl_call_step mistral_steps[] = {
    {SL_STEP_FORK, NEXT(TO("[", 1), TO("", 4)), false},
    {SL_STEP_EXPECT, NEXT(TO("[", 2)), false},
    {SL_STEP_ENVELOPE, NEXT(ENDS("", 3)), false},
    {SL_STEP_EXPECT, NEXT(TO(",", 2), TO("]", LEAVE)), false},
    {SL_STEP_NAME, NEXT(TO("[ARGS]", 6), TO("[CALL_ID]", 5)), false},
    {SL_STEP_ID, NEXT(TO("[ARGS]", 6)), false},
    {SL_STEP_ARGS, NEXT(ENDS("", LEAVE)), false},
};

/* The heading has been read (harmony.c). */
const sl_marker sl_harmony_ends[] = {TO("<|end|>", 0), TO("<|return|>", 0), TO("<|call|>", 0), {0}};
static const sl_call_step harmony_steps[] = {
    {SL_STEP_ARGS, NEXT(TO("", 1)), false},
    {SL_STEP_EXPECT,
     NEXT(ENDS("<|call|>", LEAVE), ENDS("<|end|>", LEAVE), ENDS("<|return|>", LEAVE)), true},
};

#define SIGNS(...) ((const char *const[]){__VA_ARGS__, NULL})
const sl_message_family sl_message_families[] = {
#define FAMILY(NAME, STARTS, STEPS, ...)                                                           \
    {#NAME, STARTS, STEPS, sizeof(STEPS) / sizeof *(STEPS), __VA_ARGS__},
#include "engine/choose/message/families.def"
};
const uint32_t sl_message_family_count = sizeof sl_message_families / sizeof *sl_message_families;

const sl_message_family *sl_message_family_find(const char *name) {
    for (uint32_t i = 0; i < sl_message_family_count; i++)
        if (strcmp(sl_message_families[i].name, name) == 0) return &sl_message_families[i];
    return NULL;
}

static bool has_all(sl_slice text, const char *const *signs) {
    for (; *signs; signs++)
        if (!memmem(text.text, text.bytes, *signs, strlen(*signs))) return false;
    return true;
}

const sl_message_family *sl_message_family_detect(sl_slice chat_template) {
    uint32_t i = chat_template.bytes ? 0 : sl_message_family_count - 1;
    while (i + 1 < sl_message_family_count && !has_all(chat_template, sl_message_families[i].signs))
        i++;
    return &sl_message_families[i];
}

static bool is(sl_slice text, const char *marker) {
    return marker && marker[0] && strlen(marker) == text.bytes &&
           memcmp(marker, text.text, text.bytes) == 0;
}

static bool is_one_of(sl_slice text, const sl_marker *markers, int most) {
    for (int i = 0; i < most && markers[i].text; i++)
        if (is(text, markers[i].text)) return true;
    return false;
}

bool sl_message_family_marks(const sl_message_family *family, sl_slice text) {
    if (is(text, family->think) || is(text, family->think_end)) return true;
    if (family->traits & SL_FAMILY_CHANNELS)
        return is(text, SL_HARMONY_START) || is(text, SL_HARMONY_CHANNEL) ||
               is(text, SL_HARMONY_MESSAGE) || is(text, "<|constrain|>") ||
               is_one_of(text, sl_harmony_ends, 4);
    if (is_one_of(text, family->starts, 4)) return true;
    for (uint32_t i = 0; i < family->step_count; i++)
        if (is_one_of(text, family->steps[i].on, SL_STEP_MARKERS)) return true;
    return false;
}
