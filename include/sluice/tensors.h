/* tensors.h - Read and write safetensors files.  The rules for pointers are those of sluice.h. */
#ifndef SLUICE_TENSORS_H
#define SLUICE_TENSORS_H
#include "sluice/status.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_tensors sl_tensors; /* an open file */
/* A tensor; what a file gives is borrowed from it until it is closed. */
typedef struct {
    const char *name, *dtype; /* dtype: "f32", "bf16", "i32", ... */
    uint32_t rank;
    int64_t dims[8];
    const void *data; /* aligned to 64 bytes, in the byte order of this machine */
    size_t bytes;
} sl_tensor_item; /* closed */

/* Reads the whole file into memory. */
SL_API SL_CHECKED sl_status sl_tensors_open(const char *path, sl_tensors **out, sl_error *err);
SL_API void sl_tensors_close(sl_tensors *tensors); /* NULL is fine */
SL_API uint32_t sl_tensors_count(const sl_tensors *tensors);
/* index: less than the count. */
SL_API SL_CHECKED sl_status sl_tensors_at(const sl_tensors *tensors, uint32_t index,
                                          sl_tensor_item *out, sl_error *err);
/* The error message for a missing tensor lists the names that exist. */
SL_API SL_CHECKED sl_status sl_tensors_find(const sl_tensors *tensors, const char *name,
                                            sl_tensor_item *out, sl_error *err);
/* Items and their data are borrowed during the call.  The file is written under a temporary name
 * and renamed; no file is left behind on failure. */
SL_API SL_CHECKED sl_status sl_tensors_write(const char *path, const sl_tensor_item *items,
                                             uint32_t count, sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
