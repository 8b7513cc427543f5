/* gguf_pre.c - Pre-tokenizers.  A file only names its pre-tokenizer (tokenizer.ggml.pre); the rows
 * here define what the published tokenizers of these names do.  Equivalent names share a row. */
#include "engine/formats/gguf.h"
#include "engine/formats/gguf_text.h"
#include "engine/formats/json.h"
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define NOT_HAN      "(?!\\p{sc:Han})"

/* The words of llama-bpe and similar ones, with numbers of at most this many digits. */
#define WORDS(digits)                                                                              \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| "                                     \
                 "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES

#define LLAMA3 WORDS("\\p{N}{1,3}")
#define GPT4O                                                                                      \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|"                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" CONTRACTIONS "?|"                                 \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define KIMI                                                                                       \
    "\\p{sc:Han}+|"                                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?(?:" NOT_HAN UPPER ")*(?:" NOT_HAN LOWER ")+" CONTRACTIONS "?|"         \
    "[^\\r\\n\\p{L}\\p{N}]?(?:" NOT_HAN UPPER ")+(?:" NOT_HAN LOWER ")*" CONTRACTIONS "?|"         \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES

enum { MOST_CUTS = 3 };

static const struct {
    const char *name;            /* tokenizer.ggml.pre */
    const char *cuts[MOST_CUTS]; /* split patterns, applied in order; none: ByteLevel's own */
    /* Whether the published tokenizers of this name normalise to NFC. */
    bool nfc;
    bool ignore_merges;
    bool begins; /* adds the beginning-of-text token unless the file says otherwise */
} splits[] = {
    {"qwen2", {WORDS("\\p{N}")}, true, false, false},
    {"deepseek-r1-qwen", {WORDS("\\p{N}")}, true, false, false},
    {"qwen35",
     {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                   " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES},
     true,
     false,
     false},
    {"llama-bpe", {LLAMA3}, false, true, true},
    {"llama3", {LLAMA3}, false, true, true},
    {"llama-v3", {LLAMA3}, false, true, true},
    {"glm4", {LLAMA3}, false, true, false},
    {"glm5", {LLAMA3}, false, true, false},
    {"chatglm-bpe", {LLAMA3}, false, false, false},
    {"dbrx", {LLAMA3}, false, false, false},
    {"deepseek-v3",
     {"\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
      "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES},
     false,
     false,
     false},
    {"gpt-4o", {GPT4O}, false, false, false},
    {"llama4", {GPT4O}, false, false, false},
    {"kimi-k2", {KIMI}, false, false, false},
    {"gpt-2", {NULL}, false, false, false},
    {"olmo", {NULL}, true, false, false},
};
enum { SPLIT_COUNT = sizeof splits / sizeof splits[0] };

static sl_status find(const sl_gguf *gguf, int *out, sl_error *err) {
    static const char key[] = "tokenizer.ggml.pre";
    sl_gguf_text name = {0};
    SL_TRY(sl_gguf_get_text(gguf, key, &name, err));
    if (!name.data) return sl_gguf_missing(gguf, key, err);
    for (*out = 0; *out < SPLIT_COUNT; ++*out)
        if (sl_gguf_text_is(name, splits[*out].name)) return SL_OK;
    char found[65] = "", known[SL_GGUF_LIST_BYTES] = "";
    size_t length = 0;
    for (int i = 0; i < SPLIT_COUNT; i++)
        length = sl_gguf_list(known, sizeof known, length, splits[i].name);
    memcpy(found, name.data, name.bytes < 64 ? name.bytes : 64);
    return sl_fail(err, SL_UNSUPPORTED, "%s: key '%s' is '%s', supported: %s", gguf->what, key,
                   sl_json_name_fits(found) ? found : "?", known);
}

/* NULL: out of memory. */
static json_t *pre_tokenizer(const char *const *cuts) {
    json_t *steps = json_array();
    for (int i = 0; i < MOST_CUTS && cuts[i]; i++)
        (void)json_array_append_new(steps, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split",
                                                     "pattern", "Regex", cuts[i], "behavior",
                                                     "Isolated", "invert", 0));
    (void)json_array_append_new(steps, json_pack("{s:s, s:b, s:b}", "type", "ByteLevel",
                                                 "add_prefix_space", 0, "use_regex", !cuts[0]));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps);
}

sl_status sl_gguf_pre_find(const sl_gguf *gguf, sl_gguf_pre *out, sl_error *err) {
    int at = 0;
    SL_TRY(find(gguf, &at, err));
    out->ignore_merges = splits[at].ignore_merges;
    out->begins = splits[at].begins;
    out->normalizer = splits[at].nfc ? json_pack("{s:s}", "type", "NFC") : json_null();
    out->pre_tokenizer = pre_tokenizer(splits[at].cuts);
    if (out->normalizer && out->pre_tokenizer) return SL_OK;
    json_decref(out->normalizer);
    json_decref(out->pre_tokenizer);
    return sl_no_memory(err, "a tokenizer", 0);
}
