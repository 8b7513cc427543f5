#include "tests/support/bound_program.h"
#include "core/codec.h"
#include "tests/support/random_program.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FIRST_POSITION = 5 };

static uint64_t hash(uint64_t seed, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const char *)data + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        seed = (seed ^ word) * 0x9e3779b97f4a7c15u;
        seed ^= seed >> 29;
    }
    return seed;
}

static int32_t integer_of(const sl_buffer *buffer, int64_t i) {
    const char *name = buffer->name;
    if (strcmp(name, "pages") == 0) return (int32_t)(i % buffer->type.shape.dims[1]);
    if (strcmp(name, "positions") == 0) return (int32_t)(FIRST_POSITION + i);
    if (strcmp(name, "tokens") == 0) return (int32_t)(i * 7 + 3);
    return 0;
}

/* The same content for the same name, whatever the program. */
static void fill(const sl_buffer *buffer, void *data) {
    test_random random =
        test_random_of(hash(0xcbf29ce484222325u, buffer->name, strlen(buffer->name)));
    const size_t each = sl_dtype_infos[buffer->type.dtype].bytes;
    assert_true(each > 0);
    for (int64_t i = 0; i < sl_type_elements(&buffer->type); i++) {
        double value[2] = {integer_of(buffer, i)}; /* a complex number has two slots */
        if (sl_dtype_infos[buffer->type.dtype].kind == SL_KIND_FLOAT)
            value[0] = (double)test_draw(&random, 1 << 20) / (1 << 19) - 1;
        if (buffer->type.dtype == SL_DTYPE_f32)
            ((float *)data)[i] = (float)value[0];
        else
            sl_encode_f64(buffer->type.dtype, value, 1, (char *)data + (size_t)i * each);
    }
}

static void *memory_for(bound_program *bound, uint32_t b, sl_model *model) {
    const sl_buffer *buffer = &bound->program->buffers[b];
    if (model && buffer->kind == SL_BUFFER_WEIGHT) {
        const sl_weight *weight = sl_weights_find(&model->weights, buffer->name);
        assert_non_null(weight);
        return (void *)(uintptr_t)weight->data;
    }
    assert_int_equal(posix_memalign(&bound->memory[b], 64, buffer->bytes + 1), 0);
    fill(buffer, bound->memory[b]);
    if (buffer->kind != SL_BUFFER_STATE) return bound->memory[b];
    bound->states[b] = bound->device->ops->allocate(bound->device, buffer->bytes);
    assert_non_null(bound->states[b]);
    return bound->states[b];
}

static bool is_bound(const sl_buffer *buffer) {
    return buffer->kind == SL_BUFFER_INPUT || buffer->kind == SL_BUFFER_WEIGHT ||
           buffer->kind == SL_BUFFER_STATE;
}

void bound_program_init(bound_program *bound, const sl_program *program, sl_device *device,
                        sl_model *model) {
    sl_error err = {0};
    *bound = (bound_program){program, device, NULL,
                             calloc(program->buffer_count + 1, sizeof *bound->memory),
                             calloc(program->buffer_count + 1, sizeof *bound->states)};
    assert_true(bound->memory && bound->states);
    sl_status status = device->ops->load(device, program, &bound->executable, &err);
    for (uint32_t b = 0; b < program->buffer_count && status == SL_OK; b++) {
        const sl_buffer_id id = {b};
        if (is_bound(&program->buffers[b]))
            status = device->ops->bind(bound->executable, id, memory_for(bound, b, model), &err);
        else if (program->buffers[b].kind == SL_BUFFER_EXPERTS)
            status = device->ops->bind_experts(bound->executable, id,
                                               sl_expert_store_source(model->store), &err);
    }
    if (status != SL_OK) fail_msg("%s", err.message);
}

void bound_program_deinit(bound_program *bound) {
    sl_device *device = bound->device;
    device->ops->unload(bound->executable);
    for (uint32_t b = 0; b < bound->program->buffer_count; b++) {
        if (bound->states[b])
            device->ops->release(device, bound->states[b], bound->program->buffers[b].bytes);
        free(bound->memory[b]);
    }
    free(bound->memory);
    free(bound->states);
}

/* Between the device's memory of all states and ours. */
static sl_status copy_states(const bound_program *bound, bool out, sl_error *err) {
    const sl_device_ops *ops = bound->device->ops;
    for (uint32_t b = 0; b < bound->program->buffer_count; b++) {
        const uint64_t bytes = bound->program->buffers[b].bytes;
        if (bound->states[b] && out)
            SL_TRY(ops->copy_out(bound->device, bound->memory[b], bound->states[b], bytes, err));
        else if (bound->states[b])
            SL_TRY(ops->copy_in(bound->device, bound->states[b], bound->memory[b], bytes, err));
    }
    return SL_OK;
}

uint64_t bound_program_run(bound_program *bound, const uint32_t *order) {
    const sl_program *program = bound->program;
    const sl_device_ops *ops = bound->device->ops;
    sl_error err = {0};
    for (uint32_t b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].kind == SL_BUFFER_STATE)
            fill(&program->buffers[b], bound->memory[b]);
    if (copy_states(bound, false, &err) ||
        (order ? ops->run_serially(bound->executable, order, &err)
               : ops->run(bound->executable, &err)) ||
        copy_states(bound, true, &err))
        fail_msg("%s", err.message);
    uint64_t digest = 0xcbf29ce484222325u;
    for (uint32_t o = 0; o < program->output_count; o++)
        digest = hash(digest, ops->output(bound->executable, o),
                      sl_type_bytes(&program->outputs[o].operand.type));
    for (uint32_t b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].kind == SL_BUFFER_STATE)
            digest = hash(digest, bound->memory[b], program->buffers[b].bytes);
    return digest;
}
