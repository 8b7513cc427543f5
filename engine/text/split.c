#include "engine/text/split.h"
#include <string.h>

/* The pattern of ByteLevel if "use_regex" is on. */
static const char byte_level_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                                         " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* ---- reading tokenizer.json ---- */

typedef struct {
    sl_splitter *splitter;
    sl_arena *scratch;
} reader;

/* U+2581, SentencePiece's mark for a space. */
static const char mark[] = "\xE2\x96\x81";
enum { MARK_BYTES = 3 };

/* Takes ownership of the pattern. */
static sl_status add_step(reader *in, sl_split_step step, sl_error *err) {
    if (in->splitter->count < SL_SPLIT_STEPS) {
        in->splitter->steps[in->splitter->count++] = step;
        return SL_OK;
    }
    sl_pattern_deinit(&step.pattern);
    return sl_fail(err, SL_UNSUPPORTED, "pre_tokenizer has more than %d steps", SL_SPLIT_STEPS);
}

static sl_status add_pattern(reader *in, sl_slice text, sl_split_behavior behavior, sl_error *err) {
    sl_pattern pattern;
    SL_TRY(sl_pattern_init(&pattern, text, false, in->scratch, err));
    return add_step(in, (sl_split_step){.pattern = pattern, .behavior = behavior}, err);
}

static sl_status read_behavior(json_t *json, sl_split_behavior *out, sl_error *err) {
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                        "MergedWithNext"};
    const char *name = json_string_value(json_object_get(json, "behavior"));
    for (int i = 0; name && i < SL_SPLIT_BEHAVIORS; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (sl_split_behavior)i;
        return SL_OK;
    }
    return sl_fail(err, SL_UNSUPPORTED, "Split has behavior '%.64s'", name ? name : "(none)");
}

static sl_status read_split(reader *in, json_t *json, sl_error *err) {
    json_t *pattern = json_object_get(json, "pattern");
    json_t *regex = json_object_get(pattern, "Regex");
    json_t *text = regex ? regex : json_object_get(pattern, "String");
    if (!json_is_string(text))
        return sl_fail(err, SL_FORMAT, "Split has no pattern with a string Regex or String");
    sl_split_step step = {.invert = json_is_true(json_object_get(json, "invert"))};
    SL_TRY(read_behavior(json, &step.behavior, err));
    SL_TRY(sl_pattern_init(&step.pattern,
                           (sl_slice){json_string_value(text), json_string_length(text)}, !regex,
                           in->scratch, err));
    return add_step(in, step, err);
}

static sl_status read_byte_level(reader *in, json_t *json, sl_error *err) {
    json_t *use_regex = json_object_get(json, "use_regex");
    if (json_is_true(json_object_get(json, "add_prefix_space")))
        SL_TRY(add_step(in, (sl_split_step){.change = SL_SPLIT_PUT_SPACE}, err));
    if (!json_is_false(use_regex))
        SL_TRY(add_pattern(in, (sl_slice){byte_level_pattern, sizeof byte_level_pattern - 1},
                           SL_SPLIT_ISOLATED, err));
    in->splitter->byte_level = true;
    return SL_OK;
}

static sl_status read_digits(reader *in, json_t *json, sl_error *err) {
    const bool each = json_is_true(json_object_get(json, "individual_digits"));
    return add_pattern(in, (sl_slice){"\\p{N}", 5}, each ? SL_SPLIT_ISOLATED : SL_SPLIT_CONTIGUOUS,
                       err);
}

/* Older files have add_prefix_space, newer ones prepend_scheme. */
static sl_status read_change(json_t *json, sl_split_change *out, sl_error *err) {
    const char *scheme = json_string_value(json_object_get(json, "prepend_scheme"));
    const bool never = json_is_false(json_object_get(json, "add_prefix_space"));
    if (!scheme) scheme = never ? "never" : "always";
    static const char *const names[] = {"never", "first", "always"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(scheme, names[i]) != 0) continue;
        *out = (sl_split_change)(SL_SPLIT_MARK + i);
        return SL_OK;
    }
    return sl_fail(err, SL_UNSUPPORTED, "Metaspace has prepend_scheme '%.64s'", scheme);
}

static sl_status read_metaspace(reader *in, json_t *json, sl_error *err) {
    const char *replacement = json_string_value(json_object_get(json, "replacement"));
    if (replacement && strcmp(replacement, mark) != 0)
        return sl_fail(err, SL_UNSUPPORTED, "Metaspace has replacement '%.64s', wanted '%s'",
                       replacement, mark);
    sl_split_step step = {0};
    SL_TRY(read_change(json, &step.change, err));
    SL_TRY(add_step(in, step, err));
    if (json_is_false(json_object_get(json, "split"))) return SL_OK;
    step = (sl_split_step){.behavior = SL_SPLIT_MERGED_WITH_NEXT};
    SL_TRY(sl_pattern_init(&step.pattern, (sl_slice){mark, MARK_BYTES}, true, in->scratch, err));
    return add_step(in, step, err);
}

static sl_status read_steps(reader *in, json_t *json, sl_error *err) {
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type) return sl_fail(err, SL_FORMAT, "a pre_tokenizer has no type");
    if (strcmp(type, "Sequence") == 0) {
        json_t *list = json_object_get(json, "pretokenizers"), *each;
        size_t index;
        if (!json_is_array(list))
            return sl_fail(err, SL_FORMAT, "pre_tokenizer Sequence has no array 'pretokenizers'");
        json_array_foreach(list, index, each) SL_TRY(read_steps(in, each, err));
        return SL_OK;
    }
    if (in->splitter->byte_level)
        return sl_fail(err, SL_UNSUPPORTED, "pre_tokenizer '%.64s' comes after ByteLevel", type);
    if (strcmp(type, "Split") == 0) return read_split(in, json, err);
    if (strcmp(type, "ByteLevel") == 0) return read_byte_level(in, json, err);
    if (strcmp(type, "Digits") == 0) return read_digits(in, json, err);
    if (strcmp(type, "Metaspace") == 0) return read_metaspace(in, json, err);
    return sl_fail(err, SL_UNSUPPORTED,
                   "pre_tokenizer type '%.64s' is not supported, only Split, ByteLevel, Digits, "
                   "Metaspace and Sequence",
                   type);
}

sl_status sl_splitter_init(sl_splitter *splitter, json_t *json, sl_arena *scratch, sl_error *err) {
    reader in = {splitter, scratch};
    *splitter = (sl_splitter){0};
    if (json && !json_is_null(json)) return read_steps(&in, json, err);
    return SL_OK;
}

void sl_splitter_deinit(sl_splitter *splitter) {
    for (uint32_t i = 0; i < splitter->count; i++) sl_pattern_deinit(&splitter->steps[i].pattern);
    splitter->count = 0;
}

/* ---- splitting ---- */

/* One step applied to one text; `held` is the current piece, which may still grow. */
typedef struct {
    const sl_splitter *splitter;
    sl_split_work *work;
    sl_slice text;
    uint32_t step;
    sl_span held;
    bool holds, held_is_match, last_is_match;
} cutter;

static sl_status run_from(const sl_splitter *splitter, sl_split_work *work, uint32_t step,
                          sl_slice text, sl_error *err);

static sl_status release(cutter *cut, sl_span span, sl_error *err) {
    return run_from(cut->splitter, cut->work, cut->step + 1,
                    sl_slice_part(cut->text, span.start, span.end), err);
}

static bool joins_held(const cutter *cut, sl_split_behavior behavior, bool is_match) {
    if (!cut->holds) return false;
    if (behavior == SL_SPLIT_CONTIGUOUS) return is_match == cut->last_is_match;
    if (behavior == SL_SPLIT_MERGED_WITH_PREVIOUS) return is_match && !cut->last_is_match;
    return cut->held_is_match && !is_match;
}

/* Processes the next span of the text, a match or the text between matches. */
static sl_status take(cutter *cut, sl_span span, bool is_match, sl_error *err) {
    const sl_split_step *step = &cut->splitter->steps[cut->step];
    is_match ^= step->invert;
    if (step->behavior == SL_SPLIT_ISOLATED) return release(cut, span, err);
    if (step->behavior == SL_SPLIT_REMOVED) return is_match ? SL_OK : release(cut, span, err);
    const bool joins = joins_held(cut, step->behavior, is_match);
    cut->last_is_match = is_match;
    if (joins) {
        cut->held.end = span.end;
        cut->held_is_match = false;
        return SL_OK;
    }
    const sl_span done = cut->held;
    const bool held = cut->holds;
    cut->held = span;
    cut->holds = true;
    cut->held_is_match = is_match;
    return held ? release(cut, done, err) : SL_OK;
}

/* Where to search for the next match; after an empty match, one character further. */
static size_t after(sl_slice text, sl_span match) {
    if (match.end > match.start || match.end >= text.bytes) return match.end;
    uint32_t character;
    const size_t length = sl_utf8_decode(sl_slice_part(text, match.end, text.bytes), &character);
    return match.end + (length ? length : 1);
}

static sl_status cut_pieces(cutter *cut, sl_error *err) {
    const sl_pattern *pattern = &cut->splitter->steps[cut->step].pattern;
    size_t from = 0, done = 0;
    while (from < cut->text.bytes) {
        sl_span match;
        SL_TRY(sl_pattern_find(pattern, cut->work->matcher, cut->text, from, &match, err));
        if (match.start >= cut->text.bytes) break;
        if (match.start > done) SL_TRY(take(cut, (sl_span){done, match.start}, false, err));
        SL_TRY(take(cut, match, true, err));
        done = match.end;
        from = after(cut->text, match);
    }
    if (done < cut->text.bytes) SL_TRY(take(cut, (sl_span){done, cut->text.bytes}, false, err));
    return cut->holds ? release(cut, cut->held, err) : SL_OK;
}

static sl_status put_space(sl_split_work *work, sl_slice *text, sl_error *err) {
    if (text->text[0] == ' ') return SL_OK;
    char *copy = sl_arena_alloc(work->arena, text->bytes + 1, 1);
    if (!copy) return sl_no_memory(err, "text after a space", text->bytes + 1);
    copy[0] = ' ';
    memcpy(copy + 1, text->text, text->bytes);
    *text = (sl_slice){copy, text->bytes + 1};
    return SL_OK;
}

static bool starts_with_mark(sl_slice text) {
    return text.bytes >= MARK_BYTES && memcmp(text.text, mark, MARK_BYTES) == 0;
}

static sl_status put_marks(sl_split_work *work, sl_split_change change, sl_slice *text,
                           sl_error *err) {
    size_t spaces = 0, bytes = 0;
    for (size_t i = 0; i < text->bytes; i++) spaces += text->text[i] == ' ';
    const bool wanted =
        change == SL_SPLIT_MARK_EACH || (change == SL_SPLIT_MARK_FIRST && !work->begun);
    const bool put = wanted && text->text[0] != ' ' && !starts_with_mark(*text);
    work->begun = true;
    if (spaces == 0 && !put) return SL_OK;
    char *out =
        sl_arena_alloc(work->arena, text->bytes + (MARK_BYTES - 1) * spaces + MARK_BYTES, 1);
    if (!out) return sl_no_memory(err, "text with marked spaces", text->bytes);
    if (put) {
        memcpy(out, mark, MARK_BYTES);
        bytes = MARK_BYTES;
    }
    for (size_t i = 0; i < text->bytes; i++) {
        if (text->text[i] == ' ') {
            memcpy(out + bytes, mark, MARK_BYTES);
            bytes += MARK_BYTES;
        } else {
            out[bytes++] = text->text[i];
        }
    }
    *text = (sl_slice){out, bytes};
    return SL_OK;
}

static sl_status run_from(const sl_splitter *splitter, sl_split_work *work, uint32_t step,
                          sl_slice text, sl_error *err) {
    if (text.bytes == 0) return SL_OK;
    for (; step < splitter->count && sl_pattern_is_none(&splitter->steps[step].pattern); step++) {
        const sl_split_change change = splitter->steps[step].change;
        if (change == SL_SPLIT_PUT_SPACE)
            SL_TRY(put_space(work, &text, err));
        else
            SL_TRY(put_marks(work, change, &text, err));
    }
    if (step == splitter->count) return work->word(work->ctx, text, err);
    cutter cut = {.splitter = splitter, .work = work, .text = text, .step = step};
    return cut_pieces(&cut, err);
}

sl_status sl_splitter_run(const sl_splitter *splitter, sl_split_work *work, sl_slice text,
                          sl_error *err) {
    return run_from(splitter, work, 0, text, err);
}
