/* bpe.c - Short words are merged by scanning for the best pair; long ones with a linked list of
 * symbols and a heap of pairs, in O(n log n). */
#include "engine/text/bpe.h"
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum {
    SHORT_BYTES = 48,  /* words up to this length are merged by scanning */
    SEEN_IDS = 8,      /* maximum number of ids of a memoised word */
    SEEN_WORDS = 8192, /* maximum number of memoised words */
};
#define NO_RANK UINT32_MAX

struct sl_bpe_word {
    sl_slice word;
    uint32_t count; /* 0: free entry */
    int32_t ids[SEEN_IDS];
};

/* ---- the merge table ---- */

static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* The slot that holds the pair, or the free slot where it belongs. */
static sl_merge *find_slot(const sl_bpe *bpe, uint64_t pair) {
    uint64_t hash = pair * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    for (uint32_t at = (uint32_t)hash & bpe->merge_mask;; at = (at + 1) & bpe->merge_mask) {
        sl_merge *slot = &bpe->merges[at];
        if (slot->pair == pair || slot->joined < 0) return slot;
    }
}

/* The merge of two adjacent ids; rank NO_RANK if they do not merge. */
static sl_merge find_merge(const sl_bpe *bpe, int32_t left, int32_t right) {
    const sl_merge *slot = find_slot(bpe, pair_of(left, right));
    return slot->joined < 0 ? (sl_merge){.rank = NO_RANK, .joined = -1} : *slot;
}

/* The two token names of a merge, written "left right" or ["left", "right"]. */
static bool merge_names(json_t *merge, sl_slice out[2]) {
    if (json_is_string(merge)) {
        const char *text = json_string_value(merge);
        const size_t bytes = json_string_length(merge);
        const char *space = memchr(text, ' ', bytes);
        if (!space) return false;
        const size_t left = (size_t)(space - text);
        out[0] = (sl_slice){text, left};
        out[1] = (sl_slice){space + 1, bytes - left - 1};
        return memchr(out[1].text, ' ', out[1].bytes) == NULL;
    }
    if (json_array_size(merge) != 2) return false;
    for (size_t i = 0; i < 2; i++) {
        json_t *name = json_array_get(merge, i);
        if (!json_is_string(name)) return false;
        out[i] = (sl_slice){json_string_value(name), json_string_length(name)};
    }
    return true;
}

/* `buffer` has room for two of the vocabulary's longest names. */
static sl_status add_merge(sl_bpe *bpe, json_t *merge, uint32_t rank, char *buffer, sl_error *err) {
    sl_slice names[2];
    if (!merge_names(merge, names))
        return sl_fail(err, SL_FORMAT, "merge %u is neither \"left right\" nor two names", rank);
    int32_t ids[3] = {-1, -1, -1};
    size_t bytes = 0;
    for (size_t i = 0; i < 2 && names[i].bytes <= bpe->tokens->longest_name; i++) {
        sl_token_kind kind;
        size_t length = names[i].bytes;
        if (bpe->tokens->byte_level)
            length = sl_token_name_decode(names[i], buffer + bytes, &kind);
        else if (length)
            memcpy(buffer + bytes, names[i].text, length);
        ids[i] = sl_token_table_find(bpe->tokens, (sl_slice){buffer + bytes, length});
        bytes += length;
    }
    if (ids[0] >= 0 && ids[1] >= 0)
        ids[2] = sl_token_table_find(bpe->tokens, (sl_slice){buffer, bytes});
    if (ids[2] < 0)
        return sl_fail(err, SL_FORMAT,
                       "merge %u ('%.*s' and '%.*s') is not made of tokens in the vocabulary", rank,
                       (int)(names[0].bytes < 64 ? names[0].bytes : 64), names[0].text,
                       (int)(names[1].bytes < 64 ? names[1].bytes : 64), names[1].text);
    *find_slot(bpe, pair_of(ids[0], ids[1])) = (sl_merge){pair_of(ids[0], ids[1]), rank, ids[2]};
    return SL_OK;
}

static sl_status read_merges(sl_bpe *bpe, json_t *merges, sl_arena *arena, sl_error *err) {
    if (!json_is_array(merges)) return sl_fail(err, SL_FORMAT, "model has no array 'merges'");
    const size_t count = json_array_size(merges);
    if (count > UINT32_MAX / 4) return sl_fail(err, SL_FORMAT, "model has %zu merges", count);
    uint32_t slots = 16;
    while ((size_t)slots / 4 * 3 < count) slots *= 2;
    bpe->merge_mask = slots - 1;
    bpe->merges = SL_ARENA_NEW_ARRAY(arena, sl_merge, slots);
    if (!bpe->merges) return sl_no_memory(err, "merges", (uint64_t)slots * sizeof *bpe->merges);
    for (uint32_t i = 0; i < slots; i++) bpe->merges[i].joined = -1;
    char *buffer = sl_arena_alloc(arena, 2 * bpe->tokens->longest_name + 1, 1);
    if (!buffer) return sl_no_memory(err, "names of a merge", 2 * bpe->tokens->longest_name);
    size_t index;
    json_t *merge;
    json_array_foreach(merges, index, merge)
        SL_TRY(add_merge(bpe, merge, (uint32_t)index, buffer, err));
    return SL_OK;
}

/* ---- the model ---- */

static bool is_off(json_t *value) {
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

static sl_status check_model(json_t *model, sl_error *err) {
    json_t *type = json_object_get(model, "type");
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "BPE") != 0))
        return sl_fail(err, SL_UNSUPPORTED, "model type '%.64s' is not supported, only BPE",
                       json_is_string(type) ? json_string_value(type) : "(no string)");
    static const char *const unsupported[] = {"dropout", "continuing_subword_prefix",
                                              "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (!is_off(json_object_get(model, unsupported[i])))
            return sl_fail(err, SL_UNSUPPORTED, "model option '%s' is not supported",
                           unsupported[i]);
    return SL_OK;
}

static sl_status read_unknown(sl_bpe *bpe, json_t *model, sl_error *err) {
    json_t *name = json_object_get(model, "unk_token");
    bpe->unknown = -1;
    bpe->fuse_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    if (!name || json_is_null(name)) return SL_OK;
    if (!json_is_string(name)) return sl_fail(err, SL_FORMAT, "model's unk_token is not a string");
    bpe->unknown = sl_token_table_find(
        bpe->tokens, (sl_slice){json_string_value(name), json_string_length(name)});
    if (bpe->unknown < 0)
        return sl_fail(err, SL_FORMAT, "model's unk_token '%.64s' is not in the vocabulary",
                       json_string_value(name));
    return SL_OK;
}

/* Looks up the ids of single bytes and characters. */
static sl_status find_bytes(sl_bpe *bpe, bool fallback, sl_error *err) {
    const sl_token_table *tokens = bpe->tokens;
    int missing = 0;
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        const char text = (char)byte;
        const int32_t plain = sl_token_table_find_word(tokens, (sl_slice){&text, 1});
        (void)snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        bpe->byte_ids[byte] = tokens->byte_level ? plain
                              : fallback         ? sl_token_table_find(tokens, (sl_slice){name, 6})
                                                 : -1;
        if (byte < 128) bpe->ascii_ids[byte] = plain;
        missing += bpe->byte_ids[byte] < 0;
    }
    if (tokens->byte_level && fallback && missing)
        return sl_fail(err, SL_UNSUPPORTED,
                       "model option 'byte_fallback' with a byte-level vocabulary that lacks %d of "
                       "256 bytes",
                       missing);
    return SL_OK;
}

sl_status sl_bpe_init(sl_bpe *bpe, json_t *model, const sl_token_table *tokens, sl_arena *arena,
                      sl_error *err) {
    *bpe = (sl_bpe){.tokens = tokens};
    SL_TRY(check_model(model, err));
    SL_TRY(read_unknown(bpe, model, err));
    bpe->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    SL_TRY(find_bytes(bpe, json_is_true(json_object_get(model, "byte_fallback")), err));
    return read_merges(bpe, json_object_get(model, "merges"), arena, err);
}

/* ---- merging ---- */

typedef struct {
    int32_t *ids; /* one per byte of the word */
    size_t count;
    bool after_unknown;
} start;

static void add_unknown(const sl_bpe *bpe, start *out) {
    if (bpe->unknown < 0 || (out->after_unknown && bpe->fuse_unknown)) return;
    out->after_unknown = true;
    out->ids[out->count++] = bpe->unknown;
}

static void add_known(start *out, int32_t id) {
    out->after_unknown = false;
    out->ids[out->count++] = id;
}

/* A character that is not in the vocabulary: its byte tokens if all exist, else the unknown
 * token. */
static void add_missing(const sl_bpe *bpe, sl_slice character, start *out) {
    for (size_t i = 0; i < character.bytes; i++) {
        if (bpe->byte_ids[(unsigned char)character.text[i]] >= 0) continue;
        add_unknown(bpe, out);
        return;
    }
    for (size_t i = 0; i < character.bytes; i++)
        add_known(out, bpe->byte_ids[(unsigned char)character.text[i]]);
}

static void start_characters(const sl_bpe *bpe, sl_slice word, start *out) {
    for (size_t at = 0; at < word.bytes;) {
        uint32_t character = 0;
        size_t bytes = sl_utf8_decode(sl_slice_part(word, at, word.bytes), &character);
        if (bytes == 0) bytes = 1;
        const sl_slice part = sl_slice_part(word, at, at + bytes);
        const unsigned char first = (unsigned char)part.text[0];
        const int32_t id =
            first < 128 ? bpe->ascii_ids[first] : sl_token_table_find_word(bpe->tokens, part);
        if (id >= 0)
            add_known(out, id);
        else
            add_missing(bpe, part, out);
        at += bytes;
    }
}

/* The initial ids of a word, before merging; returns how many. */
static size_t start_ids(const sl_bpe *bpe, sl_slice word, int32_t *ids) {
    start out = {ids, 0, false};
    if (!bpe->tokens->byte_level) start_characters(bpe, word, &out);
    for (size_t i = 0; bpe->tokens->byte_level && i < word.bytes; i++) {
        const int32_t id = bpe->byte_ids[(unsigned char)word.text[i]];
        if (id >= 0)
            add_known(&out, id);
        else
            add_unknown(bpe, &out);
    }
    return out.count;
}

static void encode_short(const sl_bpe *bpe, sl_slice word, sl_id_list *out) {
    int32_t ids[SHORT_BYTES];
    sl_merge merges[SHORT_BYTES]; /* merges[i] of ids[i] and ids[i + 1] */
    size_t count = start_ids(bpe, word, ids);
    for (size_t i = 0; i + 1 < count; i++) merges[i] = find_merge(bpe, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (merges[i].rank < merges[best].rank) best = i;
        if (merges[best].rank == NO_RANK) break;
        ids[best] = merges[best].joined;
        count--;
        memmove(ids + best + 1, ids + best + 2, (count - best - 1) * sizeof *ids);
        memmove(merges + best, merges + best + 1, (count - best - 1) * sizeof *merges);
        if (best > 0) merges[best - 1] = find_merge(bpe, ids[best - 1], ids[best]);
        if (best + 1 < count) merges[best] = find_merge(bpe, ids[best], ids[best + 1]);
    }
    for (size_t i = 0; i < count; i++) sl_id_list_add(out, ids[i]);
}

static void heap_push(uint64_t *heap, size_t *count, uint64_t key) {
    size_t at = (*count)++;
    while (at > 0 && heap[(at - 1) / 2] > key) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = key;
}

static uint64_t heap_pop(uint64_t *heap, size_t *count) {
    const uint64_t top = heap[0], last = heap[--*count];
    size_t at = 0;
    for (size_t child = 1; child < *count; child = 2 * at + 1) {
        if (child + 1 < *count && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* Queues the pair that starts at a symbol, if it merges. */
static void queue_pair(const sl_bpe *bpe, sl_bpe_work *work, size_t *queued, int32_t at) {
    if (at < 0 || work->next[at] < 0) return;
    const sl_merge merge = find_merge(bpe, work->symbols[at], work->symbols[work->next[at]]);
    if (merge.rank != NO_RANK)
        heap_push(work->queue, queued, (uint64_t)merge.rank << 32 | (uint32_t)at);
}

static void merge_queued(const sl_bpe *bpe, sl_bpe_work *work, size_t *queued) {
    int32_t *symbols = work->symbols, *next = work->next;
    while (*queued > 0) {
        const uint64_t top = heap_pop(work->queue, queued);
        const int32_t at = (int32_t)(top & UINT32_MAX);
        const int32_t gone = next[at];
        if (symbols[at] < 0 || gone < 0) continue;
        const sl_merge merge = find_merge(bpe, symbols[at], symbols[gone]);
        if (merge.rank != top >> 32) continue; /* stale: one of the two has changed since */
        symbols[at] = merge.joined;
        symbols[gone] = -1;
        next[at] = next[gone];
        if (next[at] >= 0) work->previous[next[at]] = at;
        queue_pair(bpe, work, queued, work->previous[at]);
        queue_pair(bpe, work, queued, at);
    }
}

static sl_status make_room(sl_bpe_work *work, size_t bytes, sl_error *err) {
    if (bytes <= work->room) return SL_OK;
    if (bytes > INT32_MAX)
        return sl_fail(err, SL_INVALID, "a word has %zu bytes, at most 2 GiB are supported", bytes);
    const size_t room = bytes < 2 * work->room ? 2 * work->room : bytes;
    work->symbols = SL_ARENA_NEW_ARRAY(work->arena, int32_t, 3 * room);
    work->queue = SL_ARENA_NEW_ARRAY(work->arena, uint64_t, 2 * room);
    work->room = work->symbols && work->queue ? room : 0;
    if (work->room == 0) return sl_no_memory(err, "a long word", 28 * (uint64_t)room);
    work->previous = work->symbols + room;
    work->next = work->previous + room;
    return SL_OK;
}

/* The queue starts with at most count - 1 pairs; each merge removes one and adds at most two. */
static sl_status encode_long(const sl_bpe *bpe, sl_bpe_work *work, sl_slice word, sl_error *err) {
    SL_TRY(make_room(work, word.bytes, err));
    const int32_t count = (int32_t)start_ids(bpe, word, work->symbols);
    size_t queued = 0;
    for (int32_t i = 0; i < count; i++) {
        work->previous[i] = i - 1;
        work->next[i] = i + 1 < count ? i + 1 : -1;
        queue_pair(bpe, work, &queued, i);
    }
    merge_queued(bpe, work, &queued);
    for (int32_t i = count > 0 ? 0 : -1; i >= 0; i = work->next[i])
        sl_id_list_add(&work->ids, work->symbols[i]);
    return SL_OK;
}

/* ---- words ---- */

sl_status sl_bpe_work_init(sl_bpe_work *work, size_t text_bytes, sl_arena *arena, sl_error *err) {
    uint32_t words = 16;
    while (words < SEEN_WORDS && words < text_bytes / 8) words *= 2;
    *work = (sl_bpe_work){.arena = arena, .seen_mask = words - 1};
    work->seen = SL_ARENA_NEW_ARRAY(arena, sl_bpe_word, words);
    return work->seen ? SL_OK : sl_no_memory(err, "remembered words", words * sizeof *work->seen);
}

sl_status sl_bpe_encode(const sl_bpe *bpe, sl_bpe_work *work, sl_slice word, sl_error *err) {
    if (bpe->whole_words) {
        const int32_t id = sl_token_table_find_word(bpe->tokens, word);
        if (id >= 0) {
            sl_id_list_add(&work->ids, id);
            return SL_OK;
        }
    }
    if (word.bytes > SHORT_BYTES) return encode_long(bpe, work, word, err);
    const uint64_t hash = XXH3_64bits(word.text, word.bytes);
    sl_bpe_word *seen = &work->seen[hash & work->seen_mask];
    const bool known = seen->count > 0 && seen->word.bytes == word.bytes &&
                       memcmp(seen->word.text, word.text, word.bytes) == 0;
    if (!known) {
        int32_t ids[SHORT_BYTES];
        sl_id_list list = {ids, SHORT_BYTES, 0};
        encode_short(bpe, word, &list);
        if (list.count > SEEN_IDS) {
            for (size_t i = 0; i < list.count; i++) sl_id_list_add(&work->ids, ids[i]);
            return SL_OK;
        }
        seen->word = word;
        seen->count = (uint32_t)list.count;
        memcpy(seen->ids, ids, list.count * sizeof *ids);
    }
    for (uint32_t i = 0; i < seen->count; i++) sl_id_list_add(&work->ids, seen->ids[i]);
    return SL_OK;
}
