/* source.h - One reader interface behind every model format: named tensors with a type and a place
 * in a file, and the texts that come with a model.  A new format is one more file here. */
#ifndef SL_ENGINE_FORMATS_SOURCE_H
#define SL_ENGINE_FORMATS_SOURCE_H
#include "base/memory.h"
#include "core/type.h"

typedef struct {
    uint32_t file; /* index into the source's files */
    uint64_t offset, bytes;
} sl_extent;

/* A tensor may come in parts that lie apart: codes, scales, biases. */
enum { SL_MAX_TENSOR_PARTS = 3 };

typedef struct sl_tensor_form sl_tensor_form;
/* One matrix as it lies in files.  Parts are aligned to nothing. */
typedef struct {
    const sl_tensor_form *form;
    const uint8_t *parts[SL_MAX_TENSOR_PARTS]; /* of each part what belongs to this matrix */
    int64_t rows, cols;                        /* of what is made of it; a vector is one row */
} sl_raw_matrix;

/* How bytes in files that are not laid out as their type come to be so.  One that needs numbers is
 * the first member of a struct that has them. */
struct sl_tensor_form {
    const char *name;
    /* Writes one matrix to out, which has the bytes of its type and is aligned to 64. */
    void (*convert)(const sl_raw_matrix *raw, void *out);
};

/* Rows of one matrix, or elements of a vector, that lie in another order in a file, or among
 * others: number i of the tensor is number from[i] of the `count` that are there. */
typedef struct {
    uint32_t count;
    const uint32_t *from;
} sl_row_order;

typedef struct {
    const char *name;
    sl_type type;
    sl_extent at;               /* with a form: its first part */
    uint64_t checksum;          /* XXH3-64 of the bytes; 0: none */
    const sl_tensor_form *form; /* NULL: the bytes are laid out as the type says */
    const sl_row_order *order;  /* NULL: as they lie; only beside a form, which comes after */
    /* Further parts, bytes 0 where there are none.  Each part has a share for every matrix of the
     * tensor, one after the other and of equal sizes. */
    sl_extent more[SL_MAX_TENSOR_PARTS - 1];
} sl_tensor_entry;

/* Part p of a tensor, NULL beyond the last, and share i of n equal ones of it. */
static inline const sl_extent *sl_tensor_part(const sl_tensor_entry *entry, uint32_t p) {
    if (p == 0) return &entry->at;
    return p < SL_MAX_TENSOR_PARTS && entry->more[p - 1].bytes ? &entry->more[p - 1] : NULL;
}
static inline sl_extent sl_extent_share(const sl_extent *part, uint64_t i, uint64_t n) {
    const uint64_t bytes = part->bytes / n;
    return (sl_extent){part->file, part->offset + i * bytes, bytes};
}

/* Experts of one layer as a pack stores them: one aligned block each. */
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
 * An empty or unknown folder fails and says what was looked for. */
SL_CHECKED sl_status sl_source_open(const char *path, const sl_allocator *allocator,
                                    sl_source **out, sl_error *err);
void sl_source_close(sl_source *source); /* NULL is fine */

const char *sl_source_format(const sl_source *source); /* "safetensors", "pack", "gguf" */
uint32_t sl_source_file_count(const sl_source *source);
const char *sl_source_file_path(const sl_source *source, uint32_t file);
uint64_t sl_source_file_bytes(const sl_source *source, uint32_t file);

uint32_t sl_source_tensor_count(const sl_source *source);
const sl_tensor_entry *sl_source_tensor(const sl_source *source, uint32_t index);
const sl_tensor_entry *sl_source_find(const sl_source *source, const char *name); /* NULL: absent */
/* Notes that a model uses the tensor, and tells which ones it does. */
void sl_source_ask(const sl_source *source, const sl_tensor_entry *entry);
bool sl_source_was_asked(const sl_source *source, uint32_t index);
/* Why a tensor that the files do hold is not among the source's tensors ("dtype F64 is not
 * supported"), or NULL. */
const char *sl_source_skipped(const sl_source *source, const char *name);
/* The tensor's bytes, mapped read only without read-ahead; valid until close and
 * aligned to the element size (a misaligned tensor is copied).  One with a form is converted on the
 * first call, into memory.  Fails when they do not match their checksum, checked on the first call;
 * that they lie inside the file is known since open. */
SL_CHECKED sl_status sl_source_map(sl_source *source, const sl_tensor_entry *entry,
                                   const void **out, sl_error *err);

/* What was mapped or converted takes no more memory; its address is no longer valid. */
void sl_source_let_go(sl_source *source, const sl_tensor_entry *entry);

/* Share `index` of `count` equal ones of every part, and the shape of what it becomes: a matrix of
 * a stack, or some rows of one. */
typedef struct {
    uint64_t index, count;
    int64_t rows, cols;
} sl_tensor_share;
/* Converts, or copies, a share from the mapped file into memory of the caller's. */
void sl_source_matrix(const sl_source *source, const sl_tensor_entry *entry,
                      const sl_tensor_share *share, void *out);

/* Fails when bytes that were read for a tensor do not match its checksum. */
SL_CHECKED sl_status sl_source_check(const sl_source *source, const sl_tensor_entry *entry,
                                     const void *bytes, sl_error *err);

/* NULL unless the source is a pack with experts for that layer. */
const sl_expert_blocks *sl_source_expert_blocks(const sl_source *source, uint32_t layer);

/* "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
 * "chat_template.jinja": the text, or NULL.  Borrowed, with a NUL after its last byte. */
const char *sl_source_text(const sl_source *source, const char *name, size_t *out_bytes);
#endif
