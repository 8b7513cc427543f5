/* safetensors_fuzz.c - Input: a whole file; also used as only the JSON header of a file with a
 * megabyte of data. */
#include "engine/formats/safetensors.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const uint8_t *start, size_t bytes, uint64_t file_bytes) {
    sl_arena arena;
    sl_error err;
    sl_safetensors_header header;
    sl_arena_init(&arena, NULL);
    if (sl_safetensors_parse("fuzz", start, bytes, file_bytes, &arena, &header, &err) == SL_OK) {
        uint64_t end = 8;
        for (uint32_t i = 0; i < header.count; i++) {
            const sl_safetensor *t = &header.tensors[i];
            if (t->offset < end || t->bytes != sl_type_bytes(&t->type)) abort();
            end = t->offset + t->bytes;
        }
        if (end > file_bytes) abort();
    }
    sl_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size, size);
    uint8_t *file = malloc(size + 8);
    if (!file) return 0;
    const uint64_t length = size;
    memcpy(file, &length, 8);
    if (size) memcpy(file + 8, data, size);
    parse(file, size + 8, size + 8 + (1 << 20));
    free(file);
    return 0;
}
