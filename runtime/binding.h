/* binding.h - The common part of the executables of all devices: the addresses of buffers. */
#ifndef SL_RUNTIME_BINDING_H
#define SL_RUNTIME_BINDING_H
#include "core/program.h"

typedef struct {
    const sl_program *program;
    void **data; /* [buffer]: NULL until bound; an OUTPUT that is not bound is in the arena */
    sl_expert_source **sources; /* [buffer] of kind EXPERTS */
} sl_binding;

SL_CHECKED sl_status sl_binding_init(sl_binding *binding, const sl_program *program,
                                     sl_arena *arena, sl_error *err);
SL_CHECKED sl_status sl_binding_set(sl_binding *binding, sl_buffer_id buffer, void *data,
                                    sl_error *err);
SL_CHECKED sl_status sl_binding_set_experts(sl_binding *binding, sl_buffer_id buffer,
                                            sl_expert_source *source, sl_error *err);
/* Fails and names the first buffer that is not bound. */
SL_CHECKED sl_status sl_binding_check(const sl_binding *binding, sl_error *err);
/* The address of an operand, given the address of the arena. */
void *sl_binding_resolve(const sl_binding *binding, const sl_operand *operand, void *arena);
#endif
