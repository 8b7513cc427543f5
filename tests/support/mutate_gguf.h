/* mutate_gguf.h - For fuzzers whose input is a GGUF file: most mutations change one field of the
 * parsed file (a key, kind, value, array length, tensor name, shape, type or offset, or a count of
 * the header) and write the rest well-formed around it; the others change bytes. */
#ifndef SL_TESTS_SUPPORT_MUTATE_GGUF_H
#define SL_TESTS_SUPPORT_MUTATE_GGUF_H
#include "engine/formats/gguf.h"
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

enum { GGUF_MOST_ENTRIES = 256, GGUF_SPARE_BYTES = 1 << 16 };

typedef struct {
    const uint8_t *data;
    size_t bytes;
} gguf_span;

typedef struct {
    gguf_span key, value; /* value: all elements, texts with their lengths */
    uint32_t kind, element_kind;
    uint64_t count; /* as written; may differ from what value holds */
} gguf_entry;

typedef struct {
    gguf_span name;
    uint32_t rank, type;
    uint64_t dims[4], shift; /* shift: added to the right offset */
} gguf_shape;

typedef struct {
    uint32_t version, entry_count, tensor_count;
    uint64_t more_entries, more_tensors; /* added to the right counts of the header */
    gguf_entry entries[GGUF_MOST_ENTRIES];
    gguf_shape tensors[GGUF_MOST_ENTRIES];
    gguf_span rest;                  /* the data of the tensors */
    uint8_t spare[GGUF_SPARE_BYTES]; /* for new keys and values */
    size_t spare_used;
} gguf_file;

static uint32_t gguf_state;
static uint32_t gguf_draw(uint32_t below) {
    gguf_state = gguf_state * 1664525u + 1013904223u;
    return (gguf_state >> 8) % below;
}

static uint64_t gguf_number(uint64_t old) {
    static const uint64_t extremes[] = {0,          1,          2,
                                        3,          4,          7,
                                        8,          16,         32,
                                        63,         64,         255,
                                        256,        4096,       4097,
                                        65535,      65536,      1u << 20,
                                        INT32_MAX,  1u << 31,   UINT32_MAX,
                                        1ull << 32, 1ull << 40, INT64_MAX,
                                        1ull << 63, UINT64_MAX, UINT64_MAX - 31};
    switch (gguf_draw(6)) {
    case 0:
        return old + 1;
    case 1:
        return old - 1;
    case 2:
        return old * 2;
    default:
        return extremes[gguf_draw(sizeof extremes / sizeof extremes[0])];
    }
}

/* ---- reading ---- */

static int gguf_take(gguf_span *from, size_t bytes, gguf_span *out) {
    if (bytes > from->bytes) return 0;
    *out = (gguf_span){from->data, bytes};
    from->data += bytes;
    from->bytes -= bytes;
    return 1;
}
static int gguf_take_number(gguf_span *from, void *out, size_t bytes) {
    gguf_span span;
    if (!gguf_take(from, bytes, &span)) return 0;
    memcpy(out, span.data, bytes);
    return 1;
}
static int gguf_take_text(gguf_span *from, gguf_span *out) {
    uint64_t bytes;
    return gguf_take_number(from, &bytes, 8) && bytes <= from->bytes &&
           gguf_take(from, (size_t)bytes, out);
}

static size_t gguf_kind_bytes(uint32_t kind) {
    static const uint8_t bytes[SL_GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return kind < SL_GGUF_KINDS ? bytes[kind] : 0;
}

static int gguf_take_entry(gguf_span *from, gguf_entry *out) {
    *out = (gguf_entry){.count = 1};
    if (!gguf_take_text(from, &out->key) || !gguf_take_number(from, &out->kind, 4)) return 0;
    out->element_kind = out->kind;
    if (out->kind == SL_GGUF_ARRAY &&
        !(gguf_take_number(from, &out->element_kind, 4) && gguf_take_number(from, &out->count, 8)))
        return 0;
    if (out->count > from->bytes) return 0;
    const size_t each = gguf_kind_bytes(out->element_kind);
    if (each) return gguf_take(from, each * (size_t)out->count, &out->value);
    if (out->element_kind != SL_GGUF_TEXT) return 0;
    const uint8_t *start = from->data;
    gguf_span text;
    for (uint64_t i = 0; i < out->count; i++)
        if (!gguf_take_text(from, &text)) return 0;
    out->value = (gguf_span){start, (size_t)(from->data - start)};
    return 1;
}

static int gguf_take_tensor(gguf_span *from, gguf_shape *out) {
    uint64_t offset;
    *out = (gguf_shape){0};
    return gguf_take_text(from, &out->name) && gguf_take_number(from, &out->rank, 4) &&
           out->rank <= 4 && gguf_take_number(from, out->dims, 8 * (size_t)out->rank) &&
           gguf_take_number(from, &out->type, 4) && gguf_take_number(from, &offset, 8);
}

static int gguf_read(const uint8_t *data, size_t size, gguf_file *out) {
    gguf_span from = {data, size}, magic;
    uint64_t tensors, entries;
    *out = (gguf_file){0};
    if (!gguf_take(&from, 4, &magic) || memcmp(magic.data, SL_GGUF_MAGIC, 4) != 0 ||
        !gguf_take_number(&from, &out->version, 4) || !gguf_take_number(&from, &tensors, 8) ||
        !gguf_take_number(&from, &entries, 8) || tensors > GGUF_MOST_ENTRIES ||
        entries > GGUF_MOST_ENTRIES)
        return 0;
    for (; out->entry_count < entries; out->entry_count++)
        if (!gguf_take_entry(&from, &out->entries[out->entry_count])) return 0;
    for (; out->tensor_count < tensors; out->tensor_count++)
        if (!gguf_take_tensor(&from, &out->tensors[out->tensor_count])) return 0;
    out->rest = from;
    return 1;
}

/* ---- writing ---- */

typedef struct {
    uint8_t *data;
    size_t size, most;
} gguf_output;

/* Bytes past `most` are only counted. */
static void gguf_put(gguf_output *out, const void *data, size_t bytes) {
    if (out->size <= out->most && bytes <= out->most - out->size && bytes)
        memcpy(out->data + out->size, data, bytes);
    out->size += bytes;
}
static void gguf_put_text(gguf_output *out, gguf_span text) {
    const uint64_t bytes = text.bytes;
    gguf_put(out, &bytes, 8);
    gguf_put(out, text.data, text.bytes);
}

static void gguf_put_entry(gguf_output *out, const gguf_entry *entry) {
    gguf_put_text(out, entry->key);
    gguf_put(out, &entry->kind, 4);
    if (entry->kind == SL_GGUF_ARRAY) {
        gguf_put(out, &entry->element_kind, 4);
        gguf_put(out, &entry->count, 8);
    }
    gguf_put(out, entry->value.data, entry->value.bytes);
}

static int gguf_span_is(gguf_span span, const char *text) {
    return span.bytes == strlen(text) && memcmp(span.data, text, span.bytes) == 0;
}

static uint64_t gguf_alignment(const gguf_file *file) {
    uint32_t value = 32;
    for (uint32_t i = 0; i < file->entry_count; i++)
        if (gguf_span_is(file->entries[i].key, "general.alignment") &&
            file->entries[i].value.bytes >= 4)
            memcpy(&value, file->entries[i].value.data, 4);
    return value && value <= 4096 && !(value & (value - 1)) ? value : 32;
}

static uint64_t gguf_tensor_bytes(const gguf_shape *tensor) {
    const sl_gguf_type *type = sl_gguf_type_find(tensor->type);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor->rank && i < 4; i++) elements *= tensor->dims[i];
    return type ? elements / type->elements * type->bytes : elements;
}

/* Ends with the data: the old bytes, then a pattern; sizes without sense get no bytes. */
static void gguf_put_data(gguf_output *out, const gguf_file *file, uint64_t bytes) {
    const size_t room = out->size < out->most ? out->most - out->size : 0;
    if (bytes > room) bytes = room;
    for (uint64_t i = 0; i < bytes; i++) {
        const uint8_t byte =
            i < file->rest.bytes ? file->rest.data[i] : (uint8_t)(i * 37 + (i >> 8));
        gguf_put(out, &byte, 1);
    }
}

static void gguf_write(gguf_output *out, const gguf_file *file) {
    const uint64_t tensors = file->tensor_count + file->more_tensors;
    const uint64_t entries = file->entry_count + file->more_entries, align = gguf_alignment(file);
    uint64_t next = 0;
    gguf_put(out, SL_GGUF_MAGIC, 4);
    gguf_put(out, &file->version, 4);
    gguf_put(out, &tensors, 8);
    gguf_put(out, &entries, 8);
    for (uint32_t i = 0; i < file->entry_count; i++) gguf_put_entry(out, &file->entries[i]);
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        const gguf_shape *t = &file->tensors[i];
        const uint64_t offset = next + t->shift;
        gguf_put_text(out, t->name);
        gguf_put(out, &t->rank, 4);
        gguf_put(out, t->dims, 8 * (size_t)(t->rank < 4 ? t->rank : 4));
        gguf_put(out, &t->type, 4);
        gguf_put(out, &offset, 8);
        next = (next + gguf_tensor_bytes(t) + align - 1) & ~(align - 1);
    }
    const uint64_t padding = (align - out->size % align) % align;
    gguf_put_data(out, file, padding + next < next ? 0 : padding + next);
}

/* ---- mutations ---- */

static gguf_span gguf_keep(gguf_file *file, const void *data, size_t bytes) {
    if (bytes > GGUF_SPARE_BYTES - file->spare_used) bytes = GGUF_SPARE_BYTES - file->spare_used;
    uint8_t *at = file->spare + file->spare_used;
    if (bytes) memcpy(at, data, bytes);
    file->spare_used += bytes;
    return (gguf_span){at, bytes};
}

/* A copy with one letter changed; names of layers get another number now and then. */
static gguf_span gguf_rename(gguf_file *file, gguf_span old) {
    const gguf_span fresh = gguf_keep(file, old.data, old.bytes);
    if (fresh.bytes)
        file->spare[(size_t)(fresh.data - file->spare) + gguf_draw((uint32_t)fresh.bytes)] =
            (uint8_t) "0123456789abc_."[gguf_draw(15)];
    return fresh;
}

static gguf_span gguf_one_text(gguf_file *file) {
    static const char *const texts[] = {
        "",         "qwen3",     "qwen3moe", "qwen3next", "qwen35",  "qwen35moe", "llama",
        "olmoe",    "deepseek2", "glm4moe",  "gpt-oss",   "gpt2",    "default",   "deepseek-v3",
        "qwen2",    "llama-bpe", "gpt-4o",   "glm4",      "tekken",  "linear",    "yarn",
        "longrope", "none",      "\xff",     "a b",       "{{ x }}", "<0x41>",    "\xe2\x96\x81"};
    const char *text = texts[gguf_draw(sizeof texts / sizeof texts[0])];
    const uint64_t bytes = strlen(text);
    const gguf_span length = gguf_keep(file, &bytes, 8), body = gguf_keep(file, text, bytes);
    return (gguf_span){length.data, length.bytes + body.bytes};
}

/* `count` elements of a kind, well-formed. */
static gguf_span gguf_new_value(gguf_file *file, uint32_t kind, uint64_t count) {
    gguf_span all = {file->spare + file->spare_used, 0};
    for (uint64_t i = 0; i < count && i < 64; i++) {
        const uint64_t number = kind == SL_GGUF_BOOL ? gguf_draw(2) : gguf_number(i);
        const float real = (float)number / 3;
        const double wide = real;
        const void *from = kind == SL_GGUF_F32   ? (const void *)&real
                           : kind == SL_GGUF_F64 ? (const void *)&wide
                                                 : (const void *)&number;
        all.bytes += kind == SL_GGUF_TEXT ? gguf_one_text(file).bytes
                                          : gguf_keep(file, from, gguf_kind_bytes(kind)).bytes;
    }
    return all;
}

static void gguf_change_kind(gguf_file *file, gguf_entry *entry) {
    entry->element_kind = gguf_draw(SL_GGUF_KINDS);
    entry->kind = gguf_draw(3) ? entry->element_kind : SL_GGUF_ARRAY;
    if (entry->element_kind == SL_GGUF_ARRAY) entry->element_kind = SL_GGUF_I32;
    entry->count = entry->kind == SL_GGUF_ARRAY ? gguf_draw(12) : 1;
    entry->value = gguf_new_value(file, entry->element_kind, entry->count);
    if (!gguf_draw(16)) entry->kind = (uint32_t)gguf_number(entry->kind);
}

/* Another number in place of one element, or another text. */
static void gguf_change_value(gguf_file *file, gguf_entry *entry) {
    const size_t each = gguf_kind_bytes(entry->element_kind);
    if (!each) {
        entry->value = gguf_new_value(file, SL_GGUF_TEXT, entry->count);
        return;
    }
    entry->value = gguf_keep(file, entry->value.data, entry->value.bytes);
    if (entry->value.bytes < each) return;
    uint8_t *at = file->spare + (entry->value.data - file->spare) +
                  each * gguf_draw((uint32_t)(entry->value.bytes / each));
    uint64_t number = 0;
    memcpy(&number, at, each);
    number = gguf_number(number);
    memcpy(at, &number, each);
}

/* The architecture under another name, with the keys that begin with it or without them. */
static void gguf_change_architecture(gguf_file *file) {
    const gguf_span fresh = gguf_one_text(file);
    gguf_span old = {NULL, 0};
    for (uint32_t i = 0; i < file->entry_count; i++) {
        gguf_entry *e = &file->entries[i];
        if (!gguf_span_is(e->key, "general.architecture") || e->value.bytes < 8) continue;
        old = (gguf_span){e->value.data + 8, e->value.bytes - 8};
        e->value = fresh;
    }
    for (uint32_t i = 0; old.bytes && gguf_state & 256 && i < file->entry_count; i++) {
        gguf_span *key = &file->entries[i].key;
        if (key->bytes <= old.bytes || memcmp(key->data, old.data, old.bytes) != 0) continue;
        const gguf_span head = gguf_keep(file, fresh.data + 8, fresh.bytes - 8);
        const gguf_span tail = gguf_keep(file, key->data + old.bytes, key->bytes - old.bytes);
        *key = (gguf_span){head.data, head.bytes + tail.bytes};
    }
}

static void gguf_set_alignment(gguf_file *file) {
    static const char key[] = "general.alignment";
    if (file->entry_count == GGUF_MOST_ENTRIES) return;
    const uint32_t value = gguf_draw(4) ? 1u << gguf_draw(22) : (uint32_t)gguf_number(32);
    file->entries[file->entry_count++] =
        (gguf_entry){gguf_keep(file, key, sizeof key - 1), gguf_keep(file, &value, 4), SL_GGUF_U32,
                     SL_GGUF_U32, 1};
}

/* Another key of the file's architecture. */
static void gguf_add_own(gguf_file *file, const char *name, uint32_t kind, gguf_span value) {
    for (uint32_t i = 0; i < file->entry_count; i++) {
        const gguf_entry *e = &file->entries[i];
        if (!gguf_span_is(e->key, "general.architecture") || e->value.bytes < 8) continue;
        if (file->entry_count == GGUF_MOST_ENTRIES) return;
        const gguf_span head = gguf_keep(file, e->value.data + 8, e->value.bytes - 8);
        const gguf_span tail = gguf_keep(file, name, strlen(name));
        file->entries[file->entry_count++] =
            (gguf_entry){(gguf_span){head.data, head.bytes + tail.bytes}, value, kind, kind, 1};
        return;
    }
}

/* Scaled rotary embeddings, of a kind and with numbers of any kind. */
static void gguf_scale_rope(gguf_file *file) {
    static const char *const numbers[] = {
        ".rope.scaling.yarn_beta_fast", ".rope.scaling.yarn_beta_slow",
        ".rope.scaling.yarn_attn_factor", ".rope.scaling.yarn_log_multiplier"};
    const char *kind = gguf_draw(3) ? "yarn" : "linear";
    const uint64_t bytes = strlen(kind);
    const gguf_span length = gguf_keep(file, &bytes, 8), body = gguf_keep(file, kind, bytes);
    const float factor = gguf_draw(4) ? (float)(1 + gguf_draw(64)) : (float)gguf_number(1);
    gguf_add_own(file, ".rope.scaling.type", SL_GGUF_TEXT,
                 (gguf_span){length.data, length.bytes + body.bytes});
    gguf_add_own(file, ".rope.scaling.factor", SL_GGUF_F32,
                 gguf_keep(file, &factor, sizeof factor));
    const uint32_t original = (uint32_t)gguf_number(4096);
    if (gguf_draw(2))
        gguf_add_own(file, ".rope.scaling.original_context_length", SL_GGUF_U32,
                     gguf_keep(file, &original, sizeof original));
    for (uint32_t i = gguf_draw(4); i > 0; i--)
        gguf_add_own(file, numbers[gguf_draw(4)], SL_GGUF_F32,
                     gguf_keep(file, &factor, sizeof factor));
}

static void gguf_mutate_entry(gguf_file *file) {
    const uint32_t count = file->entry_count, pick = count ? gguf_draw(count) : 0;
    gguf_entry *entry = &file->entries[pick];
    if (!count) return;
    switch (gguf_draw(9)) {
    case 0:
        *entry = file->entries[--file->entry_count];
        break;
    case 1:
        if (count < GGUF_MOST_ENTRIES) file->entries[file->entry_count++] = *entry;
        if (gguf_draw(8)) entry->key = gguf_rename(file, entry->key);
        break;
    case 2:
        gguf_change_kind(file, entry);
        break;
    case 3: /* an array of another length, or one that lies about it */
        if (entry->kind != SL_GGUF_ARRAY) break;
        entry->count = gguf_draw(2) ? gguf_draw(32) : gguf_number(entry->count);
        if (entry->count < 64)
            entry->value = gguf_new_value(file, entry->element_kind, entry->count);
        break;
    case 4:
        gguf_change_architecture(file);
        break;
    case 5:
        gguf_set_alignment(file);
        break;
    case 6:
        gguf_scale_rope(file);
        break;
    default:
        gguf_change_value(file, entry);
    }
}

/* Changes the type of a tensor; usually its rows still have a whole number of blocks. */
static void gguf_change_type(gguf_shape *tensor) {
    tensor->type = gguf_draw(42);
    const sl_gguf_type *type = sl_gguf_type_find(tensor->type);
    if (!type || !gguf_draw(4)) return;
    tensor->dims[0] = type->elements * (1 + gguf_draw(2));
    for (uint32_t i = 1; i < tensor->rank && i < 4; i++)
        if (tensor->dims[i] > 8) tensor->dims[i] = 8;
}

static void gguf_mutate_tensor(gguf_file *file) {
    const uint32_t count = file->tensor_count, pick = count ? gguf_draw(count) : 0;
    gguf_shape *tensor = &file->tensors[pick];
    if (!count) return;
    switch (gguf_draw(8)) {
    case 0:
        *tensor = file->tensors[--file->tensor_count];
        break;
    case 1:
        if (count < GGUF_MOST_ENTRIES) file->tensors[file->tensor_count++] = *tensor;
        if (gguf_draw(8)) tensor->name = gguf_rename(file, tensor->name);
        break;
    case 2:
        tensor->rank = gguf_draw(8) ? 1 + gguf_draw(4) : (uint32_t)gguf_number(tensor->rank);
        for (uint32_t i = 0; i < 4; i++)
            if (!tensor->dims[i]) tensor->dims[i] = 1;
        break;
    case 3:
        tensor->shift = gguf_number(0);
        break;
    case 4:
    case 5:
        gguf_change_type(tensor);
        break;
    default:
        if (tensor->rank && tensor->rank <= 4) {
            uint64_t *dim = &tensor->dims[gguf_draw(tensor->rank)];
            *dim = gguf_draw(2) ? 1 + gguf_draw(16) : gguf_number(*dim);
        }
    }
}

static void gguf_mutate_header(gguf_file *file) {
    switch (gguf_draw(3)) {
    case 0:
        file->version = (uint32_t)gguf_number(file->version);
        break;
    case 1:
        file->more_entries = gguf_number(0);
        break;
    default:
        file->more_tensors = gguf_number(0);
    }
}

/* The new size, or 0 if the bytes are no such file or the new one is too large. */
static size_t gguf_mutate(uint8_t *data, size_t size, size_t most) {
    static gguf_file file;
    if (!gguf_read(data, size, &file)) return 0;
    for (uint32_t i = 1 + gguf_draw(3); i > 0; i--) {
        const uint32_t way = gguf_draw(16);
        if (way == 0)
            gguf_mutate_header(&file);
        else if (way < 9)
            gguf_mutate_entry(&file);
        else
            gguf_mutate_tensor(&file);
    }
    gguf_output out = {malloc(most), 0, most};
    if (!out.data) return 0;
    gguf_write(&out, &file);
    const size_t written = out.size <= most ? out.size : 0;
    if (written) memcpy(data, out.data, written);
    free(out.data);
    return written;
}

/* After "split" and a u16 with the size of the first, two files: one of them. */
static size_t gguf_mutate_parts(uint8_t *data, size_t size, size_t most) {
    enum { HEAD = 7, MOST_FIRST = 65535 };
    const size_t first = (size_t)data[5] | (size_t)data[6] << 8;
    if (first > size - HEAD || most > (1 << 20)) return 0;
    const size_t second = size - HEAD - first;
    if (gguf_draw(2)) {
        const size_t written = gguf_mutate(data + HEAD + first, second, most - HEAD - first);
        return written ? HEAD + first + written : 0;
    }
    uint8_t *tail = malloc(second + 1);
    if (!tail) return 0;
    memcpy(tail, data + HEAD + first, second);
    const size_t room = most - HEAD - second;
    const size_t written = gguf_mutate(data + HEAD, first, room < MOST_FIRST ? room : MOST_FIRST);
    memcpy(data + HEAD + (written ? written : first), tail, second);
    free(tail);
    if (!written) return 0;
    data[5] = (uint8_t)written;
    data[6] = (uint8_t)(written >> 8);
    return HEAD + written + second;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    gguf_state = seed;
    if (gguf_draw(4) == 0 || size > most) return LLVMFuzzerMutate(data, size, most);
    const int parts = size > 7 && memcmp(data, "split", 5) == 0;
    const size_t written =
        parts ? gguf_mutate_parts(data, size, most) : gguf_mutate(data, size, most);
    return written ? written : LLVMFuzzerMutate(data, size, most);
}
#endif
