/* mlx_fuzz.c - Input: config.json, a NUL byte, and the JSON header of model.safetensors, to which
 * 64 KiB of data are added; or, with two more NUL bytes and texts, config.json, the headers of
 * a.safetensors and b.safetensors, and the index.  Every tensor that the source lists must be
 * readable. */
#include "engine/formats/source.h"
#include "tests/support/mutate_json.h"
#include <stdio.h>
#include <unistd.h>

enum { DATA_BYTES = 1 << 16, MOST_BYTES = 1 << 22 };
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARTS = 4 };
static char folder[64], paths[PARTS + 1][96];

static void make_folder(void) {
    static const char *const names[PARTS + 1] = {"config.json", "a.safetensors", "b.safetensors",
                                                 "model.safetensors.index.json",
                                                 "model.safetensors"};
    (void)snprintf(folder, sizeof folder, "/tmp/sluice-fuzz-XXXXXX");
    if (!mkdtemp(folder)) abort();
    for (int i = 0; i <= PARTS; i++)
        (void)snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
}

/* A text, or the header of a safetensors file and its data. */
static void write_file(const char *path, const uint8_t *text, uint64_t bytes, int is_header) {
    static const uint8_t rest[DATA_BYTES] = {1, 2, 3, 200, 127, 64};
    FILE *file = fopen(path, "wb");
    if (!file) abort();
    if (is_header) (void)fwrite(&bytes, sizeof bytes, 1, file);
    (void)fwrite(text, 1, bytes, file);
    if (is_header) (void)fwrite(rest, 1, sizeof rest, file);
    (void)fclose(file);
}

static void write_files(const uint8_t *data, size_t size) {
    const uint8_t *parts[PARTS + 1] = {data};
    size_t count = 1;
    for (size_t i = 0; i < size && count < PARTS; i++)
        if (data[i] == 0) parts[count++] = data + i + 1;
    parts[count] = data + size + 1;
    for (size_t i = 0; i < count; i++) {
        const int single = count < PARTS && i == 1;
        write_file(paths[single ? PARTS : i], parts[i], (uint64_t)(parts[i + 1] - parts[i] - 1),
                   i == 1 || i == 2);
    }
}

static void read_all(sl_source *source) {
    sl_error err;
    for (uint32_t i = 0; i < sl_source_tensor_count(source); i++) {
        const sl_tensor_entry *entry = sl_source_tensor(source, i);
        const sl_extent *part;
        const void *mapped;
        for (uint32_t p = 0; (part = sl_tensor_part(entry, p)); p++)
            if (part->offset + part->bytes > sl_source_file_bytes(source, part->file)) abort();
        if (sl_type_bytes(&entry->type) > MOST_BYTES) continue;
        if (sl_source_load(source, entry, &mapped, &err) != SL_OK) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!folder[0]) make_folder();
    write_files(data, size);
    sl_source *source;
    sl_error err;
    if (sl_source_open(folder, NULL, &source, &err) == SL_OK) {
        read_all(source);
        sl_source_close(source);
    }
    for (int i = 0; i <= PARTS; i++) (void)unlink(paths[i]);
    return 0;
}
