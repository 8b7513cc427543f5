/* mlx_fuzz.c - Input: config.json, a NUL byte, and the JSON header of model.safetensors, to which
 * 64 KiB of data are added.  Every tensor that the source lists must be readable. */
#include "engine/formats/source.h"
#include "tests/support/mutate_json.h"
#include <stdio.h>
#include <unistd.h>

enum { DATA_BYTES = 1 << 16, MOST_BYTES = 1 << 22 };
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64], config[96], weights[96];

static void make_folder(void) {
    (void)snprintf(folder, sizeof folder, "/tmp/sluice-fuzz-XXXXXX");
    if (!mkdtemp(folder)) abort();
    (void)snprintf(config, sizeof config, "%s/config.json", folder);
    (void)snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
}

static void write_files(const uint8_t *data, size_t size) {
    static const uint8_t rest[DATA_BYTES] = {1, 2, 3, 200, 127, 64};
    const uint8_t *split = memchr(data, 0, size);
    const size_t first = split ? (size_t)(split - data) : size;
    const uint64_t length = split ? size - first - 1 : 0;
    FILE *text = fopen(config, "wb"), *file = fopen(weights, "wb");
    if (!text || !file) abort();
    (void)fwrite(data, 1, first, text);
    (void)fwrite(&length, sizeof length, 1, file);
    if (split) (void)fwrite(split + 1, 1, length, file);
    (void)fwrite(rest, 1, sizeof rest, file);
    (void)fclose(text);
    (void)fclose(file);
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
    (void)unlink(config);
    (void)unlink(weights);
    return 0;
}
