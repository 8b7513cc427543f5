/* split.h - Pre-tokenizers: split text into words that are encoded separately. */
#ifndef SL_ENGINE_TEXT_SPLIT_H
#define SL_ENGINE_TEXT_SPLIT_H
#include "engine/text/pattern.h"
#include <jansson.h>

/* How matches and the text between them become pieces. */
typedef enum {
    SL_SPLIT_ISOLATED,             /* each is a piece */
    SL_SPLIT_REMOVED,              /* matches are dropped */
    SL_SPLIT_CONTIGUOUS,           /* adjacent spans of the same kind are one piece */
    SL_SPLIT_MERGED_WITH_PREVIOUS, /* a match ends the piece before it */
    SL_SPLIT_MERGED_WITH_NEXT,     /* a match starts the piece after it */
    SL_SPLIT_BEHAVIORS
} sl_split_behavior;

/* What a step without a pattern does to a piece. */
typedef enum {
    SL_SPLIT_PUT_SPACE,  /* adds a space unless the piece starts with one */
    SL_SPLIT_MARK,       /* replaces each space by U+2581, */
    SL_SPLIT_MARK_FIRST, /* and adds one before the text, */
    SL_SPLIT_MARK_EACH,  /* or before each piece that does not start with one */
} sl_split_change;

typedef struct {
    sl_pattern pattern; /* if there is none, `change` applies */
    sl_split_change change;
    sl_split_behavior behavior;
    bool invert; /* swaps matches and the text between them */
} sl_split_step;

enum { SL_SPLIT_STEPS = 16 };
/* Immutable once initialised.  Each step splits the pieces of the previous one. */
typedef struct {
    sl_split_step steps[SL_SPLIT_STEPS];
    uint32_t count;
    bool byte_level; /* words are sequences of bytes (ByteLevel), not characters */
} sl_splitter;

/* json: the "pre_tokenizer" of a tokenizer.json; ByteLevel must come last.  Call deinit also after
 * a failure. */
SL_CHECKED sl_status sl_splitter_init(sl_splitter *splitter, json_t *json, sl_arena *scratch,
                                      sl_error *err);
void sl_splitter_deinit(sl_splitter *splitter);

typedef struct {
    sl_matcher *matcher;
    sl_arena *arena; /* for words that are not part of the input text */
    SL_CHECKED sl_status (*word)(void *ctx, sl_slice word, sl_error *err);
    void *ctx;
    bool begun; /* the piece is not at the start of the text */
} sl_split_work;

/* Calls work->word for each word, in order; none is empty.  text is well-formed UTF-8. */
SL_CHECKED sl_status sl_splitter_run(const sl_splitter *splitter, sl_split_work *work,
                                     sl_slice text, sl_error *err);
#endif
