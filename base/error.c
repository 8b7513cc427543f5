#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

sl_status sl_fail(sl_error *err, sl_status status, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        err->status = status;
        (void)vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

sl_status sl_fail_in(sl_error *err, sl_status status, const char *format, ...) {
    if (err) {
        char inner[sizeof err->message];
        memcpy(inner, err->message, sizeof inner);
        va_list args;
        va_start(args, format);
        const int length = vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        err->status = status;
        if (length >= 0 && (size_t)length < sizeof err->message)
            (void)snprintf(err->message + length, sizeof err->message - (size_t)length, ": %.*s",
                           (int)(sizeof err->message - (size_t)length) - 3, inner);
    }
    return status;
}

const char *sl_status_text(sl_status status) {
    static const char *const texts[] = {
        [SL_OK] = "success",
        [SL_INVALID] = "the caller broke a rule of this API",
        [SL_NO_MEMORY] = "not enough memory, or the budget is too small",
        [SL_IO] = "a read or write failed",
        [SL_FORMAT] = "a file is malformed",
        [SL_UNSUPPORTED] = "no kernel, architecture or option for this",
        [SL_DEVICE] = "the device reported an error",
        [SL_CANCELLED] = "the caller asked to stop",
        [SL_BUSY] = "a queue is full, try again later",
    };
    return (unsigned)status < sizeof texts / sizeof texts[0] ? texts[status] : "unknown status";
}
