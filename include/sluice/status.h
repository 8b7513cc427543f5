/* status.h - Status codes, error messages and allocators, and the rules for structs.
 *
 * A struct that may grow begins with struct_size, which the caller sets to the sizeof of the struct
 * that it was compiled with.  New fields are only ever appended.  Of a struct that is passed in, a
 * field that is zero or beyond struct_size means "default"; a field that this library does not know
 * must be zero, or the call is SL_UNSUPPORTED.  Of a struct that is filled in, struct_size bytes
 * are written and no more.  A struct_size of zero is SL_INVALID.  All other structs are closed:
 * they never change. */
#ifndef SLUICE_STATUS_H
#define SLUICE_STATUS_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define SL_API     __attribute__((visibility("default"))) /* exported */
#define SL_CHECKED __attribute__((warn_unused_result))    /* its result must be looked at */

typedef enum {
    SL_OK = 0,
    SL_INVALID = 1,     /* the caller broke a rule of this API */
    SL_NO_MEMORY = 2,   /* not enough memory, or the budget is too small */
    SL_IO = 3,          /* a read or write failed */
    SL_FORMAT = 4,      /* a file is malformed */
    SL_UNSUPPORTED = 5, /* no kernel, architecture or option for this */
    SL_DEVICE = 6,      /* the device reported an error */
    SL_CANCELLED = 7,   /* the caller asked to stop */
    SL_BUSY = 8         /* a queue is full; later it may not be */
} sl_status;

/* An error: one line that names the object, what was found and what was wanted.  Written only if
 * the function fails. */
typedef struct {
    sl_status status;
    char message[508];
} sl_error; /* closed */
/* What a status means, as a constant text. */
SL_API const char *sl_status_text(sl_status status);

/* Releases memory that a function has handed over: texts and bytes, where it is said.  NULL is
 * allowed. */
SL_API void sl_free(void *memory);

/* Memory of the caller's own.  resize(ctx, ptr, old, new, align): allocate, grow or free (new ==
 * 0); NULL on failure. align is a power of two and must be the same in every call for one block. */
typedef struct {
    void *(*resize)(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes, size_t align);
    void *ctx;
} sl_allocator; /* closed */

#ifdef __cplusplus
}
#endif
#endif
