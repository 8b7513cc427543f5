/* Input: a whole file, as it is and as the source of a model. */
#include "engine/formats/gguf.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const uint8_t *data, size_t size) {
    sl_arena arena;
    sl_error err;
    sl_gguf gguf;
    sl_arena_init(&arena, NULL);
    if (sl_gguf_parse("fuzz", data, size, &arena, &gguf, &err) == SL_OK) {
        uint64_t end = 0;
        for (uint32_t i = 0; i < gguf.tensor_count; i++) {
            const sl_gguf_tensor *t = &gguf.tensors[i];
            if (t->offset < end || t->offset > size || t->bytes > size - t->offset) abort();
            end = t->offset + t->bytes;
        }
    }
    sl_arena_deinit(&arena);
}

static void read_all(sl_source *source) {
    sl_error err;
    for (uint32_t i = 0; i < sl_source_tensor_count(source); i++) {
        const void *mapped;
        if (sl_source_map(source, sl_source_tensor(source, i), &mapped, &err) != SL_OK) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size);
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0) return 0;
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    sl_source *source;
    sl_error err;
    if (write(fd, data, size) == (ssize_t)size &&
        sl_source_open(path, NULL, &source, &err) == SL_OK) {
        read_all(source);
        sl_source_close(source);
    }
    (void)close(fd);
    return 0;
}
