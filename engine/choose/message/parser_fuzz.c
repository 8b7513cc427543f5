/* parser_fuzz.c - Input: a byte that chooses family and options, then what a model generated.  The
 * result does not depend on how it is cut, and arguments are JSON. */
#include "engine/choose/message/json_bytes.h"
#include "tests/support/message_log.h"
#include "tests/support/mutate_words.h"
#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools[] =
    "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"s\": {\"type\": \"string\"}, \"n\": "
    "{\"type\": [\"integer\", \"null\", \"boolean\"]}, \"r\": {\"$ref\": \"#\"}}}}]";

static const char *const words[] = {"<think>",
                                    "</think>",
                                    "{\"name\": \"f\", \"arguments\": {}}",
                                    "{\"name\":",
                                    "\"f\"",
                                    "f",
                                    "s",
                                    "n",
                                    "\"arguments\":",
                                    "{}",
                                    "\n",
                                    "function",
                                    "```json",
                                    "assistant",
                                    "analysis",
                                    "commentary to=functions.f"};

static const char *mutation_word(uint32_t pick) {
    enum { WORDS = sizeof words / sizeof words[0] };
    if (pick % 3 == 0) return words[pick / 3 % WORDS];
    const sl_message_family *family = &sl_message_families[pick / 3 % sl_message_family_count];
    if (pick % 3 == 1 && family->starts[0].text) return family->starts[0].text;
    if (family->traits & SL_FAMILY_CHANNELS && pick / 64 % 2)
        return pick / 128 % 2 ? SL_HARMONY_MESSAGE : SL_HARMONY_CHANNEL;
    const char *text = family->steps[pick / 64 % family->step_count].on[pick / 1024 % 2].text;
    return text ? text : family->think;
}

static void check_arguments(const char *json) {
    json_t *message = json_loads(json, JSON_ALLOW_NUL, NULL);
    const json_t *calls = json_object_get(message, "tool_calls");
    if (!message) __builtin_trap();
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *text =
            json_object_get(json_object_get(json_array_get(calls, i), "function"), "arguments");
        if (!sl_json_bytes_valid((sl_slice){json_string_value(text), json_string_length(text)}))
            __builtin_trap();
    }
    json_decref(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const char *text = (const char *)data + 1;
    sl_status status;
    uint64_t state = size;
    const sl_message_parser_options options = {
        .struct_size = sizeof options,
        .family = sl_message_families[data[0] % sl_message_family_count].name,
        .tools_json = tools,
        .prompt = data[0] & 128 ? "<|start|>assistant<think>" : NULL,
        .reasoning = (sl_reasoning_format)(data[0] / 16 % 3),
        .whole_calls = data[0] & 64,
        .id_seed = 1,
    };
    message_log one = message_log_of(&options, text, size - 1, message_cut_random, &state, &status);
    if (status != SL_OK) __builtin_trap();
    message_log other = message_log_of(&options, text, size - 1, message_cut_bytes, NULL, &status);
    if (status != SL_OK || strcmp(one.json, other.json) != 0) __builtin_trap();
    check_arguments(one.json);
    message_log_free(&one);
    message_log_free(&other);
    return 0;
}
