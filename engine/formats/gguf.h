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
#include <jansson.h>

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
    sl_gguf_kind kind; /* kind of the value, or of an array's elements */
    bool is_array;
    uint64_t count;      /* number of elements; 1 for a single value */
    const uint8_t *data; /* in the file, unaligned; all elements lie inside it */
} sl_gguf_value;

typedef struct {
    const char *data; /* not NUL-terminated */
    uint64_t bytes;
} sl_gguf_text;

/* Tensor types: one row each in gguf_types.c. */
typedef struct {
    const char *name; /* NULL: no such type */
    uint32_t elements, bytes;
    bool known; /* whether it is supported, and as which dtype: */
    sl_dtype dtype;
    const sl_tensor_form *form; /* NULL: no conversion */
} sl_gguf_type;
const sl_gguf_type *sl_gguf_type_find(uint32_t id); /* NULL: no such type */
/* Appends "name" or ", name" to a list for messages; returns its new length. */
size_t sl_gguf_list(char *text, size_t capacity, size_t length, const char *name);
/* "F32, F16, ...", in text; returns text. */
const char *sl_gguf_types_known(char *text, size_t capacity);
enum { SL_GGUF_LIST_BYTES = 512 };

typedef struct {
    const char *name;
    const sl_gguf_type *type;
    sl_dims shape;          /* outermost first */
    uint64_t offset, bytes; /* in the file */
    uint32_t file;          /* index of the file, for a split model */
} sl_gguf_tensor;

typedef struct {
    const char *what;         /* the file, for messages */
    const char *architecture; /* general.architecture, or "" */
    uint32_t version, alignment;
    sl_gguf_value *values; /* ordered by key */
    uint32_t value_count;
    sl_gguf_tensor *tensors; /* in the order of the file */
    uint32_t tensor_count;
} sl_gguf;

/* data: the whole file; values point into it.  Names are copied to the arena. */
SL_CHECKED sl_status sl_gguf_parse(const char *what, const void *data, uint64_t bytes,
                                   sl_arena *arena, sl_gguf *out, sl_error *err);

/* gguf_values.c.  NULL: absent. */
const sl_gguf_value *sl_gguf_find(const sl_gguf *gguf, const char *key);
const sl_gguf_tensor *sl_gguf_tensor_find(const sl_gguf *gguf, const char *name);
/* Single values; *out is unchanged if the key is absent.  A value of another kind or a negative
 * count is an error that names the key. */
SL_CHECKED sl_status sl_gguf_get_count(const sl_gguf *gguf, const char *key, uint64_t *out,
                                       sl_error *err);
SL_CHECKED sl_status sl_gguf_get_real(const sl_gguf *gguf, const char *key, double *out,
                                      sl_error *err);
SL_CHECKED sl_status sl_gguf_get_flag(const sl_gguf *gguf, const char *key, bool *out,
                                      sl_error *err);
SL_CHECKED sl_status sl_gguf_get_text(const sl_gguf *gguf, const char *key, sl_gguf_text *out,
                                      sl_error *err);
/* An array of texts, of integers (or flags) or of reals (F32); NULL if absent. */
SL_CHECKED sl_status sl_gguf_get_array(const sl_gguf *gguf, const char *key, sl_gguf_kind kind,
                                       const sl_gguf_value **out, sl_error *err);
/* Reads the text at *at and advances it to the next one; starts at value->data. */
sl_gguf_text sl_gguf_next_text(const uint8_t **at);
int64_t sl_gguf_integer_at(const sl_gguf_value *value, uint64_t index);
float sl_gguf_real_at(const sl_gguf_value *value, uint64_t index); /* index into an array of F32 */
enum { SL_GGUF_KEY_BYTES = 128 };
/* "<architecture>.<key>", in text; returns text. */
const char *sl_gguf_own_key(const sl_gguf *gguf, const char *key, char text[SL_GGUF_KEY_BYTES]);
SL_CHECKED sl_status sl_gguf_missing(const sl_gguf *gguf, const char *key, sl_error *err);
bool sl_gguf_text_is(sl_gguf_text text, const char *other);

/* Architectures: one row each in gguf_names.c.  Rows of other tables have masks of them. */
enum {
    SL_GGUF_QWEN35MOE = 1 << 0,
    SL_GGUF_QWEN35 = 1 << 1,
    SL_GGUF_QWEN3NEXT = 1 << 2,
    SL_GGUF_QWEN3MOE = 1 << 3,
    SL_GGUF_QWEN3 = 1 << 4,
    SL_GGUF_LLAMA = 1 << 5,
    SL_GGUF_OLMOE = 1 << 6,
    SL_GGUF_DEEPSEEK2 = 1 << 7,
    SL_GGUF_GLM4MOE = 1 << 8,
    SL_GGUF_GPT_OSS = 1 << 9,
    /* Gated delta nets between layers of full attention; norm gains are stored plus one. */
    SL_GGUF_DELTA = SL_GGUF_QWEN35MOE | SL_GGUF_QWEN35 | SL_GGUF_QWEN3NEXT,
    SL_GGUF_DENSE = SL_GGUF_QWEN35 | SL_GGUF_QWEN3,
    SL_GGUF_ALL = (1 << 10) - 1,
};

typedef struct {
    const char *name;       /* general.architecture */
    const char *model_type; /* model_type of config.json */
    uint32_t bit;
} sl_gguf_architecture;
SL_CHECKED sl_status sl_gguf_architecture_find(const sl_gguf *gguf,
                                               const sl_gguf_architecture **out, sl_error *err);

/* The stored order of rows, where it differs from that of the models. */
typedef enum {
    SL_GGUF_ROWS_ALL,
    SL_GGUF_ROWS_QUERY, /* RoPE pairs are adjacent, not half a head apart */
    SL_GGUF_ROWS_KEY,
    SL_GGUF_ROWS_BETA, /* per key head: the beta of its value heads, then their alpha */
    SL_GGUF_ROWS_ALPHA,
    SL_GGUF_ROWS_QKV, /* per key head: query, key, its value heads, their gates */
    SL_GGUF_ROWS_Z,
} sl_gguf_rows;

/* Maps a tensor to a name of the models; a tensor may have several rows. */
typedef struct {
    uint32_t architectures;
    const char *suffix; /* name in the file, after "blk.N." for tensors of a layer */
    /* Name in the models, after "model.layers.N.", or the whole name. */
    const char *name;
    const sl_tensor_form *form; /* converter of F32 vectors that are stored differently, or NULL */
    sl_gguf_rows rows;
    bool is_row; /* a vector that becomes a matrix of one row */
} sl_gguf_name;
/* "blk.12.attn_q.weight" -> 12 and "attn_q.weight"; NULL if it does not belong to a layer. */
const char *sl_gguf_layer_suffix(const char *name, uint32_t *layer);
/* The next row after *row (NULL: the first) for a tensor; NULL: no more. */
const sl_gguf_name *sl_gguf_name_next(const sl_gguf_architecture *architecture, const char *suffix,
                                      bool layered, const sl_gguf_name *row);

/* gguf_order.c: the order of a tensor's rows; NULL if its shape does not fit the metadata.
 * *out_rows: the number of rows that the models get. */
SL_CHECKED sl_status sl_gguf_order_rows(const sl_gguf *gguf, const sl_gguf_tensor *tensor,
                                        sl_gguf_rows rows, sl_arena *arena,
                                        const sl_row_order **out, int64_t *out_rows, sl_error *err);
/* Copies floats unchanged; for tensors whose rows are reordered. */
const sl_tensor_form *sl_gguf_plain_form(sl_dtype dtype);

/* gguf_config.c: config.json, as text in the arena, and the number of layers; later layers are not
 * run. */
SL_CHECKED sl_status sl_gguf_config(const sl_gguf *gguf, const sl_gguf_architecture *architecture,
                                    sl_arena *arena, sl_gguf_text *out, uint32_t *out_layers,
                                    sl_error *err);
/* gguf_rope.c: adds the RoPE parameters to a config. */
SL_CHECKED sl_status sl_gguf_config_rope(const sl_gguf *gguf,
                                         const sl_gguf_architecture *architecture, json_t *config,
                                         sl_error *err);

/* gguf_split.c.  "x-00002-of-00003.gguf" -> the length of "x", 2 and 3; 0: not such a name. */
size_t sl_gguf_part_name(const char *path, uint32_t *out_part, uint32_t *out_count);
/* Opens all parts of a split model, given the path of any of them, as files of the source. */
SL_CHECKED sl_status sl_gguf_open_parts(sl_source *source, const char *path, sl_gguf *out,
                                        sl_error *err);

/* gguf_text.c: adds tokenizer.json, tokenizer_config.json, generation_config.json and
 * chat_template.jinja, as far as the metadata contain them. */
SL_CHECKED sl_status sl_gguf_add_texts(const sl_gguf *gguf, sl_source *source, sl_error *err);
#endif
