/* sort.cu - Merge sort of lines: runs first, one per block, then pairs of runs, repeatedly.  A
 * thread finds the destination of its element by counting the elements of the other run that come
 * before it. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/sort.h"
#include "runtime/cuda/kernels/strides.cuh"

DEVICE bool is_below(int type, number x, number y) {
    if (!is_real(type)) return is_less(type, x.whole, y.whole);
    return y.re != y.re ? x.re == x.re : x.re < y.re;
}
DEVICE bool comes_before(const sl_order &a, number x, number y) {
    return a.descending ? is_below(a.type, y, x) : is_below(a.type, x, y);
}

/* Index of the first element of a line. */
DEVICE int64_t line_start(const sl_order &a, int64_t line) {
    const int64_t outer = quotient(line, a.inner);
    return outer * a.inner * a.count + line - outer * a.inner;
}
DEVICE number element_of(const sl_order &a, int64_t start, int64_t number_in_line) {
    return load_number(a.type, a.x, start + number_in_line * a.inner);
}

SL_CUDA_KERNEL(sl_order_runs, sl_order, SL_ORDER_RUN) {
    __shared__ number run[SL_ORDER_RUN];
    const int64_t runs = (a.count + SL_ORDER_RUN - 1) / SL_ORDER_RUN;
    const int64_t line = quotient(blockIdx.x, runs),
                  first = (blockIdx.x - line * runs) * SL_ORDER_RUN;
    const int count = (int)min((int64_t)SL_ORDER_RUN, a.count - first), me = (int)threadIdx.x;
    const int64_t start = line_start(a, line);
    for (int i = me; i < count; i += (int)blockDim.x) run[i] = element_of(a, start, first + i);
    __syncthreads();
    for (int i = me; i < count; i += (int)blockDim.x) {
        int place = 0;
        for (int j = 0; j < count; j++)
            place += comes_before(a, run[j], run[i]) || (j < i && !comes_before(a, run[i], run[j]));
        a.now[line * a.count + first + place] = (int32_t)(first + i);
    }
}

/* Binary search: how many of the sorted elements [first, end) of a line come before x;
 * `with_equals` includes those equal to x. */
DEVICE int64_t count_before(const sl_order &a, const int32_t *sorted, int64_t start, number x,
                            bool with_equals, int64_t first, int64_t end) {
    const int64_t begin = first;
    while (first < end) {
        const int64_t middle = first + (end - first) / 2;
        const number y = element_of(a, start, sorted[middle]);
        if (with_equals ? !comes_before(a, x, y) : comes_before(a, y, x))
            first = middle + 1;
        else
            end = middle;
    }
    return first - begin;
}

SL_CUDA_KERNEL(sl_order_merge, sl_order, SL_ORDER_THREADS) {
    const int64_t e = thread_number();
    if (e >= a.elements) return;
    const int64_t line = quotient(e, a.count), i = e - line * a.count, start = line_start(a, line);
    const int32_t *sorted = a.now + line * a.count;
    const int64_t pair = quotient(i, 2 * a.width) * 2 * a.width,
                  second = min(pair + a.width, a.count);
    const bool later = i >= second;
    const number x = element_of(a, start, sorted[i]);
    const int64_t others =
        later ? count_before(a, sorted, start, x, true, pair, second)
              : count_before(a, sorted, start, x, false, second, min(second + a.width, a.count));
    const int64_t place = later ? pair + (i - second) + others : i + others;
    a.next[line * a.count + place] = sorted[i];
}

SL_CUDA_KERNEL(sl_order_keep, sl_ordered, SL_ORDER_THREADS) {
    const int64_t e = thread_number();
    if (e >= a.results) return;
    const sl_order &o = a.order;
    const int64_t line = quotient(e, a.kept), place = e - line * a.kept;
    const int64_t outer = quotient(line, o.inner), column = line - outer * o.inner;
    const int64_t own = o.now[line * o.count + place];
    const int64_t to = (outer * a.kept + place) * o.inner + column;
    if (a.values) store_number(o.type, a.values, to, element_of(o, line_start(o, line), own));
    if (a.from) a.from[to] = own;
}
