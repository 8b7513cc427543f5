/* split.h - Pre-tokenizers: split text into words that are encoded separately. */
#ifndef SL_ENGINE_TEXT_SPLIT_H
#define SL_ENGINE_TEXT_SPLIT_H
#include "engine/text/pattern.h"
#include <jansson.h>

/* How matches and the text between them become pieces. */
typedef enum {
    SL_SPLIT_ISOLATED,             /* each is a piece */
    SL_SPLIT_REMOVED,              /* matches are dropped */
    SL_SPLIT_CONTIGUOUS,           /* neighbours of the same kind are one piece */
    SL_SPLIT_MERGED_WITH_PREVIOUS, /* a match ends the piece before it */
    SL_SPLIT_MERGED_WITH_NEXT,     /* a match starts the piece after it */
    SL_SPLIT_BEHAVIORS
} sl_split_behavior;

/* Changes to a piece by a step without a pattern. */
typedef enum {
    SL_SPLIT_PUT_SPACE,  /* puts a space before a piece that does not start with one */
    SL_SPLIT_MARK,       /* writes U+2581 for each space, */
    SL_SPLIT_MARK_FIRST, /* and puts one before the text, */
    SL_SPLIT_MARK_EACH,  /* or before each piece that does not start with one */
} sl_split_change;

typedef struct {
    sl_pattern pattern; /* none: change */
    sl_split_change change;
    sl_split_behavior behavior;
    bool invert; /* what does not match counts as match */
} sl_split_step;

enum { SL_SPLIT_STEPS = 16 };
/* Immutable once initialised.  Each step splits the pieces of the previous one. */
typedef struct {
    sl_split_step steps[SL_SPLIT_STEPS];
    uint32_t count;
    bool byte_level; /* words are bytes (ByteLevel), not characters */
} sl_splitter;

/* json: the "pre_tokenizer" of a tokenizer.json, in which ByteLevel comes last.  Deinit also after
 * a failure. */
SL_CHECKED sl_status sl_splitter_init(sl_splitter *splitter, json_t *json, sl_arena *scratch,
                                      sl_error *err);
void sl_splitter_deinit(sl_splitter *splitter);

typedef struct {
    sl_matcher *matcher;
    sl_arena *arena; /* for words that are not part of the text */
    SL_CHECKED sl_status (*word)(void *ctx, sl_slice word, sl_error *err);
    void *ctx;
    bool begun; /* the text does not start here */
} sl_split_work;

/* Calls work->word for each word, in order; none is empty.  text is well-formed UTF-8. */
SL_CHECKED sl_status sl_splitter_run(const sl_splitter *splitter, sl_split_work *work,
                                     sl_slice text, sl_error *err);
#endif
