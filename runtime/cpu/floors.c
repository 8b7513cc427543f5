/* floors.c - Measures memory bandwidth and arithmetic throughput with the loops of the best
 * instruction set.
 *
 * The block is far larger than any cache and uses huge pages if available: with 4 KiB pages the
 * same cores read a third less.  Members claim chunks from one queue until time is up, so that a
 * member that is preempted does not delay the others; the share of the cores that the process got
 * is reported with the rates.  Passes with one thread and with all threads alternate, so that
 * disturbances affect both alike. */
#include "runtime/cpu/floors.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/structs.h"
#include "base/team.h"
#include "runtime/cpu/kernel_set.h"
#include "sluice/inspect.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The read loop reads the four quarters of a chunk concurrently.  Their distance is an odd number
 * of cache lines: at multiples of large powers of two the streams conflict in the same memory
 * banks, which costs a third of the bandwidth. */
enum { CHUNK_BYTES = 4 * 64 * 31739, PASSES = 7, HUGE_PAGE = 2 << 20 };
#ifdef SL_DEBUG /* with the shadow memory of sanitizers a gigabyte would become several */
static const size_t MOST_BYTES = (size_t)64 << 20;
#else
static const size_t MOST_BYTES = (size_t)1 << 30;
#endif
static const size_t LEAST_BYTES = (size_t)64 << 20;
static const uint64_t ROUNDS = 20000;
static const double PASS_SECONDS = 0.05;

typedef struct {
    const sl_kernel_set *set;
    sl_compute_loop *compute; /* NULL: read the block */
    uint8_t *block;
    uint64_t block_bytes, chunks;
    double end;
    _Atomic uint64_t next, done; /* chunks claimed; bytes or operations done */
    _Atomic uint64_t busy_ns;
} measuring;

typedef struct {
    double rates[PASSES];
} rates;

static _Atomic float sink; /* keeps the compiler from removing the loops */

static double thread_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t one_chunk(measuring *m) {
    uint64_t operations;
    if (m->compute) {
        sink = m->compute(ROUNDS, &operations);
        return operations;
    }
    const uint64_t chunk = atomic_fetch_add(&m->next, 1) % m->chunks;
    sink = m->set->read(m->block + chunk * CHUNK_BYTES, CHUNK_BYTES);
    return CHUNK_BYTES;
}

static void take_chunks(void *ctx, uint32_t member, uint32_t share) {
    (void)member, (void)share;
    measuring *m = ctx;
    const double begin = thread_seconds();
    uint64_t done = 0;
    do {
        done += one_chunk(m);
    } while (sl_clock_seconds() < m->end);
    atomic_fetch_add(&m->done, done);
    atomic_fetch_add(&m->busy_ns, (uint64_t)((thread_seconds() - begin) * 1e9));
}

/* Rate per second of the whole team; *out_share: the share of its cores that it got. */
static double one_pass(sl_team *team, measuring *m, sl_compute_loop *compute, double *out_share) {
    m->compute = compute;
    m->done = m->busy_ns = 0;
    const double begin = sl_clock_seconds();
    m->end = begin + PASS_SECONDS;
    sl_team_share(team, sl_team_size(team), take_chunks, m);
    const double seconds = sl_clock_seconds() - begin;
    *out_share = (double)m->busy_ns * 1e-9 / seconds / sl_team_size(team);
    return (double)m->done / seconds;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort_rates(rates *r, double *best, double *median) {
    qsort(r->rates, PASSES, sizeof(double), by_value);
    *best = r->rates[PASSES - 1];
    *median = r->rates[PASSES / 2];
}

/* teams[1] may be teams[0]. */
static void measure(sl_team *const teams[2], measuring *m, sl_floors *out) {
    sl_compute_loop *const loops[] = {NULL, m->set->fma, m->set->dot};
    double *const best[] = {out->read_bytes_per_second, out->f32_operations_per_second,
                            out->int8_operations_per_second};
    double *const median[] = {out->median_read_bytes_per_second,
                              out->median_f32_operations_per_second,
                              out->median_int8_operations_per_second};
    const int kinds = teams[1] == teams[0] ? 1 : 2;
    rates all[3][2], shares = {{0}};
    for (int pass = 0; pass < PASSES; pass++)
        for (int loop = 0; loop < 3; loop++)
            for (int kind = 0; kind < kinds; kind++)
                all[loop][kind].rates[pass] =
                    one_pass(teams[kind], m, loops[loop], &shares.rates[pass]);
    for (int loop = 0; loop < 3; loop++)
        for (int kind = 0; kind < 2; kind++) {
            if (kind < kinds)
                sort_rates(&all[loop][kind], &best[loop][kind], &median[loop][kind]);
            else
                best[loop][1] = best[loop][0], median[loop][1] = median[loop][0];
        }
    double most;
    sort_rates(&shares, &most, &out->core_share);
    if (out->core_share > 1) out->core_share = 1;
}

uint64_t sl_floors_block_bytes(uint64_t available) {
    if (available == 0) return LEAST_BYTES + HUGE_PAGE; /* unknown */
    if (available / 4 >= LEAST_BYTES)
        return (available / 4 > MOST_BYTES ? MOST_BYTES : available / 4) + HUGE_PAGE;
    const uint64_t most = available / 2 < LEAST_BYTES ? available / 2 : LEAST_BYTES;
    return most / CHUNK_BYTES * CHUNK_BYTES;
}

/* Private pages, huge ones if available. */
static sl_status make_block(measuring *m, sl_error *err) {
    m->block_bytes = sl_floors_block_bytes(sl_memory_least_left());
    if (m->block_bytes == 0) return sl_no_memory(err, "a block to read", CHUNK_BYTES);
    uint8_t *block =
        mmap(NULL, m->block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return sl_no_memory(err, "a block to read", m->block_bytes);
    (void)madvise(block, m->block_bytes, MADV_HUGEPAGE); /* optional: slower without huge pages */
    /* Otherwise all pages would map to the zero page. */
    memset(block, 1, m->block_bytes);
    m->block = block;
    m->chunks = m->block_bytes / CHUNK_BYTES;
    return SL_OK;
}

sl_status sl_measure_floors(uint32_t threads, sl_floors *out, sl_error *err) {
    measuring m = {.set = sl_cpu_kernel_set(NULL)};
    sl_team *teams[2] = {NULL, NULL};
    if (!out) return sl_fail(err, SL_INVALID, "sl_measure_floors: out is NULL");
    SL_TRY(SL_STRUCT_CHECK(sl_floors, out, err));
    sl_floors found = {0};
    SL_TRY(make_block(&m, err));
    sl_status status = sl_team_create(1, NULL, &teams[0], err);
    if (status == SL_OK && threads != 1) status = sl_team_create(threads, NULL, &teams[1], err);
    if (status == SL_OK) {
        sl_team *const both[2] = {teams[0], teams[1] ? teams[1] : teams[0]};
        found.threads = sl_team_size(both[1]);
        found.block_bytes = m.chunks * CHUNK_BYTES;
        measure(both, &m, &found);
        SL_STRUCT_GIVE(sl_floors, out, &found);
    }
    sl_team_destroy(teams[0]);
    sl_team_destroy(teams[1]);
    (void)munmap(m.block, m.block_bytes);
    return status;
}
