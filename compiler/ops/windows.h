/* windows.h - Checks of sliding windows (core/window.h). */
#ifndef SL_COMPILER_OPS_WINDOWS_H
#define SL_COMPILER_OPS_WINDOWS_H
#include "compiler/ops/alike.h"
#include "core/window.h"

typedef struct {
    const char *label;
    uint32_t rank; /* spatial axes */
    sl_window_lists lists;
    const int64_t *kernel, *in; /* [rank] */
    bool ceil;
} sl_window_spec;

/* Checks the window and returns the number of windows along each axis. */
SL_CHECKED sl_status sl_check_windows(const sl_window_spec *spec, int64_t *out, sl_error *err);
/* Checks that a list has one number in [least, 2^31) per axis. */
SL_CHECKED sl_status sl_check_spatial(const char *label, const char *name, const sl_integers *list,
                                      uint32_t rank, int64_t least, sl_error *err);
#endif
