/* state_file_fuzz.c - Input: the file of a session, read as it is, and again with the fields of its
 * header repaired that would keep damage from being looked at. */
#include "engine/session/state_file.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_parts(const sl_state_file *file) {
    const sl_state_header *h = &file->header;
    sl_error err;
    void *out = malloc(file->file.bytes + 1); /* no part is larger */
    if (!out) return;
    int read = sl_state_file_tokens(file, out, &err) == SL_OK;
    read += sl_state_file_note(file, out, &err) == SL_OK;
    read += sl_state_file_logits(file, out, &err) == SL_OK;
    for (uint32_t i = 0; i < h->length_count; i++)
        read += sl_state_file_recurrent(file, i, out, &err) == SL_OK;
    for (uint32_t i = 0; i < sl_state_file_pieces(file); i++) {
        if (sl_state_file_piece_blocks(file, i) * h->block_bytes > file->file.bytes)
            __builtin_trap();
        read += sl_state_file_piece(file, i, out, &err) == SL_OK;
    }
    if (read < 0) __builtin_trap();
    free(out);
}

static void try_file(const uint8_t *data, size_t size) {
    char path[64];
    sl_state_file file;
    sl_error err;
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0) return;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, size) == (ssize_t)size) {
        if (sl_state_file_open(&file, path, NULL, &err) == SL_OK) read_parts(&file);
        sl_state_file_close(&file);
    }
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const size_t before = offsetof(sl_state_header, file_bytes);
    sl_state_header header;
    try_file(data, size);
    if (size < sizeof header) return 0;
    uint8_t *copy = malloc(size);
    if (!copy) return 0;
    memcpy(copy, data, size);
    memcpy(&header, data, sizeof header);
    memcpy(header.magic, SL_STATE_MAGIC, sizeof header.magic);
    header.version = SL_STATE_VERSION;
    header.file_bytes = size;
    memcpy(copy, &header, sizeof header);
    if (header.header_bytes > before && header.header_bytes <= size) {
        header.checksum = XXH3_64bits(copy + before, header.header_bytes - before);
        memcpy(copy, &header, sizeof header);
    }
    try_file(copy, size);
    free(copy);
    return 0;
}
