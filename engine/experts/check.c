#include "engine/experts/check.h"
#include "base/sizes.h"

#define MAX_PART_BYTES (UINT64_C(1) << 48) /* sums cannot overflow */

static sl_status check_piece(const sl_expert_table *table, uint32_t layer,
                             const sl_expert_piece *piece, sl_error *err) {
    const sl_expert_layer *self = &table->layer[layer];
    if (piece->part >= self->part_count)
        return sl_fail(err, SL_INVALID, "layer %u: expert matrix in part %u of %u", layer,
                       piece->part, self->part_count);
    for (uint32_t e = 0; e < table->experts; e++) {
        const uint64_t part_bytes = self->parts[e * self->part_count + piece->part].bytes;
        if (piece->offset > part_bytes || piece->bytes > part_bytes - piece->offset)
            return sl_fail(err, SL_FORMAT,
                           "layer %u expert %u: matrix of %llu bytes at %llu of a part of %llu",
                           layer, e, (unsigned long long)piece->bytes,
                           (unsigned long long)piece->offset, (unsigned long long)part_bytes);
    }
    return SL_OK;
}

static sl_status check_matrix(const sl_expert_table *table, uint32_t layer, uint32_t m,
                              sl_error *err) {
    const sl_expert_matrix *matrix = &table->layer[layer].matrices[m];
    const uint32_t most = matrix->form ? SL_MAX_TENSOR_PARTS : 1;
    SL_TRY(sl_type_check(&matrix->type, "expert matrix", err));
    if (matrix->piece_count < 1 || matrix->piece_count > most ||
        (!matrix->form && matrix->pieces[0].bytes != sl_type_bytes(&matrix->type)))
        return sl_fail(err, SL_INVALID, "layer %u: expert matrix of %u pieces", layer,
                       matrix->piece_count);
    for (uint32_t p = 0; p < matrix->piece_count; p++)
        SL_TRY(check_piece(table, layer, &matrix->pieces[p], err));
    return SL_OK;
}

static sl_status check_layer(const sl_expert_table *table, uint32_t layer, sl_error *err) {
    const sl_expert_layer *self = &table->layer[layer];
    if (self->part_count == 0) return SL_OK; /* it has none */
    if (self->part_count > SL_MAX_EXPERT_PARTS)
        return sl_fail(err, SL_INVALID, "layer %u: experts of %u parts, at most %d wanted", layer,
                       self->part_count, SL_MAX_EXPERT_PARTS);
    for (uint32_t i = 0; i < table->experts * self->part_count; i++)
        if (self->parts[i].bytes > MAX_PART_BYTES)
            return sl_fail(err, SL_FORMAT, "layer %u: part of %llu bytes", layer,
                           (unsigned long long)self->parts[i].bytes);
    for (uint32_t m = 0; m < SL_EXPERT_MATRICES; m++) SL_TRY(check_matrix(table, layer, m, err));
    return SL_OK;
}

sl_status sl_expert_table_check(const sl_expert_table *table, sl_error *err) {
    uint64_t count = 0;
    if (!sl_multiply(table->layers, table->experts, &count) || table->layers == 0 ||
        count >= UINT32_MAX / SL_MAX_EXPERT_PARTS)
        return sl_fail(err, SL_INVALID, "%u layers of %u experts", table->layers, table->experts);
    if ((table->experts_used < 1 && table->experts) || table->experts_used > table->experts)
        return sl_fail(err, SL_INVALID, "%u of %u experts used", table->experts_used,
                       table->experts);
    for (uint32_t layer = 0; layer < table->layers; layer++) SL_TRY(check_layer(table, layer, err));
    return SL_OK;
}
