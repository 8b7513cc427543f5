/* options.h - Option structs of callers that were compiled with another version. */
#ifndef SL_API_OPTIONS_H
#define SL_API_OPTIONS_H
#include <stddef.h>
#include <string.h>

/* Copies the options that both versions of a struct have; the others are left as they are.  Every
 * option struct begins with its struct_size.  given may be NULL. */
static inline void sl_options_copy(void *out, size_t known_bytes, const void *given) {
    size_t given_bytes;
    if (!given) return;
    memcpy(&given_bytes, given, sizeof given_bytes);
    memcpy(out, given, given_bytes < known_bytes ? given_bytes : known_bytes);
}
#endif
