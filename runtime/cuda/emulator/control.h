/* control.h - What tests ask of the emulated driver beyond CUDA, by dlsym. */
#ifndef SL_RUNTIME_CUDA_EMULATOR_CONTROL_H
#define SL_RUNTIME_CUDA_EMULATOR_CONTROL_H
#include <stdbool.h>
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { EMULATED_ARGS_BYTES = 1024 }; /* as SL_GPU_ARGS_BYTES */

/* What exists now, and calls and launches so far. */
typedef struct {
    long contexts, device_blocks, host_blocks, streams, events, modules, graphs;
    long calls, launches;
} emulated_counts;

#define EMULATED_API __attribute__((visibility("default")))
/* The call of a function after `after` more succeeds no longer but gives result; once, or lasting
 * from then on.  Result 0: no more failures.  The version of the driver is a result, too. */
EMULATED_API void emulated_fail(const char *symbol, int after, int result, bool lasting);
EMULATED_API void emulated_set_memory(size_t bytes); /* of the device; 0: as at first */
/* Edges are left out of graphs from now on: the one after `after` more, once; -1: none. */
EMULATED_API void emulated_drop_edge(int after);
EMULATED_API emulated_counts emulated_count(void);
/* Tells the CUDA device that no file of compiled kernels is needed (driver.h). */
EMULATED_API extern const int sluice_kernels_built_in;
#ifdef __cplusplus
}
#endif
#endif
