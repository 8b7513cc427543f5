#include "tests/support/access_truth.h"
#include "runtime/arguments.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/executable.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernel.h"
#include "runtime/gpu/executable.h"
#include "tests/support/cuda_device.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, READ = 1, WRITE = 2 };
/* As floats, poison is small and of either sign: large numbers would drown in a softmax. */
static const uint8_t poisons[2] = {0x3c, 0xbe};

uint32_t truth_devices(truth_device out[TRUTH_MOST_DEVICES]) {
    static const char *const isas[] = {SL_ISA_NAMES};
    static truth_device opened[TRUTH_MOST_DEVICES];
    static uint32_t count;
    sl_error err = {0};
    const bool first = count == 0;
    for (size_t i = 0; first && i < sizeof isas / sizeof isas[0]; i++) {
        const sl_device_options options = {.threads = 1, .isa = isas[i]};
        truth_device *d = &opened[count];
        if (!sl_cpu_kernel_set(isas[i])) continue;
        *d = (truth_device){.name = isas[i], .target = &sl_target_cpu};
        if (sl_device_cpu_create(&options, NULL, &d->device, &err)) fail_msg("%s", err.message);
        count++;
    }
    if (first && getenv("SLUICE_CUDA_EMULATOR"))
        opened[count++] = (truth_device){"cuda", cuda_device(), &sl_target_cuda, true};
    memcpy(out, opened, sizeof opened);
    return count;
}

/* ---- a program in memory with guards ---- */

typedef struct {
    const truth_device *on;
    const sl_program *program;
    const sl_step *step;
    sl_executable *exe;
    void **memory;      /* [buffer]: of the device: GUARD bytes, the buffer, GUARD bytes */
    uint8_t **truth;    /* the same: what it is meant to hold */
    uint8_t **declared; /* the same, of the step: READ and WRITE of every byte; NULL: not used */
    uint8_t **found[2]; /* the same, after the runs */
} scene;

static uint64_t block_bytes(const scene *s, uint32_t b) {
    return s->program->buffers[b].bytes + 2 * (uint64_t)GUARD;
}

static uint8_t **make_blocks(const scene *s) {
    uint8_t **blocks = calloc(s->program->buffer_count + 1, sizeof *blocks);
    assert_non_null(blocks);
    for (uint32_t b = 0; b < s->program->buffer_count; b++) {
        blocks[b] = calloc(block_bytes(s, b), 1);
        assert_non_null(blocks[b]);
    }
    return blocks;
}

static void drop_blocks(const scene *s, uint8_t **blocks) {
    for (uint32_t b = 0; b < s->program->buffer_count; b++) free(blocks[b]);
    free(blocks);
}

/* Every buffer becomes a state, whose memory the caller chooses. */
static void open_scene(scene *s, const truth_device *on, sl_program *program,
                       const truth_contents *contents) {
    const sl_device_ops *ops = on->device->ops;
    sl_error err = {0};
    *s = (scene){.on = on, .program = program};
    s->truth = make_blocks(s);
    s->found[0] = make_blocks(s);
    s->found[1] = make_blocks(s);
    s->declared = make_blocks(s);
    s->memory = calloc(program->buffer_count + 1, sizeof *s->memory);
    assert_non_null(s->memory);
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        sl_buffer *buffer = &program->buffers[b];
        if (buffer->kind == SL_BUFFER_EXPERTS) continue;
        if (buffer->kind == SL_BUFFER_CONSTANT && buffer->bytes)
            memcpy(s->truth[b] + GUARD, buffer->data, buffer->bytes);
        else if (buffer->kind != SL_BUFFER_CONSTANT && !sl_buffer_in_arena(buffer))
            contents->fill(contents, buffer, s->truth[b] + GUARD);
        buffer->kind = SL_BUFFER_STATE;
    }
    if (ops->load(on->device, program, &s->exe, &err)) fail_msg("%s", err.message);
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        sl_status status;
        if (program->buffers[b].kind == SL_BUFFER_EXPERTS) {
            status = ops->bind_experts(s->exe, (sl_buffer_id){b}, contents->source, &err);
        } else {
            s->memory[b] = ops->allocate(on->device, block_bytes(s, b));
            assert_non_null(s->memory[b]);
            status = ops->bind(s->exe, (sl_buffer_id){b}, (char *)s->memory[b] + GUARD, &err);
        }
        if (status != SL_OK) fail_msg("%s", err.message);
    }
}

static void close_scene(scene *s) {
    const sl_device_ops *ops = s->on->device->ops;
    ops->unload(s->exe);
    for (uint32_t b = 0; b < s->program->buffer_count; b++)
        if (s->memory[b]) ops->release(s->on->device, s->memory[b], block_bytes(s, b));
    free(s->memory);
    drop_blocks(s, s->truth);
    drop_blocks(s, s->found[0]);
    drop_blocks(s, s->found[1]);
    drop_blocks(s, s->declared);
    if (s->on->gpu) cuda_forget_experts();
}

static bool is_used(const scene *s, uint32_t b) {
    for (uint32_t i = 0; i < s->step->operand_count; i++)
        if (s->step->operands[i].buffer.v == b && s->memory[b]) return true;
    return false;
}

static void declare(const scene *s, const sl_access *access, uint8_t how) {
    uint8_t *bytes = s->declared[access->buffer.v] + GUARD;
    for (uint32_t run = 0; run < access->count; run++)
        for (uint64_t i = 0; i < access->bytes; i++)
            bytes[access->begin + run * access->stride + i] |= how;
}

static void begin_step(scene *s, uint32_t step) {
    s->step = &s->program->steps[step];
    for (uint32_t b = 0; b < s->program->buffer_count; b++)
        memset(s->declared[b], 0, block_bytes(s, b));
    for (uint32_t i = 0; i < s->step->read_count; i++) declare(s, &s->step->reads[i], READ);
    for (uint32_t i = 0; i < s->step->write_count; i++) declare(s, &s->step->writes[i], WRITE);
}

static uint8_t poison_at(uint8_t poison, uint64_t i) {
    return (uint8_t)(poison | (i * 29 >> 3 & 1));
}

static uint8_t before(const scene *s, uint32_t b, uint64_t i, uint8_t poison) {
    return s->declared[b][i] & READ ? s->truth[b][i] : poison_at(poison, i);
}

static void copy(const scene *s, uint32_t b, void *host, bool in) {
    const sl_device_ops *ops = s->on->device->ops;
    sl_error err = {0};
    const sl_status status =
        in ? ops->copy_in(s->on->device, s->memory[b], host, block_bytes(s, b), &err)
           : ops->copy_out(s->on->device, host, s->memory[b], block_bytes(s, b), &err);
    if (status != SL_OK) fail_msg("%s", err.message);
}

/* ---- one step: its scratch memory is poisoned and has a guard, too ---- */

static void fail_step(const scene *s, const char *what) {
    fail_msg("%s: %s on %s: %s", s->program->name, s->step->label, s->on->name, what);
}

/* Items [begin, end), as a thread with scratch memory of its own runs them. */
static void run_items(const scene *s, const sl_cpu_task *t, int64_t begin, int64_t end,
                      uint8_t poison) {
    const size_t bytes = t->items ? t->kernel->split(t->args).scratch_bytes : 0;
    uint8_t *scratch = NULL;
    sl_error err = {0};
    if (begin == end) return;
    assert_int_equal(posix_memalign((void **)&scratch, 64, bytes + GUARD), 0);
    memset(scratch, poison, bytes + GUARD);
    sl_worker worker = {.scratch = scratch,
                        .err = &err,
                        .prepared = t->prepared,
                        .bodies = t->bodies,
                        .label = t->label};
    if (t->kernel->run(t->args, begin, end, &worker) != SL_OK) fail_step(s, err.message);
    for (size_t i = bytes; i < bytes + GUARD; i++)
        if (scratch[i] != poison) fail_step(s, "writes behind its scratch memory");
    free(scratch);
}

static void run_on_cpu(const scene *s, uint32_t step, uint8_t poison) {
    sl_cpu_executable *exe = sl_cpu_executable_of(s->exe);
    if (exe->rebound) sl_cpu_fill_pointers(exe, exe->device->arena.data);
    const sl_cpu_task *t = &exe->tasks[step];
    run_items(s, t, 0, t->items / 2, poison);
    run_items(s, t, t->items / 2, t->items, poison);
}

static void run_on_gpu(const scene *s, uint32_t step, uint8_t poison) {
    sl_gpu_executable *exe = sl_gpu_executable_of(s->exe);
    const sl_device_ops *ops = s->on->device->ops;
    const sl_gpu *gpu = exe->gpu;
    sl_error err = {0};
    sl_fault fault;
    if (gpu->calls->enter(gpu, &err) || sl_gpu_build(exe, &err)) fail_step(s, err.message);
    gpu->calls->leave(gpu);
    const uint64_t bytes = gpu->scratch.bytes, first = exe->steps[step].scratch_offset,
                   end = first + exe->steps[step].scratch_bytes;
    void *const scratch = (void *)(uintptr_t)gpu->scratch.address;
    uint8_t *host = malloc(bytes + 1);
    assert_non_null(host);
    memset(host, poison, bytes);
    bool fine = !bytes || ops->copy_in(s->on->device, scratch, host, bytes, &err) == SL_OK;
    fine = fine && ops->run_step(s->exe, step, &err) == SL_OK;
    fine = fine && ops->copy_out(s->on->device, &fault, (void *)(uintptr_t)gpu->fault.address,
                                 sizeof fault, &err) == SL_OK;
    fine = fine && (!bytes || ops->copy_out(s->on->device, host, scratch, bytes, &err) == SL_OK);
    if (!fine) fail_step(s, err.message);
    if (fault.kind != SL_FAULT_NONE) fail_step(s, "a kernel reports a fault");
    for (uint64_t i = 0; i < bytes && !s->step->body_count; i++)
        if ((i < first || i >= end) && host[i] != poison)
            fail_step(s, "writes outside its scratch memory");
    free(host);
}

static void request_experts(const scene *s, const truth_contents *contents) {
    uint32_t at;
    int32_t all[64];
    sl_error err = {0};
    if (!sl_gpu_uses_experts(s->step, &at)) return;
    for (int32_t i = 0; i < 64; i++) all[i] = i;
    const sl_layer_id layer = {sl_gpu_layer_of(s->step)};
    assert_true(contents->experts <= 64);
    if (contents->source->request(contents->source, layer, all, contents->experts, &err))
        fail_step(s, err.message);
}

static void run_poisoned(const scene *s, uint32_t step, const truth_contents *contents,
                         uint8_t poison, uint8_t **found) {
    for (uint32_t b = 0; b < s->program->buffer_count; b++) {
        if (!is_used(s, b)) continue;
        for (uint64_t i = 0; i < block_bytes(s, b); i++) found[b][i] = before(s, b, i, poison);
        copy(s, b, found[b], true);
    }
    request_experts(s, contents);
    (s->on->gpu ? run_on_gpu : run_on_cpu)(s, step, poison);
    for (uint32_t b = 0; b < s->program->buffer_count; b++)
        if (is_used(s, b)) copy(s, b, found[b], false);
}

/* ---- the checks ---- */

static void tell(const scene *s, uint32_t b, uint64_t i, const char *what, char why[TRUTH_WHY]) {
    (void)snprintf(why, TRUTH_WHY, "%s (%s) on %s: byte %lld of %llu of '%s' %s", s->step->label,
                   sl_op_info_of(s->step->op)->name, s->on->name, (long long)i - GUARD,
                   (unsigned long long)s->program->buffers[b].bytes, s->program->buffers[b].name,
                   what);
}

/* The first byte that was not accessed as declared; then takes over what was written. */
static void compare(const scene *s, char why[TRUTH_WHY]) {
    for (uint32_t b = 0; b < s->program->buffer_count; b++) {
        if (!is_used(s, b)) continue;
        for (uint64_t i = 0; i < block_bytes(s, b) && !why[0]; i++) {
            const bool write = s->declared[b][i] & WRITE;
            for (int run = 0; run < 2 && !write; run++)
                if (s->found[run][b][i] != before(s, b, i, poisons[run]))
                    tell(s, b, i, "is written, which it does not declare", why);
            if (write && s->found[0][b][i] != s->found[1][b][i])
                tell(s, b, i, "depends on bytes that it does not declare to read", why);
            if (write) s->truth[b][i] = s->found[0][b][i];
        }
    }
}

/* Whether the result may lie on an operand: every operand in that buffer is like it. */
static bool may_lie_on(const scene *s, uint32_t input) {
    const sl_operand *operands = s->step->operands, *out = &operands[s->step->operand_count - 1];
    const uint32_t buffer = operands[input].buffer.v;
    for (uint32_t i = 0; i < s->step->input_count; i++)
        if (operands[i].buffer.v == buffer &&
            (operands[i].offset_bytes || !sl_type_equal(&operands[i].type, &out->type)))
            return false;
    return !out->offset_bytes && s->program->buffers[buffer].bytes == sl_type_bytes(&out->type);
}

/* The result of a pointwise step may lie on any operand that is like it. */
static void check_in_place(const scene *s, uint32_t step, const truth_contents *contents,
                           char why[TRUTH_WHY]) {
    const sl_operand *operands = s->step->operands, *out = &operands[s->step->operand_count - 1];
    const sl_device_ops *ops = s->on->device->ops;
    const uint64_t bytes = sl_type_bytes(&out->type);
    sl_error err = {0};
    if (!(sl_op_info_of(s->step->op)->traits & SL_OP_POINTWISE)) return;
    for (uint32_t i = 0; i < s->step->input_count && !why[0]; i++) {
        const uint32_t from = operands[i].buffer.v, to = out->buffer.v;
        if (!may_lie_on(s, i)) continue;
        void *const apart = s->memory[to];
        s->memory[to] = s->memory[from];
        if (ops->bind(s->exe, out->buffer, (char *)s->memory[from] + GUARD, &err))
            fail_step(s, err.message);
        /* The buffer that is filled last must be the one that is read. */
        uint8_t *const declared = s->declared[to];
        s->declared[to] = s->declared[from];
        uint8_t *const truth = s->truth[to];
        s->truth[to] = s->truth[from];
        run_poisoned(s, step, contents, poisons[0], s->found[1]);
        s->truth[to] = truth;
        s->declared[to] = declared;
        s->memory[to] = apart;
        if (ops->bind(s->exe, out->buffer, (char *)apart + GUARD, &err)) fail_step(s, err.message);
        if (memcmp(s->found[1][to] + GUARD, truth + GUARD, bytes) != 0)
            (void)snprintf(why, TRUTH_WHY, "%s on %s: other bits when written over operand %u",
                           s->step->label, s->on->name, i);
    }
}

void truth_check(const truth_device *on, sl_program *program, const truth_contents *contents,
                 char why[TRUTH_WHY]) {
    scene s;
    why[0] = 0;
    open_scene(&s, on, program, contents);
    for (uint32_t step = 0; step < program->step_count && !why[0]; step++) {
        begin_step(&s, step);
        for (int run = 0; run < 2; run++)
            run_poisoned(&s, step, contents, poisons[run], s.found[run]);
        compare(&s, why);
        check_in_place(&s, step, contents, why);
    }
    close_scene(&s);
}

/* ---- kernels ---- */

static const sl_kernel_set *set_of(const truth_device *on) {
    return sl_cpu_kernel_set(on->name);
}

uint32_t truth_kernel_count(const truth_device *on) {
    return on->gpu ? (uint32_t)sl_cuda_kernels.count : set_of(on)->count;
}
sl_op truth_kernel_op(const truth_device *on, uint32_t kernel) {
    return on->gpu ? sl_cuda_kernels.rows[kernel].op : set_of(on)->kernels[kernel].op;
}
const char *truth_kernel_name(const truth_device *on, uint32_t kernel) {
    return on->gpu ? sl_cuda_kernels.rows[kernel].name : set_of(on)->kernels[kernel].name;
}

uint32_t truth_kernel_of(const truth_device *on, const sl_step *step) {
    const uint32_t last = step->operand_count - 1;
    const sl_type types[2] = {step->operands[0].type, step->operands[last ? 1 : 0].type};
    if (on->gpu) {
        const sl_gpu_kernel *kernel = sl_gpu_kernel_find(&sl_cuda_kernels, step->op, types);
        return kernel ? (uint32_t)(kernel - sl_cuda_kernels.rows) + 1 : 0;
    }
    const sl_kernel *kernel = sl_cpu_kernel_find(set_of(on), step->op, types);
    return kernel ? (uint32_t)(kernel - set_of(on)->kernels) + 1 : 0;
}
