/* weights.h - Resident weights by name; each is looked up, checked, and read, mapped or converted
 * once. */
#ifndef SL_ENGINE_MODELS_WEIGHTS_H
#define SL_ENGINE_MODELS_WEIGHTS_H
#include "base/names.h"
#include "engine/models/load.h"

typedef struct {
    const char *name; /* canonical: without the prefixes that exporters add */
    sl_type type;
    const void *data;
} sl_weight;

typedef struct {
    sl_source *source; /* borrowed */
    sl_arena arena;
    sl_weight *items;
    uint32_t count, capacity;
    sl_names names; /* of items */
    sl_load load;   /* without a reader matrices are mapped */
    uint64_t matrix_bytes, converted_bytes;
    bool imagined, unread; /* unread: found and checked, without data */
} sl_weights;

void sl_weights_init(sl_weights *weights, sl_source *source, const sl_allocator *allocator);
/* Without a source: every requested weight exists, matrices as q4 and vectors as f32, without data.
 * For planning a model without its weights. */
void sl_weights_fake(sl_weights *weights, const sl_allocator *allocator);
void sl_weights_deinit(sl_weights *weights);

/* SL_WEIGHT_MATRIX: as it is, any float or panel type.  SL_WEIGHT_VECTOR: small, converted
 * to f32; dims of size one are dropped when compared (conv taps are [C,1,W] on disk). */
typedef enum { SL_WEIGHT_MATRIX, SL_WEIGHT_VECTOR } sl_weight_kind;

/* Rows of another tensor: that has `groups` times `stride` rows; part after part, the rows of that
 * part of every group.  Where transposed, the rows of each group become columns of its matrix.
 * Types whose rows cannot be moved become f32. */
typedef struct {
    const char *from;
    uint32_t groups, stride, part_count;
    struct {
        uint32_t offset, length;
    } parts[3];
    bool transposed;
} sl_weight_gather;

typedef struct {
    const char *name;
    sl_weight_kind kind;
    sl_dims shape;
    const sl_weight_gather *otherwise; /* where the source has no such tensor; or NULL */
} sl_weight_request;

/* A missing tensor, a wrong shape or an unsupported type is an error that names all three. */
SL_CHECKED sl_status sl_weights_get(sl_weights *weights, const sl_weight_request *request,
                                    const sl_weight **out, sl_error *err);
/* NULL unless sl_weights_get has found it before. */
const sl_weight *sl_weights_find(const sl_weights *weights, const char *name);
#endif
