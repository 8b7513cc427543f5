/* images.h - The compiled kernels, in a file of their own beside the program.
 *
 * sluice-cuda.so contains one compressed image per .cu file (cmake/cuda_kernels.cmake).  It is
 * opened when a CUDA device is created, so that programs and tests that never use a GPU do not
 * carry the kernels. */
#ifndef SL_RUNTIME_CUDA_IMAGES_H
#define SL_RUNTIME_CUDA_IMAGES_H
#include "base/error.h"

typedef struct {
    void *library;
    const void *const *images; /* for cuModuleLoadData; ends with NULL */
} sl_cuda_images;

/* Opens the file at path; NULL: the one beside this program or library, or the installed one.  The
 * message lists the places that were tried, or says that the file was built from other sources than
 * this program. */
SL_CHECKED sl_status sl_cuda_images_open(const char *path, sl_cuda_images *out, sl_error *err);
void sl_cuda_images_close(sl_cuda_images *images);
#endif
