/* decoder.h - The "decoder" of a tokenizer.json: from token names to bytes. */
#ifndef SL_ENGINE_TEXT_DECODER_H
#define SL_ENGINE_TEXT_DECODER_H
#include "base/memory.h"
#include "base/utf8.h"
#include <jansson.h>

enum { SL_DECODER_REPLACEMENTS = 4 };
typedef struct {
    bool byte_level; /* names use the byte alphabet (GPT-2) */
    bool byte_names; /* "<0x0A>" is one byte (byte fallback) */
    struct {
        sl_slice from, to; /* `to` is never longer than `from`; both are in the arena */
    } replacements[SL_DECODER_REPLACEMENTS];
    uint32_t replacement_count;
    uint32_t strip_start; /* spaces removed at the start of a whole text */
} sl_decoder;

/* json: NULL or null changes nothing; byte_level: whether the pre-tokenizer is byte-level. */
SL_CHECKED sl_status sl_decoder_init(sl_decoder *decoder, json_t *json, bool byte_level,
                                     sl_arena *arena, sl_error *err);
/* The byte of a name of the form <0x0A>, or -1. */
int sl_byte_name_value(sl_slice name);
/* Writes the bytes of a token name, at most as many as the name has, and returns their number;
 * names outside the byte alphabet are copied unchanged. */
size_t sl_decoder_run(const sl_decoder *decoder, sl_slice name, char *out);
#endif
