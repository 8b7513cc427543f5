/* status.h - Status codes, error messages and allocators. */
#ifndef SLUICE_STATUS_H
#define SLUICE_STATUS_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define SL_API     __attribute__((visibility("default")))
#define SL_CHECKED __attribute__((warn_unused_result))

#define SL_STATUSES(S)                                                                             \
    S(OK, "success")                                                                               \
    S(INVALID, "the caller broke a rule of this API")                                              \
    S(NO_MEMORY, "not enough memory, or the budget is too small")                                  \
    S(IO, "a read or write failed")                                                                \
    S(FORMAT, "a file is malformed")                                                               \
    S(UNSUPPORTED, "no kernel or architecture for this")                                           \
    S(DEVICE, "the device reported an error")                                                      \
    S(CANCELLED, "the caller asked to stop")
#define SL_STATUS_ENUM(name, text) SL_##name,
typedef enum { SL_STATUSES(SL_STATUS_ENUM) SL_STATUS_COUNT } sl_status;

/* An error: one line that names the object, what was found and what was wanted. */
typedef struct {
    sl_status status;
    char message[508];
} sl_error;
SL_API const char *sl_status_text(sl_status status);

/* Releases memory that a function has handed over: texts and bytes, where it is said.  NULL is
 * allowed. */
SL_API void sl_free(void *memory);

/* resize(ctx, ptr, old, new, align): allocate, grow or free (new == 0); NULL on failure.
 * align is a power of two and must be the same in every call for one block. */
typedef struct {
    void *(*resize)(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes, size_t align);
    void *ctx;
} sl_allocator;

#ifdef __cplusplus
}
#endif
#endif
