/* resize.h - Which input elements contribute to the elements of a resized axis. */
#ifndef SL_CORE_RESIZE_H
#define SL_CORE_RESIZE_H
#include "core/ops.h"
#include <stdbool.h>

typedef enum { SL_RESIZE_NEAREST, SL_RESIZE_LINEAR, SL_RESIZE_CUBIC } sl_resize_mode;
typedef enum {
    SL_RESIZE_HALF_PIXEL,
    SL_RESIZE_HALF_PIXEL_SYMMETRIC,
    SL_RESIZE_PYTORCH_HALF_PIXEL,
    SL_RESIZE_ALIGN_CORNERS,
    SL_RESIZE_ASYMMETRIC,
    SL_RESIZE_TF_HALF_PIXEL_FOR_NN,
    SL_RESIZE_TF_CROP_AND_RESIZE
} sl_resize_coordinates;
typedef enum {
    SL_RESIZE_ROUND_PREFER_FLOOR,
    SL_RESIZE_ROUND_PREFER_CEIL,
    SL_RESIZE_FLOOR,
    SL_RESIZE_CEIL
} sl_resize_rounding;

/* Parse the texts of attributes; an empty text selects the first value.  False if the text is
 * unknown. */
bool sl_resize_mode_find(const char *text, sl_resize_mode *out);
bool sl_resize_coordinates_find(const char *text, sl_resize_coordinates *out);
bool sl_resize_rounding_find(const char *text, sl_resize_rounding *out);

/* Resizing of one axis. */
typedef struct {
    int64_t in, out;
    double scale; /* of the axis; out / in unless it was given */
    sl_resize_mode mode;
    sl_resize_coordinates coordinates;
    sl_resize_rounding rounding;
    double cubic_a;
    double roi_start, roi_end; /* of tf_crop_and_resize, as fractions of the axis */
    bool exclude_outside, antialias;
} sl_resize_axis;

/* Axis i of x, from valid attributes. */
sl_resize_axis sl_resize_axis_of(const sl_resize_attrs *attrs, const sl_dims *x, uint32_t i);
/* Whether the axis stays unchanged. */
bool sl_resize_is_identity(const sl_resize_axis *axis);
/* The maximum number of input elements per output element. */
int64_t sl_resize_taps(const sl_resize_axis *axis);
/* The input elements of output element `at`, with weights whose sum is 1; indices are in [0, in).
 * False if it lies outside of the region of tf_crop_and_resize. */
bool sl_resize_at(const sl_resize_axis *axis, int64_t at, int64_t *indices, double *weights);
#endif
