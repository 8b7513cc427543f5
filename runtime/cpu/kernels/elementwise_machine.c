/* elementwise_machine.c - See elementwise_machine.h. */
#include "core/ops.h"

#include "runtime/cpu/kernels/elementwise_machine.h"
#include <string.h>

/* ---- strided iteration ---- */

/* The dims to iterate over: the output's, with each of the last two split into (H, 2) if an input
 * is upsampled. */
static uint32_t walk_dims(const sl_dims *out, bool split, int64_t dims[WALK_RANK]) {
    uint32_t rank = 0;
    for (uint32_t d = 0; d < out->rank; d++) {
        const bool pair = split && d + 2 >= out->rank;
        dims[rank++] = pair ? out->dims[d] / 2 : out->dims[d];
        if (pair) dims[rank++] = 2;
    }
    return rank;
}

/* An input's strides along these dims; an upsampled input has stride 0 along the inner factors of
 * 2. */
static void walk_strides(const sl_dims *shape, const sl_dims *out, bool split, bool enlarged,
                         int64_t strides[WALK_RANK]) {
    uint32_t at = out->rank + (split ? 2 : 0);
    int64_t stride = 1;
    for (uint32_t back = 1; back <= out->rank; back++) {
        const int64_t own = back <= shape->rank ? shape->dims[shape->rank - back] : 1;
        const int64_t step = own == 1 && !(enlarged && back <= 2) ? 0 : stride;
        if (split && back <= 2) {
            strides[--at] = enlarged ? 0 : step;
            strides[--at] = enlarged ? step : 2 * step;
        } else {
            strides[--at] = step;
        }
        stride *= own;
    }
}

/* Drops dims of size 1 and merges neighbouring dims that are contiguous in all inputs. */
static void join_dims(machine *m) {
    uint32_t rank = 0;
    for (uint32_t d = 0; d < m->rank; d++) {
        if (m->dims[d] == 1) continue;
        bool joins = rank > 0;
        for (uint32_t i = 0; joins && i < m->input_count; i++)
            joins = m->inputs[i].strides[rank - 1] == m->inputs[i].strides[d] * m->dims[d];
        const uint32_t to = joins ? rank - 1 : rank++;
        m->dims[to] = joins ? m->dims[to] * m->dims[d] : m->dims[d];
        for (uint32_t i = 0; i < m->input_count; i++)
            m->inputs[i].strides[to] = m->inputs[i].strides[d];
    }
    m->rank = rank;
}

void SL_KERNEL(sl_machine_init)(machine *m, const sl_cview *inputs, uint32_t count,
                                const sl_view *out, int64_t enlarged) {
    const bool split = enlarged >= 0;
    m->input_count = count;
    m->step_count = m->slot_count = 0;
    m->out = *out;
    m->elements = sl_type_elements(&out->type);
    m->rank = walk_dims(&out->type.shape, split, m->dims);
    for (uint32_t i = 0; i < count; i++) {
        machine_input *input = &m->inputs[i];
        input->data = inputs[i].data;
        input->dtype = m->dtypes[i] = inputs[i].type.dtype;
        walk_strides(&inputs[i].type.shape, &out->type.shape, split, (int64_t)i == enlarged,
                     input->strides);
    }
    join_dims(m);
    for (uint32_t i = 0; i < count; i++) {
        machine_input *input = &m->inputs[i];
        int64_t stride = 1;
        input->is_single = input->is_flat = true;
        for (uint32_t d = m->rank; d-- > 0; stride *= m->dims[d]) {
            input->is_single &= input->strides[d] == 0;
            input->is_flat &= input->strides[d] == stride;
        }
    }
}

/* ---- steps ---- */

static strip_fn *find_fn(const sl_elementwise_step *step, sl_dtype dtype) {
    static const struct {
        sl_dtype dtype;
        strip_table *table;
    } tables[] = {
#define TABLE(NAME) {SL_DTYPE_##NAME, &SL_KERNEL(sl_strips_##NAME)},
        TABLE(f32) TABLE(f64) TABLE(bool) TABLE(c64) TABLE(i8) TABLE(i16) TABLE(i32) TABLE(i64)
            TABLE(u8) TABLE(u16) TABLE(u32) TABLE(u64)
#undef TABLE
    };
    if (step->op == SL_OP_where) return SL_KERNEL(sl_strip_where);
    if (step->op == SL_OP_cast) return SL_KERNEL(sl_strip_cast);
    if (step->op == SL_OP_bitcast) return SL_KERNEL(sl_strip_bits);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (tables[i].dtype == held_as(dtype)) return (*tables[i].table)[step->number];
    return NULL;
}

void SL_KERNEL(sl_machine_add)(machine *m, const sl_elementwise_step *step) {
    sl_dtype operands[3] = {0};
    for (uint32_t o = 0; o < step->operands; o++) operands[o] = m->dtypes[step->registers[o]];
    machine_step *s = &m->steps[m->step_count];
    *s = (machine_step){.op = step->op,
                        .fn = find_fn(step, operands[0]),
                        .operands = step->operands,
                        .attribute = step->attribute,
                        .from = operands[0],
                        .to = sl_elementwise_result(step, operands),
                        .saturate = step->op == SL_OP_cast && step->attribute % 2,
                        .slot = NO_SLOT};
    for (uint32_t o = 0; o < 3; o++) s->registers[o] = step->registers[o < step->operands ? o : 0];
    m->dtypes[m->input_count + m->step_count++] = s->to;
}

/* One more than the index of the last step that reads a register; 0: none. */
static uint32_t last_use(const machine *m, uint32_t reg) {
    uint32_t last = 0;
    for (uint32_t s = 0; s < m->step_count; s++)
        for (uint32_t o = 0; o < m->steps[s].operands; o++)
            if (m->steps[s].registers[o] == reg) last = s + 1;
    return last;
}

static uint32_t use_count(const machine *m, uint32_t reg) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < m->step_count; s++)
        for (uint32_t o = 0; o < m->steps[s].operands; o++)
            count += m->steps[s].registers[o] == reg;
    return count;
}

/* Whether step s can continue a chain after step s - 1, or start one if `first`.  Sets its link. */
static bool make_link(machine *m, uint32_t s, bool first) {
    machine_step *step = &m->steps[s];
    const uint32_t before = m->input_count + s - 1;
    if (step->from != SL_DTYPE_f32 || step->to != SL_DTYPE_f32 || step->operands > 2) return false;
    const bool turned = !first && step->operands == 2 && step->registers[1] == before;
    if (!first && (use_count(m, before) != 1 || step->registers[turned] != before)) return false;
    step->link = SL_KERNEL(sl_strip_link)(step->op, turned);
    return step->link != 0;
}

/* Groups steps into chains; results inside a chain stay in registers. */
static void make_chains(machine *m) {
    for (uint32_t s = 0, last; s < m->step_count; s = last + 1) {
        last = s;
        if (!make_link(m, s, true)) continue;
        while (last + 1 < m->step_count && make_link(m, last + 1, false))
            m->steps[last++].goes_on = true;
        m->steps[last].chain = last - s;
    }
}

/* Assigns scratch slots.  An input that needs a slot keeps it, so that a broadcast scalar is
 * written only once; a result reuses the first slot whose value is no longer needed. */
void SL_KERNEL(sl_machine_place)(machine *m) {
    m->fetched = parts_of(STRIP, m->step_count);
    uint32_t free_from[SL_ELEMENTWISE_MAX_INPUTS + SL_ELEMENTWISE_MAX_STEPS];
    make_chains(m);
    for (uint32_t i = 0; i < m->input_count; i++) {
        const machine_input *input = &m->inputs[i];
        const bool direct = input->is_flat && !is_half(input->dtype);
        m->inputs[i].slot = direct ? NO_SLOT : (int32_t)m->slot_count++;
    }
    const uint32_t first = m->slot_count;
    for (uint32_t s = 0; s < m->step_count; s++) {
        if (m->steps[s].goes_on || (s + 1 == m->step_count && !is_half(m->out.type.dtype)))
            continue;
        uint32_t slot = first;
        while (slot < m->slot_count && free_from[slot] > s) slot++;
        if (slot == m->slot_count) m->slot_count++;
        m->steps[s].slot = (int32_t)slot;
        free_from[slot] = last_use(m, m->input_count + s);
        if (free_from[slot] <= s) free_from[slot] = s + 1;
    }
}

/* ---- reading inputs ---- */

#define COPY_RUN(TYPE)                                                                             \
    do {                                                                                           \
        TYPE *out = to;                                                                            \
        const TYPE *x = from;                                                                      \
        if (stride == 0)                                                                           \
            for (int64_t i = 0; i < run; i++) out[i] = x[0];                                       \
        else                                                                                       \
            for (int64_t i = 0; i < run; i++) out[i] = x[i * stride];                              \
    } while (0)
static void copy_run(uint32_t bytes, void *to, const void *from, int64_t run, int64_t stride) {
    if (stride == 1)
        memcpy(to, from, (size_t)run * bytes);
    else if (bytes == 1)
        COPY_RUN(uint8_t);
    else if (bytes == 2)
        COPY_RUN(uint16_t);
    else if (bytes == 4)
        COPY_RUN(uint32_t);
    else
        COPY_RUN(uint64_t);
}

typedef struct {
    int64_t index[WALK_RANK];
    int64_t offset; /* in the input, in elements */
} place;

static place place_of(const machine *m, const machine_input *input, int64_t at) {
    place p = {.offset = 0};
    for (uint32_t d = m->rank; d-- > 0;) {
        p.index[d] = at % m->dims[d];
        at /= m->dims[d];
        p.offset += p.index[d] * input->strides[d];
    }
    return p;
}

/* Moves from the end of a run along the last dim to the start of the next run. */
static void next_run(const machine *m, const machine_input *input, place *p) {
    uint32_t d = m->rank - 1;
    p->offset -= p->index[d] * input->strides[d];
    p->index[d] = 0;
    while (d-- > 0) {
        p->offset += input->strides[d];
        if (++p->index[d] < m->dims[d]) return;
        p->offset -= m->dims[d] * input->strides[d];
        p->index[d] = 0;
    }
}

static void advance(const machine *m, const machine_input *input, place *p, int64_t run) {
    const uint32_t last = m->rank - 1;
    p->index[last] += run;
    p->offset += run * input->strides[last];
    if (p->index[last] == m->dims[last]) next_run(m, input, p);
}

/* The next `count` elements as a contiguous run: in place if possible, else copied to `to`. */
static const void *gather(const machine *m, const machine_input *input, place *p, int64_t count,
                          char *to) {
    const uint32_t bytes = sl_dtype_infos[input->dtype].bytes, last = m->rank - 1;
    const char *data = input->data;
    if (input->strides[last] == 1 && m->dims[last] - p->index[last] >= count) {
        const char *here = data + p->offset * bytes;
        advance(m, input, p, count);
        return here;
    }
    for (int64_t done = 0, run; done < count; done += run) {
        run = least(m->dims[last] - p->index[last], count - done);
        copy_run(bytes, to + done * bytes, data + p->offset * bytes, run, input->strides[last]);
        advance(m, input, p, run);
    }
    return to;
}

/* The elements from `at` on (the position of p), converted to the type in which strips hold
 * them. */
static const void *load(const machine *m, const machine_input *input, place *p, int64_t at,
                        int64_t count, char *slot) {
    const uint32_t bytes = sl_dtype_infos[input->dtype].bytes;
    const bool half = is_half(input->dtype);
    const void *found = input->is_flat
                            ? (const char *)input->data + at * bytes
                            : gather(m, input, p, count, half ? slot + STRIP_BYTES / 2 : slot);
    if (!half) return found;
    SL_KERNEL(sl_strip_widen)(input->dtype, found, (float *)(void *)slot, count);
    return slot;
}

/* Fills a strip with one element. */
static const void *spread(const machine_input *input, char *slot) {
    const bool half = is_half(input->dtype);
    char *to = half ? slot + STRIP_BYTES / 2 : slot;
    copy_run(sl_dtype_infos[input->dtype].bytes, to, input->data, STRIP, 0);
    if (half) SL_KERNEL(sl_strip_widen)
    (input->dtype, (const uint16_t *)(const void *)to, (float *)(void *)slot, STRIP);
    return slot;
}

/* ---- running ---- */

enum { AHEAD = 2 };
static void fetch(const void *data, sl_dtype dtype, int64_t at, int64_t count) {
    const int64_t bytes = sl_dtype_infos[dtype].bytes;
    const char *from = (const char *)data + at * bytes;
    for (int64_t b = 0; b < count * bytes; b += 64) __builtin_prefetch(from + b);
}

/* Prefetches what a later strip reads and writes: the runs are short and there are several streams,
 * so that the hardware prefetcher does not look far enough ahead.  Each step prefetches a share,
 * because only few cache lines can be in flight at a time. */
static void fetch_next(const machine *m, int64_t at, uint32_t first, uint32_t steps) {
    const int64_t begin = first * m->fetched, next = at + AHEAD * STRIP + begin;
    const int64_t count = least(least(steps * m->fetched, STRIP - begin), m->elements - next);
    for (uint32_t i = 0; i < m->input_count; i++)
        if (m->inputs[i].is_flat && !m->inputs[i].is_single)
            fetch(m->inputs[i].data, m->inputs[i].dtype, next, count);
    fetch(m->out.data, m->out.type.dtype, next, count);
}

/* Runs the chain that ends with step s. */
static void run_chain(const machine *m, const void **registers, uint32_t s, int64_t at,
                      int64_t count, float *out) {
    const uint32_t first = s - m->steps[s].chain;
    strip_chain c = {.start = registers[m->steps[first].registers[0]],
                     .out = out,
                     .length = m->steps[s].chain + 1};
    for (uint32_t k = 0; k < c.length; k++) {
        const machine_step *step = &m->steps[first + k];
        const bool turned = k > 0 && step->registers[1] == m->input_count + first + k - 1;
        c.links[k].link = step->link;
        c.links[k].other = step->operands == 2 ? registers[step->registers[!turned]] : c.start;
    }
    fetch_next(m, at, first, c.length);
    SL_KERNEL(sl_strip_chain)(&c, count);
}

static void run_step(const machine *m, const void **registers, uint32_t s, int64_t at,
                     int64_t count, void *out) {
    const machine_step *step = &m->steps[s];
    strip now = {.out = out,
                 .count = count,
                 .attribute = step->attribute,
                 .from = step->from,
                 .to = step->to,
                 .saturate = step->saturate};
    for (uint32_t o = 0; o < 3; o++) now.in[o] = registers[step->registers[o]];
    fetch_next(m, at, s, 1);
    step->fn(&now);
}

static void run_steps(const machine *m, const void **registers, int64_t at, int64_t count,
                      char *scratch) {
    const sl_dtype out_dtype = m->out.type.dtype;
    char *out = (char *)m->out.data + at * sl_dtype_infos[out_dtype].bytes;
    for (uint32_t s = 0; s < m->step_count; s++) {
        const machine_step *step = &m->steps[s];
        if (step->goes_on) continue;
        void *to = step->slot == NO_SLOT ? out : scratch + (size_t)step->slot * STRIP_BYTES;
        if (step->chain)
            run_chain(m, registers, s, at, count, to);
        else
            run_step(m, registers, s, at, count, to);
        const bool last = s + 1 == m->step_count;
        if (is_half(step->to) && !last) SL_KERNEL(sl_strip_round)(step->to, to, count);
        registers[m->input_count + s] = to;
        if (last && is_half(out_dtype))
            SL_KERNEL(sl_strip_narrow)(out_dtype, to, (uint16_t *)(void *)out, count);
    }
}

void SL_KERNEL(sl_machine_run)(const machine *m, int64_t begin, int64_t end, void *scratch) {
    const void *registers[SL_ELEMENTWISE_MAX_INPUTS + SL_ELEMENTWISE_MAX_STEPS];
    place places[SL_ELEMENTWISE_MAX_INPUTS]; /* of inputs that are not laid out like the output */
    char *slots = scratch;
    const int64_t stop = least(end * STRIP, m->elements);
    for (uint32_t i = 0; i < m->input_count; i++)
        if (!m->inputs[i].is_flat) places[i] = place_of(m, &m->inputs[i], begin * STRIP);
    for (int64_t at = begin * STRIP; at < stop; at += STRIP) {
        const int64_t count = least(STRIP, stop - at);
        for (uint32_t i = 0; i < m->input_count; i++) {
            const machine_input *input = &m->inputs[i];
            char *slot = input->slot == NO_SLOT ? NULL : slots + (size_t)input->slot * STRIP_BYTES;
            if (!input->is_single || !slot)
                registers[i] = load(m, input, &places[i], at, count, slot);
            else if (at == begin * STRIP)
                registers[i] = spread(input, slot);
        }
        run_steps(m, registers, at, count, slots);
    }
}
