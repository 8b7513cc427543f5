/* decoder.h - The "decoder" of a tokenizer.json: what bytes the names of tokens stand for. */
#ifndef SL_ENGINE_TEXT_DECODER_H
#define SL_ENGINE_TEXT_DECODER_H
#include "base/memory.h"
#include "base/utf8.h"
#include <jansson.h>

enum { SL_DECODER_REPLACEMENTS = 4 };
typedef struct {
    bool byte_level; /* names are written in the byte alphabet */
    bool byte_names; /* "<0x0A>" is one byte */
    struct {
        sl_slice from, to; /* to is never longer; in arena */
    } replacements[SL_DECODER_REPLACEMENTS];
    uint32_t replacement_count;
    uint32_t strip_start; /* spaces taken from the front of a whole text */
} sl_decoder;

/* json: NULL or null is no change; byte_level: how the text is cut for this vocabulary. */
SL_CHECKED sl_status sl_decoder_init(sl_decoder *decoder, json_t *json, bool byte_level,
                                     sl_arena *arena, sl_error *err);
/* The byte that a name of the form <0x0A> stands for, or -1. */
int sl_byte_name_value(sl_slice name);
/* Writes what name stands for, at most as many bytes as it has, and returns their number; names
 * that are not of the byte alphabet are left as they are. */
size_t sl_decoder_run(const sl_decoder *decoder, sl_slice name, char *out);
#endif
