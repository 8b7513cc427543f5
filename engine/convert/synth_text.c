/* synth_text.c - A tokenizer and a chat template for models without ones of their own.
 *
 * A token for each byte, which any text is encoded with; two special tokens; and made-up words, so
 * that each token that random weights choose can be seen. */
#include "engine/convert/synth_text.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, START = BYTES, END, FIRST_WORD, WORD_BYTES = 24 };

static const char chat_template[] =
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

/* The number in base 80, a syllable for each digit. */
static void make_word(uint32_t number, char out[WORD_BYTES]) {
    static const char consonants[] = "bdfghjklmnprstvz", vowels[] = "aeiou";
    enum { SYLLABLES = 80 };
    char *at = out;
    *at++ = ' ';
    do {
        *at++ = consonants[number % SYLLABLES / 5];
        *at++ = vowels[number % 5];
        number /= SYLLABLES;
    } while (number-- > 0);
    *at = '\0';
}

static json_t *make_vocabulary(uint32_t vocab) {
    json_t *object = json_object();
    char name[WORD_BYTES];
    int failed = !object;
    for (uint32_t id = 0; id < vocab && !failed; id++) {
        if (id == START || id == END) continue;
        if (id < BYTES)
            (void)snprintf(name, sizeof name, "<0x%02X>", id);
        else
            make_word(id - FIRST_WORD, name);
        failed = json_object_set_new(object, name, json_integer(id));
    }
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *make_tokenizer(uint32_t vocab) {
    return json_pack("{s:n, s:n, s:n, s:{s:s, s:[{s:s}, {s:s}]},"
                     " s:[{s:i, s:s, s:b, s:b}, {s:i, s:s, s:b, s:b}],"
                     " s:{s:s, s:b, s:o, s:[]}}",
                     "normalizer", "pre_tokenizer", "post_processor", "decoder", "type", "Sequence",
                     "decoders", "type", "ByteFallback", "type", "Fuse", "added_tokens", "id",
                     START, "content", "<|im_start|>", "special", 1, "normalized", 0, "id", END,
                     "content", "<|im_end|>", "special", 1, "normalized", 0, "model", "type", "BPE",
                     "byte_fallback", 1, "vocab", make_vocabulary(vocab), "merges");
}

/* value is taken over. */
static sl_status write_json(sl_pack_writer *writer, const char *name, json_t *value,
                            sl_error *err) {
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (!text) return sl_no_memory(err, name, 0);
    const sl_status status = sl_pack_writer_text(writer, name, text, strlen(text), err);
    free(text);
    return status;
}

sl_status sl_synth_write_texts(sl_pack_writer *writer, uint32_t vocab, sl_error *err) {
    if (vocab < FIRST_WORD) return SL_OK;
    SL_TRY(
        write_json(writer, "generation_config.json", json_pack("{s:i}", "eos_token_id", END), err));
    SL_TRY(write_json(writer, "tokenizer.json", make_tokenizer(vocab), err));
    return sl_pack_writer_text(writer, "chat_template.jinja", chat_template,
                               sizeof chat_template - 1, err);
}
