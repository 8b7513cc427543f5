#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/experts/policy.h"
#include "engine/experts/store.h"
#include "io/simulated.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    LAYERS = 4,
    EXPERTS = 24,
    USED = 4,
    KEYS = LAYERS * EXPERTS,
    INNER = 24,
    HIDDEN = 41,
    MATRIX_BYTES = INNER * HIDDEN * 4,
    DISK_BYTES = 4 << 20,
    FILES = 2
};

/* A model on a simulated disk: layer l has 1 + l % 3 parts per expert, at odd offsets, spread over
 * two files. */
typedef struct {
    unsigned char *disk[FILES];
    sl_expert_layer layers[LAYERS];
    sl_extent parts[LAYERS][EXPERTS * SL_MAX_EXPERT_PARTS];
    uint64_t checksums[LAYERS][EXPERTS * SL_MAX_EXPERT_PARTS];
    sl_expert_table table;
    sl_reader *reader;
    sl_expert_store *store;
    sl_expert_source *source;
} world;

static uint64_t random_state;

static uint32_t draw(uint32_t below) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % below;
}

/* Whether most matrices of all but the last layer lie on disk with every bit turned. */
static bool has_forms;

static void turn_bits(const sl_raw_matrix *raw, void *out) {
    for (int64_t i = 0; i < raw->rows * raw->cols * 4; i++)
        ((unsigned char *)out)[i] = (unsigned char)~raw->parts[0][i];
}
static const sl_tensor_form turned = {"turned", turn_bits};

static void describe_layer(world *w, uint32_t l) {
    static const struct {
        uint32_t part, index; /* index: matrices before it in the part */
    } layouts[3][SL_EXPERT_MATRICES] = {
        {{0, 0}, {0, 1}, {0, 2}}, {{0, 0}, {0, 1}, {1, 0}}, {{0, 0}, {1, 0}, {2, 0}}};
    sl_expert_layer *layer = &w->layers[l];
    const uint32_t kind = l % 3;
    layer->part_count = kind + 1;
    layer->parts = w->parts[l];
    for (uint32_t m = 0; m < SL_EXPERT_MATRICES; m++)
        layer->matrices[m] = (sl_expert_matrix){
            .type = m == SL_DOWN ? sl_type_make(SL_DTYPE_f32, 2, (int64_t)HIDDEN, (int64_t)INNER)
                                 : sl_type_make(SL_DTYPE_f32, 2, (int64_t)INNER, (int64_t)HIDDEN),
            .piece_count = 1,
            .pieces = {{layouts[kind][m].part, (uint64_t)layouts[kind][m].index * MATRIX_BYTES,
                        MATRIX_BYTES}},
            .form = has_forms && l + 1 < LAYERS && l != m ? &turned : NULL};
}

static void lay_out(world *w, bool checksums) {
    uint64_t end[FILES] = {13, 4096};
    for (uint32_t l = 0; l < LAYERS; l++) {
        describe_layer(w, l);
        const uint32_t count = w->layers[l].part_count;
        for (uint32_t i = 0; i < EXPERTS * count; i++) {
            uint64_t bytes = 0;
            for (uint32_t m = 0; m < SL_EXPERT_MATRICES; m++)
                bytes += w->layers[l].matrices[m].pieces[0].part == i % count ? MATRIX_BYTES : 0;
            const uint32_t file = draw(FILES);
            w->parts[l][i] = (sl_extent){file, end[file], bytes};
            w->checksums[l][i] = XXH3_64bits(w->disk[file] + end[file], bytes);
            end[file] += bytes + draw(300);
            assert_true(end[file] < DISK_BYTES);
        }
        w->layers[l].checksums = checksums ? w->checksums[l] : NULL;
    }
}

static world *make_world(sl_simulated_options options, bool checksums) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    random_state = options.seed;
    sl_simulated_file files[FILES];
    for (uint32_t f = 0; f < FILES; f++) {
        w->disk[f] = malloc(DISK_BYTES);
        assert_non_null(w->disk[f]);
        for (uint32_t i = 0; i < DISK_BYTES; i++) w->disk[f][i] = (unsigned char)draw(256);
        files[f] = (sl_simulated_file){f ? "disk/b" : "disk/a", w->disk[f], DISK_BYTES};
    }
    lay_out(w, checksums);
    w->table = (sl_expert_table){.layers = LAYERS,
                                 .experts = EXPERTS,
                                 .experts_used = USED,
                                 .layer = w->layers,
                                 .expert_bytes = 3 * MATRIX_BYTES,
                                 .total_bytes = (uint64_t)KEYS * 3 * MATRIX_BYTES};
    assert_int_equal(sl_simulated_open(files, FILES, &options, NULL, &w->reader, NULL), SL_OK);
    return w;
}

static void open_store(world *w, uint64_t budget_bytes) {
    sl_error err = {0};
    const sl_status status =
        sl_expert_store_create(&w->table, w->reader, budget_bytes, NULL, &w->store, &err);
    if (status != SL_OK) print_message("%s\n", err.message);
    assert_int_equal(status, SL_OK);
    w->source = sl_expert_store_source(w->store);
}

/* A budget for exactly this many slots. */
static void open_store_of(world *w, uint32_t slots) {
    w->table.experts_used = slots < USED ? slots : USED;
    const uint32_t used = w->table.experts_used;
    w->table.experts_used = slots;
    const uint64_t budget = sl_expert_store_minimum(&w->table, w->reader);
    w->table.experts_used = used;
    open_store(w, budget);
    if (has_forms) { /* one more frame for each expert used, of which there are only that many */
        const uint64_t more = (slots - used) * sl_expert_store_stats(w->store).slot_bytes;
        sl_expert_store_destroy(w->store);
        open_store(w, budget - more);
    }
    assert_int_equal(sl_expert_store_stats(w->store).slot_count, slots);
    assert_true(sl_expert_store_stats(w->store).used_bytes <= budget);
}

static void free_world(world *w) {
    sl_expert_store_destroy(w->store);
    sl_reader_close(w->reader);
    for (uint32_t f = 0; f < FILES; f++) free(w->disk[f]);
    free(w);
}

static sl_status request(world *w, uint32_t layer, const int32_t *experts, uint32_t count,
                         sl_error *err) {
    return w->source->request(w->source, (sl_layer_id){layer}, experts, count, err);
}

static sl_status take(world *w, uint32_t layer, sl_expert_lease *lease, sl_error *err) {
    return w->source->take(w->source, (sl_layer_id){layer}, lease, err);
}

static bool lease_is_right(const world *w, uint32_t layer, const sl_expert_lease *lease) {
    const sl_cview *views[] = {&lease->gate, &lease->up, &lease->down};
    const sl_expert_layer *l = &w->layers[layer];
    for (uint32_t m = 0; m < SL_EXPERT_MATRICES; m++) {
        const sl_extent *part =
            &l->parts[(uint32_t)lease->expert * l->part_count + l->matrices[m].pieces[0].part];
        const unsigned char *wanted =
            w->disk[part->file] + part->offset + l->matrices[m].pieces[0].offset;
        if (!sl_type_equal(&views[m]->type, &l->matrices[m].type)) return false;
        const unsigned char *found = views[m]->data, mask = l->matrices[m].form ? 0xff : 0;
        if (has_forms && l->matrices[m].form && (uintptr_t)found % 64) return false;
        for (uint32_t i = 0; i < MATRIX_BYTES; i++)
            if (found[i] != (wanted[i] ^ mask)) return false;
    }
    return true;
}

/* Takes and releases everything; the order goes to order. */
static void use_all(world *w, uint32_t layer, uint32_t count, int32_t *order) {
    for (uint32_t i = 0; i <= count; i++) {
        sl_expert_lease lease;
        sl_error err = {0};
        const sl_status status = take(w, layer, &lease, &err);
        if (status != SL_OK) print_message("%s\n", err.message);
        assert_int_equal(status, SL_OK);
        if (i == count) {
            assert_int_equal(lease.expert, -1);
            w->source->release(w->source, &lease);
            break;
        }
        assert_true(lease.expert >= 0);
        assert_true(lease_is_right(w, layer, &lease));
        for (uint32_t j = 0; j < i; j++) assert_int_not_equal(order[j], lease.expert);
        order[i] = lease.expert;
        w->source->release(w->source, &lease);
    }
}

static uint32_t draw_experts(uint32_t most, int32_t *experts) {
    const uint32_t wanted = 1 + draw(most);
    uint32_t count = 0;
    for (uint32_t e = 0; e < EXPERTS && count < wanted; e++)
        if (draw(EXPERTS - e) < wanted - count) experts[count++] = (int32_t)e;
    return count;
}

static void test_contents_of_every_layout(void **unused) {
    (void)unused;
    for (uint64_t seed = 0; seed < 4; seed++) {
        world *w = make_world((sl_simulated_options){.seed = seed,
                                                     .reorder = 6,
                                                     .short_share = 0.3,
                                                     .repeat_share = 0.2,
                                                     .poll_share = 0.3,
                                                     .buffered = seed % 2},
                              seed < 2);
        open_store(w, 0);
        assert_int_equal(sl_expert_store_stats(w->store).slot_count, KEYS);
        int32_t all[EXPERTS], order[EXPERTS];
        for (int32_t e = 0; e < EXPERTS; e++) all[e] = e;
        for (int round = 0; round < 2; round++) {
            for (uint32_t l = 0; l < LAYERS; l++) {
                assert_int_equal(request(w, l, all, EXPERTS, NULL), SL_OK);
                use_all(w, l, EXPERTS, order);
            }
        }
        const sl_expert_stats stats = sl_expert_store_stats(w->store);
        assert_int_equal(stats.misses, KEYS); /* nothing is read twice */
        assert_int_equal(stats.first_reads, KEYS);
        assert_int_equal(stats.hits, KEYS);
        uint64_t reads = 0;
        for (uint32_t l = 0; l < LAYERS; l++) reads += EXPERTS * w->layers[l].part_count;
        assert_int_equal(sl_simulated_count(w->reader, 0, 0, UINT64_MAX).reads +
                             sl_simulated_count(w->reader, 1, 0, UINT64_MAX).reads,
                         reads);
        assert_true(stats.bytes_read >= w->table.total_bytes);
        assert_true(stats.bytes_read <= w->table.total_bytes + reads * 2 * 4096);
        if (seed % 2) assert_int_equal(stats.bytes_read, w->table.total_bytes);
        free_world(w);
    }
}

/* The cache as a list of who is in it, when it was last used and whether it may go.  Experts are
 * small here: all that are missing are read at the same time. */
typedef struct {
    sl_expert_policy policy;
    float memory[KEYS + LAYERS];
    uint32_t capacity, count, layer;
    uint64_t now, hits, misses, first_reads;
    bool in[KEYS], pinned[KEYS], seen[KEYS];
    uint64_t used[KEYS];
    uint32_t waiting[EXPERTS], waiting_count;
} model;

/* Needed later than another, or as late and used longer ago. */
static bool goes_before(const model *m, uint32_t key, uint32_t other) {
    const float distance = sl_expert_policy_distance(&m->policy, key, m->layer);
    const float other_distance = sl_expert_policy_distance(&m->policy, other, m->layer);
    return distance > other_distance ||
           (distance == other_distance && m->used[key] < m->used[other]);
}

static void model_admit(model *m) {
    uint32_t admitted = 0;
    while (admitted < m->waiting_count) {
        uint32_t victim = KEYS;
        for (uint32_t k = 0; k < KEYS && m->count == m->capacity; k++)
            if (m->in[k] && !m->pinned[k] && (victim == KEYS || goes_before(m, k, victim)))
                victim = k;
        if (m->count == m->capacity && victim == KEYS) break;
        if (victim < KEYS) {
            m->in[victim] = false;
            m->count--;
        }
        const uint32_t key = m->waiting[admitted++];
        m->in[key] = m->pinned[key] = true;
        m->count++;
    }
    m->waiting_count -= admitted;
    memmove(m->waiting, m->waiting + admitted, m->waiting_count * sizeof m->waiting[0]);
}

static void model_request(model *m, uint32_t layer, const int32_t *experts, uint32_t count) {
    m->layer = layer;
    sl_expert_policy_begin(&m->policy, layer);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t key = layer * EXPERTS + (uint32_t)experts[i];
        sl_expert_policy_use(&m->policy, layer, (uint32_t)experts[i]);
        if (m->in[key]) {
            m->hits++;
            m->pinned[key] = true;
        } else {
            m->misses++;
            m->first_reads += !m->seen[key];
            m->seen[key] = true;
            m->waiting[m->waiting_count++] = key;
        }
    }
    model_admit(m);
}

static void model_release(model *m, uint32_t key) {
    m->pinned[key] = false;
    m->used[key] = ++m->now;
    model_admit(m);
}

static void check_against_model(uint64_t seed, uint32_t slots, uint32_t most) {
    world *w = make_world(
        (sl_simulated_options){.seed = seed, .reorder = 5, .poll_share = 0.5, .short_share = 0.2},
        true);
    open_store_of(w, slots);
    model m = {.capacity = slots};
    sl_expert_policy_init(&m.policy, LAYERS, EXPERTS, m.memory);
    for (int round = 0; round < 300; round++) {
        int32_t experts[EXPERTS], order[EXPERTS];
        const uint32_t layer = draw(LAYERS), count = draw_experts(most, experts);
        assert_int_equal(request(w, layer, experts, count, NULL), SL_OK);
        model_request(&m, layer, experts, count);
        use_all(w, layer, count, order);
        for (uint32_t i = 0; i < count; i++)
            model_release(&m, layer * EXPERTS + (uint32_t)order[i]);
        const sl_expert_stats stats = sl_expert_store_stats(w->store);
        assert_int_equal(stats.hits, m.hits);
        assert_int_equal(stats.misses, m.misses);
        assert_int_equal(stats.first_reads, m.first_reads);
    }
    assert_true(slots == KEYS || m.misses > KEYS); /* the sequence did evict */
    assert_true(m.hits > 0);
    free_world(w);
}

static void test_hits_and_misses_follow_the_model(void **unused) {
    (void)unused;
    check_against_model(1, 4, 4);
    check_against_model(2, 20, 4);
    check_against_model(3, 50, 8);
    check_against_model(4, KEYS - 1, EXPERTS);
    check_against_model(5, KEYS, 8);
}

static void test_requests_larger_than_the_store(void **unused) {
    (void)unused;
    check_against_model(6, 4, EXPERTS);
    check_against_model(7, 1, EXPERTS);
    check_against_model(8, 13, EXPERTS);
}

typedef struct {
    world *w;
    uint32_t layer;
    uint32_t taken, wrong, failed;
    uint8_t seen[EXPERTS];
} worker;

static void *work(void *argument) {
    worker *self = argument;
    for (;;) {
        sl_expert_lease lease;
        if (take(self->w, self->layer, &lease, NULL) != SL_OK) {
            self->failed++;
            return NULL;
        }
        if (lease.expert < 0) return NULL;
        self->taken++;
        self->seen[lease.expert]++;
        if (!lease_is_right(self->w, self->layer, &lease)) self->wrong++;
        self->w->source->release(self->w->source, &lease);
    }
}

enum { WORKERS = 4 };

/* Runs the workers on the current request and adds up what they did. */
static worker run_workers(world *w, uint32_t layer) {
    worker workers[WORKERS], sum = {0};
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.w = w, .layer = layer};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
        sum.taken += workers[i].taken;
        sum.wrong += workers[i].wrong;
        sum.failed += workers[i].failed;
        for (int e = 0; e < EXPERTS; e++) sum.seen[e] += workers[i].seen[e];
    }
    return sum;
}

static void test_several_threads(void **unused) {
    (void)unused;
    for (uint64_t seed = 0; seed < 4; seed++) {
        world *w = make_world((sl_simulated_options){.seed = seed,
                                                     .reorder = 5,
                                                     .poll_share = 0.3,
                                                     .delay_seconds = seed % 2 ? 1e-5 : 0},
                              true);
        open_store_of(w, seed < 2 ? 4 : 40);
        for (int round = 0; round < 40; round++) {
            int32_t experts[EXPERTS];
            const uint32_t layer = draw(LAYERS), count = draw_experts(EXPERTS, experts);
            assert_int_equal(request(w, layer, experts, count, NULL), SL_OK);
            const worker sum = run_workers(w, layer);
            assert_int_equal(sum.failed, 0);
            assert_int_equal(sum.wrong, 0);
            assert_int_equal(sum.taken, count);
            for (uint32_t i = 0; i < count; i++) assert_int_equal(sum.seen[experts[i]], 1);
        }
        free_world(w);
    }
}

static void test_stall_is_waiting_time(void **unused) {
    (void)unused;
    world *w = make_world((sl_simulated_options){.delay_seconds = 2e-3}, false);
    open_store(w, 0);
    const int32_t experts[] = {1, 5, 9};
    int32_t order[3];
    assert_int_equal(request(w, 0, experts, 3, NULL), SL_OK);
    use_all(w, 0, 3, order);
    const double cold = sl_expert_store_stats(w->store).stall_seconds;
    assert_true(cold >= 3 * 2e-3);
    assert_true(sl_expert_store_stats(w->store).read_seconds >= 2e-3);
    assert_int_equal(request(w, 0, experts, 3, NULL), SL_OK);
    use_all(w, 0, 3, order);
    assert_true(sl_expert_store_stats(w->store).stall_seconds == cold);
    free_world(w);
}

static void test_error_then_recovery(void **unused) {
    (void)unused;
    for (uint64_t seed = 0; seed < 12; seed++) {
        world *w = make_world(
            (sl_simulated_options){.seed = seed, .reorder = 8, .poll_share = seed % 3 * 0.5}, true);
        open_store_of(w, 6);
        const uint32_t layer = (uint32_t)seed % 3;
        const int32_t experts[] = {0, 3, 7, 12}; /* no two share a block */
        const sl_extent *bad = &w->parts[layer][7 * w->layers[layer].part_count];
        sl_simulated_fail(w->reader, bad->file, bad->offset, 1, 1);
        assert_int_equal(request(w, layer, experts, 4, NULL), SL_OK);
        sl_expert_lease lease, held[4];
        uint32_t count = 0;
        sl_error err = {0}, again = {0};
        while (take(w, layer, &lease, &err) == SL_OK) {
            assert_true(lease.expert >= 0 && lease.expert != 7);
            held[count++] = lease;
        }
        assert_int_equal(err.status, SL_IO);
        assert_non_null(strstr(err.message, "expert 7: disk/"));
        assert_non_null(strstr(err.message, "Input/output error"));
        assert_int_equal(take(w, layer, &lease, &again), SL_IO);
        assert_string_equal(again.message, err.message);
        for (uint32_t i = 0; i < count; i++) w->source->release(w->source, &held[i]);
        assert_int_equal(take(w, layer, &lease, NULL), SL_IO);
        int32_t order[EXPERTS];
        for (int round = 0; round < 3; round++) {
            assert_int_equal(request(w, layer, experts, 4, NULL), SL_OK);
            use_all(w, layer, 4, order);
        }
        const int32_t late[] = {9}; /* wanted again before its failed read is noticed */
        bad = &w->parts[layer][9 * w->layers[layer].part_count];
        sl_simulated_fail(w->reader, bad->file, bad->offset, 1, 1);
        for (int i = 0; i < 2; i++) assert_int_equal(request(w, layer, late, 1, NULL), SL_OK);
        use_all(w, layer, 1, order);
        free_world(w);
    }
}

static void test_errors_with_several_threads(void **unused) {
    (void)unused;
    world *w = make_world(
        (sl_simulated_options){.seed = 5, .reorder = 8, .poll_share = 0.2, .delay_seconds = 1e-5},
        true);
    open_store_of(w, 5);
    int32_t all[EXPERTS];
    for (int32_t e = 0; e < EXPERTS; e++) all[e] = e;
    for (int round = 0; round < 60; round++) {
        const uint32_t layer = draw(LAYERS);
        const bool fails = round % 2;
        const sl_extent *bad = &w->parts[layer][draw(EXPERTS * w->layers[layer].part_count)];
        if (fails) sl_simulated_fail(w->reader, bad->file, bad->offset, bad->bytes, 1);
        assert_int_equal(request(w, layer, all, EXPERTS, NULL), SL_OK);
        const worker sum = run_workers(w, layer);
        assert_int_equal(sum.wrong, 0);
        if (!fails) assert_true(sum.failed == 0 && sum.taken == EXPERTS);
        sl_simulated_fail(w->reader, 0, 0, 0, 0);
    }
    free_world(w);
}

static void test_part_beyond_the_file(void **unused) {
    (void)unused;
    world *w = make_world((sl_simulated_options){.seed = 1}, false);
    w->parts[2][5 * 3 + 1].offset = DISK_BYTES - MATRIX_BYTES + 1;
    open_store_of(w, 6);
    const int32_t experts[] = {4, 5, 6};
    sl_error err = {0}, again = {0};
    sl_expert_lease lease;
    assert_int_equal(request(w, 2, experts, 3, &err), SL_IO);
    assert_non_null(strstr(err.message, "layer 2 expert 5: disk/"));
    assert_non_null(strstr(err.message, "the file has 4194304 bytes"));
    assert_int_equal(take(w, 2, &lease, &again), SL_IO);
    assert_string_equal(again.message, err.message);
    int32_t order[2];
    const int32_t good[] = {4, 6};
    assert_int_equal(request(w, 2, good, 2, NULL), SL_OK);
    use_all(w, 2, 2, order);
    free_world(w);
}

static void test_corrupted_checksum(void **unused) {
    (void)unused;
    world *w = make_world((sl_simulated_options){.seed = 2}, true);
    open_store_of(w, 6);
    const sl_extent *part = &w->parts[1][9 * 2 + 1];
    unsigned char *byte = w->disk[part->file] + part->offset + 77;
    *byte ^= 4;
    const int32_t experts[] = {9};
    sl_expert_lease lease;
    sl_error err = {0};
    assert_int_equal(request(w, 1, experts, 1, NULL), SL_OK);
    assert_int_equal(take(w, 1, &lease, &err), SL_FORMAT);
    char wanted[256];
    (void)snprintf(wanted, sizeof wanted,
                   "layer 1 expert 9: checksum of %d bytes at offset %llu of file %u is %016llx, "
                   "wanted %016llx",
                   MATRIX_BYTES, (unsigned long long)part->offset, part->file,
                   (unsigned long long)XXH3_64bits(byte - 77, MATRIX_BYTES),
                   (unsigned long long)w->checksums[1][9 * 2 + 1]);
    assert_string_equal(err.message, wanted);
    assert_int_equal(take(w, 1, &lease, &err), SL_FORMAT);
    assert_string_equal(err.message, wanted);
    *byte ^= 4;
    int32_t order[1];
    assert_int_equal(request(w, 1, experts, 1, NULL), SL_OK);
    use_all(w, 1, 1, order);
    assert_int_equal(sl_expert_store_stats(w->store).misses, 2);
    free_world(w);
}

/* What was right once is not checked again when it comes back from the disk. */
static void test_checksums_are_checked_once(void **unused) {
    (void)unused;
    world *w = make_world((sl_simulated_options){.seed = 2}, true);
    open_store_of(w, USED);
    const int32_t first[] = {9}, others[] = {10, 11, 12, 13};
    int32_t order[USED];
    assert_int_equal(request(w, 1, first, 1, NULL), SL_OK);
    use_all(w, 1, 1, order);
    assert_int_equal(request(w, 1, others, USED, NULL), SL_OK);
    use_all(w, 1, USED, order);
    w->checksums[1][9 * 2] ^= 1;
    assert_int_equal(request(w, 1, first, 1, NULL), SL_OK);
    use_all(w, 1, 1, order);
    assert_int_equal(sl_expert_store_stats(w->store).misses, USED + 2);
    free_world(w);
}

static void test_abandoned_requests(void **unused) {
    (void)unused;
    for (uint64_t seed = 0; seed < 8; seed++) {
        world *w =
            make_world((sl_simulated_options){.seed = seed, .reorder = 6, .poll_share = 0.3}, true);
        open_store_of(w, 9);
        for (int round = 0; round < 200; round++) {
            int32_t experts[EXPERTS], order[EXPERTS];
            uint32_t layer = draw(LAYERS), count = draw_experts(EXPERTS, experts);
            assert_int_equal(request(w, layer, experts, count, NULL), SL_OK);
            sl_expert_lease held[3];
            const uint32_t holds = draw(count < 3 ? count : 3);
            for (uint32_t i = 0; i < holds; i++)
                assert_int_equal(take(w, layer, &held[i], NULL), SL_OK);
            const uint32_t held_layer = layer;
            if (draw(2)) layer = draw(LAYERS);
            count = draw_experts(EXPERTS, experts);
            assert_int_equal(request(w, layer, experts, count, NULL), SL_OK);
            for (uint32_t i = 0; i < holds && draw(2); i++) {
                assert_true(lease_is_right(w, held_layer, &held[i]));
                w->source->release(w->source, &held[i]);
                held[i].expert = -1;
            }
            use_all(w, layer, count, order);
            for (uint32_t i = 0; i < holds; i++) {
                if (held[i].expert >= 0) assert_true(lease_is_right(w, held_layer, &held[i]));
                w->source->release(w->source, &held[i]);
            }
        }
        free_world(w);
    }
}

static void test_refused_requests(void **unused) {
    (void)unused;
    world *w = make_world((sl_simulated_options){0}, true);
    open_store(w, 0);
    sl_expert_lease lease;
    sl_error err = {0};
    assert_int_equal(take(w, 0, &lease, &err), SL_INVALID);
    assert_int_equal(request(w, LAYERS, (int32_t[]){0}, 1, &err), SL_INVALID);
    assert_int_equal(request(w, 0, (int32_t[]){-1}, 1, &err), SL_INVALID);
    assert_int_equal(request(w, 0, (int32_t[]){EXPERTS}, 1, &err), SL_INVALID);
    assert_int_equal(request(w, 0, (int32_t[]){3, 3}, 2, &err), SL_INVALID);
    assert_int_equal(request(w, 0, (int32_t[]){3, 2}, 2, &err), SL_INVALID);
    assert_int_equal(request(w, 0, NULL, 0, &err), SL_OK);
    assert_int_equal(take(w, 0, &lease, &err), SL_OK);
    assert_int_equal(lease.expert, -1);
    assert_int_equal(take(w, 1, &lease, &err), SL_INVALID);
    free_world(w);
}

/* Counts what is held, and fails once a countdown has run out. */
typedef struct {
    size_t held, most;
    int left;
} meter;

static void *metered_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    meter *m = ctx;
    if (new_bytes && m->left-- == 0) return NULL;
    m->held += new_bytes - old_bytes;
    if (m->held > m->most) m->most = m->held;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

static void test_budget(void **unused) {
    (void)unused;
    world *w = make_world((sl_simulated_options){.seed = 1}, true);
    const uint64_t minimum = sl_expert_store_minimum(&w->table, w->reader);
    sl_error err = {0};
    assert_int_equal(
        sl_expert_store_create(&w->table, w->reader, minimum - 1, NULL, &w->store, &err),
        SL_NO_MEMORY);
    char wanted[200];
    (void)snprintf(wanted, sizeof wanted,
                   "expert budget of %llu bytes, at least %llu are needed for 4 experts",
                   (unsigned long long)minimum - 1, (unsigned long long)minimum);
    assert_string_equal(err.message, wanted);
    for (uint64_t budget = minimum; budget < 12 * minimum; budget += minimum / 7) {
        meter m = {.left = -1};
        const sl_allocator allocator = {metered_resize, &m};
        assert_int_equal(
            sl_expert_store_create(&w->table, w->reader, budget, &allocator, &w->store, NULL),
            SL_OK);
        w->source = sl_expert_store_source(w->store);
        const sl_expert_stats stats = sl_expert_store_stats(w->store);
        assert_true(stats.slot_count >= USED && stats.used_bytes <= budget);
        assert_true(stats.used_bytes + stats.slot_bytes + 64 > budget);
        assert_int_equal(m.held, stats.used_bytes);
        int32_t experts[EXPERTS], order[EXPERTS];
        const uint32_t count = draw_experts(EXPERTS, experts);
        assert_int_equal(request(w, 2, experts, count, NULL), SL_OK);
        use_all(w, 2, count, order);
        assert_int_equal(m.most, stats.used_bytes); /* nothing was allocated since */
        sl_expert_store_destroy(w->store);
        assert_int_equal(m.held, 0);
    }
    for (int left = 0; left < 2; left++) {
        meter m = {.left = left};
        const sl_allocator allocator = {metered_resize, &m};
        assert_int_equal(
            sl_expert_store_create(&w->table, w->reader, 0, &allocator, &w->store, NULL),
            SL_NO_MEMORY);
        assert_null(w->store);
        assert_int_equal(m.held, 0);
    }
    free_world(w);
}

static void test_refused_tables(void **unused) {
    (void)unused;
    world *w = make_world((sl_simulated_options){.seed = 1}, true);
    sl_expert_table table = w->table;
    table.experts_used = EXPERTS + 1;
    assert_int_equal(sl_expert_store_create(&table, w->reader, 0, NULL, &w->store, NULL),
                     SL_INVALID);
    table = w->table;
    table.layers = 0;
    assert_int_equal(sl_expert_store_create(&table, w->reader, 0, NULL, &w->store, NULL),
                     SL_INVALID);
    w->layers[1].matrices[SL_DOWN].pieces[0].part = 2;
    assert_int_equal(sl_expert_store_create(&w->table, w->reader, 0, NULL, &w->store, NULL),
                     SL_INVALID);
    w->layers[1].matrices[SL_DOWN].pieces[0].part = 0; /* where gate and up already fill the part */
    w->layers[1].matrices[SL_DOWN].pieces[0].offset = MATRIX_BYTES + 1;
    assert_int_equal(sl_expert_store_create(&w->table, w->reader, 0, NULL, &w->store, NULL),
                     SL_FORMAT);
    w->layers[1].matrices[SL_DOWN].pieces[0].offset = 0;
    w->parts[1][3].bytes = UINT64_MAX;
    assert_int_equal(sl_expert_store_create(&w->table, w->reader, 0, NULL, &w->store, NULL),
                     SL_FORMAT);
    w->layers[1].part_count = SL_MAX_EXPERT_PARTS + 1;
    assert_int_equal(sl_expert_store_create(&w->table, w->reader, 0, NULL, &w->store, NULL),
                     SL_INVALID);
    assert_null(w->store);
    free_world(w);
}

/* The same bytes through the real readers. */
static void test_real_readers(void **unused) {
    (void)unused;
    world *w = make_world((sl_simulated_options){.seed = 3}, true);
    sl_reader_close(w->reader);
    w->reader = NULL;
    char names[FILES][40];
    const char *paths[FILES];
    for (int f = 0; f < FILES; f++) {
        (void)snprintf(names[f], sizeof names[f], "/tmp/sluice_store_XXXXXX");
        const int fd = mkstemp(names[f]);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, w->disk[f], DISK_BYTES), DISK_BYTES);
        close(fd);
        paths[f] = names[f];
    }
    for (sl_reader_kind kind = SL_READER_AUTO; kind <= SL_READER_THREADS; kind++) {
        const sl_reader_options options = {.kind = kind, .depth = 6};
        const sl_status status = sl_reader_open(paths, FILES, &options, NULL, &w->reader, NULL);
        if (status == SL_UNSUPPORTED) continue;
        assert_int_equal(status, SL_OK);
        open_store_of(w, 10);
        for (int round = 0; round < 30; round++) {
            int32_t experts[EXPERTS];
            const uint32_t layer = draw(LAYERS), count = draw_experts(EXPERTS, experts);
            assert_int_equal(request(w, layer, experts, count, NULL), SL_OK);
            if (round % 5 == 0) continue; /* abandoned */
            const worker sum = run_workers(w, layer);
            assert_true(sum.failed == 0 && sum.wrong == 0 && sum.taken == count);
        }
        sl_expert_store_destroy(w->store);
        w->store = NULL;
        sl_reader_close(w->reader);
        w->reader = NULL;
    }
    for (int f = 0; f < FILES; f++) unlink(names[f]);
    free_world(w);
}

/* Every miss is written down once, with all its bytes, until the log is full or taken away. */
static void test_log_of_reads(void **unused) {
    (void)unused;
    world *w = make_world((sl_simulated_options){.seed = 11}, true);
    sl_read_event events[6];
    sl_wait_event waits[64] = {0};
    sl_read_log log = {.events = events, .capacity = 6, .waits = waits, .wait_capacity = 64};
    open_store(w, 0);
    sl_expert_store_attach(w->store, &log);
    static const int32_t first[] = {1, 5, 9, 23}, second[] = {5, 7, 8, 9, 10};
    assert_int_equal(request(w, 2, first, 4, NULL), SL_OK);
    assert_int_equal(run_workers(w, 2).taken, 4);
    assert_int_equal(log.count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(events[i].layer, 2);
        assert_int_equal(events[i].bytes, 3 * MATRIX_BYTES);
        assert_true(events[i].submit > 0 && events[i].submit <= events[i].complete);
        bool wanted = false;
        for (uint32_t e = 0; e < 4; e++) wanted |= events[i].expert == (uint32_t)first[e];
        assert_true(wanted);
    }
    assert_int_equal(request(w, 2, second, 5, NULL), SL_OK); /* 5 and 9 are there */
    assert_int_equal(run_workers(w, 2).taken, 5);
    assert_int_equal(log.count, 6);
    assert_int_equal(log.dropped, 1);
    double left = sl_expert_store_stats(w->store).stall_seconds;
    for (uint32_t i = 0; i < log.wait_count; i++) left -= waits[i].end - waits[i].begin;
    assert_true(log.wait_count > 0 && waits[0].layer == 2 && left > -1e-6 && left < 1e-6);
    sl_expert_store_attach(w->store, NULL);
    assert_int_equal(request(w, 1, first, 4, NULL), SL_OK);
    assert_true(run_workers(w, 1).taken == 4 && log.dropped == 1);
    free_world(w);
}

static int use_forms(void **unused) {
    (void)unused;
    has_forms = true;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_of_reads),
        cmocka_unit_test(test_contents_of_every_layout),
        cmocka_unit_test(test_hits_and_misses_follow_the_model),
        cmocka_unit_test(test_requests_larger_than_the_store),
        cmocka_unit_test(test_several_threads),
        cmocka_unit_test(test_stall_is_waiting_time),
        cmocka_unit_test(test_error_then_recovery),
        cmocka_unit_test(test_errors_with_several_threads),
        cmocka_unit_test(test_part_beyond_the_file),
        cmocka_unit_test(test_corrupted_checksum),
        cmocka_unit_test(test_checksums_are_checked_once),
        cmocka_unit_test(test_abandoned_requests),
        cmocka_unit_test(test_refused_requests),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_refused_tables),
        cmocka_unit_test(test_real_readers),
    };
    return cmocka_run_group_tests_name("as they lie", tests, NULL, NULL) +
           cmocka_run_group_tests_name("with forms", tests, use_forms, NULL);
}
