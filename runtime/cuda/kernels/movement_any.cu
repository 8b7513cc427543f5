/* movement_any.cu - Gather, pad, roll and other data movement of any plain type. */
#include "runtime/cuda/kernels/indices.cuh"
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/strides.cuh"

DEVICE void move_element(int bytes, void *to, int64_t i, const void *from, int64_t j) {
    switch (bytes) {
    case 1:
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[j];
        break;
    case 2:
        ((uint16_t *)to)[i] = ((const uint16_t *)from)[j];
        break;
    case 4:
        ((uint32_t *)to)[i] = ((const uint32_t *)from)[j];
        break;
    default:
        ((uint64_t *)to)[i] = ((const uint64_t *)from)[j];
    }
}
DEVICE void clear_element(int bytes, void *to, int64_t i) {
    const uint64_t nothing = 0;
    move_element(bytes, to, i, &nothing, 0);
}

/* ---- source index from attributes ---- */

SL_CUDA_KERNEL(sl_steps, sl_stepped, SL_PLACE_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.m.count) return;
    int64_t rest = i, from = 0;
    for (int d = a.m.rank - 1; d >= 0; d--) from += take_coordinate(rest, a.dims[d]) * a.steps[d];
    move_element(a.m.bytes, a.m.out, i, a.m.x, from);
}

/* Padding: maps index i, which may be outside [0, n), to a source index; -1: the constant value. */
DEVICE int64_t stands_at(int64_t i, int64_t n, int mode) {
    if (i >= 0 && i < n) return i;
    if (mode == 0) return -1;
    if (mode == 2) return i < 0 ? 0 : n - 1;
    const int64_t period = mode == 3 ? n : n > 1 ? 2 * (n - 1) : 1;
    const int64_t at = (i % period + period) % period;
    return at < n ? at : period - at;
}
SL_CUDA_KERNEL(sl_pad, sl_padded, SL_PLACE_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.m.count) return;
    int64_t rest = i, from = 0, step = 1;
    bool inside = true;
    for (int d = a.m.rank - 1; d >= 0; d--) {
        const int64_t at = take_coordinate(rest, a.dims[d]) - a.before[d];
        const int64_t own = stands_at(at, a.extents[d], a.mode);
        inside = inside && own >= 0;
        from += own * step;
        step *= a.extents[d];
    }
    move_element(a.m.bytes, a.m.out, i, inside ? a.m.x : a.value, inside ? from : 0);
}

SL_CUDA_KERNEL(sl_trilu, sl_triangle, SL_PLACE_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.m.count) return;
    const int64_t row = quotient(i, a.cols), away = i - row * a.cols - row % a.rows;
    if (a.upper ? away >= a.k : away <= a.k)
        move_element(a.m.bytes, a.m.out, i, a.m.x, i);
    else
        clear_element(a.m.bytes, a.m.out, i);
}

SL_CUDA_KERNEL(sl_iota, sl_counted, SL_PLACE_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    const int64_t at = quotient(i, a.inner) % a.size;
    store_number(a.type, a.out, i, {(double)at, 0, at});
}

/* ---- source index from an index operand ---- */

SL_CUDA_KERNEL(sl_gather_any, sl_gathered, SL_PLACE_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.m.count) return;
    int64_t rest = i;
    const int64_t inner = take_coordinate(rest, a.inner), own = take_coordinate(rest, a.n);
    const int64_t at = index_at(a.indices, own, a.extent);
    move_element(a.m.bytes, a.m.out, i, a.m.x, (rest * a.extent + at) * a.inner + inner);
}

SL_CUDA_KERNEL(sl_take_along, sl_taken, SL_PLACE_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.m.count) return;
    int64_t rest = i, from = 0;
    for (int d = a.m.rank - 1; d >= 0; d--) {
        const int64_t own = take_coordinate(rest, a.dims[d]);
        from += (d == a.axis ? index_at(a.indices, i, a.extent) : own) * a.steps[d];
    }
    move_element(a.m.bytes, a.m.out, i, a.m.x, from);
}

SL_CUDA_KERNEL(sl_gather_nd, sl_tuples, SL_PLACE_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.m.count) return;
    int64_t tuple = i;
    const int64_t inner = take_coordinate(tuple, a.inner);
    const int64_t at = tuple_at(a.indices, tuple, a.length, a.dims);
    const int64_t batch = quotient(tuple, a.per_batch);
    move_element(a.m.bytes, a.m.out, i, a.m.x, batch * a.slices + at * a.inner + inner);
}

DEVICE int64_t clamped_start(const sl_part &a, int d) {
    return max(min(raw_index(a.starts, d), a.dims[d] - a.part[d]), (int64_t)0);
}
SL_CUDA_KERNEL(sl_part_of, sl_part, SL_PLACE_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.m.count) return;
    int64_t rest = i, from = 0, step = 1;
    for (int d = a.m.rank - 1; d >= 0; d--) {
        from += (clamped_start(a, d) + take_coordinate(rest, a.part[d])) * step;
        step *= a.dims[d];
    }
    move_element(a.m.bytes, a.m.out, i, a.m.x, from);
}
SL_CUDA_KERNEL(sl_part_replaced, sl_part, SL_PLACE_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.m.count) return;
    int64_t rest = i, from = 0, step = 1;
    bool inside = true;
    for (int d = a.m.rank - 1; d >= 0; d--) {
        const int64_t at = take_coordinate(rest, a.dims[d]) - clamped_start(a, d);
        inside = inside && at >= 0 && at < a.part[d];
        from += at * step;
        step *= a.part[d];
    }
    move_element(a.m.bytes, a.m.out, i, inside ? a.update : a.m.x, inside ? from : i);
}

SL_CUDA_KERNEL(sl_one_hot, sl_marked, SL_PLACE_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.m.count) return;
    int64_t rest = i;
    const int64_t inner = take_coordinate(rest, a.inner), own = take_coordinate(rest, a.depth);
    const int64_t index = raw_index(a.indices, rest * a.inner + inner);
    const bool here = (index < 0 ? index + a.depth : index) == own;
    move_element(a.m.bytes, a.m.out, i, a.m.x, here);
}
