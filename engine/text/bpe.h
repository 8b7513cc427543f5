/* bpe.h - Byte pair encoding: merges adjacent tokens of a word, lowest rank first.
 *
 * A word starts as its bytes if the vocabulary is byte-level, else as its characters. */
#ifndef SL_ENGINE_TEXT_BPE_H
#define SL_ENGINE_TEXT_BPE_H
#include "engine/text/token_table.h"

typedef struct {
    uint64_t pair;  /* left id << 32 | right id */
    uint32_t rank;  /* lower merges first */
    int32_t joined; /* the merged id; -1: free slot */
} sl_merge;

/* Immutable once initialised. */
typedef struct {
    const sl_token_table *tokens;
    sl_merge *merges; /* hash table with open addressing, by pair */
    uint32_t merge_mask;
    int32_t byte_ids[256];  /* tokens of single bytes, -1: none; not byte-level: "byte_fallback" */
    int32_t ascii_ids[128]; /* not byte-level: the ids of ASCII characters */
    int32_t unknown;        /* the unknown token; -1: unknown bytes are dropped */
    bool fuse_unknown;      /* a run of unknown characters becomes one token */
    bool whole_words;       /* a word that is a token is not merged from parts ("ignore_merges") */
} sl_bpe;

/* model: the "model" object of a tokenizer.json; `tokens` is its vocabulary. */
SL_CHECKED sl_status sl_bpe_init(sl_bpe *bpe, json_t *model, const sl_token_table *tokens,
                                 sl_arena *arena, sl_error *err);

/* A list of ids; those beyond capacity are counted but not stored. */
typedef struct {
    int32_t *ids;
    size_t capacity, count;
} sl_id_list;

static inline void sl_id_list_add(sl_id_list *list, int32_t id) {
    if (list->count < list->capacity) list->ids[list->count] = id;
    list->count++;
}

/* The working memory of one thread that encodes one text: buffers for long words, and memoised
 * words.  Lives in an arena; the words passed in must live as long. */
typedef struct sl_bpe_word sl_bpe_word;
typedef struct {
    sl_arena *arena;
    sl_bpe_word *seen; /* direct-mapped by hash */
    uint32_t seen_mask;
    int32_t *symbols, *previous, *next; /* linked list with one entry per byte of a long word */
    uint64_t *queue; /* a heap of pairs, rank << 32 | position; two per byte of a long word */
    size_t room;     /* length in bytes of the longest word that fits */
    sl_id_list ids;  /* the result so far */
} sl_bpe_work;

SL_CHECKED sl_status sl_bpe_work_init(sl_bpe_work *work, size_t text_bytes, sl_arena *arena,
                                      sl_error *err);
/* Appends the ids of one word to work->ids. */
SL_CHECKED sl_status sl_bpe_encode(const sl_bpe *bpe, sl_bpe_work *work, sl_slice word,
                                   sl_error *err);
#endif
