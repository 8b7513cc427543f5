/* forward_states.h - The memory of states, which is the device's own. */
#ifndef SL_ENGINE_SESSION_FORWARD_STATES_H
#define SL_ENGINE_SESSION_FORWARD_STATES_H
#include "engine/session/forward.h"

enum { SL_STATE_ALIGN = 64 };

void *sl_state_allocate(const sl_forward_options *options, uint64_t bytes); /* NULL: no memory */
void sl_state_release(const sl_forward_options *options, void *data, uint64_t bytes);
/* From state memory to state memory. */
SL_CHECKED sl_status sl_state_copy(const sl_forward *forward, void *to, const void *from,
                                   uint64_t bytes, sl_error *err);
/* Copies one page of the KV cache to another; ctx is the sl_forward. */
SL_CHECKED sl_status sl_forward_copy_page(void *ctx, int32_t from, int32_t to, sl_error *err);
#endif
