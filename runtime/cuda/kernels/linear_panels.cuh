/* linear_panels.cuh - The main loop of the kernels for few tokens with panel weights.
 *
 * A unit is a panel.  The `split` warps that share it take its batches of groups in turn.  A warp
 * loads its first two batches of a task before x is available and before the epilogue of the task
 * before; after that one batch is in flight while it works on another.  x is in shared memory in a
 * layout that METHOD defines, all groups of it or a slab at a time.
 *
 * METHOD has:
 *   TYPE, PARTS (columns of a token in the sums), batch
 *   METHOD(shared memory, a, tokens of the block)
 *   place(): row and j of the lane
 *   fill(a, tokens, first group, groups): stores x in shared memory
 *   load(batch, panels, lane, group): loads the batch at `group`, a multiple of SL_LINEAR_BATCH; of
 *     its groups those that exist
 *   multiply(batch, group of the slab, count): accumulates the first `count` groups of the batch
 *   store(sums): stores the warp's sums, [column][row of the panel]
 *   clear(): sets the sums to 0 */
#ifndef SL_RUNTIME_CUDA_KERNELS_LINEAR_PANELS_CUH
#define SL_RUNTIME_CUDA_KERNELS_LINEAR_PANELS_CUH
#include "runtime/cuda/kernels/linear.cuh"
#include "runtime/cuda/kernels/panel_rows.cuh"

/* The tokens of a block. */
struct block_tokens {
    int first, count;
};
DEVICE block_tokens tokens_of_block(const sl_linear_division &d) {
    const int first = (int)blockIdx.y * SL_LINEAR_TOKENS;
    return {first, min(d.tokens - first, (int)SL_LINEAR_TOKENS)};
}

/* A warp's loop over its batches of a slab: `begin` loads the first two, `finish` multiplies. */
template <class METHOD> struct slab_walk {
    typename METHOD::batch now, next;
    panel_lane lane;
    int weight, group, last; /* group: the next to multiply; last: end of the slab */

    MEMBER void begin(const METHOD &m, const sl_linear_panels &a, int task, int first) {
        const unit_place u = unit_at(a.d, a.finish, task, warp_id() / a.d.split);
        const sl_cuda_panels &p = a.w[u.weight];
        const int step = a.d.split * SL_LINEAR_BATCH;
        weight = u.weight;
        lane = m.place();
        lane.panel = u.unit;
        lane.data = panel_at(p, max(u.unit, 0));
        last = min(first + a.slab, a.w[0].groups);
        group = u.unit < 0 ? last : first + warp_id() % a.d.split * SL_LINEAR_BATCH;
        if (group < last) m.load(now, p, lane, group);
        if (group + step < last) m.load(next, p, lane, group + step);
    }
    MEMBER void finish(METHOD &m, const sl_linear_panels &a, int first) {
        const sl_cuda_panels &p = a.w[weight];
        const int step = a.d.split * SL_LINEAR_BATCH;
        for (; group < last; group += step) {
            m.multiply(now, group - first, min((int)SL_LINEAR_BATCH, last - group));
            now = next;
            if (group + 2 * step < last) m.load(next, p, lane, group + 2 * step);
        }
    }
};

template <class METHOD> DEVICE void multiply_panels(const sl_linear_panels &a) {
    SL_DYNAMIC_SHARED(unsigned char, shared);
    const block_tokens t = tokens_of_block(a.d);
    const int columns = t.count * METHOD::PARTS, groups = a.w[0].groups;
    float *parts = (float *)(shared + a.x_bytes);
    const task_sums<SL_CUDA_PANEL_ROWS, METHOD::PARTS> sums = {parts, columns, a.d.split};
    METHOD m(shared, a, t);
    slab_walk<METHOD> walk;
    int task = (int)blockIdx.x, first = 0;
    bool fill = true;
    lead();
    walk.begin(m, a, task, 0);
    follow();
    while (task < a.d.tasks) {
        if (fill) {
            __syncthreads(); /* nobody reads the previous slab any more */
            m.fill(a, t, first, min(a.slab, groups - first));
            __syncthreads();
        }
        walk.finish(m, a, first);
        const int done = task;
        const bool whole = first + a.slab >= groups;
        fill = a.slab < groups;
        first = whole ? 0 : first + a.slab;
        task += whole ? (int)gridDim.x : 0;
        if (task < a.d.tasks) walk.begin(m, a, task, first);
        if (!whole) continue;
        m.store(parts + warp_id() * columns * SL_CUDA_PANEL_ROWS);
        m.clear();
        __syncthreads();
        finish_task(a.finish, a.d, sums, done, t.first, t.count);
        if (task < a.d.tasks) __syncthreads();
    }
}
#endif
