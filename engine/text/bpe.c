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

/* The slot that holds a pair, or the free one where it belongs; *out_tag: its bits of the hash. */
static uint32_t *find_slot(const sl_bpe *bpe, int32_t left, int32_t right, uint32_t *out_tag) {
    const uint64_t hash =
        (uint32_t)left * 0x9E3779B97F4A7C15u + (uint32_t)right * 0xD6E8FEB86659FD93u;
    const uint32_t tag = (uint32_t)hash & ~bpe->rank_mask;
    uint32_t at = (uint32_t)((hash >> 32) * bpe->slot_count >> 32);
    *out_tag = tag;
    for (;; at = at + 1 == bpe->slot_count ? 0 : at + 1) {
        uint32_t *slot = &bpe->slots[at];
        if (*slot == 0) return slot;
        if ((*slot ^ tag) > bpe->rank_mask) continue;
        const sl_merge *merge = &bpe->merges[(*slot & bpe->rank_mask) - 1];
        if (merge->left == left && merge->right == right) return slot;
    }
}

/* The rank of the merge of two neighbours, NO_RANK when they do not merge. */
static uint32_t find_rank(const sl_bpe *bpe, int32_t left, int32_t right) {
    uint32_t tag;
    return (*find_slot(bpe, left, right, &tag) & bpe->rank_mask) - 1;
}

static bool split_names(sl_slice merge, sl_slice out[2]) {
    const char *space = memchr(merge.text, ' ', merge.bytes);
    if (!space) return false;
    const size_t left = (size_t)(space - merge.text);
    out[0] = sl_slice_part(merge, 0, left);
    out[1] = sl_slice_part(merge, left + 1, merge.bytes);
    return memchr(out[1].text, ' ', out[1].bytes) == NULL;
}

/* The two names of a merge, written "left right" or ["left", "right"]. */
static bool read_names(sl_json_scan *scan, const sl_tokenizer_json *json, sl_slice out[2]) {
    if (sl_json_scan_peek(scan) != '[') {
        sl_slice merge;
        return sl_json_scan_string(scan, json->scratch[0], &merge) && split_names(merge, out);
    }
    return sl_json_scan_take(scan, '[') && sl_json_scan_string(scan, json->scratch[0], &out[0]) &&
           sl_json_scan_take(scan, ',') && sl_json_scan_string(scan, json->scratch[1], &out[1]) &&
           sl_json_scan_take(scan, ']');
}

/* The id of a part of a merge, whose name is appended to joined; -1: the vocabulary lacks it. */
static int32_t find_part(const sl_bpe *bpe, sl_slice name, char *joined, size_t *bytes) {
    sl_token_kind kind;
    size_t length = name.bytes;
    if (length > bpe->tokens->longest_name) return -1;
    if (bpe->tokens->byte_level)
        length = sl_token_name_decode(name, joined + *bytes, &kind);
    else if (length)
        memcpy(joined + *bytes, name.text, length);
    *bytes += length;
    return sl_token_table_find(bpe->tokens, (sl_slice){joined + *bytes - length, length});
}

/* buffer has room for two of the vocabulary's longest names. */
static sl_status add_merge(sl_bpe *bpe, const sl_slice names[2], uint32_t rank, char *buffer,
                           sl_error *err) {
    int32_t joined = -1;
    size_t bytes = 0;
    const int32_t left = find_part(bpe, names[0], buffer, &bytes);
    const int32_t right = left < 0 ? -1 : find_part(bpe, names[1], buffer, &bytes);
    if (right >= 0) joined = sl_token_table_find(bpe->tokens, (sl_slice){buffer, bytes});
    if (joined < 0)
        return sl_fail(err, SL_FORMAT,
                       "merge %u ('%.*s' and '%.*s') is not made of tokens in the vocabulary", rank,
                       (int)(names[0].bytes < 64 ? names[0].bytes : 64), names[0].text,
                       (int)(names[1].bytes < 64 ? names[1].bytes : 64), names[1].text);
    uint32_t tag, *slot = find_slot(bpe, left, right, &tag);
    bpe->merges[rank] = (sl_merge){left, right, joined};
    *slot = tag | (rank + 1);
    return SL_OK;
}

static sl_status add_merges(sl_bpe *bpe, const sl_tokenizer_json *json, char *buffer,
                            sl_error *err) {
    sl_json_scan scan = sl_json_scan_of(json->merges);
    for (uint32_t rank = 0; sl_json_scan_next(&scan); rank++) {
        sl_slice names[2];
        if (!read_names(&scan, json, names))
            return sl_fail(err, SL_FORMAT, "merge %u is neither \"left right\" nor two names",
                           rank);
        SL_TRY(add_merge(bpe, names, rank, buffer, err));
    }
    return scan.failed ? sl_fail(err, SL_FORMAT, "the merges are malformed") : SL_OK;
}

static sl_status read_merges(sl_bpe *bpe, const sl_tokenizer_json *json, sl_arena *arena,
                             sl_error *err) {
    size_t count = 0;
    if (!json->merges.text) return sl_fail(err, SL_FORMAT, "model has no array 'merges'");
    for (sl_json_scan scan = sl_json_scan_of(json->merges); sl_json_scan_next(&scan); count++)
        if (!sl_json_scan_skip(&scan)) break;
    if (count > UINT32_MAX / 4) return sl_fail(err, SL_FORMAT, "model has %zu merges", count);
    bpe->slot_count = (uint32_t)(3 * count + 1);
    bpe->rank_mask = 1;
    while (bpe->rank_mask <= count) bpe->rank_mask = 2 * bpe->rank_mask + 1;
    bpe->merges = SL_ARENA_NEW_ARRAY(arena, sl_merge, count);
    bpe->slots = SL_ARENA_NEW_ARRAY(arena, uint32_t, bpe->slot_count);
    if (!bpe->merges || !bpe->slots)
        return sl_no_memory(err, "merges", count * (uint64_t)sizeof *bpe->merges);
    char *buffer = sl_resize(arena->allocator, NULL, 0, 2 * bpe->tokens->longest_name + 1, 1);
    if (!buffer) return sl_no_memory(err, "names of a merge", 2 * bpe->tokens->longest_name);
    const sl_status status = add_merges(bpe, json, buffer, err);
    sl_release(arena->allocator, buffer, 2 * bpe->tokens->longest_name + 1, 1);
    return status;
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

sl_status sl_bpe_init(sl_bpe *bpe, const sl_tokenizer_json *json, const sl_token_table *tokens,
                      sl_arena *arena, sl_error *err) {
    json_t *model = json_object_get(json->root, "model");
    *bpe = (sl_bpe){.tokens = tokens};
    SL_TRY(check_model(model, err));
    SL_TRY(read_unknown(bpe, model, err));
    bpe->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    SL_TRY(find_bytes(bpe, json_is_true(json_object_get(model, "byte_fallback")), err));
    return read_merges(bpe, json, arena, err);
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
    uint32_t ranks[SHORT_BYTES]; /* of ids[i] and ids[i + 1] */
    size_t count = start_ids(bpe, word, ids);
    for (size_t i = 0; i + 1 < count; i++) ranks[i] = find_rank(bpe, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == NO_RANK) break;
        ids[best] = bpe->merges[ranks[best]].joined;
        count--;
        memmove(ids + best + 1, ids + best + 2, (count - best - 1) * sizeof *ids);
        memmove(ranks + best, ranks + best + 1, (count - best - 1) * sizeof *ranks);
        if (best > 0) ranks[best - 1] = find_rank(bpe, ids[best - 1], ids[best]);
        if (best + 1 < count) ranks[best] = find_rank(bpe, ids[best], ids[best + 1]);
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
    const uint32_t rank = find_rank(bpe, work->symbols[at], work->symbols[work->next[at]]);
    if (rank != NO_RANK) heap_push(work->queue, queued, (uint64_t)rank << 32 | (uint32_t)at);
}

static void merge_queued(const sl_bpe *bpe, sl_bpe_work *work, size_t *queued) {
    int32_t *symbols = work->symbols, *next = work->next;
    while (*queued > 0) {
        const uint64_t top = heap_pop(work->queue, queued);
        const int32_t at = (int32_t)(top & UINT32_MAX);
        const int32_t gone = next[at];
        if (symbols[at] < 0 || gone < 0) continue;
        const uint32_t rank = find_rank(bpe, symbols[at], symbols[gone]);
        if (rank != top >> 32) continue; /* one of the two has changed since */
        symbols[at] = bpe->merges[rank].joined;
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
