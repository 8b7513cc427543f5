#include "tests/support/gguf_maker.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { U16 = 2, U32 = 4, I32 = 5, F32 = 6, FLAG = 7, TEXT = 8, ARRAY = 9, ALIGNMENT = 32 };

static void put(gguf_buffer *b, const void *data, size_t bytes) {
    if (bytes == 0) return;
    if (b->bytes + bytes > b->capacity) {
        b->capacity = 2 * (b->bytes + bytes) + 4096;
        b->data = realloc(b->data, b->capacity);
        assert(b->data);
    }
    if (data)
        memcpy(b->data + b->bytes, data, bytes);
    else
        memset(b->data + b->bytes, 0, bytes);
    b->bytes += bytes;
}

static void put_text(gguf_buffer *b, const char *text) {
    const uint64_t bytes = strlen(text);
    put(b, &bytes, sizeof bytes);
    put(b, text, bytes);
}

static void put_value(gguf_maker *m, const char *key, uint32_t kind, const void *data,
                      size_t bytes) {
    put_text(&m->values, key);
    put(&m->values, &kind, sizeof kind);
    put(&m->values, data, bytes);
    m->value_count++;
}

void gguf_u16(gguf_maker *m, const char *key, uint16_t value) {
    put_value(m, key, U16, &value, sizeof value);
}
void gguf_u32(gguf_maker *m, const char *key, uint32_t value) {
    put_value(m, key, U32, &value, sizeof value);
}
void gguf_i32(gguf_maker *m, const char *key, int32_t value) {
    put_value(m, key, I32, &value, sizeof value);
}
void gguf_f32(gguf_maker *m, const char *key, float value) {
    put_value(m, key, F32, &value, sizeof value);
}
void gguf_flag(gguf_maker *m, const char *key, int value) {
    const uint8_t byte = value != 0;
    put_value(m, key, FLAG, &byte, 1);
}
void gguf_text(gguf_maker *m, const char *key, const char *value) {
    put_value(m, key, TEXT, "", 0);
    put_text(&m->values, value);
}
void gguf_array(gguf_maker *m, const char *key, uint32_t kind, uint64_t count) {
    put_value(m, key, ARRAY, &kind, sizeof kind);
    put(&m->values, &count, sizeof count);
}
void gguf_element(gguf_maker *m, const char *text) {
    put_text(&m->values, text);
}
void gguf_bytes(gguf_maker *m, const void *data, size_t bytes) {
    put(&m->values, data, bytes);
}

void gguf_tensor(gguf_maker *m, const char *name, const uint64_t *dims, uint32_t type,
                 const void *data, size_t bytes) {
    uint32_t rank = 0;
    while (dims[rank]) rank++;
    put(&m->data, NULL, (ALIGNMENT - m->data.bytes % ALIGNMENT) % ALIGNMENT);
    const uint64_t offset = m->data.bytes;
    put_text(&m->infos, name);
    put(&m->infos, &rank, sizeof rank);
    put(&m->infos, dims, rank * sizeof *dims);
    put(&m->infos, &type, sizeof type);
    put(&m->infos, &offset, sizeof offset);
    put(&m->data, data, bytes);
    m->tensor_count++;
}

void gguf_small_model(gguf_maker *m, uint64_t vocab) {
    gguf_text(m, "general.architecture", "qwen3");
    gguf_u32(m, "qwen3.block_count", 1);
    gguf_u32(m, "qwen3.embedding_length", 1);
    gguf_u32(m, "qwen3.feed_forward_length", 1);
    gguf_u32(m, "qwen3.attention.head_count", 1);
    gguf_f32(m, "qwen3.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_tensor(m, "token_embd.weight", (const uint64_t[]){1, vocab, 0}, 0, NULL, 4 * vocab);
}

void gguf_write(const gguf_maker *m, const char *path) {
    const uint32_t version = 3;
    const size_t head = 24 + m->values.bytes + m->infos.bytes;
    FILE *file = fopen(path, "wb");
    assert(file);
    size_t written = fwrite("GGUF", 1, 4, file);
    written += fwrite(&version, 1, sizeof version, file);
    written += fwrite(&m->tensor_count, 1, 8, file);
    written += fwrite(&m->value_count, 1, 8, file);
    written += m->values.bytes ? fwrite(m->values.data, 1, m->values.bytes, file) : 0;
    written += m->infos.bytes ? fwrite(m->infos.data, 1, m->infos.bytes, file) : 0;
    static const uint8_t zeros[ALIGNMENT];
    const size_t gap = (ALIGNMENT - head % ALIGNMENT) % ALIGNMENT;
    written += fwrite(zeros, 1, gap, file);
    written += m->data.bytes ? fwrite(m->data.data, 1, m->data.bytes, file) : 0;
    assert(written == head + gap + m->data.bytes);
    (void)written;
    (void)fclose(file);
}

void gguf_release(gguf_maker *m) {
    free(m->values.data);
    free(m->infos.data);
    free(m->data.data);
    *m = (gguf_maker){0};
}
