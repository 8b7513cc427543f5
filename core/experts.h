/* experts.h - The interface through which a step gets expert weights.
 *
 * The runtime calls it, the engine implements it.  For one layer at a time: request() names the
 * experts that are about to be used and starts their reads; workers then take() experts as they
 * arrive, in any order, compute, and release() them.  take() and release() are called by several
 * threads. */
#ifndef SL_CORE_EXPERTS_H
#define SL_CORE_EXPERTS_H
#include "core/ids.h"
#include "core/type.h"

typedef struct {
    int32_t expert;          /* -1: every requested expert has been taken */
    sl_slot_id slot;         /* private to the source */
    sl_cview gate, up, down; /* [I,H] [I,H] [H,I]; readable until released */
} sl_expert_lease;

typedef struct sl_expert_source sl_expert_source;
struct sl_expert_source {
    /* experts: ascending and distinct.  Never blocks on reads.  Any earlier request must have
     * been taken and released in full, or is abandoned here. */
    sl_status (*request)(sl_expert_source *source, sl_layer_id layer, const int32_t *experts,
                         uint32_t count, sl_error *err);
    /* Blocks until some requested, not yet taken expert is in memory.  After an error every later
     * take of the same request fails too. */
    sl_status (*take)(sl_expert_source *source, sl_layer_id layer, sl_expert_lease *out,
                      sl_error *err);
    void (*release)(sl_expert_source *source, const sl_expert_lease *lease);
    /* The maximum number of simultaneous leases; taking more before one is released would
     * deadlock.  0: no limit. */
    uint32_t most_leases;
};

/* The operand of a streaming kernel; laid out like sl_cview. */
typedef struct {
    sl_expert_source *source;
    sl_type type; /* [experts, I, H] of the gate matrices */
} sl_experts_view;
#endif
