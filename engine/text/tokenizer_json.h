/* tokenizer_json.h - A tokenizer.json while it is read: the vocabulary and the merges, which make
 * up most of it, stay text; the rest becomes jansson's values. */
#ifndef SL_ENGINE_TEXT_TOKENIZER_JSON_H
#define SL_ENGINE_TEXT_TOKENIZER_JSON_H
#include "base/memory.h"
#include "engine/text/json_scan.h"
#include <jansson.h>

typedef struct {
    json_t *root; /* its vocabulary and merges are empty */
    /* What is between the brackets of the two; text NULL: there is no such object or array. */
    sl_slice vocab, merges;
    size_t longest_string;                 /* bytes of the longest in them, as written */
    char *scratch[2];                      /* each has room for such a string */
    bool unique_keys;                      /* known of all objects */
    bool has_model, has_vocab, has_merges; /* keys */
    sl_arena arena;
} sl_tokenizer_json;

/* text must outlive what is opened.  Without unique_keys, texts are refused in which the last of
 * two equal keys could matter; other readers of the two lists have to do the same.  Close also
 * after a failure. */
SL_CHECKED sl_status sl_tokenizer_json_open(sl_tokenizer_json *json, sl_slice text,
                                            bool unique_keys, const sl_allocator *allocator,
                                            sl_error *err);
void sl_tokenizer_json_close(sl_tokenizer_json *json);
#endif
