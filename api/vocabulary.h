/* vocabulary.h - The tokenizer inside an sl_vocabulary. */
#ifndef SL_API_VOCABULARY_H
#define SL_API_VOCABULARY_H
#include "engine/text/tokenizer.h"

const sl_tokenizer *sl_vocabulary_tokenizer(const sl_vocabulary *vocabulary);
#endif
