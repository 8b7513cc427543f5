/* pack_fuzz.c - Input: the manifest of a pack with a valid header and checksum, or, if it starts
 * with the magic, a whole file. */
#include "engine/formats/pack.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int write_manifest(int fd, const uint8_t *data, size_t size) {
    static uint8_t body[65536];
    const sl_pack_header header = {.magic = {'S', 'L', 'U', 'I', 'C', 'E', 'P', 'K'},
                                   .version = SL_PACK_VERSION,
                                   .manifest_offset = sizeof body,
                                   .manifest_bytes = size,
                                   .manifest_checksum = XXH3_64bits(data, size)};
    memcpy(body, &header, sizeof header);
    return write(fd, body, sizeof body) == sizeof body && write(fd, data, size) == (ssize_t)size;
}

static void read_all(sl_source *source) {
    sl_error err;
    for (uint32_t i = 0; i < sl_source_tensor_count(source); i++) {
        const void *mapped;
        if (sl_source_map(source, sl_source_tensor(source, i), &mapped, &err) != SL_OK) continue;
    }
    for (uint32_t layer = 0; layer < SL_PACK_MAX_LAYERS; layer++) {
        const sl_expert_blocks *blocks = sl_source_expert_blocks(source, layer);
        if (blocks &&
            blocks->offset + blocks->count * blocks->block_bytes > sl_source_file_bytes(source, 0))
            __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0) return 0;
    const int whole = size >= 8 && memcmp(data, SL_PACK_MAGIC, 8) == 0;
    const int written =
        whole ? write(fd, data, size) == (ssize_t)size : write_manifest(fd, data, size);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    sl_source *source;
    sl_error err;
    if (written && sl_source_open(path, NULL, &source, &err) == SL_OK) {
        read_all(source);
        sl_source_close(source);
    }
    (void)close(fd);
    return 0;
}
