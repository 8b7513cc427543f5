#include "runtime/cuda/ranges.h"
#include <dlfcn.h>
#include <stddef.h>

void sl_cuda_ranges_open(sl_cuda_ranges *ranges) {
    *ranges = (sl_cuda_ranges){.library = dlopen("libnvToolsExt.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!ranges->library) return;
    *(void **)&ranges->push = dlsym(ranges->library, "nvtxRangePushA");
    *(void **)&ranges->pop = dlsym(ranges->library, "nvtxRangePop");
    if (!ranges->push || !ranges->pop) sl_cuda_ranges_close(ranges);
}

void sl_cuda_ranges_close(sl_cuda_ranges *ranges) {
    if (ranges->library) (void)dlclose(ranges->library);
    *ranges = (sl_cuda_ranges){0};
}
