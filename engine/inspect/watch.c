#include "engine/inspect/watch.h"
#include "base/clock.h"
#include "engine/inspect/draw.h"
#include "runtime/devices.h"
#include "runtime/profile.h"
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_READS = 1 << 14, BUCKETS = 256, PHASES = 2, MOST_EVENTS = 1 << 20 };

/* Rows by name, in the order in which they came. */
typedef struct entry entry;
struct entry {
    sl_inspect_row row;
    entry *next_of_bucket, *next;
};
typedef struct {
    entry *buckets[BUCKETS], *first, **last;
    uint32_t count;
} rows;

/* Prefill or decode. */
typedef struct {
    sl_session_phase sums;
    double wall_seconds; /* of steps, from the first begin to the last end */
    rows ops, labels;
    sl_inspect_layer *layers; /* [layers] */
} phase;

struct sl_watcher {
    sl_arena arena; /* it lives there itself; moves to the profile */
    sl_session *session;
    sl_forward_watch watch;
    char *labels; /* the pattern; NULL: all */
    uint64_t first_pass, passes;
    uint64_t pass; /* the number of the next one */
    bool records;  /* the present one */
    double begin;  /* of the present one */
    uint64_t reads_before;
    sl_trace trace;
    uint32_t events_allocated;
    sl_read_log reads;
    phase phases[PHASES];
    uint64_t dropped;
    sl_trace_file *file; /* NULL: no trace */
    sl_status status;    /* of recording */
    sl_error err;
};

/* ---- sums ---- */

static uint32_t bucket_of(const char *name) {
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash % BUCKETS;
}

static sl_status row_named(rows *of, const char *name, sl_arena *arena, sl_inspect_row **out,
                           sl_error *err) {
    entry **bucket = &of->buckets[bucket_of(name)];
    for (entry *e = *bucket; e; e = e->next_of_bucket)
        if (strcmp(e->row.name, name) == 0) {
            *out = &e->row;
            return SL_OK;
        }
    entry *fresh = SL_ARENA_NEW(arena, entry);
    const char *copy = sl_arena_copy_text(arena, name, strlen(name));
    if (!fresh || !copy) return sl_no_memory(err, "a profile", sizeof *fresh);
    *fresh = (entry){.row.name = copy, .next_of_bucket = *bucket};
    *bucket = fresh;
    if (!of->last) of->last = &of->first;
    *of->last = fresh;
    of->last = &fresh->next;
    of->count++;
    *out = &fresh->row;
    return SL_OK;
}

static sl_status add_rows(rows *to, const sl_profile_row *from, uint32_t count, sl_arena *arena,
                          sl_error *err) {
    for (uint32_t i = 0; i < count; i++) {
        sl_inspect_row *row = NULL;
        SL_TRY(row_named(to, from[i].name, arena, &row, err));
        row->calls += from[i].calls;
        row->seconds += from[i].seconds;
    }
    return SL_OK;
}

/* The layer that a label names; NULL: none. */
static sl_inspect_layer *layer_of(const sl_watcher *w, const phase *p, const char *label) {
    unsigned layer;
    const bool has = sscanf(label, "layer %u ", &layer) == 1;
    return has && layer < w->session->model->config.layers ? &p->layers[layer] : NULL;
}

static void add_layers(const sl_watcher *w, phase *p, const sl_profile *from) {
    for (uint32_t i = 0; i < from->label_count; i++) {
        sl_inspect_layer *layer = layer_of(w, p, from->labels[i].name);
        if (layer) layer->seconds += from->labels[i].seconds;
    }
    for (uint32_t i = 0; i < w->reads.count; i++) {
        const sl_read_event *e = &w->reads.events[i];
        p->layers[e->layer].reads++;
        p->layers[e->layer].bytes_read += e->bytes;
        p->layers[e->layer].read_seconds += e->complete - e->submit;
    }
    for (uint32_t i = 0; i < w->reads.wait_count; i++)
        p->layers[w->reads.waits[i].layer].wait_seconds +=
            w->reads.waits[i].end - w->reads.waits[i].begin;
}

static sl_status add_pass(sl_watcher *w, const sl_watched_forward *pass, double seconds) {
    phase *p = &w->phases[pass->rows == 1];
    sl_arena arena;
    sl_profile profile;
    sl_arena_init(&arena, w->arena.allocator);
    sl_status status = sl_profile_build(pass->program, &w->trace, &arena, &profile, &w->err);
    if (status == SL_OK)
        status = add_rows(&p->ops, profile.ops, profile.op_count, &w->arena, &w->err);
    if (status == SL_OK)
        status = add_rows(&p->labels, profile.labels, profile.label_count, &w->arena, &w->err);
    if (status == SL_OK) {
        add_layers(w, p, &profile);
        p->sums.passes++;
        p->sums.tokens += pass->rows;
        p->sums.seconds += seconds;
        p->sums.compile_seconds += pass->compile_seconds;
        p->sums.step_seconds += profile.busy_seconds;
        p->wall_seconds += profile.wall_seconds;
        w->dropped += w->trace.dropped + w->reads.dropped + w->reads.wait_dropped;
    }
    sl_arena_deinit(&arena);
    return status;
}

/* ---- one pass ---- */

static bool is_wanted(const sl_watcher *w) {
    return w->status == SL_OK && w->pass >= w->first_pass &&
           (!w->passes || w->pass - w->first_pass < w->passes);
}

/* Room for the events of a pass of this program; what is too much is dropped and counted. */
static bool make_room(sl_watcher *w, const sl_program *program) {
    enum { CHUNKS_PER_STEP = 16 };
    uint64_t events = (uint64_t)program->step_count * CHUNKS_PER_STEP;
    if (events > MOST_EVENTS) events = MOST_EVENTS;
    if (events > w->events_allocated) {
        sl_trace_event *larger =
            sl_resize(w->arena.allocator, w->trace.events, w->events_allocated * sizeof *larger,
                      events * sizeof *larger, _Alignof(sl_trace_event));
        if (!larger) return false;
        w->events_allocated = (uint32_t)events;
        w->trace.events = larger;
    }
    w->trace.capacity = w->events_allocated;
    w->trace.count = w->trace.dropped = 0;
    return true;
}

static void begin(void *ctx, const sl_watched_forward *pass) {
    sl_watcher *w = ctx;
    w->records = is_wanted(w);
    if (w->records && !make_room(w, pass->program)) {
        w->status = sl_no_memory(&w->err, "a trace", pass->program->step_count);
        w->records = false;
    }
    w->pass++;
    if (!w->records) return;
    w->reads.count = w->reads.dropped = w->reads.wait_count = w->reads.wait_dropped = 0;
    pass->device->ops->attach(pass->executable, &w->trace);
    sl_expert_store_attach(w->session->model->store, &w->reads);
    w->begin = sl_clock_seconds();
}

static void keep_wanted_labels(sl_watcher *w, const sl_program *program) {
    uint32_t kept = 0;
    if (!w->labels) return;
    for (uint32_t i = 0; i < w->trace.count; i++)
        if (fnmatch(w->labels, program->steps[w->trace.events[i].step].label, 0) == 0)
            w->trace.events[kept++] = w->trace.events[i];
    w->trace.count = kept;
}

static void end(void *ctx, const sl_watched_forward *pass) {
    static const char *const names[PHASES] = {"prefill", "decode"};
    sl_watcher *w = ctx;
    if (!w->records) return;
    const double seconds = sl_clock_seconds() - w->begin;
    pass->device->ops->attach(pass->executable, NULL);
    sl_expert_store_attach(w->session->model->store, NULL);
    keep_wanted_labels(w, pass->program);
    w->status = add_pass(w, pass, seconds);
    if (w->status != SL_OK || !w->file) return;
    const sl_recording recording = {
        .program = pass->program,
        .trace = &w->trace,
        .reads = &w->reads,
        .name = names[pass->rows == 1],
        .first_number = (uint32_t)(w->pass - 1),
        .compile_begin = w->begin - pass->compile_seconds,
        .compile_end = pass->compile_seconds > 0 ? w->begin : 0,
    };
    sl_trace_file_add(w->file, &recording);
}

/* ---- beginning and end ---- */

static sl_status init(sl_watcher *w, const sl_session_profile_options *options, sl_error *err) {
    const uint32_t layers = w->session->model->config.layers;
    const char *labels = options->labels;
    w->watch = (sl_forward_watch){begin, end, w};
    w->first_pass = options->first_pass;
    w->passes = options->passes;
    w->reads.capacity = w->reads.wait_capacity = MOST_READS;
    w->reads.events = SL_ARENA_NEW_ARRAY(&w->arena, sl_read_event, MOST_READS);
    w->reads.waits = SL_ARENA_NEW_ARRAY(&w->arena, sl_wait_event, MOST_READS);
    bool made = w->reads.events && w->reads.waits;
    if (labels) made = made && (w->labels = sl_arena_copy_text(&w->arena, labels, strlen(labels)));
    for (int i = 0; i < PHASES && made; i++)
        made = (w->phases[i].layers = SL_ARENA_NEW_ARRAY(&w->arena, sl_inspect_layer, layers + 1));
    if (!made) return sl_no_memory(err, "a profile", layers * sizeof(sl_inspect_layer));
    if (!options->trace_path) return SL_OK;
    return sl_trace_file_open(options->trace_path, sl_clock_seconds(), w->arena.allocator, &w->file,
                              err);
}

sl_status sl_watcher_create(sl_session *session, const sl_session_profile_options *options,
                            sl_watcher **out, sl_error *err) {
    sl_arena arena;
    sl_arena_init(&arena, NULL); /* a profile may outlive the model's allocator */
    sl_watcher *w = SL_ARENA_NEW(&arena, sl_watcher);
    if (!w) return sl_no_memory(err, "a profile", sizeof *w);
    w->arena = arena;
    w->session = session;
    const sl_status status = init(w, options, err);
    if (status == SL_OK) {
        session->watch = &w->watch;
        *out = w;
    } else
        sl_watcher_destroy(w);
    return status;
}

sl_watcher *sl_watcher_of(const sl_session *session) {
    return session->watch ? session->watch->ctx : NULL;
}

/* Everything but the arena. */
static void detach(sl_watcher *w) {
    w->session->watch = NULL;
    sl_release(w->arena.allocator, w->trace.events, w->events_allocated * sizeof *w->trace.events,
               _Alignof(sl_trace_event));
}

void sl_watcher_destroy(sl_watcher *watcher) {
    if (!watcher) return;
    detach(watcher);
    if (watcher->file) (void)!sl_trace_file_close(watcher->file, false, NULL);
    sl_arena arena = watcher->arena;
    sl_arena_deinit(&arena);
}

static int by_seconds(const void *a, const void *b) {
    const sl_inspect_row *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return strcmp(x->name, y->name);
}

static sl_inspect_row *list_of(const rows *from, double total, sl_arena *arena) {
    sl_inspect_row *list = SL_ARENA_NEW_ARRAY(arena, sl_inspect_row, from->count + 1);
    uint32_t count = 0;
    for (const entry *e = from->first; e && list; e = e->next) {
        list[count] = e->row;
        list[count++].share = total > 0 ? e->row.seconds / total : 0;
    }
    if (list) qsort(list, count, sizeof *list, by_seconds);
    return list;
}

static sl_status fill_phase(sl_watcher *w, phase *p, const sl_session_phase **out, sl_error *err) {
    const double total = p->sums.step_seconds;
    const uint32_t layers = w->session->model->config.layers;
    sl_session_phase *s = &p->sums;
    const uint32_t threads = sl_device_describe(w->session->model->device).threads;
    if (p->wall_seconds > 0) s->busy_share = total / p->wall_seconds / threads;
    for (uint32_t l = 0; l < layers; l++) {
        p->layers[l].layer = l;
        p->layers[l].share = total > 0 ? p->layers[l].seconds / total : 0;
        s->reads += p->layers[l].reads;
        s->bytes_read += p->layers[l].bytes_read;
        s->read_seconds += p->layers[l].read_seconds;
        s->wait_seconds += p->layers[l].wait_seconds;
    }
    s->op_count = p->ops.count;
    s->label_count = p->labels.count;
    s->layer_count = s->passes ? layers : 0;
    s->ops = list_of(&p->ops, total, &w->arena);
    s->labels = list_of(&p->labels, total, &w->arena);
    s->layers = p->layers;
    if (!s->ops || !s->labels) return sl_no_memory(err, "a profile", s->label_count);
    *out = s;
    return SL_OK;
}

/* The arena moves into the profile. */
static sl_status fill(sl_watcher *w, sl_session_profile *out, sl_error *err) {
    sl_session_profile profile = {
        .struct_size = sizeof profile, .passes = w->pass, .events_dropped = w->dropped};
    SL_TRY(fill_phase(w, &w->phases[0], &profile.prefill, err));
    SL_TRY(fill_phase(w, &w->phases[1], &profile.decode, err));
    sl_arena *memory = SL_ARENA_NEW(&w->arena, sl_arena);
    if (!memory) return sl_no_memory(err, "a profile", sizeof *memory);
    *memory = w->arena;
    profile.memory = memory;
    *out = profile;
    return SL_OK;
}

sl_status sl_watcher_finish(sl_watcher *watcher, sl_session_profile *out, sl_error *err) {
    sl_status status = watcher->status;
    if (status != SL_OK && err) *err = watcher->err;
    if (watcher->file) {
        sl_trace_file *file = watcher->file;
        watcher->file = NULL;
        sl_error of_file;
        const sl_status written = sl_trace_file_close(file, status == SL_OK, &of_file);
        if (status == SL_OK && written != SL_OK && err) *err = of_file;
        if (status == SL_OK) status = written;
    }
    if (status == SL_OK && out) {
        status = fill(watcher, out, err);
        if (status == SL_OK) {
            detach(watcher);
            return SL_OK;
        }
    }
    sl_watcher_destroy(watcher);
    return status;
}
