/* images.c - Finds and opens the file of compiled kernels. */
#include "runtime/cuda/images.h"
#include "runtime/cuda/stamp.h" /* made by the build: a hash of the kernels' sources */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "sluice-cuda.so"
#ifndef SL_LIBRARIES_FROM_PROGRAMS /* made by the build: from the folder of programs to that of    \
                                      libraries */
#define SL_LIBRARIES_FROM_PROGRAMS "../lib"
#endif
/* With a file name behind it, a path of any length fits. */
enum { PATH_BYTES = PATH_MAX + 64 };

/* The folder of the program or shared library that contains this code; "" if it is not known. */
static void own_folder(char folder[PATH_MAX]) {
    Dl_info info;
    struct link_map *map = NULL;
    folder[0] = 0;
    if (!dladdr1((const void *)&sl_cuda_images_open, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return;
    if (map->l_name[0]) {
        if (strlen(map->l_name) < PATH_MAX) memcpy(folder, map->l_name, strlen(map->l_name) + 1);
    } else { /* the program itself, whose name may be relative to an earlier working directory */
        const ssize_t count = readlink("/proc/self/exe", folder, PATH_MAX - 1);
        folder[count > 0 ? count : 0] = 0;
    }
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
}

static sl_status missing(const char *folder, sl_error *err) {
    return sl_fail(err, SL_UNSUPPORTED,
                   "no CUDA kernels: neither %s/" FILE_NAME " nor %s/" SL_LIBRARIES_FROM_PROGRAMS
                   "/" FILE_NAME " exists; build it with `make CUDA=1` where nvcc is installed",
                   folder, folder);
}

static sl_status find_file(char path[PATH_BYTES], sl_error *err) {
    static const char *const places[] = {"", "/" SL_LIBRARIES_FROM_PROGRAMS};
    char folder[PATH_MAX];
    own_folder(folder);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const int length = snprintf(path, PATH_BYTES, "%s%s/" FILE_NAME, folder, places[i]);
        if (length > 0 && length < PATH_BYTES && access(path, R_OK) == 0) return SL_OK;
    }
    return missing(folder, err);
}

sl_status sl_cuda_images_open(const char *path, sl_cuda_images *out, sl_error *err) {
    char found[PATH_BYTES];
    *out = (sl_cuda_images){0};
    if (!path) {
        SL_TRY(find_file(found, err));
        path = found;
    }
    out->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!out->library) return sl_fail(err, SL_UNSUPPORTED, "CUDA kernels: %s", dlerror());
    out->images = dlsym(out->library, "sl_cuda_images");
    const char *stamp = dlsym(out->library, "sl_cuda_images_stamp");
    if (out->images && stamp && strcmp(stamp, SL_CUDA_STAMP) == 0) return SL_OK;
    sl_cuda_images_close(out);
    return sl_fail(err, SL_UNSUPPORTED,
                   "CUDA kernels: %s was built from other sources (%s) than this program (%s); "
                   "rebuild it with `make CUDA=1`",
                   path, stamp ? "stamp differs" : "no stamp", SL_CUDA_STAMP);
}

void sl_cuda_images_close(sl_cuda_images *images) {
    if (images->library) (void)dlclose(images->library);
    *images = (sl_cuda_images){0};
}
