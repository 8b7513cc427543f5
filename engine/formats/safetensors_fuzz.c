/* safetensors_fuzz.c - Input: a whole file, parsed and read; also used as only the JSON header of a
 * file with a megabyte of data. */
#include "engine/formats/safetensors.h"
#include "tests/support/mutate_json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static void read_whole(const uint8_t *data, size_t size) {
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0) return;
    char path[64];
    sl_arena arena;
    sl_file file;
    sl_safetensors_header header;
    sl_error err;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    sl_arena_init(&arena, NULL);
    if (write(fd, data, size) == (ssize_t)size && sl_file_open(path, &file, &err) == SL_OK) {
        if (sl_safetensors_read(&file, &arena, &header, &err) != SL_OK) header.count = 0;
        for (uint32_t i = 0; i < header.count; i++)
            if (!sl_safetensors_name(header.tensors[i].type.dtype)) abort();
        sl_file_close(&file);
    }
    sl_arena_deinit(&arena);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size, size);
    read_whole(data, size);
    uint8_t *file = malloc(size + 8);
    if (!file) return 0;
    const uint64_t length = size;
    memcpy(file, &length, 8);
    if (size) memcpy(file + 8, data, size);
    parse(file, size + 8, size + 8 + (1 << 20));
    free(file);
    return 0;
}
