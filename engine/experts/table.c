#include "engine/experts/table.h"
#include "base/sizes.h"
#include "engine/experts/arrange.h"
#include "engine/experts/places.h"
#include <string.h>

static sl_status check_block_matrix(const sl_expert_blocks *blocks, int matrix,
                                    const sl_type *found, const sl_model_config *config,
                                    sl_error *err) {
    static const char *const names[] = {"gate", "up", "down"};
    const int64_t width = config->expert_width, hidden = config->hidden;
    const sl_dims want =
        matrix == SL_DOWN ? (sl_dims){2, {hidden, width}} : (sl_dims){2, {width, hidden}};
    const sl_dtype_kind kind = sl_dtype_infos[found->dtype].kind;
    if (sl_dims_equal(&found->shape, &want) && (kind == SL_KIND_FLOAT || kind == SL_KIND_PANEL))
        return SL_OK;
    char text[SL_TYPE_TEXT];
    return sl_fail(err, SL_FORMAT,
                   "experts of layer %u: %s is %s, wanted a float or panel type [%lld,%lld]",
                   blocks->layer, names[matrix], sl_type_format(found, text, sizeof text),
                   (long long)want.dims[0], (long long)want.dims[1]);
}

/* The three matrices must be in order inside the block. */
static sl_status check_block_places(const sl_expert_blocks *blocks, sl_error *err) {
    uint64_t gate_end = sl_type_bytes(&blocks->gate), up_end, down_end;
    if (gate_end <= blocks->up_offset &&
        sl_add(blocks->up_offset, sl_type_bytes(&blocks->up), &up_end) &&
        up_end <= blocks->down_offset &&
        sl_add(blocks->down_offset, sl_type_bytes(&blocks->down), &down_end) &&
        down_end <= blocks->block_bytes)
        return SL_OK;
    return sl_fail(err, SL_FORMAT,
                   "experts of layer %u: up at %llu and down at %llu overlap or leave a block of "
                   "%llu bytes",
                   blocks->layer, (unsigned long long)blocks->up_offset,
                   (unsigned long long)blocks->down_offset,
                   (unsigned long long)blocks->block_bytes);
}

static sl_expert_matrix in_block(const sl_type *type, uint64_t offset) {
    return (sl_expert_matrix){
        .type = *type, .piece_count = 1, .pieces = {{0, offset, sl_type_bytes(type)}}};
}

static sl_status layer_from_blocks(const sl_expert_blocks *blocks, const sl_model_config *config,
                                   sl_arena *arena, sl_expert_layer *out, sl_error *err) {
    if (blocks->count != config->experts)
        return sl_fail(err, SL_FORMAT, "layer %u has %u experts, wanted %u", blocks->layer,
                       blocks->count, config->experts);
    const sl_type *types[] = {&blocks->gate, &blocks->up, &blocks->down};
    const uint64_t offsets[] = {0, blocks->up_offset, blocks->down_offset};
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        SL_TRY(check_block_matrix(blocks, m, types[m], config, err));
        out->matrices[m] = in_block(types[m], offsets[m]);
    }
    SL_TRY(check_block_places(blocks, err));
    sl_extent *parts = SL_ARENA_NEW_ARRAY(arena, sl_extent, blocks->count);
    if (!parts) return sl_no_memory(err, "expert table", blocks->count * sizeof *parts);
    for (uint32_t e = 0; e < blocks->count; e++)
        parts[e] = (sl_extent){0, blocks->offset + e * blocks->block_bytes, blocks->block_bytes};
    out->part_count = 1;
    out->parts = parts;
    out->checksums = blocks->checksums;
    return SL_OK;
}

/* The part that contains `at` or is extended by it, if bytes of the tensor are already in a part.
 */
static uint32_t find_part(const sl_extent *parts, uint32_t count, const sl_extent *at) {
    for (uint32_t p = 0; p < count; p++) {
        const bool same = parts[p].file == at->file && parts[p].offset <= at->offset;
        if (same && at->offset - parts[p].offset <= parts[p].bytes) return p;
    }
    return count;
}

/* Assigns a piece to a part; adjacent pieces of one tensor share a read. */
static sl_expert_piece piece_of(const sl_extent *at, bool may_join, sl_extent *parts,
                                uint32_t *count) {
    const uint32_t p = may_join ? find_part(parts, *count, at) : *count;
    if (p == *count) parts[(*count)++] = (sl_extent){at->file, at->offset, 0};
    const uint64_t offset = at->offset - parts[p].offset;
    if (parts[p].bytes < offset + at->bytes) parts[p].bytes = offset + at->bytes;
    return (sl_expert_piece){p, offset, at->bytes};
}

/* Whether two tensors of a source are views of the same bytes. */
static bool are_alike(const sl_tensor_entry *a, const sl_tensor_entry *b) {
    return a->at.file == b->at.file && a->at.offset == b->at.offset;
}

/* Turns three places into parts; returns the number of parts. */
static uint32_t parts_of(const sl_expert_place *places, sl_extent *parts,
                         sl_expert_matrix matrices[SL_EXPERT_MATRICES]) {
    uint32_t count = 0;
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        const sl_tensor_entry *entry = places[m].entry;
        sl_expert_matrix matrix = {.type = places[m].type, .form = entry->form};
        const bool may_join = m > 0 && are_alike(entry, places[m - 1].entry);
        const sl_extent *part;
        for (uint32_t p = 0; (part = sl_tensor_part(entry, p)); p++) {
            const sl_extent at = sl_extent_share(part, places[m].index, places[m].count);
            matrix.pieces[matrix.piece_count++] = piece_of(&at, may_join, parts, &count);
        }
        matrices[m] = matrix;
    }
    return count;
}

static sl_status check_alike(const sl_expert_layer *layer, const sl_expert_place *places,
                             sl_error *err) {
    for (int m = 0; m < SL_EXPERT_MATRICES; m++)
        if (places[m].type.dtype != layer->matrices[m].type.dtype ||
            places[m].entry->form != layer->matrices[m].form)
            return sl_fail(err, SL_FORMAT,
                           "tensor '%s' is %s, wanted %s like expert 0 of its layer",
                           places[m].entry->name, sl_dtype_infos[places[m].type.dtype].name,
                           sl_dtype_infos[layer->matrices[m].type.dtype].name);
    return SL_OK;
}

/* The number of parts of an expert of the layer. */
static uint32_t count_parts(const sl_expert_place *places) {
    sl_extent parts[SL_MAX_EXPERT_PARTS];
    sl_expert_matrix matrices[SL_EXPERT_MATRICES];
    return parts_of(places, parts, matrices);
}

static sl_status layer_from_tensors(const sl_source *source, const sl_model_config *config,
                                    uint32_t index, sl_arena *arena, sl_expert_layer *out,
                                    sl_error *err) {
    sl_arena scratch;
    sl_arena_init(&scratch, arena->allocator);
    sl_status status = SL_OK;
    sl_expert_place(*places)[SL_EXPERT_MATRICES] =
        sl_arena_array(&scratch, config->experts, sizeof *places, _Alignof(sl_expert_place));
    if (!places) status = sl_no_memory(err, "expert table", config->experts * sizeof *places);
    if (places) SL_TRY_ELSE(done, sl_experts_find(source, config, index, places, err));
    if (status != SL_OK) goto done;
    const uint64_t count = count_parts(places[0]);
    sl_extent *parts = SL_ARENA_NEW_ARRAY(arena, sl_extent, config->experts * count);
    if (!parts) {
        status = sl_no_memory(err, "expert table", config->experts * count * sizeof *parts);
        goto done;
    }
    for (uint32_t e = 0; e < config->experts; e++) {
        if (e > 0) SL_TRY_ELSE(done, check_alike(out, places[e], err));
        out->part_count = parts_of(places[e], parts + e * count, out->matrices);
    }
    out->parts = parts;
done:
    sl_arena_deinit(&scratch);
    return status;
}

static void add_sizes(const sl_expert_layer *layer, sl_expert_table *table) {
    const bool arranged = sl_expert_is_arranged(layer);
    for (uint32_t e = 0; e < table->experts; e++) {
        uint64_t bytes = 0;
        for (uint32_t p = 0; p < layer->part_count; p++)
            bytes += layer->parts[(uint64_t)e * layer->part_count + p].bytes;
        table->total_bytes += bytes;
        table->memory_bytes += arranged ? sl_expert_arranged_at(layer, SL_EXPERT_MATRICES) : bytes;
        if (bytes > table->expert_bytes) table->expert_bytes = bytes;
    }
}

sl_status sl_expert_table_build(sl_source *source, const sl_model_config *config, sl_arena *arena,
                                sl_expert_table *out, sl_error *err) {
    sl_expert_layer *layers = SL_ARENA_NEW_ARRAY(arena, sl_expert_layer, config->layers);
    if (!layers) return sl_no_memory(err, "expert table", config->layers * sizeof *layers);
    *out = (sl_expert_table){.layers = config->layers,
                             .experts = config->experts,
                             .experts_used = config->experts_used,
                             .layer = layers};
    for (uint32_t i = 0; i < config->layers; i++) {
        if (!config->layer[i].sparse) continue;
        const sl_expert_blocks *blocks = sl_source_expert_blocks(source, i);
        if (blocks)
            SL_TRY(layer_from_blocks(blocks, config, arena, &layers[i], err));
        else
            SL_TRY(layer_from_tensors(source, config, i, arena, &layers[i], err));
        add_sizes(&layers[i], out);
    }
    return SL_OK;
}

const sl_expert_layer *sl_expert_table_first(const sl_expert_table *table) {
    for (uint32_t i = 0; i < table->layers; i++)
        if (table->layer[i].part_count) return &table->layer[i];
    return NULL;
}

uint64_t sl_expert_table_count(const sl_expert_table *table) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < table->layers; i++)
        if (table->layer[i].part_count) count += table->experts;
    return count;
}

/* One part per expert with contiguous matrices, the same for all layers. */
sl_status sl_expert_table_fake(const sl_model_config *config, sl_arena *arena, sl_expert_table *out,
                               sl_error *err) {
    const int64_t width = config->expert_width, hidden = config->hidden;
    sl_expert_layer *layers = SL_ARENA_NEW_ARRAY(arena, sl_expert_layer, config->layers);
    sl_extent *parts = SL_ARENA_NEW_ARRAY(arena, sl_extent, config->experts);
    if (!layers || !parts)
        return sl_no_memory(err, "expert table", config->experts * sizeof *parts);
    *out = (sl_expert_table){.layers = config->layers,
                             .experts = config->experts,
                             .experts_used = config->experts_used,
                             .layer = layers};
    sl_expert_layer layer = {.part_count = 1, .parts = parts};
    uint64_t bytes = 0;
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        const sl_type type = m == SL_DOWN ? sl_type_make(SL_DTYPE_q4, 2, hidden, width)
                                          : sl_type_make(SL_DTYPE_q4, 2, width, hidden);
        layer.matrices[m] = in_block(&type, bytes);
        bytes += sl_type_bytes(&type);
    }
    for (uint32_t e = 0; e < config->experts; e++) parts[e] = (sl_extent){0, e * bytes, bytes};
    for (uint32_t i = 0; i < config->layers; i++) {
        if (!config->layer[i].sparse) continue;
        layers[i] = layer;
        add_sizes(&layer, out);
    }
    return SL_OK;
}
