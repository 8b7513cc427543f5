/* frame.h - The "post_processor" of a tokenizer.json: special tokens before and after a text. */
#ifndef SL_ENGINE_TEXT_FRAME_H
#define SL_ENGINE_TEXT_FRAME_H
#include "base/memory.h"
#include <jansson.h>
#include <stdbool.h>

enum { SL_FRAME_TOKENS = 8 };
typedef struct {
    int32_t before[SL_FRAME_TOKENS], after[SL_FRAME_TOKENS];
    uint32_t before_count, after_count;
} sl_frame;

/* json: NULL or null adds nothing; ids must be below vocab. */
SL_CHECKED sl_status sl_frame_init(sl_frame *frame, json_t *json, uint32_t vocab, sl_error *err);
#endif
