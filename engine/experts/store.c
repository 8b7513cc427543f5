/* store.c - The expert store: slots, and reads into them.
 *
 * A slot is idle (evictable, in the idle list), ready (wanted by the current request, in the ready
 * list), loading (reads in flight, in no list) or leased (in no list).  The contents of a slot are
 * in a frame.  Experts whose file layout differs from the layout of the kernels are converted into
 * a spare frame when they are first taken, and the frame that they were read into becomes the
 * spare. One thread at a time waits for the disk, without the lock; the others wait for that
 * thread.  Reads of an abandoned request continue and fill the cache. */
#include "engine/experts/store.h"
#include "base/clock.h"
#include "base/sizes.h"
#include "engine/experts/arrange.h"
#include "engine/experts/check.h"
#include "engine/experts/policy.h"
#include <pthread.h>
#include <string.h>
#include <xxhash.h>

#define NONE UINT32_MAX
enum {
    DATA_ALIGNMENT = 64,
    SLOTS_ALIGNMENT = 4096,
    /* Experts with reads in flight: enough to keep the disk busy, but not more, because all of
     * them share its bandwidth and the first would arrive late. */
    FEWEST_LOADING = 2,
    MOST_LOADING = 32,
    LEAST_LOADING_BYTES = 3 << 20
};

typedef struct {
    uint32_t previous, next; /* links of the list that it is in */
    uint32_t key;            /* layer * experts + expert; NONE: empty, or its read has failed */
    uint32_t leases;
    uint32_t parts_left; /* reads in flight */
    bool checked;        /* checksums verified, and converted */
    bool preparing;      /* a lease holder is verifying and converting it */
    uint32_t frame;      /* index of its memory */
    uint64_t wanted_by;  /* the request that has not taken it yet; 0: none */
    uint64_t read_by;    /* the request that its reads were started for */
    bool again;          /* a read that an abandoned request had started has failed */
    double submitted;    /* when its reads began */
} slot;

typedef struct {
    uint32_t first, last;
} slot_list;

typedef struct {
    uint32_t uses, misses;
} use_count;

typedef struct {
    uint64_t serial;      /* increasing, from 1 */
    uint32_t layer, left; /* left: not yet taken */
    uint32_t waiting_first, waiting_end;
    uint32_t window;  /* maximum number of experts read at the same time */
    sl_error failure; /* SL_OK: none so far */
} request;

struct sl_expert_store {
    sl_expert_source source;
    const sl_expert_table *table;
    sl_reader *reader;
    const sl_allocator *allocator;
    size_t own_bytes; /* this struct including the arrays after it */
    unsigned char *memory;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    bool reading; /* a thread waits for the disk */
    uint32_t waiters;
    double wait_begin;
    uint32_t in_flight; /* reads */
    uint32_t loading;   /* slots with reads in flight */
    slot_list idle;     /* empty ones first, then least recently used first */
    slot_list ready;
    request current;
    uint32_t spares; /* spare frames, in spare[0 .. spares) */
    uint32_t *spare;
    sl_expert_stats stats;
    sl_read_log *log; /* NULL: none */
    sl_expert_policy policy;
    uint32_t *slot_of; /* [layers * experts]: slot or NONE */
    uint32_t *waiting; /* [experts]: keys of the current request without a slot */
    use_count *counts; /* [layers * experts] */
    bool *verified;    /* [layers * experts]: checksums have been verified */
    slot slots[];
};

/* The place of a part on disk and in a slot. */
typedef struct {
    sl_extent extent;
    uint64_t skip; /* bytes before it that are read for alignment */
    uint64_t at;   /* offset of the read in the slot */
} place;

static uint64_t span(const sl_reader *reader, const sl_extent *extent) {
    const uint32_t alignment = sl_reader_alignment(reader);
    return sl_round_up(extent->offset % alignment + extent->bytes,
                       alignment > DATA_ALIGNMENT ? alignment : DATA_ALIGNMENT);
}

static place find_place(const sl_expert_store *store, uint32_t key, uint32_t part) {
    const sl_expert_layer *layer = &store->table->layer[key / store->table->experts];
    const sl_extent *parts =
        &layer->parts[(size_t)(key % store->table->experts) * layer->part_count];
    place found = {.extent = parts[part]};
    found.skip = parts[part].offset % sl_reader_alignment(store->reader);
    for (uint32_t p = 0; p < part; p++) found.at += span(store->reader, &parts[p]);
    return found;
}

static unsigned char *frame_memory(const sl_expert_store *store, uint32_t frame) {
    return store->memory + frame * store->stats.slot_bytes;
}

static unsigned char *slot_memory(const sl_expert_store *store, uint32_t s) {
    return frame_memory(store, store->slots[s].frame);
}

static uint32_t part_count(const sl_expert_store *store, uint32_t key) {
    return store->table->layer[key / store->table->experts].part_count;
}

/* Lists. */

static void list_insert(sl_expert_store *store, slot_list *list, uint32_t s, uint32_t previous) {
    const uint32_t next = previous == NONE ? list->first : store->slots[previous].next;
    store->slots[s].previous = previous;
    store->slots[s].next = next;
    *(previous == NONE ? &list->first : &store->slots[previous].next) = s;
    *(next == NONE ? &list->last : &store->slots[next].previous) = s;
}

static void list_remove(sl_expert_store *store, slot_list *list, uint32_t s) {
    const slot *self = &store->slots[s];
    *(self->previous == NONE ? &list->first : &store->slots[self->previous].next) = self->next;
    *(self->next == NONE ? &list->last : &store->slots[self->next].previous) = self->previous;
}

/* An unused slot goes to the end of the idle list, or to its front if it is empty. */
static void rest(sl_expert_store *store, uint32_t s) {
    const slot *self = &store->slots[s];
    if (self->leases || self->parts_left || self->wanted_by == store->current.serial) return;
    list_insert(store, &store->idle, s, self->key == NONE ? NONE : store->idle.last);
}

/* Failure. */

static bool has_failed(const sl_expert_store *store) {
    return store->current.failure.status != SL_OK;
}

/* Fails the current request; its first error is the one that is reported. */
static void fail_request(sl_expert_store *store, const sl_error *failure) {
    if (!has_failed(store)) store->current.failure = *failure;
    store->current.waiting_end = store->current.waiting_first;
}

/* Empties a slot whose contents cannot be read, and fails the request that wants them. */
static void discard(sl_expert_store *store, uint32_t s, const sl_error *failure) {
    slot *self = &store->slots[s];
    if (self->key == NONE) return;
    if (self->wanted_by == store->current.serial) fail_request(store, failure);
    store->slot_of[self->key] = NONE;
    self->key = NONE;
    self->wanted_by = 0;
}

static void name_expert(const sl_expert_store *store, uint32_t key, sl_error *err) {
    const uint32_t experts = store->table->experts;
    (void)!sl_fail_in(err, err->status, "layer %u expert %u", key / experts, key % experts);
}

/* Reading. */

static void start_read(sl_expert_store *store, uint32_t s) {
    slot *self = &store->slots[s];
    const uint32_t parts = part_count(store, self->key);
    for (uint32_t part = 0; part < parts && self->key != NONE; part++) {
        const place from = find_place(store, self->key, part);
        const sl_read read = {.file = from.extent.file,
                              .offset = from.extent.offset - from.skip,
                              .bytes = from.skip + from.extent.bytes,
                              .into = slot_memory(store, s) + from.at,
                              .tag = (uint64_t)s * SL_MAX_EXPERT_PARTS + part};
        sl_error err = {0};
        if (sl_reader_submit(store->reader, &read, &err) == SL_OK) {
            self->parts_left++;
            store->in_flight++;
        } else {
            name_expert(store, self->key, &err);
            discard(store, s, &err);
        }
    }
    if (self->parts_left)
        store->loading++;
    else
        rest(store, s);
}

/* The idle slot to evict: an empty one if possible, else the one whose next use is expected last.
 */
static uint32_t choose_victim(const sl_expert_store *store) {
    uint32_t best = store->idle.first;
    float farthest = -1;
    for (uint32_t s = best; s != NONE; s = store->slots[s].next) {
        if (store->slots[s].key == NONE) return s;
        const float distance =
            sl_expert_policy_distance(&store->policy, store->slots[s].key, store->current.layer);
        if (distance <= farthest) continue;
        farthest = distance;
        best = s;
    }
    return best;
}

/* Assigns slots to waiting experts while there are idle slots and the disk is not busy enough. */
static void start_waiting(sl_expert_store *store) {
    request *current = &store->current;
    while (current->waiting_first < current->waiting_end && store->idle.first != NONE &&
           store->loading < current->window) {
        const uint32_t s = choose_victim(store);
        const uint32_t key = store->waiting[current->waiting_first++];
        slot *self = &store->slots[s];
        list_remove(store, &store->idle, s);
        if (self->key != NONE) store->slot_of[self->key] = NONE;
        *self = (slot){.key = key,
                       .frame = self->frame,
                       .wanted_by = current->serial,
                       .read_by = current->serial,
                       .submitted = sl_clock_seconds()};
        store->slot_of[key] = s;
        start_read(store, s);
    }
}

static void log_arrival(sl_expert_store *store, const slot *arrived) {
    sl_read_log *log = store->log;
    if (!log || arrived->key == NONE) return;
    if (log->count == log->capacity) {
        log->dropped++;
        return;
    }
    uint64_t bytes = 0;
    for (uint32_t part = 0; part < part_count(store, arrived->key); part++)
        bytes += find_place(store, arrived->key, part).extent.bytes;
    log->events[log->count++] = (sl_read_event){.layer = arrived->key / store->table->experts,
                                                .expert = arrived->key % store->table->experts,
                                                .bytes = bytes,
                                                .submit = arrived->submitted,
                                                .complete = sl_clock_seconds()};
}

/* Whether the current request wants what an abandoned one has begun to read. */
static bool is_late_wish(const sl_expert_store *store, const slot *self) {
    const uint64_t serial = store->current.serial;
    return self->key != NONE && self->wanted_by == serial && self->read_by != serial;
}

/* The error of an abandoned request is not that of the next: its read is repeated.  False: nobody
 * wants the contents any more, and they are discarded. */
static bool read_again(sl_expert_store *store, uint32_t s, const sl_error *failure) {
    slot *self = &store->slots[s];
    self->again = false;
    if (!is_late_wish(store, self) || has_failed(store)) {
        discard(store, s, failure);
        return false;
    }
    self->read_by = store->current.serial;
    self->submitted = sl_clock_seconds();
    start_read(store, s);
    return true;
}

static void finish_read(sl_expert_store *store, const sl_read_result *result) {
    const uint32_t s = (uint32_t)(result->tag / SL_MAX_EXPERT_PARTS);
    slot *self = &store->slots[s];
    store->in_flight--;
    store->stats.read_seconds += result->seconds;
    self->parts_left--;
    if (result->status != SL_OK && is_late_wish(store, self)) {
        self->again = true;
    } else if (result->status != SL_OK && self->key != NONE) {
        sl_error err = result->error;
        name_expert(store, self->key, &err);
        discard(store, s, &err);
    } else if (self->key != NONE) {
        const place from =
            find_place(store, self->key, (uint32_t)(result->tag % SL_MAX_EXPERT_PARTS));
        store->stats.bytes_read +=
            sl_round_up(from.skip + from.extent.bytes, sl_reader_alignment(store->reader));
    }
    if (self->parts_left) return;
    store->loading--;
    if (self->again && read_again(store, s, &result->error)) return;
    log_arrival(store, self);
    if (self->wanted_by == store->current.serial)
        list_insert(store, &store->ready, s, store->ready.last);
    else
        rest(store, s);
    start_waiting(store);
}

static void collect_finished(sl_expert_store *store) {
    sl_read_result result;
    while (!store->reading && store->in_flight && sl_reader_poll(store->reader, &result))
        finish_read(store, &result);
}

/* Stalls are counted in wall time, not per waiting thread. */
static void begin_wait(sl_expert_store *store) {
    if (store->waiters++ == 0) store->wait_begin = sl_clock_seconds();
}

static void log_wait(sl_expert_store *store, double end) {
    sl_read_log *log = store->log;
    if (!log) return;
    if (log->wait_count == log->wait_capacity)
        log->wait_dropped++;
    else
        log->waits[log->wait_count++] =
            (sl_wait_event){store->current.layer, store->wait_begin, end};
}

static void end_wait(sl_expert_store *store) {
    if (--store->waiters > 0) return;
    const double now = sl_clock_seconds();
    store->stats.stall_seconds += now - store->wait_begin;
    log_wait(store, now);
}

/* Waits for a read, for the thread that waits for reads, or for a release. */
static void wait_for_change(sl_expert_store *store) {
    begin_wait(store);
    if (store->in_flight && !store->reading) {
        sl_read_result result;
        sl_error err = {0};
        store->reading = true;
        pthread_mutex_unlock(&store->lock);
        const sl_status status = sl_reader_next(store->reader, &result, &err);
        pthread_mutex_lock(&store->lock);
        store->reading = false;
        if (status == SL_OK)
            finish_read(store, &result);
        else
            fail_request(store, &err);
        pthread_cond_broadcast(&store->changed);
    } else {
        pthread_cond_wait(&store->changed, &store->lock);
    }
    end_wait(store);
}

/* Leases. */

/* Accesses the slot without the lock, because it is leased. */
static sl_status check_contents(const sl_expert_store *store, uint32_t s, uint32_t key,
                                sl_error *err) {
    const uint32_t experts = store->table->experts, parts = part_count(store, key);
    const uint64_t *checksums = store->table->layer[key / experts].checksums;
    if (!checksums) return SL_OK;
    for (uint32_t part = 0; part < parts; part++) {
        const place from = find_place(store, key, part);
        const uint64_t wanted = checksums[key % experts * parts + part];
        const uint64_t found =
            XXH3_64bits(slot_memory(store, s) + from.at + from.skip, from.extent.bytes);
        if (found != wanted)
            return sl_fail(err, SL_FORMAT,
                           "checksum of %llu bytes at offset %llu of file %u is %016llx, wanted "
                           "%016llx",
                           (unsigned long long)from.extent.bytes,
                           (unsigned long long)from.extent.offset, from.extent.file,
                           (unsigned long long)found, (unsigned long long)wanted);
    }
    return SL_OK;
}

static sl_cview view_of(const sl_expert_store *store, uint32_t s, uint32_t key, int matrix) {
    const sl_expert_layer *layer = &store->table->layer[key / store->table->experts];
    const sl_expert_matrix *m = &layer->matrices[matrix];
    if (sl_expert_is_arranged(layer))
        return (sl_cview){slot_memory(store, s) + sl_expert_arranged_at(layer, matrix), m->type};
    const place from = find_place(store, key, m->pieces[0].part);
    return (sl_cview){slot_memory(store, s) + from.at + from.skip + m->pieces[0].offset, m->type};
}

/* A leased slot has the wrong contents: fails this request, and a newer one that wants the same
 * expert. */
static void reject(sl_expert_store *store, uint32_t s, uint64_t serial, const sl_error *failure) {
    slot *self = &store->slots[s];
    if (self->wanted_by == store->current.serial) list_remove(store, &store->ready, s);
    if (serial == store->current.serial) fail_request(store, failure);
    discard(store, s, failure);
    self->leases--;
    rest(store, s);
    start_waiting(store);
    pthread_cond_broadcast(&store->changed);
}

/* Without the lock: slot and frame belong to the caller. */
static void arrange(const sl_expert_store *store, uint32_t s, uint32_t key, uint32_t frame) {
    const sl_expert_layer *layer = &store->table->layer[key / store->table->experts];
    const void *parts[SL_MAX_EXPERT_PARTS];
    for (uint32_t part = 0; part < layer->part_count; part++) {
        const place from = find_place(store, key, part);
        parts[part] = slot_memory(store, s) + from.at + from.skip;
    }
    sl_expert_arrange(layer, parts, frame_memory(store, frame));
}

/* Called with the lock, which is released meanwhile: verifies checksums and converts the matrices
 * if necessary.  The slot is leased. */
static sl_status prepare(sl_expert_store *store, uint32_t s, uint32_t key, sl_error *err) {
    slot *self = &store->slots[s];
    const bool arranges = sl_expert_is_arranged(&store->table->layer[key / store->table->experts]);
    while (self->preparing || (!self->checked && arranges && store->spares == 0))
        pthread_cond_wait(&store->changed, &store->lock);
    if (self->checked) return SL_OK;
    self->preparing = true;
    const bool verified = store->verified[key];
    const uint32_t frame = arranges ? store->spare[--store->spares] : self->frame;
    pthread_mutex_unlock(&store->lock);
    const sl_status status = verified ? SL_OK : check_contents(store, s, key, err);
    if (status == SL_OK && arranges) arrange(store, s, key, frame);
    pthread_mutex_lock(&store->lock);
    self->preparing = false;
    self->checked = status == SL_OK;
    store->verified[key] |= self->checked;
    if (arranges) store->spare[store->spares++] = self->checked ? self->frame : frame;
    if (self->checked) self->frame = frame;
    if (store->waiters || arranges) pthread_cond_broadcast(&store->changed);
    return status;
}

/* Called with the lock, which is released while the contents are prepared.  The slot is leased. */
static sl_status lend(sl_expert_store *store, uint32_t s, sl_expert_lease *out, sl_error *err) {
    slot *self = &store->slots[s];
    const uint32_t key = self->key;
    const uint64_t serial = store->current.serial;
    if (!self->checked) {
        sl_error bad = {0};
        const sl_status status = prepare(store, s, key, &bad);
        if (status != SL_OK) {
            name_expert(store, key, &bad);
            reject(store, s, serial, &bad);
            if (err) *err = bad;
            return status;
        }
    }
    *out = (sl_expert_lease){.expert = (int32_t)(key % store->table->experts),
                             .slot = {s},
                             .gate = view_of(store, s, key, SL_GATE),
                             .up = view_of(store, s, key, SL_UP),
                             .down = view_of(store, s, key, SL_DOWN)};
    return SL_OK;
}

static sl_status take_locked(sl_expert_store *store, uint32_t layer, sl_expert_lease *out,
                             sl_error *err) {
    request *current = &store->current;
    *out = (sl_expert_lease){.expert = -1};
    if (current->serial == 0 || current->layer != layer)
        return sl_fail(err, SL_INVALID, "experts of layer %u taken without a request", layer);
    for (const uint64_t serial = current->serial;;) {
        collect_finished(store);
        if (current->serial != serial)
            return sl_fail(err, SL_CANCELLED, "layer %u: the request for experts was abandoned",
                           layer);
        if (has_failed(store)) {
            if (err) *err = current->failure;
            return current->failure.status;
        }
        if (current->left == 0) return SL_OK;
        if (store->ready.first != NONE) break;
        wait_for_change(store);
    }
    const uint32_t s = store->ready.first;
    list_remove(store, &store->ready, s);
    store->slots[s].wanted_by = 0;
    store->slots[s].leases++;
    if (--current->left == 0) pthread_cond_broadcast(&store->changed);
    return lend(store, s, out, err);
}

static sl_status take(sl_expert_source *source, sl_layer_id layer, sl_expert_lease *out,
                      sl_error *err) {
    sl_expert_store *store = (sl_expert_store *)source;
    pthread_mutex_lock(&store->lock);
    const sl_status status = take_locked(store, layer.v, out, err);
    pthread_mutex_unlock(&store->lock);
    return status;
}

static void release(sl_expert_source *source, const sl_expert_lease *lease) {
    sl_expert_store *store = (sl_expert_store *)source;
    if (lease->expert < 0) return;
    pthread_mutex_lock(&store->lock);
    store->slots[lease->slot.v].leases--;
    rest(store, lease->slot.v);
    start_waiting(store);
    if (store->waiters) pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

/* Requests. */

static sl_status check_request(const sl_expert_table *table, uint32_t layer, const int32_t *experts,
                               uint32_t count, sl_error *err) {
    if (layer >= table->layers)
        return sl_fail(err, SL_INVALID, "experts of layer %u requested, there are %u layers", layer,
                       table->layers);
    if (count && !table->layer[layer].part_count)
        return sl_fail(err, SL_INVALID, "experts of layer %u requested, which has none", layer);
    for (uint32_t i = 0; i < count; i++) {
        if (experts[i] < 0 || (uint32_t)experts[i] >= table->experts)
            return sl_fail(err, SL_INVALID, "layer %u expert %d requested, there are %u", layer,
                           experts[i], table->experts);
        if (i > 0 && experts[i] <= experts[i - 1])
            return sl_fail(err, SL_INVALID, "layer %u: expert %d requested after %d, not ascending",
                           layer, experts[i], experts[i - 1]);
    }
    return SL_OK;
}

/* Abandons the current request; experts that were ready stay in memory. */
static void abandon(sl_expert_store *store) {
    store->current = (request){.serial = store->current.serial + 1};
    while (store->ready.first != NONE) {
        const uint32_t s = store->ready.first;
        list_remove(store, &store->ready, s);
        rest(store, s);
    }
}

static void want(sl_expert_store *store, uint32_t expert) {
    const uint32_t key = store->current.layer * store->table->experts + expert;
    const uint32_t s = store->slot_of[key];
    sl_expert_policy_use(&store->policy, store->current.layer, expert);
    store->counts[key].uses++;
    if (s == NONE) {
        store->counts[key].misses++;
        store->stats.misses++;
        store->stats.first_reads += !store->verified[key];
        store->waiting[store->current.waiting_end++] = key;
        return;
    }
    slot *self = &store->slots[s];
    store->stats.hits++;
    if (!self->leases && !self->parts_left) list_remove(store, &store->idle, s);
    self->wanted_by = store->current.serial;
    if (!self->parts_left) list_insert(store, &store->ready, s, store->ready.last);
}

/* Half of the missing experts, within limits. */
static uint32_t window_of(const sl_expert_store *store) {
    uint32_t window = store->current.waiting_end / 2;
    const uint64_t least = LEAST_LOADING_BYTES / (store->stats.slot_bytes + 1) + 1;
    if (window < least) window = least < MOST_LOADING ? (uint32_t)least : MOST_LOADING;
    if (window < FEWEST_LOADING) window = FEWEST_LOADING;
    return window < MOST_LOADING ? window : MOST_LOADING;
}

/* All hits are pinned before the first miss may evict. */
static sl_status request_experts(sl_expert_source *source, sl_layer_id layer,
                                 const int32_t *experts, uint32_t count, sl_error *err) {
    sl_expert_store *store = (sl_expert_store *)source;
    SL_TRY(check_request(store->table, layer.v, experts, count, err));
    pthread_mutex_lock(&store->lock);
    abandon(store);
    store->current.layer = layer.v;
    store->current.left = count;
    sl_expert_policy_begin(&store->policy, layer.v);
    for (uint32_t i = 0; i < count; i++) want(store, (uint32_t)experts[i]);
    store->current.window = window_of(store);
    collect_finished(store);
    start_waiting(store);
    const sl_status status = store->current.failure.status;
    if (status != SL_OK && err) *err = store->current.failure;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* Creation. */

/* Large enough for any expert. */
static uint64_t largest_slot(const sl_expert_table *table, const sl_reader *reader) {
    uint64_t largest = 0;
    for (uint32_t l = 0; l < table->layers; l++) {
        const sl_expert_layer *layer = &table->layer[l];
        if (sl_expert_is_arranged(layer)) {
            const uint64_t arranged =
                sl_round_up(sl_expert_arranged_at(layer, SL_EXPERT_MATRICES), SLOTS_ALIGNMENT);
            if (arranged > largest) largest = arranged;
        }
        for (uint32_t e = 0; e < table->experts; e++) {
            uint64_t bytes = 0;
            for (uint32_t p = 0; p < layer->part_count; p++)
                bytes += span(reader, &layer->parts[e * layer->part_count + p]);
            if (bytes > largest) largest = bytes;
        }
    }
    return largest;
}

/* Experts that are converted at the same time: as many as one token uses. */
static uint32_t spare_frames(const sl_expert_table *table) {
    for (uint32_t l = 0; l < table->layers; l++)
        if (sl_expert_is_arranged(&table->layer[l])) return table->experts_used;
    return 0;
}

/* Memory of the store apart from the frames. */
static uint64_t own_bytes(const sl_expert_table *table, uint64_t slot_count) {
    const uint64_t keys = (uint64_t)table->layers * table->experts;
    return sizeof(sl_expert_store) + slot_count * sizeof(slot) +
           (keys + table->experts + spare_frames(table)) * sizeof(uint32_t) +
           sl_expert_policy_bytes(table->layers, table->experts) +
           keys * (sizeof(use_count) + sizeof(bool));
}

uint64_t sl_expert_store_minimum(const sl_expert_table *table, const sl_reader *reader) {
    uint64_t bytes = 0;
    if (!sl_multiply((uint64_t)table->experts_used + spare_frames(table),
                     largest_slot(table, reader), &bytes) ||
        !sl_add(bytes, own_bytes(table, table->experts_used), &bytes))
        return UINT64_MAX;
    return bytes;
}

sl_status sl_expert_store_plan(const sl_expert_table *table, const sl_reader *reader,
                               uint64_t budget_bytes, sl_expert_stats *out, sl_error *err) {
    const uint64_t all = sl_expert_table_count(table);
    const uint64_t minimum = sl_expert_store_minimum(table, reader);
    const uint64_t slot_bytes = largest_slot(table, reader), spares = spare_frames(table);
    uint64_t count = all, total = 0;
    if (budget_bytes && budget_bytes < minimum)
        return sl_fail(err, SL_NO_MEMORY,
                       "expert budget of %llu bytes, at least %llu are needed for %u experts",
                       (unsigned long long)budget_bytes, (unsigned long long)minimum,
                       table->experts_used);
    if (budget_bytes)
        count = (budget_bytes - own_bytes(table, 0) - spares * slot_bytes) /
                (slot_bytes + sizeof(slot));
    if (count > all) count = all;
    if (!sl_multiply(count + spares, slot_bytes, &total) || total > SIZE_MAX / 2)
        return sl_no_memory(err, "the slots of all experts", total);
    *out = (sl_expert_stats){.slot_count = count,
                             .slot_bytes = slot_bytes,
                             .used_bytes = own_bytes(table, count) + total};
    return SL_OK;
}

static void init(sl_expert_store *store) {
    const uint32_t count = (uint32_t)store->stats.slot_count;
    const uint32_t keys = store->table->layers * store->table->experts;
    store->source = (sl_expert_source){request_experts, take, release, count};
    store->slot_of = (uint32_t *)(store->slots + count);
    store->waiting = store->slot_of + keys;
    store->spare = store->waiting + store->table->experts;
    char *weights = (char *)(store->spare + spare_frames(store->table));
    sl_expert_policy_init(&store->policy, store->table->layers, store->table->experts, weights);
    weights += sl_expert_policy_bytes(store->table->layers, store->table->experts);
    store->counts = (use_count *)weights;
    store->verified = (bool *)(store->counts + keys);
    store->idle = store->ready = (slot_list){NONE, NONE};
    for (uint32_t key = 0; key < keys; key++) store->slot_of[key] = NONE;
    for (uint32_t s = 0; s < count; s++) {
        store->slots[s].key = NONE;
        store->slots[s].frame = s;
        list_insert(store, &store->idle, s, store->idle.last);
    }
    store->spares = spare_frames(store->table);
    for (uint32_t i = 0; i < store->spares; i++) store->spare[i] = count + i;
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->changed, NULL);
}

/* Reads in flight at the same time: of a request, and of one abandoned before it. */
static uint32_t most_reads(const sl_expert_table *table) {
    uint32_t parts = 1;
    for (uint32_t l = 0; l < table->layers; l++)
        if (table->layer[l].part_count > parts) parts = table->layer[l].part_count;
    return 2 * table->experts * parts;
}

static size_t frame_bytes(const sl_expert_table *table, const sl_expert_stats *stats) {
    return (stats->slot_count + spare_frames(table)) * stats->slot_bytes;
}

sl_status sl_expert_store_create(const sl_expert_table *table, sl_reader *reader,
                                 uint64_t budget_bytes, const sl_allocator *allocator,
                                 sl_expert_store **out, sl_error *err) {
    *out = NULL;
    sl_expert_stats stats;
    SL_TRY(sl_expert_table_check(table, err));
    SL_TRY(sl_expert_store_plan(table, reader, budget_bytes, &stats, err));
    SL_TRY(sl_reader_reserve(reader, most_reads(table), err));
    const size_t bytes = own_bytes(table, stats.slot_count);
    const size_t memory_bytes = frame_bytes(table, &stats);
    sl_expert_store *store = sl_allocate(allocator, bytes, _Alignof(sl_expert_store));
    if (!store) return sl_no_memory(err, "the expert store", bytes);
    /* Not zeroed, so that pages of unused slots are never touched. */
    unsigned char *memory =
        memory_bytes ? sl_resize(allocator, NULL, 0, memory_bytes, SLOTS_ALIGNMENT) : NULL;
    if (!memory && memory_bytes) {
        sl_release(allocator, store, bytes, _Alignof(sl_expert_store));
        return sl_no_memory(err, "expert slots", memory_bytes);
    }
    store->table = table;
    store->reader = reader;
    store->allocator = allocator;
    store->own_bytes = bytes;
    store->memory = memory;
    store->stats = stats;
    init(store);
    *out = store;
    return SL_OK;
}

void sl_expert_store_destroy(sl_expert_store *store) {
    if (!store) return;
    sl_read_result result;
    while (store->in_flight && sl_reader_next(store->reader, &result, NULL) == SL_OK)
        store->in_flight--;
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    sl_release(store->allocator, store->memory, frame_bytes(store->table, &store->stats),
               SLOTS_ALIGNMENT);
    sl_release(store->allocator, store, store->own_bytes, _Alignof(sl_expert_store));
}

sl_expert_source *sl_expert_store_source(sl_expert_store *store) {
    return &store->source;
}

sl_expert_stats sl_expert_store_stats(const sl_expert_store *store) {
    pthread_mutex_t *lock = (pthread_mutex_t *)&store->lock;
    pthread_mutex_lock(lock);
    const sl_expert_stats stats = store->stats;
    pthread_mutex_unlock(lock);
    return stats;
}

void sl_expert_store_uses(const sl_expert_store *store, sl_expert_use *out) {
    pthread_mutex_t *lock = (pthread_mutex_t *)&store->lock;
    const uint32_t keys = store->table->layers * store->table->experts;
    pthread_mutex_lock(lock);
    for (uint32_t key = 0; key < keys; key++) {
        const uint32_t s = store->slot_of[key];
        out[key] = (sl_expert_use){.uses = store->counts[key].uses,
                                   .misses = store->counts[key].misses,
                                   .in_memory = s != NONE && !store->slots[s].parts_left};
    }
    pthread_mutex_unlock(lock);
}

void sl_expert_store_attach(sl_expert_store *store, sl_read_log *log) {
    pthread_mutex_lock(&store->lock);
    store->log = log;
    pthread_mutex_unlock(&store->lock);
}
