/* weights.h - Resident weights by name; each is looked up and checked once, and read and converted
 * when all are known. */
#ifndef SL_ENGINE_MODELS_WEIGHTS_H
#define SL_ENGINE_MODELS_WEIGHTS_H
#include "base/names.h"
#include "engine/models/load.h"

typedef struct sl_weight sl_weight;
typedef struct {
    sl_source *source; /* borrowed */
    sl_arena arena;
    sl_weight *items;
    uint32_t count, capacity;
    sl_names names; /* of items */
    /* For matrices that need no conversion; without a reader they are read one by one. */
    sl_load load;
    const sl_tensor_entry *gathered; /* loaded, for weights that are rows of it */
    bool imagined;
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
 *
 * Floats and whole panels are moved as they are, and f8 whose scales are those of square tiles.
 * Other codes that become columns are coded again as q8: groups of codes run along rows, and 8 bits
 * add little to the error of the first coding.  What is too short for either becomes f32. */
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

struct sl_weight {
    const char *name; /* canonical: without the prefixes that exporters add */
    sl_type type;
    const void *data;             /* NULL until it is read */
    const sl_tensor_entry *entry; /* of the source: itself, or what it is gathered from */
    sl_weight_kind kind;
    const sl_weight_gather *gather; /* NULL: it is the entry itself */
};

/* Finds a weight without reading it.  A missing tensor, a wrong shape or an unsupported type is an
 * error that names all three. */
SL_CHECKED sl_status sl_weights_get(sl_weights *weights, const sl_weight_request *request,
                                    const sl_weight **out, sl_error *err);
/* Reads and converts all weights that were found. */
SL_CHECKED sl_status sl_weights_read(sl_weights *weights, sl_error *err);
/* Bytes of all weights, and what reading them takes at its peak beyond that, for conversion. */
uint64_t sl_weights_bytes(const sl_weights *weights);
uint64_t sl_weights_loading_bytes(sl_weights *weights);
/* NULL unless sl_weights_get has found it before. */
const sl_weight *sl_weights_find(const sl_weights *weights, const char *name);
#endif
