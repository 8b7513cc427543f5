/* source.h - The common interface of all model formats: named tensors with a type and a location in
 * a file, and the text files that come with a model.  A new format is one more file here. */
#ifndef SL_ENGINE_FORMATS_SOURCE_H
#define SL_ENGINE_FORMATS_SOURCE_H
#include "base/memory.h"
#include "core/type.h"

typedef struct {
    uint32_t file; /* index into the source's files */
    uint64_t offset, bytes;
} sl_extent;

/* A tensor may be stored in separate parts: codes, scales, biases. */
enum { SL_MAX_TENSOR_PARTS = 3 };

typedef struct sl_tensor_form sl_tensor_form;
/* One matrix as stored in files.  Its parts need not be aligned. */
typedef struct {
    const sl_tensor_form *form;
    const uint8_t
        *parts[SL_MAX_TENSOR_PARTS]; /* the bytes of each part that belong to this matrix */
    int64_t rows, cols;              /* of the result; a vector is one row */
} sl_raw_matrix;

/* Converter from the file layout to the layout of the type.  A converter with parameters is the
 * first member of a struct that holds them. */
struct sl_tensor_form {
    const char *name;
    /* Converts one matrix to out, which has the size of its type and is aligned to 64. */
    void (*convert)(const sl_raw_matrix *raw, void *out);
};

/* A selection or permutation of the rows of a stored matrix, or of the elements of a vector: number
 * i of the tensor is number from[i] of the `count` stored ones. */
typedef struct {
    uint32_t count;
    const uint32_t *from;
} sl_row_order;

typedef struct {
    const char *name;
    sl_type type;
    sl_extent at;               /* with a converter: its first part */
    uint64_t checksum;          /* XXH3-64 of the bytes; 0: none */
    const sl_tensor_form *form; /* NULL: the file has the layout of the type */
    const sl_row_order
        *order; /* NULL: in stored order; only with a converter, which is applied afterwards */
    /* Further parts; bytes is 0 if there are none.  Each part has one share per matrix of the
     * tensor, in order and of equal sizes. */
    sl_extent more[SL_MAX_TENSOR_PARTS - 1];
} sl_tensor_entry;

/* Part p of a tensor (NULL beyond the last), and share i of n equal shares of it. */
static inline const sl_extent *sl_tensor_part(const sl_tensor_entry *entry, uint32_t p) {
    if (p == 0) return &entry->at;
    return p < SL_MAX_TENSOR_PARTS && entry->more[p - 1].bytes ? &entry->more[p - 1] : NULL;
}
static inline sl_extent sl_extent_share(const sl_extent *part, uint64_t i, uint64_t n) {
    const uint64_t bytes = part->bytes / n;
    return (sl_extent){part->file, part->offset + i * bytes, bytes};
}

/* The experts of one layer in a pack: one aligned block each. */
typedef struct {
    uint32_t layer, count;
    sl_type gate, up, down;          /* of one expert */
    uint64_t up_offset, down_offset; /* within a block; gate is at 0 */
    uint64_t offset, block_bytes;    /* expert e is at offset + e * block_bytes of file 0 */
    const uint64_t *checksums;       /* [count], of whole blocks */
} sl_expert_blocks;

typedef struct sl_source sl_source;

/* path: a Hugging Face folder (config.json and safetensors, single or sharded by
 * model.safetensors.index.json), a sluice pack, a GGUF file or one of the parts of one, or a folder
 * that holds exactly one of the last two kinds.
 * For an empty or unknown folder the error says what was looked for. */
SL_CHECKED sl_status sl_source_open(const char *path, const sl_allocator *allocator,
                                    sl_source **out, sl_error *err);
void sl_source_close(sl_source *source); /* NULL is allowed */

const char *sl_source_format(const sl_source *source); /* "safetensors", "pack", "gguf" */
uint32_t sl_source_file_count(const sl_source *source);
const char *sl_source_file_path(const sl_source *source, uint32_t file);
uint64_t sl_source_file_bytes(const sl_source *source, uint32_t file);

uint32_t sl_source_tensor_count(const sl_source *source);
const sl_tensor_entry *sl_source_tensor(const sl_source *source, uint32_t index);
const sl_tensor_entry *sl_source_find(const sl_source *source, const char *name); /* NULL: absent */
/* Marks a tensor as used by the model; returns whether it is marked. */
void sl_source_mark_used(const sl_source *source, const sl_tensor_entry *entry);
bool sl_source_is_used(const sl_source *source, uint32_t index);
/* The reason why a tensor of the files is not available in the source ("dtype F64 is not
 * supported"), or NULL. */
const char *sl_source_skipped(const sl_source *source, const char *name);
/* The tensor's bytes, mapped read only without read-ahead; valid until close and
 * aligned to the element size (a misaligned tensor is copied).  A tensor with a converter is
 * converted on the first call.  Fails if the bytes do not match their checksum, which is verified
 * on the first call; open has checked that they are inside the file. */
SL_CHECKED sl_status sl_source_map(sl_source *source, const sl_tensor_entry *entry,
                                   const void **out, sl_error *err);

/* Releases the mapped or converted bytes of a tensor; its address is no longer valid. */
void sl_source_unmap(sl_source *source, const sl_tensor_entry *entry);

/* Share `index` of `count` equal shares of every part, and the shape of the result: one matrix of a
 * stack, or some rows of a matrix. */
typedef struct {
    uint64_t index, count;
    int64_t rows, cols;
} sl_tensor_share;
/* Converts or copies a share from the mapped file into the caller's memory. */
void sl_source_matrix(const sl_source *source, const sl_tensor_entry *entry,
                      const sl_tensor_share *share, void *out);

/* Fails if the given bytes of a tensor do not match its checksum. */
SL_CHECKED sl_status sl_source_check(const sl_source *source, const sl_tensor_entry *entry,
                                     const void *bytes, sl_error *err);

/* NULL unless the source is a pack with experts for that layer. */
const sl_expert_blocks *sl_source_expert_blocks(const sl_source *source, uint32_t layer);

/* "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
 * "chat_template.jinja": the text, or NULL.  Borrowed, with a NUL after its last byte. */
const char *sl_source_text(const sl_source *source, const char *name, size_t *out_bytes);
#endif
