#include "compiler/compile.h"

sl_status sl_compile_graph(const sl_graph *graph, const sl_allocator *allocator, sl_program **out,
                           sl_error *err) {
    sl_status status = SL_OK;
    sl_program *program = NULL;
    SL_TRY(sl_graph_check(graph, err));
    SL_TRY(sl_graph_verify(graph, err));
    SL_TRY(sl_lower(graph, allocator, &program, err));
    SL_TRY_ELSE(done, sl_schedule(program, err));
    SL_TRY_ELSE(done, sl_plan(program, err));
    *out = program;
    program = NULL;
done:
    sl_program_destroy(program);
    return status;
}
