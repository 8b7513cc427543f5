/* pattern.h - Regular expressions of tokenizers (Oniguruma's dialect).  Known ones are matched by
 * words.c, others by PCRE2, whose character classes follow the Unicode version of that library. */
#ifndef SL_ENGINE_TEXT_PATTERN_H
#define SL_ENGINE_TEXT_PATTERN_H
#include "base/memory.h"
#include "engine/text/words.h"

/* Immutable; may be shared by threads. */
typedef struct {
    sl_word_match *match;           /* hand-written matcher of a known pattern */
    struct pcre2_real_code_8 *code; /* PCRE2 code of any other; both NULL: no pattern */
} sl_pattern;

static inline bool sl_pattern_is_none(const sl_pattern *pattern) {
    return !pattern->match && !pattern->code;
}

/* literal: match the text verbatim instead of as an expression.  An empty text is an error. */
SL_CHECKED sl_status sl_pattern_init(sl_pattern *pattern, sl_slice text, bool literal,
                                     sl_arena *scratch, sl_error *err);
/* The same, but always with PCRE2; used to test the hand-written matchers. */
SL_CHECKED sl_status sl_pattern_init_general(sl_pattern *pattern, sl_slice text, sl_arena *scratch,
                                             sl_error *err);
void sl_pattern_deinit(sl_pattern *pattern);

/* The working memory of one thread for matching; created by the first PCRE2 pattern.  It also
 * limits the work that a tokenizer can make of one text. */
typedef struct {
    size_t text_bytes;       /* of the text before it is normalised */
    size_t normalised_bytes; /* made of it so far */
    uint64_t steps_left;     /* of all searches */
    struct pcre2_real_match_data_8 *data;
    struct pcre2_real_match_context_8 *context;
} sl_matcher;

void sl_matcher_deinit(sl_matcher *matcher);

/* The first match at or after `from`, {bytes, bytes} if there is none; text is well-formed UTF-8.
 * Fails if the searches in a text need more steps or memory than those of any sane pattern. */
SL_CHECKED sl_status sl_pattern_find(const sl_pattern *pattern, sl_matcher *matcher, sl_slice text,
                                     size_t from, sl_span *out, sl_error *err);
#endif
