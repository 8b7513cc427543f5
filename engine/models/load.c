#include "engine/models/load.h"
#include "base/sizes.h"

/* Tensors share blocks that are large enough for huge pages.  What is left of a block is never
 * touched. */
enum { BLOCK_BYTES = 32 << 20, HEADER_BYTES = 4096, PIECE_BYTES = 2 << 20, DATA_ALIGNMENT = 4096 };

struct sl_load_block {
    sl_load_block *older;
    size_t bytes, used; /* both count from the start of this header */
};

void sl_load_deinit(sl_load *load) {
    while (load->newest) {
        sl_load_block *block = load->newest;
        load->newest = block->older;
        sl_release(load->allocator, block, block->bytes, DATA_ALIGNMENT);
    }
}

static unsigned char *reserve(sl_load *load, size_t bytes) {
    sl_load_block *block = load->newest;
    if (!block || bytes > block->bytes - block->used) {
        const size_t least = HEADER_BYTES + bytes;
        const size_t wanted = least > BLOCK_BYTES ? least : BLOCK_BYTES;
        block = sl_resize(load->allocator, NULL, 0, wanted, DATA_ALIGNMENT);
        if (!block) return NULL;
        *block = (sl_load_block){load->newest, wanted, HEADER_BYTES};
        load->newest = block;
    }
    unsigned char *memory = (unsigned char *)block + block->used;
    block->used += bytes;
    return memory;
}

/* All pieces are queued at once; every one that was is waited for, whatever happens. */
static sl_status read_pieces(sl_reader *reader, const sl_read *whole, sl_error *err) {
    sl_status status = SL_OK;
    uint64_t submitted = 0, pieces = (whole->bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    for (; submitted < pieces && status == SL_OK; submitted += status == SL_OK) {
        sl_read piece = *whole;
        piece.offset += submitted * PIECE_BYTES;
        piece.into = (char *)whole->into + submitted * PIECE_BYTES;
        piece.bytes -= submitted * PIECE_BYTES;
        if (piece.bytes > PIECE_BYTES) piece.bytes = PIECE_BYTES;
        status = sl_reader_submit(reader, &piece, err);
    }
    for (uint64_t i = 0; i < submitted; i++) {
        sl_read_result result;
        SL_TRY(sl_reader_next(reader, &result, err));
        if (result.status == SL_OK || status != SL_OK) continue;
        status = result.status;
        if (err) *err = result.error;
    }
    return status;
}

sl_status sl_load_tensor(sl_load *load, const sl_tensor_entry *entry, const void **out,
                         sl_error *err) {
    *out = NULL;
    const uint64_t skip = entry->at.offset % sl_reader_alignment(load->reader);
    const uint64_t bytes = sl_round_up(skip + entry->at.bytes, DATA_ALIGNMENT);
    unsigned char *memory = bytes <= SIZE_MAX / 2 ? reserve(load, bytes) : NULL;
    if (!memory) return sl_no_memory(err, entry->name, bytes);
    const sl_read whole = {.file = entry->at.file,
                           .offset = entry->at.offset - skip,
                           .bytes = skip + entry->at.bytes,
                           .into = memory};
    SL_TRY(read_pieces(load->reader, &whole, err));
    SL_TRY(sl_source_check(load->source, entry, memory + skip, err));
    load->loaded_bytes += entry->at.bytes;
    if (load->progress &&
        load->progress(load->progress_ctx, "loading", load->loaded_bytes, load->total_bytes) != 0)
        return sl_fail(err, SL_CANCELLED, "stopped while loading '%s'", entry->name);
    *out = memory + skip;
    return SL_OK;
}
