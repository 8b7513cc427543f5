/* floors.c - Measures what memory and cores can do, by the loops of the best instruction set. */
#include "base/clock.h"
#include "base/team.h"
#include "runtime/cpu/kernel.h"
#include "sluice/inspect.h"
#include <string.h>

/* A pass is short, so that some of them fall between what else the machine does, and takes the next
 * slice of the block, so that no cache holds it. */
enum { SLICE_BYTES = 32 << 20, SLICES = 8, BLOCK_ALIGN = 4096, LEAST_PASSES = 2 * SLICES };
static const uint64_t FMA_ROUNDS = 200000;
static const double PASSES_SECONDS = 0.2;

typedef struct {
    const sl_kernel_set *set;
    uint8_t *block;
    uint32_t members;
    uint64_t pass, slices;
} measuring;

static _Atomic float sink; /* what the loops compute must seem to be used */

/* A member's part of the slice of this pass. */
static uint8_t *part_of(const measuring *m, uint32_t member, size_t *out_bytes) {
    *out_bytes = (size_t)SLICE_BYTES / m->members / BLOCK_ALIGN * BLOCK_ALIGN;
    return m->block + m->pass % m->slices * SLICE_BYTES + member * *out_bytes;
}

static void read_job(void *ctx, uint32_t member) {
    const measuring *m = ctx;
    size_t bytes;
    const uint8_t *part = part_of(m, member, &bytes);
    sink = m->set->read(part, bytes);
}

static void fma_job(void *ctx, uint32_t member) {
    (void)member;
    uint64_t operations;
    sink = ((const measuring *)ctx)->set->fma(FMA_ROUNDS, &operations);
}

/* The shortest of several runs of a job by the whole team. */
static double shortest(sl_team *team, sl_team_job *job, measuring *m) {
    double best = 1e9;
    const double start = sl_clock_seconds();
    for (int n = 0; n < LEAST_PASSES || sl_clock_seconds() - start < PASSES_SECONDS; n++) {
        m->pass++;
        const double begin = sl_clock_seconds();
        sl_team_run(team, job, m);
        const double seconds = sl_clock_seconds() - begin;
        if (seconds < best) best = seconds;
    }
    return best;
}

static sl_status measure(uint32_t threads, measuring *m, sl_floors *out, int which, sl_error *err) {
    sl_team *team = NULL;
    SL_TRY(sl_team_create(threads, NULL, &team, err));
    m->members = out->threads = sl_team_size(team);
    size_t part;
    uint64_t operations;
    (void)part_of(m, 0, &part);
    sink = m->set->fma(1, &operations);
    out->read_bytes_per_second[which] = (double)part * m->members / shortest(team, read_job, m);
    out->f32_operations_per_second[which] =
        (double)(operations * FMA_ROUNDS * m->members) / shortest(team, fma_job, m);
    sl_team_destroy(team);
    return SL_OK;
}

sl_status sl_measure_floors(uint32_t threads, sl_floors *out, sl_error *err) {
    measuring m = {.set = sl_cpu_kernel_set(NULL)};
    *out = (sl_floors){0};
    /* Under a tight memory limit fewer slices have to do. */
    m.slices = sl_memory_available() / 2 / SLICE_BYTES;
    if (m.slices > SLICES) m.slices = SLICES;
    if (m.slices < 1) m.slices = 1;
    const size_t bytes = m.slices * SLICE_BYTES;
    m.block = sl_allocate(NULL, bytes, BLOCK_ALIGN);
    if (!m.block) return sl_no_memory(err, "a block to read", bytes);
    memset(m.block, 1, bytes); /* pages of its own, not the one of zeros */
    sl_status status = measure(1, &m, out, 0, err);
    if (threads == 1) {
        out->read_bytes_per_second[1] = out->read_bytes_per_second[0];
        out->f32_operations_per_second[1] = out->f32_operations_per_second[0];
    } else if (status == SL_OK) {
        status = measure(threads, &m, out, 1, err);
    }
    sl_release(NULL, m.block, bytes, BLOCK_ALIGN);
    return status;
}
