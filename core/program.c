#include "core/program.h"
#include <string.h>

void sl_program_destroy(sl_program *program) {
    if (!program) return;
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t b = 0; b < program->steps[s].body_count; b++)
            sl_program_destroy(program->steps[s].bodies[b]);
    sl_arena arena = program->arena; /* the program itself lives in it */
    sl_arena_deinit(&arena);
}

bool sl_program_find(const sl_program *program, const char *name, sl_buffer_id *out) {
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const char *candidate = program->buffers[b].name;
        if (candidate && strcmp(candidate, name) == 0) {
            *out = (sl_buffer_id){b};
            return true;
        }
    }
    return false;
}
