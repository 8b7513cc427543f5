/* case_cuda.h - An op case on the CUDA device, as a program of one step or of what it is rewritten
 * to. For op_case.h. */
#ifndef SL_TESTS_SUPPORT_CASE_CUDA_H
#define SL_TESTS_SUPPORT_CASE_CUDA_H
#include "compiler/compile.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/kernel.h"
#include "tests/support/cuda_device.h"
#include <stdio.h>

static sl_value_kind cuda_kind(const op_case *c, uint32_t input) {
    if (c->source && input == c->inputs - 1) return SL_VALUE_EXPERTS;
    if (is_written(c, input)) return SL_VALUE_STATE;
    return sl_dtype_infos[c->types[input].dtype].kind == SL_KIND_PANEL ? SL_VALUE_WEIGHT
                                                                       : SL_VALUE_INPUT;
}

typedef struct {
    sl_program *program;
    sl_executable *exe;
    void *states[MAX_OPERANDS];
} cuda_run;

static const char *const cuda_names[] = {"i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7"};

static uint32_t cuda_outputs(const op_case *c) {
    const sl_op_info *info = sl_op_info_of(c->op);
    return info->outs_name ? c->operands - c->inputs : info->output_count;
}

static sl_program *cuda_program(const op_case *c) {
    sl_graph *graph;
    sl_program *program;
    sl_error err = {0};
    sl_value inputs[SL_MAX_INPUTS] = {{0}}, outputs[MAX_OPERANDS] = {{0}};
    const sl_op_info *info = sl_op_info_of(c->op);
    assert_int_equal(sl_graph_create("case", NULL, &graph, &err), SL_OK);
    for (uint32_t i = 0; i < c->inputs; i++)
        inputs[i] = sl_graph_declare(graph, cuda_kind(c, i), cuda_names[i], c->types[i]);
    static const char nothing[SL_MAX_ATTRS_BYTES];
    sl_graph_append_list(graph, c->op, (sl_values){c->inputs, inputs},
                         c->attrs ? c->attrs : nothing, (sl_value_slots){cuda_outputs(c), outputs});
    for (uint32_t o = 0; o < cuda_outputs(c); o++) {
        char name[16];
        (void)snprintf(name, sizeof name, "o%u", o);
        sl_graph_output(graph, name, outputs[o]);
    }
    const sl_compiler_options options = {
        .model = SL_SCHEDULE_EDGES, .no_fusion = true, .target = &sl_target_cuda};
    if (sl_compile_graph(graph, &options, NULL, &program, &err))
        fail_msg("%s: %s", info->name, err.message);
    sl_graph_destroy(graph);
    return program;
}

/* A copy that lasts: the device knows a weight by where it lies. */
static void *cuda_kept(const void *data, uint64_t bytes) {
    typedef struct kept {
        struct kept *before;
        _Alignas(64) char data[];
    } kept;
    static kept *last;
    void *fresh = NULL;
    assert_int_equal(posix_memalign(&fresh, 64, sizeof *last + bytes), 0);
    ((kept *)fresh)->before = last;
    last = fresh;
    return memcpy(last->data, data, bytes);
}

static void cuda_bind_input(const op_case *c, cuda_run *r, uint32_t i) {
    sl_device *device = cuda_device();
    sl_error err = {0};
    sl_buffer_id buffer;
    if (!sl_program_find(r->program, cuda_names[i], &buffer)) return;
    void *data = c->data[i];
    sl_status status = SL_OK;
    const uint64_t bytes = sl_type_bytes(&c->types[i]);
    if (cuda_kind(c, i) == SL_VALUE_WEIGHT) data = cuda_kept(data, bytes);
    if (cuda_kind(c, i) == SL_VALUE_STATE) {
        data = r->states[i] = device->ops->allocate(device, bytes);
        assert_non_null(data);
        status = device->ops->copy_in(device, data, c->data[i], bytes, &err);
    }
    if (status == SL_OK && cuda_kind(c, i) == SL_VALUE_EXPERTS)
        status = device->ops->bind_experts(r->exe, buffer, c->source, &err);
    else if (status == SL_OK)
        status = device->ops->bind(r->exe, buffer, data, &err);
    if (status) fail_msg("%s", err.message);
}

static cuda_run cuda_start(const op_case *c) {
    sl_device *device = cuda_device();
    sl_error err = {0};
    cuda_run r = {.program = cuda_program(c)};
    if (device->ops->load(device, r.program, &r.exe, &err)) fail_msg("%s", err.message);
    for (uint32_t i = 0; i < c->inputs; i++) cuda_bind_input(c, &r, i);
    return r;
}

static void cuda_end(const op_case *c, cuda_run *r) {
    sl_device *device = cuda_device();
    device->ops->unload(r->exe);
    for (uint32_t i = 0; i < c->inputs; i++)
        device->ops->release(device, r->states[i], sl_type_bytes(&c->types[i]));
    sl_program_destroy(r->program);
    if (c->source) cuda_forget_experts();
}

static void cuda_compare_state(const op_case *c, const cuda_run *r, uint32_t i,
                               const double *want) {
    sl_device *device = cuda_device();
    const uint64_t bytes = sl_type_bytes(&c->types[i]);
    void *got = malloc(bytes);
    sl_error err = {0};
    assert_non_null(got);
    if (device->ops->copy_out(device, got, r->states[i], bytes, &err)) fail_msg("%s", err.message);
    compare(c, "cuda", i, got, want);
    free(got);
}

static void check_cuda(const op_case *c, double *const want[MAX_OPERANDS]) {
    const sl_device_ops *ops = cuda_device()->ops;
    const sl_op_info *info = sl_op_info_of(c->op);
    cuda_run r = cuda_start(c);
    sl_error err = {0};
    if (c->prepare) c->prepare(c->source);
    if (ops->run(r.exe, &err)) fail_msg("%s: %s", info->name, err.message);
    uint32_t operand = c->inputs;
    for (uint32_t o = 0; o < cuda_outputs(c); o++)
        if (info->outs_name || info->output_state[o] < 0) {
            compare(c, "cuda", operand, ops->output(r.exe, o), want[operand]);
            operand++;
        }
    for (uint32_t i = 0; i < c->inputs; i++)
        if (r.states[i]) cuda_compare_state(c, &r, i, want[i]);
    cuda_end(c, &r);
}

static void check_cuda_refuses(const op_case *c) {
    cuda_run r = cuda_start(c);
    sl_error err = {0};
    assert_int_equal(cuda_device()->ops->run(r.exe, &err), SL_INVALID);
    assert_true(err.message[0] != 0);
    cuda_end(c, &r);
}
#endif
