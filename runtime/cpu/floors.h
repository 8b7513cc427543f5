/* floors.h - The size of the memory whose bandwidth is measured. */
#ifndef SL_RUNTIME_CPU_FLOORS_H
#define SL_RUNTIME_CPU_FLOORS_H
#include <stdint.h>

/* Of a block that is read, when so many bytes are available (0: unknown): at most half of them, and
 * beyond the caches where that allows it.  0: there is no room for any. */
uint64_t sl_floors_block_bytes(uint64_t available);
#endif
