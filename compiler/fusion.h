/* fusion.h - What the passes that fuse nodes did, and where a rule matched but could not be
 * applied.
 */
#ifndef SL_COMPILER_FUSION_H
#define SL_COMPILER_FUSION_H
#include "base/memory.h"

typedef struct {
    const char *pattern, *label; /* of the consumer */
    const char *reason;          /* NULL: fused; else why not */
} sl_fusion_row;
typedef struct {
    sl_arena *arena; /* of the rows, set by the caller of sl_compile_graph */
    sl_fusion_row *rows;
    uint32_t row_count;
    uint32_t fused_nodes; /* nodes that were fused into others */
} sl_fusion_report;
#endif
