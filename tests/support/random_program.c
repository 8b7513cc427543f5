#include "tests/support/random_program.h"
#include "core/check/touches.h"
#include "tests/support/program_maker.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

uint32_t test_draw(test_random *random, uint32_t limit) {
    random->state ^= random->state << 13;
    random->state ^= random->state >> 7;
    random->state ^= random->state << 17;
    return (uint32_t)((random->state >> 32) * limit >> 32);
}

/* ---- programs ---- */

enum { INPUTS = 4, WEIGHTS = 6, STATES = 3, LAYERS = 2, BUFFERS_PER_STEP = 3, RECENT = 12 };
enum { ROWS = 4, COLUMN = 8 }; /* elements: buffers are ROWS rows of a number of columns */

typedef struct {
    sl_program *program;
    test_random random;
    sl_buffer_id fixed[INPUTS + WEIGHTS], states[STATES], experts[LAYERS], ids;
    uint32_t *values; /* buffers that hold a value */
    uint32_t value_count;
} generator;

static uint32_t draw(generator *g, uint32_t limit) {
    return test_draw(&g->random, limit);
}

static const char *text(generator *g, const char *what, uint32_t number) {
    char *label = sl_arena_format(&g->program->arena, "%s %u", what, number);
    assert(label);
    return label;
}

static int64_t elements_of(const generator *g, sl_buffer_id buffer) {
    return (int64_t)(g->program->buffers[buffer.v].bytes / 4);
}

static sl_buffer_id fresh(generator *g, int64_t elements) {
    const uint32_t number = g->program->buffer_count;
    return program_buffer(g->program, SL_BUFFER_TEMP, text(g, "value", number), elements);
}

static void keep(generator *g, sl_buffer_id buffer) {
    g->values[g->value_count++] = buffer.v;
}

static int64_t some_elements(generator *g) {
    return (int64_t)ROWS * COLUMN * (1 + draw(g, 12));
}

/* Mostly a value made lately, sometimes an old one, an input or a weight. */
static sl_buffer_id some_value(generator *g) {
    if (g->value_count == 0 || draw(g, 8) == 0) return g->fixed[draw(g, INPUTS + WEIGHTS)];
    uint32_t back = draw(g, draw(g, 6) ? RECENT : g->value_count);
    if (back >= g->value_count) back = g->value_count - 1;
    return (sl_buffer_id){g->values[g->value_count - 1 - back]};
}

/* An operand and its access: the whole value, or one half of it as a view. */
static int64_t take_window(generator *g, sl_buffer_id buffer) {
    int64_t first = 0, elements = elements_of(g, buffer);
    if (draw(g, 4) == 0) {
        elements /= 2;
        first = draw(g, 2) ? elements : 0;
    }
    step_operand(g->program, buffer, first, elements);
    step_reads(g->program,
               sl_access_range(buffer, (uint64_t)first * 4, (uint64_t)(first + elements) * 4));
    return elements;
}

static void start(generator *g, sl_op op) {
    program_step(g->program, op, text(g, sl_op_info_of(op)->name, g->program->step_count), 0);
}

static void give(generator *g, int64_t elements) {
    const sl_buffer_id out = fresh(g, elements);
    step_gives(g->program, out);
    keep(g, out);
}

static void add_unary(generator *g) {
    start(g, draw(g, 2) ? SL_OP_silu : SL_OP_softmax);
    give(g, take_window(g, some_value(g)));
}

/* Operands alike, so that the result may lie on either. */
static void add_binary(generator *g) {
    const sl_buffer_id a = some_value(g);
    sl_buffer_id b = some_value(g);
    for (int tries = 0; tries < 8 && elements_of(g, a) != elements_of(g, b); tries++)
        b = some_value(g);
    if (elements_of(g, a) != elements_of(g, b)) b = a;
    start(g, SL_OP_mul);
    step_takes(g->program, a), step_takes(g->program, b);
    give(g, elements_of(g, a));
}

static void add_product(generator *g) {
    start(g, SL_OP_linear);
    (void)take_window(g, some_value(g));
    step_takes(g->program, g->fixed[INPUTS + draw(g, WEIGHTS)]);
    give(g, some_elements(g));
}

static void add_halves(generator *g) {
    const sl_buffer_id x = some_value(g);
    start(g, SL_OP_split);
    step_takes(g->program, x);
    const sl_buffer_id low = fresh(g, elements_of(g, x) / 2),
                       high = fresh(g, elements_of(g, x) / 2);
    step_gives(g->program, low), step_gives(g->program, high);
    keep(g, low), keep(g, high);
}

/* A block of columns: one run per row. */
static sl_access columns(sl_buffer_id buffer, int64_t elements, uint64_t part, uint64_t parts) {
    const uint64_t row = (uint64_t)elements / ROWS * 4, run = row / parts;
    return (sl_access){buffer, part * run, run, row, ROWS};
}

static void add_slice(generator *g) {
    const sl_buffer_id x = some_value(g);
    start(g, SL_OP_slice);
    step_operand(g->program, x, 0, elements_of(g, x));
    step_reads(g->program, columns(x, elements_of(g, x), draw(g, 2), 2));
    give(g, elements_of(g, x) / 2);
}

/* Two steps that fill one buffer, each its columns. */
static void add_joined(generator *g) {
    const sl_buffer_id out = fresh(g, some_elements(g));
    for (uint32_t part = 0; part < 2; part++) {
        start(g, SL_OP_softmax);
        (void)take_window(g, some_value(g));
        step_operand(g->program, out, 0, elements_of(g, out));
        step_writes(g->program, columns(out, elements_of(g, out), part, 2));
    }
    keep(g, out);
}

/* Part of a state is read and written. */
static void add_state(generator *g) {
    const sl_buffer_id state = g->states[draw(g, STATES)];
    const int64_t elements = elements_of(g, state), half = elements / 2;
    const int64_t first = draw(g, 2) ? half : 0;
    start(g, SL_OP_causal_conv);
    (void)take_window(g, some_value(g));
    step_takes(g->program, g->fixed[INPUTS]);
    step_takes(g->program, g->ids), step_takes(g->program, g->ids);
    step_operand(g->program, state, 0, elements);
    const sl_access part =
        sl_access_range(state, (uint64_t)first * 4, (uint64_t)(first + half) * 4);
    step_reads(g->program, part), step_writes(g->program, part);
    give(g, some_elements(g));
}

static void add_experts(generator *g) {
    const sl_buffer_id experts = g->experts[draw(g, LAYERS)];
    const sl_buffer_id order = fresh(g, 64), starts = fresh(g, 32);
    start(g, SL_OP_moe_group);
    (void)take_window(g, some_value(g));
    step_operand(g->program, experts, 0, 1);
    step_gives(g->program, order), step_gives(g->program, starts);
    if (draw(g, 2)) add_binary(g); /* what can run while experts are read */
    start(g, SL_OP_moe_ffn);
    (void)take_window(g, some_value(g));
    step_takes(g->program, order), step_takes(g->program, starts);
    step_operand(g->program, experts, 0, 1);
    give(g, some_elements(g));
}

static void add_undeclared(generator *g) {
    add_unary(g);
    g->program->steps[g->program->step_count - 1].undeclared = true;
}

static void add_something(generator *g) {
    const uint32_t what = draw(g, 100);
    if (what < 25)
        add_binary(g);
    else if (what < 40)
        add_unary(g);
    else if (what < 65)
        add_product(g);
    else if (what < 73)
        add_halves(g);
    else if (what < 80)
        add_slice(g);
    else if (what < 86)
        add_joined(g);
    else if (what < 94)
        add_state(g);
    else if (what < 99)
        add_experts(g);
    else
        add_undeclared(g);
}

static void declare_fixed(generator *g) {
    sl_program *p = g->program;
    for (uint32_t i = 0; i < INPUTS + WEIGHTS; i++) {
        const sl_buffer_kind kind = i < INPUTS ? SL_BUFFER_INPUT : SL_BUFFER_WEIGHT;
        g->fixed[i] = program_buffer(p, kind, text(g, "fixed", i), some_elements(g));
    }
    g->ids = program_buffer(p, SL_BUFFER_INPUT, "ids", 16);
    for (uint32_t i = 0; i < STATES; i++)
        g->states[i] = program_buffer(p, SL_BUFFER_STATE, text(g, "state", i), some_elements(g));
    for (uint32_t i = 0; i < LAYERS; i++)
        g->experts[i] = program_buffer(p, SL_BUFFER_EXPERTS, text(g, "experts", i), 0);
}

sl_program *random_program(uint64_t seed, uint32_t steps) {
    const uint32_t most = steps + 4; /* an addition makes up to three */
    generator g = {.random = test_random_of(seed)};
    g.program = program_new(INPUTS + WEIGHTS + 1 + STATES + LAYERS + BUFFERS_PER_STEP * most, most);
    g.values = calloc((size_t)BUFFERS_PER_STEP * most, sizeof *g.values);
    assert(g.values);
    declare_fixed(&g);
    while (g.program->step_count < steps) add_something(&g);
    for (uint32_t i = 0; i < 1 + g.value_count / 16; i++) {
        const sl_buffer_id buffer = {g.values[draw(&g, g.value_count)]};
        if (g.program->buffers[buffer.v].kind == SL_BUFFER_TEMP) program_output(g.program, buffer);
    }
    free(g.values);
    return g.program;
}

/* ---- orders ---- */

static bool conflict(const sl_touches *t, uint32_t a, uint32_t b) {
    if (t->program->steps[a].undeclared || t->program->steps[b].undeclared) return true;
    for (uint32_t i = t->first[a]; i < t->first[a + 1]; i++)
        for (uint32_t j = t->first[b]; j < t->first[b + 1]; j++) {
            uint64_t at;
            if ((t->items[i].write || t->items[j].write) &&
                sl_touch_common(&t->items[i], &t->items[j], &at))
                return true;
        }
    return false;
}

uint8_t *program_conflicts(const sl_program *program) {
    const size_t steps = program->step_count;
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_touches touches;
    sl_error err = {0};
    const sl_status status = sl_touches_collect(program, &arena, &touches, &err);
    uint8_t *conflicts = calloc(steps * steps + 1, 1);
    assert(status == SL_OK && conflicts);
    for (uint32_t b = 0; b < steps; b++)
        for (uint32_t a = 0; a < b; a++) conflicts[b * steps + a] = conflict(&touches, a, b);
    sl_arena_deinit(&arena);
    return conflicts;
}

void random_order(const uint8_t *conflicts, uint32_t steps, test_random *random, uint32_t *order) {
    uint32_t *waiting = calloc(steps + 1, sizeof *waiting);
    assert(waiting);
    for (uint32_t b = 0; b < steps; b++)
        for (uint32_t a = 0; a < b; a++) waiting[b] += conflicts[(size_t)b * steps + a];
    uint32_t ready = 0;
    for (uint32_t s = 0; s < steps; s++)
        if (waiting[s] == 0) order[ready++] = s;
    for (uint32_t done = 0; done < steps; done++) {
        assert(done < ready);
        const uint32_t chosen = done + test_draw(random, ready - done), step = order[chosen];
        order[chosen] = order[done];
        order[done] = step;
        for (uint32_t b = step + 1; b < steps; b++)
            if (conflicts[(size_t)b * steps + step] && --waiting[b] == 0) order[ready++] = b;
    }
    free(waiting);
}
