/* hf.h - Shared by the readers of Hugging Face and MLX folders.
 *
 * The tensors of a folder pass two stages.  First, a *scheme* groups the tensors that encode one
 * matrix (codes, scales, biases) into one stored tensor with its encoding; a new scheme is one file
 * and one row in hf_tensors.c.  Then, stored tensors are mapped to the names that models use: most
 * keep their name, some are *views* of others (hf_views.c).  Both stages only handle shapes and
 * file offsets; the bytes are converted (hf_forms.c) when the tensor is used. */
#ifndef SL_ENGINE_FORMATS_HF_H
#define SL_ENGINE_FORMATS_HF_H
#include "engine/formats/json.h"
#include "engine/formats/source_internal.h"

/* A tensor of a shard, of any type. */
typedef struct {
    const char *name;
    const char *element; /* "BF16", "U32", "F8_E4M3", ... */
    const char *why;     /* why it cannot be used directly, or NULL */
    sl_type type;        /* valid if why is NULL; else only its shape */
    sl_extent at;
} sl_hf_tensor;

typedef struct {
    sl_source *source;
    const json_t *config;       /* config.json */
    const json_t *quantization; /* MLX settings, or NULL */
    const json_t *method;       /* quantization_config of other methods, or NULL */
    const char *model_type;     /* "" if there is none */
    uint32_t layers;            /* 0 if unknown */
    bool sanitised;             /* converted by mlx-lm, which adds one to norm gains */
    sl_hf_tensor *tensors;      /* sorted by name */
    uint32_t tensor_count;
    sl_error *err;
} sl_hf_folder;

/* The encoding of elements. */
typedef enum {
    SL_HF_PLAIN,  /* as the dtype says */
    SL_HF_AFFINE, /* MLX: codes of a row as a bit stream, scale and bias per group */
    SL_HF_MXFP4,  /* 4-bit floats, two per byte, a power-of-two scale per 32 */
    SL_HF_MXFP8,  /* 8-bit floats (e4m3), a power-of-two scale per 32 */
    SL_HF_NVFP4,  /* 4-bit floats, an 8-bit float scale (e4m3) per 16, optionally an f32 scale per
                     matrix */
    SL_HF_FP8,    /* 8-bit floats (e4m3), a scale per block of rows and columns */
} sl_hf_coding;

typedef struct {
    sl_hf_coding coding;
    sl_dtype dtype;       /* of the elements if plain, else of scales and biases */
    uint32_t bits, group; /* group: columns that share a scale */
    uint32_t block_rows;  /* SL_HF_FP8: rows that share a scale */
    bool has_matrix_scale;
} sl_hf_code;

typedef struct {
    const char *name;
    sl_hf_code code;
    sl_dims shape;
    sl_extent parts[SL_MAX_TENSOR_PARTS]; /* unused ones have bytes 0 */
} sl_hf_stored;

/* The elements of a stored matrix that form a tensor: element (r, c) is stored element (first_row +
 * r * row_step, first_col + c * col_step), or, if transposed, (first_row + c * row_step, first_col
 * + r * col_step). */
typedef struct {
    int64_t first_row, row_step, first_col, col_step;
    int64_t row_count; /* number of stored rows, from first_row on; 0: all that remain */
    bool transposed;
    bool less_one; /* subtracts one from every element; the result is f32 */
} sl_hf_view;
extern const sl_hf_view sl_hf_as_stored;

/* hf_forms.c: adds an entry for a view of a stored tensor, with its converter. */
SL_CHECKED sl_status sl_hf_entry(sl_hf_folder *folder, const sl_hf_stored *stored,
                                 const sl_hf_view *view, sl_tensor_entry *out);

/* hf_views.c: the views of a stored tensor, at most two; *count is their number. */
enum { SL_HF_MOST_VIEWS = 2 };
SL_CHECKED sl_status sl_hf_views(sl_hf_folder *folder, const sl_hf_stored *stored,
                                 sl_tensor_entry out[SL_HF_MOST_VIEWS], uint32_t *count);

/* A scheme examines one tensor.  SL_HF_PART: the tensor is part of another one and is found with
 * it. */
typedef enum { SL_HF_NOT_MINE, SL_HF_PART, SL_HF_STORED } sl_hf_claim;
typedef sl_status sl_hf_scheme(sl_hf_folder *folder, const sl_hf_tensor *tensor, sl_hf_claim *claim,
                               sl_hf_stored *out);
sl_hf_scheme sl_hf_mlx, sl_hf_fp8, sl_hf_mxfp4;

/* hf_config.c: reads the quantisation settings of config.json; fails for methods that no scheme
 * supports. */
SL_CHECKED sl_status sl_hf_read_config(sl_hf_folder *folder);

/* hf_tensors.c: fills the source. */
SL_CHECKED sl_status sl_hf_add_tensors(sl_hf_folder *folder);

/* NULL: absent. */
const sl_hf_tensor *sl_hf_find(const sl_hf_folder *folder, const char *name);
/* The tensor whose name is that of another with the suffix replaced. */
const sl_hf_tensor *sl_hf_beside(const sl_hf_folder *folder, const char *name, const char *ending,
                                 const char *other);
bool sl_hf_ends_with(const char *name, const char *ending);
bool sl_hf_is(const sl_hf_tensor *tensor, const char *element);
/* "U32[8,64,16]" in one of four rotating buffers, for messages. */
const char *sl_hf_text(const sl_hf_tensor *tensor);
/* Checks that the tensor has as many bytes as elements of the given size. */
SL_CHECKED sl_status sl_hf_check_bytes(const sl_hf_folder *folder, const sl_hf_tensor *tensor,
                                       uint32_t element_bytes);
#endif
