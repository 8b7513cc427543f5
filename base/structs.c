#include "base/structs.h"
#include <string.h>

/* No public struct comes near it: what is larger is not a size. */
enum { MOST_BYTES = 1 << 16 };

static size_t size_of(const void *given) {
    size_t bytes;
    memcpy(&bytes, given, sizeof bytes);
    return bytes;
}

sl_status sl_struct_check(sl_struct type, const void *given, sl_error *err) {
    const size_t bytes = size_of(given);
    if (bytes >= sizeof bytes && bytes <= MOST_BYTES) return SL_OK;
    return sl_fail(err, SL_INVALID,
                   "%s: struct_size is %zu, must be the sizeof of the struct (%zu)", type.name,
                   bytes, type.known_bytes);
}

sl_status sl_struct_take(sl_struct type, void *out, const void *given, sl_error *err) {
    if (!given) return SL_OK;
    SL_TRY(sl_struct_check(type, given, err));
    const size_t bytes = size_of(given);
    for (size_t i = type.known_bytes; i < bytes; i++)
        if (((const unsigned char *)given)[i])
            return sl_fail(err, SL_UNSUPPORTED,
                           "%s: a field beyond its first %zu bytes is set, which this version of "
                           "sluice does not know",
                           type.name, type.known_bytes);
    memcpy(out, given, bytes < type.known_bytes ? bytes : type.known_bytes);
    return SL_OK;
}

void sl_struct_give(sl_struct type, void *out, const void *found) {
    const size_t bytes = size_of(out), size = sizeof bytes;
    const size_t both = bytes < type.known_bytes ? bytes : type.known_bytes;
    memcpy((char *)out + size, (const char *)found + size, both - size);
    memset((char *)out + both, 0, bytes - both);
}
