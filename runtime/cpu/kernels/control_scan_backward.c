/* control_scan_backward.c - Gradients of scan, with checkpointing.
 *
 * The steps are divided into segments.  A first forward run keeps the carries at the start of each
 * segment.  Then, from the last segment to the first, the carries inside the segment are recomputed
 * and the backward body runs over its steps in reverse. */
#include "core/codec.h"
#include "runtime/cpu/kernels/control_carries.h"

typedef struct {
    const sl_scan_backward_args *a;
    uint32_t inputs;       /* number of inputs of the scan */
    uint32_t first_result; /* the input whose gradient is the op's first result */
    int64_t length, segment, segments;
    char *starts, *within; /* carries at each segment start; of each step of a segment */
    size_t set_bytes;      /* bytes of all carries of one step */
    size_t *offsets;       /* [carry]: offset in a set of carries */
    carry *gradients;      /* [carry]: its gradient */
    double **sums;         /* [const]: gradient accumulated over the steps */
    double *addend;
    size_t used;
} sweep;

static int64_t square_root_up(int64_t n) {
    int64_t root = 0;
    while (root * root < n) root++;
    return root;
}

/* Derives the number of xs from the number of results: there is one gradient per input, or per x if
 * xs_alone. */
static sweep make_sweep(const sl_scan_backward_args *a, bool xs_alone, void *memory) {
    const sl_scan_backward_attrs *attrs = &a->attrs;
    const uint32_t results = SL_LIST_COUNT(a->results), first_x = attrs->carries + attrs->consts;
    const uint32_t xs = xs_alone ? results : results - first_x;
    sweep s = {.a = a, .inputs = first_x + xs, .first_result = xs_alone ? first_x : 0};
    s.length = xs ? dim(&a->inputs.items[first_x].type, 0) : attrs->length;
    const int64_t kept = attrs->checkpoints ? attrs->checkpoints : square_root_up(s.length);
    s.segment = s.length && kept < s.length ? parts_of(s.length, kept) : 1;
    s.segments = parts_of(s.length, s.segment);
    room r = {.at = memory};
    s.offsets = take_room(&r, attrs->carries * sizeof *s.offsets);
    s.gradients = take_room(&r, attrs->carries * sizeof *s.gradients);
    s.sums = take_room(&r, attrs->consts * sizeof *s.sums);
    for (uint32_t c = 0; c < attrs->carries; c++) {
        if (memory) s.offsets[c] = s.set_bytes;
        s.set_bytes += whole_lines(sl_type_bytes(&a->inputs.items[c].type));
        void *own = xs_alone ? take_room(&r, sl_type_bytes(&a->inputs.items[c].type))
                             : a->results.items[c].data;
        start_carry(memory ? &s.gradients[c] : NULL, &a->inputs.items[s.inputs + c], own, &r);
    }
    int64_t most = 0;
    for (uint32_t i = 0; i < attrs->consts; i++) {
        const int64_t slots = sl_type_slots(&a->inputs.items[attrs->carries + i].type);
        double *sums = take_room(&r, (size_t)slots * sizeof *sums);
        if (memory) s.sums[i] = sums;
        if (sums) memset(sums, 0, (size_t)slots * sizeof *sums);
        most = slots > most ? slots : most;
    }
    s.addend = take_room(&r, (size_t)most * sizeof *s.addend);
    s.starts = take_room(&r, (size_t)s.segments * s.set_bytes);
    s.within = take_room(&r, (size_t)s.segment * s.set_bytes);
    s.used = r.used;
    return s;
}

static int64_t place_of(const sweep *s, int64_t step) {
    return s->a->attrs.reverse ? s->length - 1 - step : step;
}

/* Binds the consts and the step's xs, which come after the carries in both bodies. */
static void bind_rest(const sweep *s, sl_body *body, int64_t step) {
    const uint32_t first_x = s->a->attrs.carries + s->a->attrs.consts;
    for (uint32_t i = s->a->attrs.carries; i < s->inputs; i++) {
        const sl_cview *input = &s->a->inputs.items[i];
        body->bind(body, i, i < first_x ? input->data : part_of(input, place_of(s, step)));
    }
}

static void bind_set(const sweep *s, sl_body *body, const char *set) {
    for (uint32_t c = 0; c < s->a->attrs.carries; c++) body->bind(body, c, set + s->offsets[c]);
}

/* Runs one step of the body: `from` has the carries before it, `to` gets the carries after it. */
static sl_status run_step(const sweep *s, sl_body *body, int64_t step, const char *from, char *to,
                          sl_error *err) {
    bind_set(s, body, from);
    bind_rest(s, body, step);
    SL_TRY(body->run(body, err));
    for (uint32_t c = 0; c < s->a->attrs.carries; c++)
        memcpy(to + s->offsets[c], body->output(body, c),
               sl_type_bytes(&s->a->inputs.items[c].type));
    return SL_OK;
}

/* Recomputes the carries of all steps of a segment into s->within.  `end`, unless NULL, gets the
 * carries after the segment. */
static sl_status run_segment(const sweep *s, sl_body *body, int64_t segment, char *end,
                             sl_error *err) {
    const int64_t first = segment * s->segment, left = s->length - first;
    const int64_t count = left < s->segment ? left : s->segment;
    memcpy(s->within, s->starts + (size_t)segment * s->set_bytes, s->set_bytes);
    for (int64_t i = 0; i + (end ? 0 : 1) < count; i++) {
        const char *from = s->within + (size_t)i * s->set_bytes;
        char *to = i + 1 < count ? s->within + (size_t)(i + 1) * s->set_bytes : end;
        SL_TRY(run_step(s, body, first + i, from, to, err));
    }
    return SL_OK;
}

static void add_const(const sweep *s, uint32_t index, const void *value) {
    const sl_type *type = &s->a->inputs.items[s->a->attrs.carries + index].type;
    const int64_t slots = sl_type_slots(type);
    double *sums = s->sums[index];
    sl_decode_tensor(type, value, s->addend);
    if (type->dtype == SL_DTYPE_i64 || type->dtype == SL_DTYPE_u64) {
        for (int64_t i = 0; i < slots; i++) {
            uint64_t x, y;
            memcpy(&x, &sums[i], sizeof x);
            memcpy(&y, &s->addend[i], sizeof y);
            x += y;
            memcpy(&sums[i], &x, sizeof x);
        }
        return;
    }
    for (int64_t i = 0; i < slots; i++) sums[i] += s->addend[i];
}

static sl_status step_back(const sweep *s, sl_body *backward, int64_t step, const char *set,
                           sl_error *err) {
    const sl_scan_backward_attrs *attrs = &s->a->attrs;
    const int64_t t = place_of(s, step);
    bind_set(s, backward, set);
    bind_rest(s, backward, step);
    for (uint32_t c = 0; c < attrs->carries; c++)
        backward->bind(backward, s->inputs + c, s->gradients[c].now);
    for (uint32_t y = s->inputs + attrs->carries; y < SL_LIST_COUNT(s->a->inputs); y++)
        backward->bind(backward, y, part_of(&s->a->inputs.items[y], t));
    SL_TRY(backward->run(backward, err));
    for (uint32_t i = 0; s->first_result == 0 && i < attrs->consts; i++)
        add_const(s, i, backward->output(backward, attrs->carries + i));
    for (uint32_t i = attrs->carries + attrs->consts; i < s->inputs; i++)
        store_part(&s->a->results.items[i - s->first_result], t, backward->output(backward, i));
    for (uint32_t c = 0; c < attrs->carries; c++)
        advance_carry(&s->gradients[c], backward->output(backward, c));
    return SL_OK;
}

static sl_status run_sweep(const sweep *s, sl_worker *worker) {
    const sl_scan_backward_attrs *attrs = &s->a->attrs;
    sl_body *body = worker->bodies[0], *backward = worker->bodies[1];
    for (uint32_t c = 0; c < attrs->carries && s->segments; c++)
        memcpy(s->starts + s->offsets[c], s->a->inputs.items[c].data,
               sl_type_bytes(&s->a->inputs.items[c].type));
    for (int64_t g = 0; g + 1 < s->segments; g++)
        SL_TRY(run_segment(s, body, g, s->starts + (size_t)(g + 1) * s->set_bytes, worker->err));
    for (int64_t g = s->segments; g-- > 0;) {
        const int64_t first = g * s->segment, left = s->length - first;
        SL_TRY(run_segment(s, body, g, NULL, worker->err));
        for (int64_t i = left < s->segment ? left : s->segment; i-- > 0;)
            SL_TRY(step_back(s, backward, first + i, s->within + (size_t)i * s->set_bytes,
                             worker->err));
    }
    for (uint32_t c = 0; s->first_result == 0 && c < attrs->carries; c++)
        finish_carry(&s->gradients[c]);
    for (uint32_t i = 0; s->first_result == 0 && i < attrs->consts; i++) {
        const sl_view *result = &s->a->results.items[attrs->carries + i];
        sl_encode_f64(result->type.dtype, s->sums[i], sl_type_elements(&result->type),
                      result->data);
    }
    return SL_OK;
}

SPLIT(scan_backward) {
    return (sl_split){1, 1, make_sweep(args, false, NULL).used};
}
RUN(scan_backward) {
    (void)begin, (void)end;
    const sweep s = make_sweep(args, false, worker->scratch);
    return run_sweep(&s, worker);
}

/* Both ops use the same code. */
_Static_assert(sizeof(sl_scan_backward_args) == sizeof(sl_scan_backward_xs_args),
               "both gradients of scan take the same");

SPLIT(scan_backward_xs) {
    return (sl_split){1, 1, make_sweep(args, true, NULL).used};
}
RUN(scan_backward_xs) {
    (void)begin, (void)end;
    const sweep s = make_sweep(args, true, worker->scratch);
    return run_sweep(&s, worker);
}
