/* error.h - Error reporting.
 *
 *   return sl_fail(err, SL_FORMAT, "tensor '%s' has %u dims", name, dims);
 *   SL_TRY(sl_file_open(path, &file, err));                no cleanup needed
 *   SL_TRY_ELSE(done, read_header(file, &header, err));    goto done on failure
 *
 * Functions with something to release declare `sl_status status = SL_OK`, release
 * everything once under `done:`, and return status. */
#ifndef SL_BASE_ERROR_H
#define SL_BASE_ERROR_H
#include "sluice/status.h"

SL_CHECKED sl_status sl_fail(sl_error *err, sl_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prefixes the message that is already in err with "context: "; returns the status of err. */
SL_CHECKED sl_status sl_fail_in(sl_error *err, sl_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define SL_TRY(call)                                                                               \
    do {                                                                                           \
        const sl_status sl_try_status = (call);                                                    \
        if (sl_try_status != SL_OK) return sl_try_status;                                          \
    } while (0)
#define SL_TRY_ELSE(label, call)                                                                   \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != SL_OK) goto label;                                                           \
    } while (0)
#endif
