/* gguf_maker.h - GGUF files in the making: keys and tensors in any order, then written whole or in
 * parts. */
#ifndef SL_TESTS_SUPPORT_GGUF_MAKER_H
#define SL_TESTS_SUPPORT_GGUF_MAKER_H
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *data;
    size_t bytes, capacity;
} gguf_buffer;

typedef struct {
    gguf_buffer values, infos, data;
    uint64_t value_count, tensor_count;
} gguf_maker;

void gguf_u16(gguf_maker *m, const char *key, uint16_t value);
void gguf_u32(gguf_maker *m, const char *key, uint32_t value);
void gguf_i32(gguf_maker *m, const char *key, int32_t value);
void gguf_f32(gguf_maker *m, const char *key, float value);
void gguf_flag(gguf_maker *m, const char *key, int value);
void gguf_text(gguf_maker *m, const char *key, const char *value);
/* Elements follow: gguf_element for texts, gguf_bytes for numbers. */
void gguf_array(gguf_maker *m, const char *key, uint32_t kind, uint64_t count);
void gguf_element(gguf_maker *m, const char *text);
void gguf_bytes(gguf_maker *m, const void *data, size_t bytes);
/* dims: innermost first, 0 ends them.  data NULL: zeros. */
void gguf_tensor(gguf_maker *m, const char *name, const uint64_t *dims, uint32_t type,
                 const void *data, size_t bytes);
/* The keys without which no model of the architecture "qwen3" opens, and its embeddings. */
void gguf_small_model(gguf_maker *m, uint64_t vocab);
void gguf_write(const gguf_maker *m, const char *path);
void gguf_release(gguf_maker *m);
#endif
