/* model_text.h - The text side of a model: tokenizer, chat template, end tokens, and the
 * recommended sampling parameters. */
#ifndef SL_ENGINE_TEXT_MODEL_TEXT_H
#define SL_ENGINE_TEXT_MODEL_TEXT_H
#include "engine/formats/source.h"
#include "engine/text/template.h"
#include "engine/text/tokenizer.h"
#include "sluice/sampling.h"

enum { SL_MAX_END_TOKENS = 16 };

typedef struct {
    sl_tokenizer *tokenizer; /* NULL if the source has none */
    sl_template *chat;       /* NULL if the source has none */
    sl_slice chat_text;      /* of that template */
    sl_error chat_problem;   /* why a template that the source has cannot be used */
    const char *note;        /* what is broken or not applied; NULL: nothing */
    const char *bos, *eos;   /* "" if unknown */
    sl_token end_tokens[SL_MAX_END_TOKENS];
    uint32_t end_count;
    sl_sampling sampling;
    sl_sampler_options sampler; /* the same, penalties and the like */
} sl_model_text;

/* Each part is optional.  vocab is the number of tokens of the model.  Strings live in the arena,
 * whose allocator has the rest; call unload even if this fails. */
SL_CHECKED sl_status sl_model_text_load(sl_model_text *text, const sl_source *source,
                                        uint32_t vocab, sl_arena *arena, sl_error *err);
void sl_model_text_unload(sl_model_text *text);
#endif
