#include "engine/text/frame.h"
#include <string.h>

typedef struct {
    sl_frame *frame;
    uint32_t vocab;
    bool after; /* the template's text has been passed */
} reader;

static sl_status add_id(reader *in, json_t *id, const char *name, sl_error *err) {
    sl_frame *frame = in->frame;
    uint32_t *count = in->after ? &frame->after_count : &frame->before_count;
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= in->vocab)
        return sl_fail(err, SL_FORMAT,
                       "post_processor's token '%.64s' has no id in the vocabulary of %u", name,
                       in->vocab);
    if (*count == SL_FRAME_TOKENS)
        return sl_fail(err, SL_UNSUPPORTED, "post_processor adds more than %d tokens",
                       SL_FRAME_TOKENS);
    (in->after ? frame->after : frame->before)[(*count)++] = (int32_t)json_integer_value(id);
    return SL_OK;
}

static sl_status read_piece(reader *in, json_t *piece, json_t *tokens, sl_error *err) {
    if (json_object_get(piece, "Sequence")) {
        in->after = true;
        return SL_OK;
    }
    const char *name =
        json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
    if (!name)
        return sl_fail(err, SL_FORMAT,
                       "post_processor TemplateProcessing has a piece that is neither Sequence "
                       "nor SpecialToken");
    json_t *ids = json_object_get(json_object_get(tokens, name), "ids"), *id;
    size_t index;
    if (!json_is_array(ids))
        return sl_fail(err, SL_FORMAT, "post_processor's token '%.64s' is not in special_tokens",
                       name);
    json_array_foreach(ids, index, id) SL_TRY(add_id(in, id, name, err));
    return SL_OK;
}

static sl_status read_template(reader *in, json_t *json, sl_error *err) {
    json_t *single = json_object_get(json, "single"), *piece;
    size_t index;
    if (!json_is_array(single))
        return sl_fail(err, SL_FORMAT, "post_processor TemplateProcessing has no array 'single'");
    json_array_foreach(single, index, piece)
        SL_TRY(read_piece(in, piece, json_object_get(json, "special_tokens"), err));
    return SL_OK;
}

static sl_status read_steps(reader *in, json_t *json, sl_error *err) {
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type) return sl_fail(err, SL_FORMAT, "a post_processor has no type");
    if (strcmp(type, "ByteLevel") == 0) return SL_OK; /* affects only offsets */
    if (strcmp(type, "TemplateProcessing") == 0) return read_template(in, json, err);
    if (strcmp(type, "Sequence") != 0)
        return sl_fail(err, SL_UNSUPPORTED,
                       "post_processor type '%.64s' is not supported, only TemplateProcessing, "
                       "ByteLevel and Sequence",
                       type);
    json_t *list = json_object_get(json, "processors"), *each;
    size_t index;
    if (!json_is_array(list))
        return sl_fail(err, SL_FORMAT, "post_processor Sequence has no array 'processors'");
    json_array_foreach(list, index, each) SL_TRY(read_steps(in, each, err));
    return SL_OK;
}

sl_status sl_frame_init(sl_frame *frame, json_t *json, uint32_t vocab, sl_error *err) {
    reader in = {frame, vocab, false};
    *frame = (sl_frame){0};
    return json && !json_is_null(json) ? read_steps(&in, json, err) : SL_OK;
}
