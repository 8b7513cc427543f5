/* compare.c - Compares a forward pass on two devices, step by step.
 *
 * Each step starts from the same inputs on both: the operands of the second device are copied to
 * the first, or passed to the evaluator if the first is "ref".  So a difference is caused by the
 * step itself, not by earlier ones. */
#include "compiler/ops/semantics.h"
#include "core/codec.h"
#include "engine/inspect/inspect.h"
#include "engine/session/compile_options.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_OPERANDS = SL_MAX_INPUTS + SL_MAX_OUTPUTS, ALIGNMENT = 64 };

/* One side: a device, or the reference where executable is NULL. */
typedef struct {
    sl_model *model;
    sl_forward *forward;
    sl_prepared_forward step;
} side;

typedef struct {
    side a, b;
    const sl_program *program; /* b's; a's is the same */
    double tolerance;
    sl_arena arena;              /* of one step */
    void *bytes[MOST_OPERANDS];  /* as b has them, before the step and then after it */
    double *want[MOST_OPERANDS]; /* results of a */
    sl_compare_report *report;
} comparison;

/* ---- sides ---- */

/* Each device keeps keys and values as suits it; here both keep them alike. */
static sl_dtype common_kv_dtype(const comparison *c) {
    const sl_dtype a = sl_forward_options_of(c->a.model->forward)->shape.kv_dtype;
    const sl_dtype b = sl_forward_options_of(c->b.model->forward)->shape.kv_dtype;
    return a == b || !c->a.model->device ? b : SL_DTYPE_f16;
}

static sl_status open_side(side *s, const comparison *c, const sl_compare_options *options,
                           const sl_compiler_options *compile, sl_error *err) {
    sl_forward_options given = *sl_forward_options_of(s->model->forward);
    const uint32_t rows = options->tokens ? options->tokens : 1;
    given.compile = *compile;
    given.shape.kv_dtype = common_kv_dtype(c);
    given.shape.slots = 1;
    given.shape.pages = 0;
    if (!s->model->device) return SL_OK;
    given.chunk_rows = 0;
    SL_TRY(sl_forward_create(&given, &s->forward, err));
    SL_TRY(sl_forward_bind(s->forward, given.experts_source, err));
    return sl_forward_prepare(s->forward, rows, 1, &s->step, err);
}

static sl_status set_rows(const side *s, const sl_compare_options *options, sl_error *err) {
    const uint32_t count = options->tokens ? options->tokens : 1;
    int32_t tokens[SL_MAX_FORWARD_ROWS], slots[SL_MAX_FORWARD_ROWS], positions[SL_MAX_FORWARD_ROWS];
    const int32_t last = (int32_t)count - 1;
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = (int32_t)(((uint64_t)i * 7919 + 17) % s->model->config.vocab);
        slots[i] = 0;
        positions[i] = (int32_t)i;
    }
    const sl_forward_rows rows = {.count = count,
                                  .wanted = 1,
                                  .tokens = tokens,
                                  .slots = slots,
                                  .positions = positions,
                                  .wanted_rows = count > 1 ? &last : NULL};
    return sl_forward_set_rows(s->forward, &rows, err);
}

static sl_buffer_kind kind_of(const comparison *c, const sl_operand *operand) {
    return c->program->buffers[operand->buffer.v].kind;
}
/* Bytes that a run makes or changes, as opposed to those that are the same on both sides. */
static bool is_carried(const comparison *c, const sl_operand *operand) {
    const sl_buffer_kind kind = kind_of(c, operand);
    return kind == SL_BUFFER_TEMP || kind == SL_BUFFER_OUTPUT || kind == SL_BUFFER_STATE ||
           kind == SL_BUFFER_INPUT;
}
static bool is_written(const sl_step *step, uint32_t operand) {
    const sl_op_info *info = sl_op_info_of(step->op);
    return operand >= info->input_count || info->input_kinds[operand] == SL_OPERAND_STATE;
}

static double *decode(comparison *c, const sl_type *type, const void *bytes) {
    double *out = SL_ARENA_NEW_ARRAY(&c->arena, double, sl_type_elements(type));
    if (out) sl_decode_tensor(type, bytes, out);
    return out;
}

/* What b has of each operand, and for a the same. */
static sl_status carry(comparison *c, const sl_step *step, sl_error *err) {
    const sl_device_ops *b = c->b.model->device->ops;
    for (uint32_t i = 0; i < step->operand_count; i++) {
        const sl_operand *operand = &step->operands[i];
        c->bytes[i] = NULL;
        if (!is_carried(c, operand)) continue;
        const uint64_t bytes = sl_type_bytes(&operand->type);
        c->bytes[i] = sl_arena_alloc(&c->arena, bytes, ALIGNMENT);
        if (!c->bytes[i]) return sl_no_memory(err, "an operand", bytes);
        if (i >= sl_op_info_of(step->op)->input_count) continue;
        SL_TRY(b->read(c->b.step.executable, operand, c->bytes[i], err));
        if (c->a.step.executable)
            SL_TRY(c->a.model->device->ops->write(c->a.step.executable, operand, c->bytes[i], err));
    }
    return SL_OK;
}

/* ---- the first side's results ---- */

static sl_status run_device(comparison *c, uint32_t s, sl_error *err) {
    const sl_step *step = &c->program->steps[s];
    const sl_device_ops *a = c->a.model->device->ops;
    SL_TRY(a->run_step(c->a.step.executable, s, err));
    for (uint32_t i = 0; i < step->operand_count; i++) {
        if (!is_written(step, i)) continue;
        const sl_type *type = &step->operands[i].type;
        void *bytes = sl_arena_alloc(&c->arena, sl_type_bytes(type), ALIGNMENT);
        if (!bytes) return sl_no_memory(err, "a result", sl_type_bytes(type));
        SL_TRY(a->read(c->a.step.executable, &step->operands[i], bytes, err));
        c->want[i] = decode(c, type, bytes);
        if (!c->want[i]) return sl_no_memory(err, "a result", sl_type_bytes(type));
    }
    return SL_OK;
}

static sl_status tensor_of(comparison *c, const sl_step *step, uint32_t i, sl_eval_tensor *out,
                           sl_error *err) {
    const sl_operand *operand = &step->operands[i];
    const sl_buffer *buffer = &c->program->buffers[operand->buffer.v];
    out->type = operand->type;
    if (buffer->kind == SL_BUFFER_EXPERTS) {
        out->source = sl_expert_store_source(c->a.model->store);
    } else if (buffer->kind == SL_BUFFER_WEIGHT) {
        const sl_weight *weight = sl_weights_find(&c->a.model->weights, buffer->name);
        if (!weight) return sl_fail(err, SL_INVALID, "there is no weight '%s'", buffer->name);
        out->coded = (const char *)weight->data + operand->offset_bytes;
        if (sl_dtype_infos[operand->type.dtype].kind != SL_KIND_PANEL)
            out->data = decode(c, &operand->type, out->coded);
    } else {
        const void *bytes = buffer->kind == SL_BUFFER_CONSTANT
                                ? (const char *)buffer->data + operand->offset_bytes
                                : c->bytes[i];
        c->want[i] = out->data = decode(c, &operand->type, bytes);
        if (!out->data) return sl_no_memory(err, "an operand", sl_type_bytes(&operand->type));
    }
    return SL_OK;
}

static sl_status run_reference(comparison *c, const sl_step *step, sl_error *err) {
    const sl_op_info *info = sl_op_info_of(step->op);
    const uint32_t results = step->operand_count - step->input_count;
    const uint32_t out_count = info->outs_name ? results : info->output_count;
    sl_eval_tensor *in = SL_ARENA_NEW_ARRAY(&c->arena, sl_eval_tensor, step->input_count + 1);
    sl_eval_tensor *out = SL_ARENA_NEW_ARRAY(&c->arena, sl_eval_tensor, out_count + 1);
    if (!in || !out) return sl_no_memory(err, "operands", step->operand_count);
    for (uint32_t i = 0; i < step->input_count; i++) SL_TRY(tensor_of(c, step, i, &in[i], err));
    uint32_t operand = step->input_count;
    for (uint32_t o = 0; o < out_count; o++) {
        const int32_t state = sl_output_state(info, o);
        if (state >= 0) {
            out[o] = in[state];
            continue;
        }
        const sl_type *type = &step->operands[operand].type;
        out[o] = (sl_eval_tensor){
            .type = *type, .data = SL_ARENA_NEW_ARRAY(&c->arena, double, sl_type_slots(type))};
        if (!out[o].data) return sl_no_memory(err, "a result", sl_type_bytes(type));
        c->want[operand++] = out[o].data;
    }
    const sl_eval_args args = {step->label,       in,       step->attrs, out, &c->arena,
                               step->input_count, out_count};
    return sl_eval(step->op, &args, err);
}

/* ---- differences ---- */

static sl_compare_row *row_of(sl_compare_report *report, const char *op) {
    for (uint32_t i = 0; i < report->op_count; i++)
        if (strcmp(report->ops[i].name, op) == 0) return &report->ops[i];
    if (report->op_count == SL_COMPARE_ROWS) return NULL;
    sl_compare_row *row = &report->ops[report->op_count++];
    (void)snprintf(row->name, sizeof row->name, "%s", op);
    return row;
}

static void note_first(comparison *c, const sl_step *step, uint32_t operand, int64_t index,
                       const double values[2]) {
    const sl_op_info *info = sl_op_info_of(step->op);
    sl_compare_report *r = c->report;
    if (r->differs) return;
    r->differs = 1;
    (void)snprintf(r->label, sizeof r->label, "%s", step->label);
    (void)snprintf(r->operand, sizeof r->operand, "%s",
                   operand < info->input_count ? info->input_names[operand]
                                               : info->output_names[operand - info->input_count]);
    r->index = (uint64_t)index;
    r->values[0] = values[0];
    r->values[1] = values[1];
}

/* ‖b - a‖ / ‖a‖, and where they are furthest apart. */
static sl_status compare_operand(comparison *c, const sl_step *step, uint32_t i, sl_error *err) {
    const sl_type *type = &step->operands[i].type;
    const double *want = c->want[i];
    const double *got = decode(c, type, c->bytes[i]);
    if (!got) return sl_no_memory(err, "a result", sl_type_bytes(type));
    double error = 0, norm = 0, furthest = -1;
    int64_t index = 0;
    for (int64_t e = 0; e < sl_type_elements(type); e++) {
        const bool both_nan = isnan(got[e]) && isnan(want[e]);
        const double apart = both_nan || got[e] == want[e] ? 0 : fabs(got[e] - want[e]);
        if (!(apart <= furthest)) furthest = apart, index = e;
        error += apart * apart;
        if (isfinite(want[e])) norm += want[e] * want[e];
    }
    const double relative = error > 0 ? sqrt(error / (norm > 0 ? norm : 1)) : error;
    sl_compare_row *row = row_of(c->report, sl_op_info_of(step->op)->name);
    if (row) {
        row->steps++;
        if (!(relative <= row->worst)) row->worst = relative;
    }
    const bool whole = sl_dtype_infos[type->dtype].kind == SL_KIND_INT;
    if (!(relative <= (whole ? 0 : c->tolerance)))
        note_first(c, step, i, index, (const double[]){want[index], got[index]});
    return SL_OK;
}

/* A state is not defined where nothing was written, so only what was changed is looked at. */
static sl_status compare_step(comparison *c, uint32_t s, sl_error *err) {
    const sl_step *step = &c->program->steps[s];
    const sl_device_ops *b = c->b.model->device->ops;
    memset(c->want, 0, sizeof c->want);
    SL_TRY(carry(c, step, err));
    SL_TRY(c->a.step.executable ? run_device(c, s, err) : run_reference(c, step, err));
    SL_TRY(b->run_step(c->b.step.executable, s, err));
    for (uint32_t i = 0; i < step->operand_count; i++) {
        if (!is_written(step, i)) continue;
        SL_TRY(b->read(c->b.step.executable, &step->operands[i], c->bytes[i], err));
        SL_TRY(compare_operand(c, step, i, err));
    }
    c->report->steps++;
    return SL_OK;
}

static sl_status run(comparison *c, const sl_compare_options *options, sl_error *err) {
    sl_compiler_options compile = sl_compiler_options_for_model(NULL);
    SL_TRY(sl_compiler_options_parse(options->compile, &compile, err));
    compile.target = sl_forward_options_of(c->b.model->forward)
                         ->compile.target; /* both run the second's program */
    SL_TRY(open_side(&c->a, c, options, &compile, err));
    SL_TRY(open_side(&c->b, c, options, &compile, err));
    c->program = c->b.step.program;
    if (c->a.step.program && c->a.step.program->step_count != c->program->step_count)
        return sl_fail(err, SL_INVALID, "the two devices have programs of %u and %u steps",
                       c->a.step.program->step_count, c->program->step_count);
    if (c->a.forward) SL_TRY(set_rows(&c->a, options, err));
    SL_TRY(set_rows(&c->b, options, err));
    c->tolerance = options->tolerance > 0     ? options->tolerance
                   : compile.int8_activations ? 2e-3
                                              : 5e-5;
    c->report->tolerance = c->tolerance;
    for (uint32_t s = 0; s < c->program->step_count; s++) {
        sl_arena_init(&c->arena, NULL);
        const sl_status status = compare_step(c, s, err);
        sl_arena_deinit(&c->arena);
        SL_TRY(status);
    }
    return SL_OK;
}

sl_status sl_compare_steps(sl_model *first, sl_model *second, const sl_compare_options *options,
                           sl_compare_report *out, sl_error *err) {
    comparison c = {.a.model = first, .b.model = second, .report = out};
    const sl_status status = run(&c, options, err);
    sl_forward_destroy(c.a.forward);
    sl_forward_destroy(c.b.forward);
    return status;
}
