/* synth_text.h - The texts of synthetic models. */
#ifndef SL_ENGINE_CONVERT_SYNTH_TEXT_H
#define SL_ENGINE_CONVERT_SYNTH_TEXT_H
#include "engine/formats/pack.h"

/* Writes tokenizer, chat template and generation config; nothing if the vocabulary has no room for
 * all bytes and two special tokens. */
SL_CHECKED sl_status sl_synth_write_texts(sl_pack_writer *writer, uint32_t vocab, sl_error *err);
#endif
