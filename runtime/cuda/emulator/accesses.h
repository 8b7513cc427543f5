/* accesses.h - Checks what the kernels of a graph access against what orders them.
 *
 * A programmatic edge lets a kernel start once every block of its predecessor has called lead() or
 * ended; the predecessor has completed only after follow().  So two accesses to the same bytes, one
 * of them a write, by different nodes of a graph are right only if the earlier node has completed
 * when the later one makes the access:
 *   - when a thread has called follow(), all predecessors have completed; what came before them has
 *     too if they called follow() themselves, in any of their threads;
 *   - before follow(), only that has completed which a predecessor's lead() waited for.
 * Kernels are compiled so that every access to memory calls in here (the callbacks of
 * -fsanitize=thread, without its runtime); each 4 bytes of device memory remember the node that
 * wrote them last and the nodes that have read them since. */
#ifndef SL_RUNTIME_CUDA_EMULATOR_ACCESSES_H
#define SL_RUNTIME_CUDA_EMULATOR_ACCESSES_H
#include <cstddef>
#include <vector>

namespace emulated {
/* Device memory, aligned to 256 bytes; nullptr when there is none left. */
void *device_allocate(size_t bytes);
size_t device_release(void *block); /* how many bytes it had */

struct need {
    size_t node; /* which runs before */
    bool programmatic;
};

/* A graph runs: one node after another, each after those that it needs. */
void accesses_begin(size_t nodes);
void accesses_begin_node(size_t node, const char *kernel, const std::vector<need> &needs);
/* followed: a thread called follow().  led_late: a block let successors start only after that. */
void accesses_end_node(bool followed, bool led_late);
/* The first access that nothing orders, in one line; nullptr when there was none. */
const char *accesses_end();
} // namespace emulated
#endif
