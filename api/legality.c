/* legality.c - What becomes of a graph on a device, without the device (sluice/experimental.h). */
#include "api/needs.h"
#include "base/structs.h"
#include "compiler/compile.h"
#include "compiler/passes/legalise.h"
#include "runtime/devices.h"
#include "sluice/experimental.h"

struct sl_legality {
    sl_arena arena;
    sl_legality_log log;
};

/* What is legal must compile, fused as it is for the device. */
static sl_status try_compile(const sl_graph *graph, const sl_target *target, sl_error *err) {
    const sl_compiler_options options = sl_compiler_options_for(target);
    sl_graph *copy;
    sl_program *program = NULL;
    SL_TRY(sl_graph_copy(graph, NULL, &copy, err));
    const sl_status status = sl_compile_graph(copy, &options, NULL, &program, err);
    sl_program_destroy(program);
    sl_graph_destroy(copy);
    return status;
}

static bool is_legal(const sl_legality *l) {
    for (uint32_t i = 0; i < l->log.count; i++)
        if (l->log.rows[i].kind == SL_LEGAL_UNSUPPORTED) return false;
    return true;
}

sl_status sl_graph_legality(const sl_graph *graph, const char *device, sl_legality **out,
                            sl_error *err) {
    SL_NEED(graph && out);
    const sl_device_row *row;
    sl_arena arena;
    SL_TRY(sl_device_find(device, &row, err));
    sl_arena_init(&arena, NULL);
    sl_legality *l = SL_ARENA_NEW(&arena, sl_legality);
    if (!l) return sl_no_memory(err, "a report", sizeof *l);
    l->arena = arena;
    l->log = (sl_legality_log){.arena = &l->arena};
    sl_status status = sl_legality_report(graph, row->target, &l->log, err);
    if (status == SL_OK && is_legal(l)) status = try_compile(graph, row->target, err);
    if (status == SL_OK)
        *out = l;
    else
        sl_legality_destroy(l);
    return status;
}

uint32_t sl_legality_count(const sl_legality *l) {
    SL_NEED_OR(0, l);
    return l->log.count;
}

sl_status sl_legality_at(const sl_legality *l, uint32_t index, sl_legality_item *out,
                         sl_error *err) {
    SL_NEED(l && out);
    SL_TRY(SL_STRUCT_CHECK(sl_legality_item, out, err));
    if (index >= l->log.count)
        return sl_fail(err, SL_INVALID, "a report of %u nodes, asked for node %u", l->log.count,
                       index);
    static const char *const kinds[] = {"native", "rewritten", "unsupported"};
    const sl_legality_row *row = &l->log.rows[index];
    const sl_legality_item item = {
        .node = row->label, .op = row->op, .status = kinds[row->kind], .detail = row->detail};
    SL_STRUCT_GIVE(sl_legality_item, out, &item);
    return SL_OK;
}

void sl_legality_destroy(sl_legality *l) {
    if (!l) return;
    sl_arena arena = l->arena;
    sl_arena_deinit(&arena);
}
