/* gguf.h - The GGUF container, versions 2 and 3: typed metadata and a table of tensors.
 *
 *   header    "GGUF", u32 version, u64 tensors, u64 metadata entries
 *   metadata  key (u64 bytes, text), u32 kind, value; arrays: u32 kind of elements, u64 count
 *   tensors   name, u32 rank, u64 dims (innermost first), u32 type, u64 offset in the data
 *   data      from the next multiple of general.alignment; tensors follow each other, each
 *             padded to the alignment
 *
 * Everything is little-endian.  The parser checks all of it before anything is used. */
#ifndef SL_ENGINE_FORMATS_GGUF_H
#define SL_ENGINE_FORMATS_GGUF_H
#include "base/memory.h"
#include "core/type.h"
#include "engine/formats/source.h"

#define SL_GGUF_MAGIC "GGUF"

typedef enum {
    SL_GGUF_U8,
    SL_GGUF_I8,
    SL_GGUF_U16,
    SL_GGUF_I16,
    SL_GGUF_U32,
    SL_GGUF_I32,
    SL_GGUF_F32,
    SL_GGUF_BOOL,
    SL_GGUF_TEXT,
    SL_GGUF_ARRAY,
    SL_GGUF_U64,
    SL_GGUF_I64,
    SL_GGUF_F64,
    SL_GGUF_KINDS
} sl_gguf_kind;

typedef struct {
    const char *key;
    sl_gguf_kind kind; /* of the value, or of an array's elements */
    bool is_array;
    uint64_t count;      /* of elements; 1 for a single value */
    const uint8_t *data; /* in the file, unaligned; all elements lie inside it */
} sl_gguf_value;

typedef struct {
    const char *data; /* no NUL after it */
    uint64_t bytes;
} sl_gguf_text;

/* Types of tensors: one row each in gguf_types.c. */
typedef struct {
    const char *name; /* NULL: no such type */
    uint32_t elements, bytes;
    bool known; /* whether this program reads it, as: */
    sl_dtype dtype;
    const sl_tensor_form *form; /* NULL: as it lies in the file */
} sl_gguf_type;
const sl_gguf_type *sl_gguf_type_find(uint32_t id); /* NULL: no such type */
/* Appends "name" or ", name" to a list for messages; returns its new length. */
size_t sl_gguf_list(char *text, size_t capacity, size_t length, const char *name);
/* "F32, F16, ...", in text; returns text. */
const char *sl_gguf_types_known(char *text, size_t capacity);
enum { SL_GGUF_LIST_BYTES = 256 };

typedef struct {
    const char *name;
    const sl_gguf_type *type;
    sl_dims shape;          /* outermost first */
    uint64_t offset, bytes; /* in the file */
} sl_gguf_tensor;

typedef struct {
    const char *what; /* the file, for messages */
    uint32_t version, alignment;
    sl_gguf_value *values; /* ordered by key */
    uint32_t value_count;
    sl_gguf_tensor *tensors; /* in the order of the file */
    uint32_t tensor_count;
} sl_gguf;

/* data: the whole file, which values go on pointing into.  Names are copied to arena. */
SL_CHECKED sl_status sl_gguf_parse(const char *what, const void *data, uint64_t bytes,
                                   sl_arena *arena, sl_gguf *out, sl_error *err);

/* gguf_values.c.  NULL: absent. */
const sl_gguf_value *sl_gguf_find(const sl_gguf *gguf, const char *key);
const sl_gguf_tensor *sl_gguf_tensor_find(const sl_gguf *gguf, const char *name);
/* Single values; an absent one leaves *out as it is.  One of another kind, or a negative count,
 * fails and names the key. */
SL_CHECKED sl_status sl_gguf_get_count(const sl_gguf *gguf, const char *key, uint64_t *out,
                                       sl_error *err);
SL_CHECKED sl_status sl_gguf_get_real(const sl_gguf *gguf, const char *key, double *out,
                                      sl_error *err);
SL_CHECKED sl_status sl_gguf_get_text(const sl_gguf *gguf, const char *key, sl_gguf_text *out,
                                      sl_error *err);
/* An array of texts or of integers; NULL when absent. */
SL_CHECKED sl_status sl_gguf_get_array(const sl_gguf *gguf, const char *key, sl_gguf_kind kind,
                                       const sl_gguf_value **out, sl_error *err);
/* The text at *at, which moves on to the next one; starts at value->data. */
sl_gguf_text sl_gguf_next_text(const uint8_t **at);
int64_t sl_gguf_integer_at(const sl_gguf_value *value, uint64_t index);
SL_CHECKED sl_status sl_gguf_missing(const sl_gguf *gguf, const char *key, sl_error *err);
bool sl_gguf_text_is(sl_gguf_text text, const char *other);

/* What a model family adds: the row of a table in gguf_source.c, and one file. */
typedef struct {
    const char *suffix;         /* of the name in the file, after "blk.N." for those of a layer */
    const char *name;           /* to the models, after "model.layers.N." or whole */
    const sl_tensor_form *form; /* of F32 vectors that are stored otherwise, or NULL */
    bool is_row;                /* a vector that is a matrix of one row */
} sl_gguf_name;

typedef struct {
    const char *name;                    /* general.architecture */
    const sl_gguf_name *whole, *layered; /* each ends with a row of NULLs */
    /* config.json, as text in arena. */
    sl_status (*config)(const sl_gguf *gguf, sl_arena *arena, const char **out_text,
                        size_t *out_bytes, sl_error *err);
} sl_gguf_architecture;
extern const sl_gguf_architecture sl_gguf_qwen35moe;

/* gguf_text.c: adds tokenizer.json, tokenizer_config.json, generation_config.json and
 * chat_template.jinja as far as the metadata gives them. */
SL_CHECKED sl_status sl_gguf_add_texts(const sl_gguf *gguf, sl_source *source, sl_error *err);
#endif
