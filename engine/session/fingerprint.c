#include "engine/session/fingerprint.h"
#include "engine/formats/file.h"
#include <string.h>
#include <xxhash.h>

enum { MOST_SAMPLED = 256, SAMPLE_BYTES = 4096 };

static uint64_t mix(uint64_t seed, const void *data, size_t bytes) {
    return XXH3_64bits_withSeed(data, bytes, seed);
}

static uint64_t of_text(const sl_source *source, const char *name, uint64_t seed) {
    size_t bytes = 0;
    const char *text = sl_source_text(source, name, &bytes);
    return text ? mix(seed, text, bytes) : seed;
}

void sl_fingerprint_texts(const sl_source *source, sl_fingerprint *out) {
    out->config = of_text(source, "config.json", 0);
    out->tokenizer = of_text(source, "tokenizer.json", 0);
    out->chat = of_text(source, "chat_template.jinja", of_text(source, "tokenizer_config.json", 0));
}

static uint64_t of_tensor(const sl_tensor_entry *entry, uint64_t seed) {
    const sl_type *type = &entry->type;
    const uint64_t place[] = {entry->at.offset, entry->at.bytes, entry->checksum,
                              (uint64_t)type->dtype, (uint64_t)type->shape.rank};
    seed = mix(seed, entry->name, strlen(entry->name));
    seed = mix(seed, type->shape.dims, (size_t)type->shape.rank * sizeof type->shape.dims[0]);
    return mix(seed, place, sizeof place);
}

/* From the middle of a tensor; a file that cannot be read fails elsewhere with a better message. */
static sl_status sample(const sl_source *source, const sl_tensor_entry *entry, sl_file *file,
                        uint64_t *hash, sl_error *err) {
    uint8_t bytes[SAMPLE_BYTES];
    const char *path = sl_source_file_path(source, entry->at.file);
    const uint64_t count = entry->at.bytes < SAMPLE_BYTES ? entry->at.bytes : SAMPLE_BYTES;
    if (!file->is_open || file->path != path) {
        sl_file_close(file);
        *file = (sl_file){0};
        SL_TRY(sl_file_open(path, file, err));
    }
    SL_TRY(sl_file_read(file, entry->at.offset + (entry->at.bytes - count) / 2, bytes, count, err));
    *hash = mix(*hash, bytes, count);
    return SL_OK;
}

static uint64_t of_experts(const sl_source *source, uint64_t hash) {
    for (uint32_t layer = 0; layer < SL_MAX_LAYERS; layer++) {
        const sl_expert_blocks *blocks = sl_source_expert_blocks(source, layer);
        if (!blocks) continue;
        const uint64_t place[] = {layer, blocks->count, blocks->block_bytes};
        hash = mix(hash, place, sizeof place);
        hash = mix(hash, blocks->checksums, blocks->count * sizeof *blocks->checksums);
    }
    return hash;
}

sl_status sl_fingerprint_weights(const sl_source *source, sl_fingerprint *out, sl_error *err) {
    const uint32_t count = sl_source_tensor_count(source);
    const uint32_t step = count / MOST_SAMPLED + 1;
    uint64_t hash = of_experts(source, count);
    sl_file file = {0};
    sl_status status = SL_OK;
    for (uint32_t i = 0; i < count && status == SL_OK; i++) {
        const sl_tensor_entry *entry = sl_source_tensor(source, i);
        hash = of_tensor(entry, hash);
        if (i % step == 0 && !entry->checksum) status = sample(source, entry, &file, &hash, err);
    }
    sl_file_close(&file);
    out->weights = hash;
    return status;
}

sl_status sl_fingerprint_check(const char *what, const sl_fingerprint *found,
                               const sl_fingerprint *wanted, sl_error *err) {
    const char *part = found->config != wanted->config         ? "config"
                       : found->weights != wanted->weights     ? "weights"
                       : found->tokenizer != wanted->tokenizer ? "tokenizer"
                       : found->chat != wanted->chat           ? "chat template"
                                                               : NULL;
    if (part) return sl_fail(err, SL_FORMAT, "%s: saved with another model: other %s", what, part);
    if (memcmp(found->numerics, wanted->numerics, sizeof found->numerics) == 0) return SL_OK;
    return sl_fail(err, SL_FORMAT, "%s: saved with '%.*s', wanted '%.*s'", what, SL_NUMERICS_TEXT,
                   found->numerics, SL_NUMERICS_TEXT, wanted->numerics);
}

uint64_t sl_fingerprint_number(const sl_fingerprint *fingerprint) {
    return mix(0, fingerprint, sizeof *fingerprint);
}
