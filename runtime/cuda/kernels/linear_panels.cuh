/* linear_panels.cuh - A few tokens with weights of panels: the frame of all kernels that do it.
 *
 * A unit is a panel.  Its batches of groups go round the `split` warps that share it; each warp has
 * two batches on their way before x is there, and the next one while it works on one.  x lies in shared
 * memory in the METHOD's own form, all groups of it or a slab at a time.
 *
 * METHOD has:
 *   TYPE, PARTS (columns of a token in the sums), batch
 *   METHOD(shared memory, a)
 *   place(lane): row and j of the lane
 *   fill(a, first token, tokens, first group, groups): x into shared memory
 *   load(batch, panels, lane, group): from a multiple of SL_LINEAR_BATCH on, those there are
 *   multiply(batch, group of the slab, how many of the batch are there)
 *   store(sums): of the warp, [column][row of the panel] */
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

template <class METHOD>
DEVICE void multiply_slab(METHOD &m, const sl_linear_panels &a, const sl_cuda_panels &p,
                          const panel_lane &lane, const block_tokens &t, int first, bool fill) {
    const int groups = a.w[0].groups; /* of every weight */
    const int last = min(first + a.slab, groups), step = a.d.split * SL_LINEAR_BATCH;
    int group = lane.panel < 0 ? last : first + warp_id() % a.d.split * SL_LINEAR_BATCH;
    typename METHOD::batch now, next;
    if (group < last) m.load(now, p, lane, group);
    if (group + step < last) m.load(next, p, lane, group + step);
    if (fill) {
        __syncthreads(); /* nobody needs what was there */
        m.fill(a, t, first, last - first);
        __syncthreads();
    }
    for (; group < last; group += step) {
        m.multiply(now, group - first, min((int)SL_LINEAR_BATCH, groups - group));
        now = next;
        if (group + 2 * step < last) m.load(next, p, lane, group + 2 * step);
    }
}

template <class METHOD> DEVICE void multiply_panels(const sl_linear_panels &a) {
    SL_DYNAMIC_SHARED(unsigned char, shared);
    const block_tokens t = tokens_of_block(a.d);
    const int columns = t.count * METHOD::PARTS;
    float *parts = (float *)(shared + a.x_bytes);
    bool fill = true;
    for (int task = (int)blockIdx.x; task < a.d.tasks; task += (int)gridDim.x) {
        const unit_place u = unit_at(a.d, a.finish, task, warp_id() / a.d.split);
        const sl_cuda_panels &p = a.w[u.weight];
        METHOD m(shared, a, t);
        panel_lane lane = m.place();
        lane.panel = u.unit;
        lane.data = panel_at(p, max(u.unit, 0));
        for (int first = 0; first < a.w[0].groups; first += a.slab) {
            multiply_slab(m, a, p, lane, t, first, fill);
            fill = a.slab < a.w[0].groups;
        }
        m.store(parts + warp_id() * columns * SL_CUDA_PANEL_ROWS);
        __syncthreads();
        const task_sums<SL_CUDA_PANEL_ROWS, METHOD::PARTS> sums = {parts, columns, a.d.split};
        finish_task(a.finish, a.d, sums, task, t.first, t.count);
        if (task + (int)gridDim.x < a.d.tasks) __syncthreads();
    }
}
#endif
