/* pattern.h - Regular expressions as tokenizers write them (Oniguruma's dialect), run by PCRE2. */
#ifndef SL_ENGINE_TEXT_PATTERN_H
#define SL_ENGINE_TEXT_PATTERN_H
#include "base/memory.h"
#include "engine/text/utf8.h"

/* Immutable, shared by threads. */
typedef struct {
    struct pcre2_real_code_8 *code; /* NULL: no pattern */
} sl_pattern;

/* literal: the text is no expression but exactly what to find.  An empty text fails. */
SL_CHECKED sl_status sl_pattern_init(sl_pattern *pattern, sl_slice text, bool literal,
                                     sl_arena *scratch, sl_error *err);
void sl_pattern_deinit(sl_pattern *pattern);

/* What one thread needs to match any pattern. */
typedef struct {
    struct pcre2_real_match_data_8 *data;
    struct pcre2_real_match_context_8 *context;
} sl_matcher;

/* text_bytes: the longest text that will be searched.  Deinit also after a failure. */
SL_CHECKED sl_status sl_matcher_init(sl_matcher *matcher, size_t text_bytes, sl_error *err);
void sl_matcher_deinit(sl_matcher *matcher);

/* The first match at or after from, {bytes, bytes} when there is none; text is well-formed UTF-8.
 * Fails when the pattern needs more steps or memory than any sane one would. */
SL_CHECKED sl_status sl_pattern_find(const sl_pattern *pattern, const sl_matcher *matcher,
                                     sl_slice text, size_t from, sl_span *out, sl_error *err);
#endif
