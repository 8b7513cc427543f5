/* states.h - The memory of a model's states: pages of the KV cache, recurrent state of each
 * sequence, and what is sampled.  It is the device's own. */
#ifndef SL_ENGINE_SESSION_STATES_H
#define SL_ENGINE_SESSION_STATES_H
#include "compiler/graph.h"
#include "engine/models/architecture.h"
#include "runtime/device.h"

/* A state: what all slots, or pages, have of it, one after another (engine/session/slot.h). */
typedef struct {
    const char *name;
    char *data;          /* device memory; NULL before sl_states_allocate */
    uint64_t bytes_each; /* of one slot or page */
    sl_state_kind kind;
    const sl_type *type; /* as declared; without a device, elements are doubles */
} sl_forward_state;

typedef struct {
    sl_device *device; /* NULL: the reference evaluator, which keeps doubles */
    const sl_allocator *allocator;
    sl_forward_state *items; /* in the arena that they were found with */
    uint32_t count;
    uint64_t bytes; /* of all */
} sl_states;

/* Bytes that a state of a type takes. */
uint64_t sl_states_bytes(const sl_device *device, const sl_type *type);
/* Those that a graph declares, which is the first one that is made of the model.  There is room for
 * one more. */
SL_CHECKED sl_status sl_states_find(sl_states *states, const sl_graph *graph, sl_arena *arena,
                                    sl_error *err);
SL_CHECKED sl_status sl_states_add(sl_states *states, const sl_value_info *value, sl_arena *arena,
                                   sl_error *err);
/* They start undefined: every state op resets its slot at position 0, attention uses nothing beyond
 * what it wrote, and what was chosen is asked for only after a choice. */
SL_CHECKED sl_status sl_states_allocate(sl_states *states, sl_error *err);
void sl_states_release(sl_states *states);
/* Its memory; NULL: there is none of that name. */
void *sl_states_named(const sl_states *states, const char *name);

/* Bytes of one slot or page, of all states of a kind. */
uint64_t sl_states_bytes_each(const sl_states *states, sl_state_kind kind);
/* Copies a page of the KV cache to another. */
SL_CHECKED sl_status sl_states_copy_page(const sl_states *states, int32_t from, int32_t to,
                                         sl_error *err);
/* A checkpoint is a copy of the recurrent state of a slot. */
void *sl_states_checkpoint(const sl_states *states); /* NULL: no memory */
void sl_states_release_checkpoint(const sl_states *states, void *checkpoint);
SL_CHECKED sl_status sl_states_copy_recurrent(const sl_states *states, uint32_t slot,
                                              char *checkpoint, bool save, sl_error *err);
#endif
