/* table.h - File locations of all experts, independent of the format. */
#ifndef SL_ENGINE_EXPERTS_TABLE_H
#define SL_ENGINE_EXPERTS_TABLE_H
#include "core/experts.h"
#include "engine/config/config.h"
#include "engine/formats/source.h"

enum {
    SL_GATE,
    SL_UP,
    SL_DOWN,
    SL_EXPERT_MATRICES,
    SL_MAX_EXPERT_PARTS = SL_EXPERT_MATRICES * SL_MAX_TENSOR_PARTS
};

/* A byte range within one of the expert's parts. */
typedef struct {
    uint32_t part;
    uint64_t offset, bytes;
} sl_expert_piece;

/* One matrix of an expert. */
typedef struct {
    sl_type type;
    uint32_t piece_count;
    sl_expert_piece pieces[SL_MAX_TENSOR_PARTS]; /* as its converter expects them; one if there is
                                                    no converter */
    const sl_tensor_form *form;                  /* NULL: the file has the layout of the type */
} sl_expert_matrix;

/* The experts of one layer; there are none if part_count is 0.  An expert is part_count extents,
 * each of which is read at once: three if each matrix is its own tensor, two if gate and up are
 * stacked, one in a pack, nine if codes, scales and biases are separate.  Matrices may share bytes
 * of a part. */
typedef struct {
    sl_expert_matrix matrices[SL_EXPERT_MATRICES];
    uint32_t part_count;
    const sl_extent *parts;    /* [experts * part_count] */
    const uint64_t *checksums; /* [experts * part_count] of XXH3-64, or NULL */
} sl_expert_layer;

typedef struct {
    uint32_t layers, experts, experts_used;
    const sl_expert_layer *layer; /* [layers] */
    uint64_t expert_bytes;        /* largest sum of one expert's parts */
    uint64_t total_bytes;         /* of all parts of all experts */
    uint64_t memory_bytes;        /* of all experts in the layout of the kernels */
} sl_expert_table;

/* Finds every expert of the model in the source: blocks of a pack, a tensor per matrix, or stacked
 * tensors.  Shapes and element types are checked against the config; the message
 * names the tensor, what was found and what was wanted.  The table lives in arena. */
SL_CHECKED sl_status sl_expert_table_build(sl_source *source, const sl_model_config *config,
                                           sl_arena *arena, sl_expert_table *out, sl_error *err);

/* The first layer that has experts, or NULL. */
const sl_expert_layer *sl_expert_table_first(const sl_expert_table *table);
/* The number of experts in all layers. */
uint64_t sl_expert_table_count(const sl_expert_table *table);

/* A table of the same shape without file locations: for planning a model without weights. */
SL_CHECKED sl_status sl_expert_table_fake(const sl_model_config *config, sl_arena *arena,
                                          sl_expert_table *out, sl_error *err);
#endif
