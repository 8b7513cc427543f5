/* linear_panels.cuh - A few tokens with weights of panels: the frame of all kernels that do it.
 *
 * A unit is a panel.  Its batches of groups go round the `split` warps that share it; each warp has
 * two batches on their way before x is there or the sums of the task before are finished, and the
 * next one while it works on one.  x lies in shared
 * memory in the METHOD's own form, all groups of it or a slab at a time.
 *
 * METHOD has:
 *   TYPE, PARTS (columns of a token in the sums), batch
 *   METHOD(shared memory, a)
 *   place(lane): row and j of the lane
 *   fill(a, first token, tokens, first group, groups): x into shared memory
 *   load(batch, panels, lane, group): from a multiple of SL_LINEAR_BATCH on, those there are
 *   multiply(batch, group of the slab, how many of the batch are there)
 *   store(sums): of the warp, [column][row of the panel]
 *   clear(): begins sums anew */
#ifndef SL_RUNTIME_CUDA_KERNELS_LINEAR_PANELS_CUH
#define SL_RUNTIME_CUDA_KERNELS_LINEAR_PANELS_CUH
#include "runtime/cuda/kernels/linear.cuh"
#include "runtime/cuda/kernels/panel_rows.cuh"

/* x of a block: which tokens, and how many columns their sums take. */
struct block_tokens {
    int first, count;
};
DEVICE block_tokens tokens_of_block(const sl_linear_division &d) {
    const int first = (int)blockIdx.y * SL_LINEAR_TOKENS;
    return {first, min(d.tokens - first, (int)SL_LINEAR_TOKENS)};
}

/* A warp's way through a slab of a panel, from its first batches on. */
template <class METHOD> struct slab_walk {
    typename METHOD::batch now, next;
    panel_lane lane;
    int weight, group, last; /* the next group to work on; after the last of the slab */

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
            __syncthreads(); /* nobody needs what was there */
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
