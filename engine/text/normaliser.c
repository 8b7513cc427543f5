#include "engine/text/normaliser.h"
#include "engine/text/normalise.h"
#include <string.h>

/* ---- reading tokenizer.json ---- */

static sl_status copy_string(json_t *json, const char *what, sl_arena *arena, sl_slice *out,
                             sl_error *err) {
    if (!json_is_string(json))
        return sl_fail(err, SL_FORMAT, "normalizer %s is not a string", what);
    *out = (sl_slice){
        sl_arena_copy_text(arena, json_string_value(json), json_string_length(json)),
        json_string_length(json),
    };
    return out->text ? SL_OK : sl_no_memory(err, what, out->bytes);
}

static sl_status read_replace(sl_normalise_step *step, json_t *json, sl_arena *arena,
                              sl_error *err) {
    json_t *pattern = json_object_get(json, "pattern");
    json_t *regex = json_object_get(pattern, "Regex");
    json_t *text = regex ? regex : json_object_get(pattern, "String");
    if (!json_is_string(text))
        return sl_fail(err, SL_FORMAT,
                       "normalizer Replace has no pattern with a string Regex or String");
    SL_TRY(copy_string(json_object_get(json, "content"), "Replace's content", arena, &step->content,
                       err));
    return sl_pattern_init(&step->pattern,
                           (sl_slice){json_string_value(text), json_string_length(text)}, !regex,
                           arena, err);
}

static sl_status read_step(sl_normaliser *normaliser, const char *type, json_t *json,
                           sl_arena *arena, sl_error *err) {
    if (normaliser->count == SL_NORMALISE_STEPS)
        return sl_fail(err, SL_UNSUPPORTED, "normalizer has more than %d steps",
                       SL_NORMALISE_STEPS);
    sl_normalise_step *step = &normaliser->steps[normaliser->count++];
    if (strcmp(type, "NFC") == 0) {
        step->kind = SL_NORMALISE_NFC;
        return SL_OK;
    }
    if (strcmp(type, "Prepend") == 0) {
        step->kind = SL_NORMALISE_PREPEND;
        return copy_string(json_object_get(json, "prepend"), "Prepend's prepend", arena,
                           &step->content, err);
    }
    if (strcmp(type, "Replace") == 0) {
        step->kind = SL_NORMALISE_REPLACE;
        return read_replace(step, json, arena, err);
    }
    if (strcmp(type, "Strip") == 0) {
        step->kind = SL_NORMALISE_STRIP;
        step->left = !json_is_false(json_object_get(json, "strip_left"));
        step->right = !json_is_false(json_object_get(json, "strip_right"));
        return SL_OK;
    }
    return sl_fail(err, SL_UNSUPPORTED,
                   "normalizer type '%.64s' is not supported, only NFC, Prepend, Replace, Strip "
                   "and Sequence",
                   type);
}

static sl_status read_steps(sl_normaliser *normaliser, json_t *json, sl_arena *arena,
                            sl_error *err) {
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type) return sl_fail(err, SL_FORMAT, "a normalizer has no type");
    if (strcmp(type, "Sequence") != 0) return read_step(normaliser, type, json, arena, err);
    json_t *list = json_object_get(json, "normalizers"), *each;
    size_t index;
    if (!json_is_array(list))
        return sl_fail(err, SL_FORMAT, "normalizer Sequence has no array 'normalizers'");
    json_array_foreach(list, index, each) SL_TRY(read_steps(normaliser, each, arena, err));
    return SL_OK;
}

sl_status sl_normaliser_init(sl_normaliser *normaliser, json_t *json, sl_arena *arena,
                             sl_error *err) {
    *normaliser = (sl_normaliser){0};
    return json && !json_is_null(json) ? read_steps(normaliser, json, arena, err) : SL_OK;
}

void sl_normaliser_deinit(sl_normaliser *normaliser) {
    for (uint32_t i = 0; i < normaliser->count; i++)
        sl_pattern_deinit(&normaliser->steps[i].pattern);
    normaliser->count = 0;
}

/* ---- running the steps ---- */

static sl_status prepend(sl_slice content, sl_arena *arena, sl_slice *text, sl_error *err) {
    if (text->bytes == 0 || content.bytes == 0) return SL_OK;
    const size_t bytes = content.bytes + text->bytes;
    char *fresh = sl_arena_alloc(arena, bytes, 1);
    if (!fresh) return sl_no_memory(err, "normalised text", bytes);
    memcpy(fresh, content.text, content.bytes);
    memcpy(fresh + content.bytes, text->text, text->bytes);
    *text = (sl_slice){fresh, bytes};
    return SL_OK;
}

/* Returns the length of the result; writes it to out unless that is NULL. */
static sl_status replace(const sl_normalise_step *step, sl_matcher *matcher, sl_slice text,
                         char *out, size_t *out_bytes, sl_error *err) {
    size_t done = 0, bytes = 0;
    while (done < text.bytes) {
        sl_span match;
        SL_TRY(sl_pattern_find(&step->pattern, matcher, text, done, &match, err));
        if (match.end == match.start && match.start < text.bytes)
            return sl_fail(err, SL_UNSUPPORTED, "normalizer Replace matches nothing at byte %zu",
                           match.start);
        if (out) memcpy(out + bytes, text.text + done, match.start - done);
        bytes += match.start - done;
        if (match.start < text.bytes) {
            if (out && step->content.bytes)
                memcpy(out + bytes, step->content.text, step->content.bytes);
            bytes += step->content.bytes;
        }
        done = match.end;
    }
    *out_bytes = bytes;
    return SL_OK;
}

static sl_status replace_all(const sl_normalise_step *step, sl_matcher *matcher, sl_arena *arena,
                             sl_slice *text, sl_error *err) {
    size_t bytes = 0;
    SL_TRY(replace(step, matcher, *text, NULL, &bytes, err));
    char *fresh = sl_arena_alloc(arena, bytes + 1, 1);
    if (!fresh) return sl_no_memory(err, "normalised text", bytes);
    SL_TRY(replace(step, matcher, *text, fresh, &bytes, err));
    *text = (sl_slice){fresh, bytes};
    return SL_OK;
}

static void strip(const sl_normalise_step *step, sl_slice *text) {
    uint32_t character;
    size_t bytes;
    while (step->left && (bytes = sl_utf8_decode(*text, &character)) > 0 &&
           sl_utf8_is_space(character))
        *text = sl_slice_part(*text, bytes, text->bytes);
    while (step->right && (bytes = sl_utf8_decode_last(*text, &character)) > 0 &&
           sl_utf8_is_space(character))
        *text = sl_slice_part(*text, 0, text->bytes - bytes);
}

sl_status sl_normaliser_run(const sl_normaliser *normaliser, sl_matcher *matcher, sl_slice text,
                            sl_arena *arena, sl_slice *out, sl_error *err) {
    for (uint32_t i = 0; i < normaliser->count; i++) {
        const sl_normalise_step *step = &normaliser->steps[i];
        if (step->kind == SL_NORMALISE_NFC) SL_TRY(sl_normalise_nfc(text, arena, &text, err));
        if (step->kind == SL_NORMALISE_PREPEND) SL_TRY(prepend(step->content, arena, &text, err));
        if (step->kind == SL_NORMALISE_REPLACE)
            SL_TRY(replace_all(step, matcher, arena, &text, err));
        if (step->kind == SL_NORMALISE_STRIP) strip(step, &text);
    }
    *out = text;
    return SL_OK;
}
