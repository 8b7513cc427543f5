/* pattern.h - Regular expressions as tokenizers write them (Oniguruma's dialect): the known ones
 * are matched by words.c, others by PCRE2, whose classes follow the Unicode version of the library.
 */
#ifndef SL_ENGINE_TEXT_PATTERN_H
#define SL_ENGINE_TEXT_PATTERN_H
#include "base/memory.h"
#include "engine/text/words.h"

/* Immutable, shared by threads. */
typedef struct {
    sl_word_match *match;           /* of a known pattern */
    struct pcre2_real_code_8 *code; /* of another; neither: no pattern */
} sl_pattern;

static inline bool sl_pattern_is_none(const sl_pattern *pattern) {
    return !pattern->match && !pattern->code;
}

/* literal: the text is no expression but exactly what to find.  An empty text fails. */
SL_CHECKED sl_status sl_pattern_init(sl_pattern *pattern, sl_slice text, bool literal,
                                     sl_arena *scratch, sl_error *err);
/* The same for an expression without a matcher of its own: what those are compared with. */
SL_CHECKED sl_status sl_pattern_init_general(sl_pattern *pattern, sl_slice text, sl_arena *scratch,
                                             sl_error *err);
void sl_pattern_deinit(sl_pattern *pattern);

/* What one thread needs to match any pattern; made when a pattern first asks for it.  It also
 * limits the work that a tokenizer can make of one text. */
typedef struct {
    size_t text_bytes;       /* of the text before it is normalised */
    size_t normalised_bytes; /* made of it so far */
    uint64_t steps_left;     /* of all searches */
    struct pcre2_real_match_data_8 *data;
    struct pcre2_real_match_context_8 *context;
} sl_matcher;

void sl_matcher_deinit(sl_matcher *matcher);

/* The first match at or after from, {bytes, bytes} when there is none; text is well-formed UTF-8.
 * Fails when the searches in a text need more steps or memory than those of any sane pattern. */
SL_CHECKED sl_status sl_pattern_find(const sl_pattern *pattern, sl_matcher *matcher, sl_slice text,
                                     size_t from, sl_span *out, sl_error *err);
#endif
