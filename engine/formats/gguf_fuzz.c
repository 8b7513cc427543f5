/* gguf_fuzz.c - Input: a whole file, parsed and opened as a model; or, after "split" and a u16 with
 * the size of the first, the two parts of a split model. */
#include "engine/formats/gguf.h"
#include "tests/support/mutate_gguf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const uint8_t *data, size_t size) {
    sl_arena arena;
    sl_error err;
    sl_gguf gguf;
    uint64_t wanted;
    const sl_gguf_start start = {data, size, size};
    sl_arena_init(&arena, NULL);
    if (sl_gguf_parse("fuzz", &start, &arena, &gguf, &wanted, &err) == SL_OK) {
        uint64_t end = 0;
        for (uint32_t i = 0; i < gguf.tensor_count; i++) {
            const sl_gguf_tensor *t = &gguf.tensors[i];
            if (t->offset < end || t->offset > size || t->bytes > size - t->offset) abort();
            end = t->offset + t->bytes;
        }
    }
    sl_arena_deinit(&arena);
}

static void read_all(const char *path) {
    sl_source *source;
    sl_error err;
    if (sl_source_open(path, NULL, &source, &err) != SL_OK) return;
    for (uint32_t i = 0; i < sl_source_tensor_count(source); i++) {
        const void *mapped;
        if (sl_source_load(source, sl_source_tensor(source, i), &mapped, &err) != SL_OK) abort();
    }
    sl_source_close(source);
}

static void open_whole(const uint8_t *data, size_t size) {
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0) return;
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, size) == (ssize_t)size) read_all(path);
    (void)close(fd);
}

static void write_file(const char *path, const uint8_t *data, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file) abort();
    if (fwrite(data, 1, size, file) != size) abort();
    if (fclose(file) != 0) abort();
}

static char folder[64]; /* private to this process */
static void remove_folder(void) {
    (void)rmdir(folder);
}

static void open_parts(const uint8_t *data, size_t size, size_t first) {
    static char paths[2][96];
    if (!folder[0]) {
        (void)snprintf(folder, sizeof folder, "/tmp/gguf-fuzz-XXXXXX");
        if (!mkdtemp(folder) || atexit(remove_folder) != 0) abort();
        for (int i = 0; i < 2; i++)
            (void)snprintf(paths[i], sizeof paths[i], "%s/x-%05d-of-00002.gguf", folder, i + 1);
    }
    write_file(paths[0], data, first);
    write_file(paths[1], data + first, size - first);
    read_all(folder);
    read_all(paths[1]);
    for (int i = 0; i < 2; i++) (void)remove(paths[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MARK = 5, HEAD = MARK + 2 };
    if (size > HEAD && memcmp(data, "split", MARK) == 0) {
        const size_t first = (size_t)data[MARK] | (size_t)data[MARK + 1] << 8, rest = size - HEAD;
        open_parts(data + HEAD, rest, first < rest ? first : rest);
        return 0;
    }
    parse(data, size);
    open_whole(data, size);
    return 0;
}
