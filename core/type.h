/* type.h - Element types, shapes, and views of tensors. */
#ifndef SL_CORE_TYPE_H
#define SL_CORE_TYPE_H
#include "base/error.h"
#include <stdbool.h>

typedef enum {
#define DTYPE(name, kind, bytes, summary) SL_DTYPE_##name,
#include "core/dtypes.def"
    SL_DTYPE_COUNT
} sl_dtype;

typedef enum {
    SL_KIND_FLOAT,
    SL_KIND_INT,
    SL_KIND_BOOL,
    SL_KIND_COMPLEX,
    SL_KIND_PANEL,
    SL_KIND_ROWS,
    SL_KIND_CACHE
} sl_dtype_kind;
typedef struct {
    const char *name;
    sl_dtype_kind kind;
    uint32_t bytes; /* per element; 0 for panels, rows and caches */
    const char *summary;
} sl_dtype_info;
extern const sl_dtype_info sl_dtype_infos[SL_DTYPE_COUNT];

/* Finds an element type by name; false if there is none. */
bool sl_dtype_find(const char *name, size_t bytes, sl_dtype *out);

enum { SL_MAX_RANK = 8 };

/* A shape: dims[0] is the outermost.  Also the type of list-valued attributes. */
typedef struct {
    uint32_t rank;
    int64_t dims[SL_MAX_RANK];
} sl_dims;

typedef struct {
    sl_dtype dtype;
    sl_dims shape;
} sl_type;

/* sl_type_make(SL_DTYPE_f32, 2, rows, cols): up to SL_MAX_RANK dims. */
sl_type sl_type_make(sl_dtype dtype, uint32_t rank, ...);
bool sl_dims_equal(const sl_dims *a, const sl_dims *b);
bool sl_type_equal(const sl_type *a, const sl_type *b);
int64_t sl_type_elements(const sl_type *type); /* 1 for rank 0 */
/* The number of slots (core/codec.h) of a tensor: one per element, two per complex element. */
int64_t sl_type_slots(const sl_type *type);
uint64_t sl_type_bytes(const sl_type *type); /* panels and rows include their padding */
/* Product of dims[from..rank). */
int64_t sl_dims_tail(const sl_dims *dims, uint32_t from);
/* Checks rank, positive dims, whole blocks of caches, and that the element count fits 2^48. */
SL_CHECKED sl_status sl_type_check(const sl_type *type, const char *what, sl_error *err);
/* The same, but a tensor of plain elements may be empty. */
SL_CHECKED sl_status sl_type_check_shape(const sl_type *type, const char *what, sl_error *err);
/* "f32[4,256]"; returns text. */
char *sl_type_format(const sl_type *type, char *text, size_t capacity);
enum { SL_TYPE_TEXT = 200 };

/* An operand as a kernel gets it; inputs are read-only. */
typedef struct {
    const void *data;
    sl_type type;
} sl_cview;
typedef struct {
    void *data;
    sl_type type;
} sl_view;
#endif
