/* pack_verify.c - Reads a whole pack and verifies its checksums. */
#include "engine/formats/pack.h"
#include "engine/formats/source_internal.h"
#include <string.h>
#include <xxhash.h>

typedef struct {
    sl_source *source;
    sl_progress_fn *progress;
    void *progress_ctx;
    uint64_t done_bytes, total_bytes;
} verification;

static uint64_t layer_bytes(const sl_expert_blocks *blocks) {
    return blocks ? blocks->count * blocks->block_bytes : 0;
}

static sl_status advance(verification *v, uint64_t bytes, sl_error *err) {
    v->done_bytes += bytes;
    if (v->progress &&
        v->progress(v->progress_ctx, "verifying", v->done_bytes, v->total_bytes) != 0)
        return sl_fail(err, SL_CANCELLED, "verifying was stopped after %llu of %llu bytes",
                       (unsigned long long)v->done_bytes, (unsigned long long)v->total_bytes);
    return SL_OK;
}

static sl_status verify_tensor(verification *v, const sl_tensor_entry *entry, sl_error *err) {
    const void *data;
    SL_TRY(sl_source_map(v->source, entry, &data, err));
    sl_source_unmap(v->source, entry);
    return advance(v, entry->at.bytes, err);
}

static sl_status verify_layer(verification *v, const sl_expert_blocks *blocks, sl_error *err) {
    const sl_source_file *file = &v->source->files[0];
    for (uint32_t e = 0; e < blocks->count; e++) {
        const uint8_t *block = file->map.data + blocks->offset + e * blocks->block_bytes;
        sl_file_read_ahead(block, blocks->block_bytes);
        const uint64_t found = XXH3_64bits(block, blocks->block_bytes);
        sl_file_let_go(block, blocks->block_bytes);
        if (found != blocks->checksums[e])
            return sl_fail(err, SL_FORMAT,
                           "%s: layer %u expert %u is damaged: checksum %016llx found, %016llx "
                           "wanted",
                           sl_file_name(file->path), blocks->layer, e, (unsigned long long)found,
                           (unsigned long long)blocks->checksums[e]);
        SL_TRY(advance(v, blocks->block_bytes, err));
    }
    return SL_OK;
}

static sl_status verify(verification *v, sl_error *err) {
    const sl_source *source = v->source;
    for (uint32_t i = 0; i < source->tensor_count; i++)
        v->total_bytes += source->tensors[i].at.bytes;
    for (uint32_t i = 0; i < source->layer_count; i++)
        v->total_bytes += layer_bytes(source->layers[i]);
    for (uint32_t i = 0; i < source->tensor_count; i++)
        SL_TRY(verify_tensor(v, &source->tensors[i], err));
    for (uint32_t i = 0; i < source->layer_count; i++)
        if (source->layers[i]) SL_TRY(verify_layer(v, source->layers[i], err));
    return SL_OK;
}

sl_status sl_pack_check(const char *path, sl_progress_fn *progress, void *progress_ctx,
                        sl_error *err) {
    verification v = {.progress = progress, .progress_ctx = progress_ctx};
    SL_TRY(sl_source_open(path, NULL, &v.source, err));
    const sl_status status =
        strcmp(sl_source_format(v.source), "pack") == 0
            ? verify(&v, err)
            : sl_fail(err, SL_UNSUPPORTED, "'%s' is %s, which has no checksums to verify", path,
                      sl_source_format(v.source));
    sl_source_close(v.source);
    return status;
}
