/* hf.h - What the readers of Hugging Face and MLX folders share.
 *
 * A folder's tensors pass two stages.  First, how is it stored: a *scheme* claims the tensors that
 * belong together (codes, scales, biases) and gives one stored tensor with a code; a new scheme is
 * one file and one row in huggingface.c.  Then, what do models call it: most keep their name, some
 * are *views* of others (hf_views.c).  Both are shapes and places alone; bytes are converted by the
 * form of the entry (hf_forms.c) when it is asked for. */
#ifndef SL_ENGINE_FORMATS_HF_H
#define SL_ENGINE_FORMATS_HF_H
#include "engine/formats/json.h"
#include "engine/formats/source_internal.h"

/* A tensor of a shard, whatever its type. */
typedef struct {
    const char *name;
    const char *element; /* "BF16", "U32", "F8_E4M3", ... */
    const char *why;     /* it cannot be used as it is, or NULL */
    sl_type type;        /* where why is NULL; else only its shape */
    sl_extent at;
} sl_hf_tensor;

typedef struct {
    sl_source *source;
    const json_t *config;       /* config.json */
    const json_t *quantization; /* of MLX, or NULL */
    const json_t *method;       /* quantization_config of others, or NULL */
    const char *model_type;     /* "" when it has none */
    uint32_t layers;            /* 0 when it does not say */
    bool sanitised;             /* by mlx-lm, where it adds one to norm gains */
    sl_hf_tensor *tensors;      /* in order of name */
    uint32_t tensor_count;
    sl_error *err;
} sl_hf_folder;

/* How elements are coded. */
typedef enum {
    SL_HF_PLAIN,  /* as the dtype says */
    SL_HF_AFFINE, /* MLX: bits of a row one after another, scale and bias per group */
    SL_HF_MXFP4,  /* 4-bit floats, two in a byte, a power of two per 32 */
    SL_HF_MXFP8,  /* 8-bit floats (e4m3), a power of two per 32 */
    SL_HF_NVFP4,  /* 4-bit floats, an 8-bit one (e4m3) per 16; perhaps an f32 per matrix */
    SL_HF_FP8,    /* 8-bit floats (e4m3), a scale per block of rows and columns */
} sl_hf_coding;

typedef struct {
    sl_hf_coding coding;
    sl_dtype dtype;       /* of the elements when plain, else of scales and biases */
    uint32_t bits, group; /* group: columns that share a scale */
    uint32_t block_rows;  /* SL_HF_FP8: rows that do */
    bool has_matrix_scale;
} sl_hf_code;

typedef struct {
    const char *name;
    sl_hf_code code;
    sl_dims shape;
    sl_extent parts[SL_MAX_TENSOR_PARTS]; /* bytes 0: none */
} sl_hf_stored;

/* Which elements of a stored matrix make one: row r and column c are taken from row
 * first_row + r * row_step and column first_col + c * col_step, or, where transposed, from row
 * first_row + c * row_step and column first_col + r * col_step. */
typedef struct {
    int64_t first_row, row_step, first_col, col_step;
    int64_t row_count; /* of stored rows, from the first on; 0: all that remain */
    bool transposed;
    bool less_one; /* one is taken from every element, which becomes f32 */
} sl_hf_view;
extern const sl_hf_view sl_hf_as_stored;

/* hf_forms.c: an entry for a view of a stored tensor, with the form that makes it. */
SL_CHECKED sl_status sl_hf_entry(sl_hf_folder *folder, const sl_hf_stored *stored,
                                 const sl_hf_view *view, sl_tensor_entry *out);

/* hf_views.c: the entries that a stored tensor gives, at most two; returns how many in *count. */
enum { SL_HF_MOST_VIEWS = 2 };
SL_CHECKED sl_status sl_hf_views(sl_hf_folder *folder, const sl_hf_stored *stored,
                                 sl_tensor_entry out[SL_HF_MOST_VIEWS], uint32_t *count);

/* A scheme looks at one tensor.  SL_HF_PART: it will be found with the one it belongs to. */
typedef enum { SL_HF_NOT_MINE, SL_HF_PART, SL_HF_STORED } sl_hf_claim;
typedef sl_status sl_hf_scheme(sl_hf_folder *folder, const sl_hf_tensor *tensor, sl_hf_claim *claim,
                               sl_hf_stored *out);
sl_hf_scheme sl_hf_mlx, sl_hf_fp8, sl_hf_mxfp4;

/* hf_config.c: reads what the folder's config.json says beyond the model's shape; fails for ways of
 * quantising that no scheme knows. */
SL_CHECKED sl_status sl_hf_read_config(sl_hf_folder *folder);

/* hf_tensors.c: fills the source. */
SL_CHECKED sl_status sl_hf_add_tensors(sl_hf_folder *folder);

/* NULL: absent. */
const sl_hf_tensor *sl_hf_find(const sl_hf_folder *folder, const char *name);
/* The tensor whose name is that of another with its ending replaced. */
const sl_hf_tensor *sl_hf_beside(const sl_hf_folder *folder, const char *name, const char *ending,
                                 const char *other);
bool sl_hf_ends_with(const char *name, const char *ending);
bool sl_hf_is(const sl_hf_tensor *tensor, const char *element);
/* "U32[8,64,16]" in one of four buffers in turn, for messages. */
const char *sl_hf_text(const sl_hf_tensor *tensor);
/* True when the tensor has as many bytes as elements of the given size. */
SL_CHECKED sl_status sl_hf_check_bytes(const sl_hf_folder *folder, const sl_hf_tensor *tensor,
                                       uint32_t element_bytes);
#endif
