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
#define SL_STATUS_TEXT(name, text) text,
        SL_STATUSES(SL_STATUS_TEXT)
#undef SL_STATUS_TEXT
    };
    return (unsigned)status < SL_STATUS_COUNT ? texts[status] : "unknown status";
}
