/* linear_deep.cu - One row of a8 with panels of 4 bits whose parameters are bytes, as linear_a8.cu
 * does it and with the same bits, but weights go through shared memory: a warp asks for all of its
 * share of a panel, or as much of it as there is room for, before it waits for the steps before. */
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/linear_a8.cuh"

enum { DEPTH = SL_LINEAR_DEPTH };

template <class TYPE> struct deep_walk {
    enum { BLOCK = 64 + 2 * TYPE::GROUP, BATCH = SL_LINEAR_BATCH / 2 * BLOCK };
    typedef one_token<TYPE> method;
    typename TYPE::template super_of<method::ROWS> supers[DEPTH];
    panel_lane lane;
    uint8_t *room; /* the warp's: DEPTH batches */
    int weight, group, last;

    MEMBER void ask(const sl_cuda_panels &p, int slot, int at) {
        if (at < last) {
            const uint8_t *from = lane.data + block_offset(p, at);
            const int bytes = at + 2 < p.groups ? (int)BATCH : (int)BLOCK;
            TYPE::load(supers[slot], p, lane.panel, super_params(p, lane.data, at),
                       at / SL_CUDA_SUPER_GROUPS, lane.row);
#pragma unroll
            for (int i = 0; i < BATCH; i += 16 * WARP) {
                const int byte = i + 16 * lane_id();
                if (byte < bytes) copy_async<16>(room + slot * BATCH + byte, from + byte);
            }
        }
        copy_commit();
    }
    MEMBER void begin(const method &m, const sl_linear_panels &a, int task) {
        const unit_place u = unit_at(a.d, a.finish, task, warp_id() / a.d.split);
        const sl_cuda_panels &p = a.w[u.weight];
        weight = u.weight;
        lane = m.place();
        lane.panel = u.unit;
        lane.data = panel_at(p, max(u.unit, 0));
        last = u.unit < 0 ? 0 : p.groups;
        group = warp_id() % a.d.split * SL_LINEAR_BATCH;
#pragma unroll
        for (int i = 0; i < DEPTH; i++) ask(p, i, group + i * a.d.split * SL_LINEAR_BATCH);
    }
    MEMBER void add_batch(method &m, int slot, int at) {
#pragma unroll
        for (int k = 0; k < method::BLOCKS; k++) {
            const int g = at + 2 * k + m.own_group();
            if (g >= last) continue;
            const uint8_t *block = room + slot * BATCH + k * BLOCK;
            const uint8_t *own = block + 32 * m.own_group();
            const uint8_t *codes = block + 64 + m.own_group() * TYPE::GROUP;
            const uint4 w = *(const uint4 *)lane_codes(codes, lane.row, lane.j);
            typename TYPE::template group_of<method::ROWS> now;
            now.codes.v[0] = w.x, now.codes.v[1] = w.y, now.codes.v[2] = w.z, now.codes.v[3] = w.w;
            now.s.v = *(const unsigned *)(own + lane.row);
            now.n.v = *(const unsigned *)(own + 16 + lane.row);
            m.add_group(supers[slot], now, g);
        }
    }
    MEMBER void finish(method &m, const sl_linear_panels &a) {
        const sl_cuda_panels &p = a.w[weight];
        const int step = a.d.split * SL_LINEAR_BATCH;
        for (; group < last; group += DEPTH * step) {
#pragma unroll
            for (int i = 0; i < DEPTH; i++) {
                copy_wait<DEPTH - 1>();
                __syncwarp();
                add_batch(m, i, group + i * step);
                __syncwarp();
                ask(p, i, group + (i + DEPTH) * step);
            }
        }
    }
};

/* x lies in shared memory as a whole. */
template <class TYPE, class END> DEVICE void multiply_deep(const sl_linear_panels &a) {
    SL_DYNAMIC_SHARED(unsigned char, shared);
    const int warps = (int)(blockDim.x / WARP);
    float *parts = (float *)(shared + a.x_bytes);
    const block_tokens one = {0, 1};
    const task_sums<SL_CUDA_PANEL_ROWS, 1> sums = {parts, 1, a.d.split};
    one_token<TYPE> m(shared, a, one);
    deep_walk<TYPE> walk;
    END end;
    int task = (int)blockIdx.x;
    walk.room = (uint8_t *)(parts + warps * SL_CUDA_PANEL_ROWS) +
                warp_id() * DEPTH * deep_walk<TYPE>::BATCH;
    lead();
    walk.begin(m, a, task);
    end.ahead(a, task);
    follow();
    m.fill(a, one, 0, a.w[0].groups);
    __syncthreads();
    while (task < a.d.tasks) {
        walk.finish(m, a);
        const int done = task;
        task += (int)gridDim.x;
        if (task < a.d.tasks) walk.begin(m, a, task);
        m.store(parts + warp_id() * SL_CUDA_PANEL_ROWS);
        m.clear();
        __syncthreads();
        if (END::TASKS)
            end.task(a, sums, done);
        else
            finish_task(a.finish, a.d, sums, done, 0, 1);
        if (task < a.d.tasks) __syncthreads();
    }
}

#define INSTANCE(NAME)                                                                             \
    SL_CUDA_KERNEL_AHEAD(sl_linear_deep_##NAME, sl_linear_panels, 768) {                                 \
        multiply_deep<rows_##NAME, nothing_more>(a);                                               \
    }                                                                                              \
    SL_CUDA_KERNEL_AHEAD(sl_linear_deep_conv_##NAME, sl_linear_panels, 768) {                            \
        multiply_deep<rows_##NAME, then_conv>(a);                                                  \
    }
INSTANCE(q4)
INSTANCE(q4_k)
