/* forward.c - Records and proves a forward pass of a model. */
#include "engine/inspect/record.h"

typedef struct {
    sl_model *model;
    const sl_record_plan *plan;
    sl_arena arena;
    sl_forward *forward;
    sl_prepared_forward step;
    int32_t *tokens, *slots, *positions;
} pass;

static sl_status prepare(pass *p, sl_error *err) {
    const uint32_t rows = p->plan->rows;
    sl_forward_options options = *sl_forward_options_of(p->model->forward);
    options.compile = p->plan->compile;
    options.shape.slots = 1;
    options.shape.pages = 0;
    options.chunk_rows = 0;
    p->tokens = SL_ARENA_NEW_ARRAY(&p->arena, int32_t, rows);
    p->slots = SL_ARENA_NEW_ARRAY(&p->arena, int32_t, rows);
    p->positions = SL_ARENA_NEW_ARRAY(&p->arena, int32_t, rows);
    if (!p->tokens || !p->slots || !p->positions)
        return sl_no_memory(err, "a forward pass", rows * sizeof *p->tokens);
    SL_TRY(sl_forward_create(&options, &p->forward, err));
    SL_TRY(sl_forward_bind(p->forward, options.experts_source, err));
    return sl_forward_prepare(p->forward, rows, p->plan->wanted, &p->step, err);
}

/* Any tokens do: spread over the vocabulary, other ones in each run.  The first run starts at
 * position 0, which resets the recurrent state. */
static void choose_rows(pass *p, uint32_t run) {
    const uint32_t rows = p->plan->rows;
    const uint32_t fitting = (p->model->context_tokens - p->plan->depth) / rows;
    const uint32_t next = p->plan->depth + (fitting ? run % fitting * rows : 0);
    const uint32_t start = run == 0 ? 0 : next;
    for (uint32_t i = 0; i < rows; i++) {
        p->tokens[i] = (int32_t)(((uint64_t)(run * rows + i) * 7919 + 17) % p->model->config.vocab);
        p->positions[i] = (int32_t)(start + i);
    }
}

static sl_status run_once(void *ctx, uint32_t run, sl_error *err) {
    pass *p = ctx;
    const uint32_t rows = p->plan->rows, wanted = p->plan->wanted;
    const int32_t last = (int32_t)rows - 1;
    choose_rows(p, run);
    const sl_forward_rows step = {.count = rows,
                                  .wanted = wanted,
                                  .tokens = p->tokens,
                                  .slots = p->slots,
                                  .positions = p->positions,
                                  .wanted_rows = wanted == 1 && rows > 1 ? &last : NULL};
    sl_forward_result result;
    return sl_forward_run(p->forward, &step, &result, err);
}

static sl_status record(pass *p, sl_inspect_report *report, sl_error *err) {
    SL_TRY(prepare(p, err));
    const sl_runnable what = {.device = p->model->device,
                              .executable = p->step.executable,
                              .program = p->step.program,
                              .store = p->model->store,
                              .run = run_once,
                              .ctx = p};
    if (p->plan->prove) SL_TRY(sl_prove(&what, report, err));
    if (!p->plan->runs) return SL_OK;
    if (p->plan->depth) SL_TRY(sl_forward_fake_kv(p->forward, 0, p->model->context_tokens, err));
    return sl_record(&what, p->plan->runs, p->plan->trace_path, report, err);
}

sl_status sl_record_forward(sl_model *model, const sl_record_plan *plan, sl_inspect_report *report,
                            sl_error *err) {
    pass p = {.model = model, .plan = plan};
    const bool proves = plan->prove && model->device && model->device->ops->prove;
    if (!model->device || (!plan->runs && !proves)) return SL_OK;
    sl_arena_init(&p.arena, &model->allocator);
    (void)pthread_mutex_lock(&model->lock);
    const sl_status status = record(&p, report, err);
    sl_forward_destroy(p.forward);
    (void)pthread_mutex_unlock(&model->lock);
    sl_arena_deinit(&p.arena);
    return status;
}
