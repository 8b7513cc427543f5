/* ranges.h - Names of runs and steps in the timelines of CUDA's tools (NVTX).
 *
 * Tools listen where libnvToolsExt.so.1 is installed; elsewhere nothing is called. */
#ifndef SL_RUNTIME_CUDA_RANGES_H
#define SL_RUNTIME_CUDA_RANGES_H

typedef struct {
    void *library;
    int (*push)(const char *name); /* NULL: nobody listens */
    int (*pop)(void);
} sl_cuda_ranges;

void sl_cuda_ranges_open(sl_cuda_ranges *ranges);
void sl_cuda_ranges_close(sl_cuda_ranges *ranges);
static inline void sl_cuda_range_begin(const sl_cuda_ranges *ranges, const char *name) {
    if (ranges->push) (void)ranges->push(name);
}
static inline void sl_cuda_range_end(const sl_cuda_ranges *ranges) {
    if (ranges->push) (void)ranges->pop();
}
#endif
