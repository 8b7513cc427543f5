/* reduce_any.cu - Reductions and cumulative ops of any plain type; the type is a run-time switch
 * (number.cuh).  The float reductions that models use are in reduce.cu. */
#include "runtime/cuda/kernels/reduce_any.h"
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/strides.cuh"

DEVICE number fold_part(const sl_fold_axes &a, int64_t output, int64_t first, int64_t step) {
    const int64_t base = walk_to(a.stay, output).x;
    number result = fold_start(a.type, a.how);
    for (int64_t i = first; i < a.count; i += step)
        result = folded(a.type, a.how, result, load_number(a.type, a.x, base + walk_to(a.go, i).x));
    return result;
}
DEVICE void finish_fold(const sl_fold_axes &a, int64_t output, number x) {
    if (a.mean) {
        x.re /= (double)a.count;
        x.im /= (double)a.count;
        x.whole = whole_div(a.type, x.whole, a.count);
    }
    store_number(a.type, a.out, output, x);
}

SL_CUDA_KERNEL(sl_fold, sl_fold_axes, SL_FOLD_THREADS) {
    __shared__ number parts[SL_FOLD_THREADS];
    if (!a.by_block) {
        const int64_t output = thread_number();
        if (output < a.outputs) finish_fold(a, output, fold_part(a, output, 0, 1));
        return;
    }
    const int me = (int)threadIdx.x;
    parts[me] = fold_part(a, blockIdx.x, me, SL_FOLD_THREADS);
    for (int half = SL_FOLD_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (me < half) parts[me] = folded(a.type, a.how, parts[me], parts[me + half]);
    }
    if (me == 0) finish_fold(a, blockIdx.x, parts[0]);
}

/* Index of the first element of a line. */
DEVICE int64_t line_start(const sl_fold_lines &a, int64_t line) {
    const int64_t outer = quotient(line, a.inner);
    return outer * a.inner * a.count + line - outer * a.inner;
}

/* NaN wins only as the first element. */
DEVICE bool is_better(const sl_fold_lines &a, number x, number best) {
    const number low = a.least ? x : best, high = a.least ? best : x;
    if (is_real(a.type)) {
        if (x.re != x.re || best.re != best.re) return false;
        return low.re < high.re || (a.last && low.re == high.re);
    }
    return is_less(a.type, low.whole, high.whole) || (a.last && low.whole == high.whole);
}

SL_CUDA_KERNEL(sl_search, sl_fold_lines, SL_FOLD_THREADS) {
    const int64_t line = thread_number();
    if (line >= a.lines) return;
    const int64_t start = line_start(a, line);
    number best = load_number(a.type, a.x, start);
    int64_t place = 0;
    for (int64_t i = 1; i < a.count; i++) {
        const number x = load_number(a.type, a.x, start + i * a.inner);
        if (!is_better(a, x, best)) continue;
        best = x;
        place = i;
    }
    if (a.wide)
        ((int64_t *)a.out)[line] = place;
    else
        ((int32_t *)a.out)[line] = (int32_t)place;
}

SL_CUDA_KERNEL(sl_running, sl_fold_lines, SL_FOLD_THREADS) {
    const int64_t line = thread_number();
    if (line >= a.lines) return;
    const int64_t start = line_start(a, line);
    number so_far = fold_start(a.type, a.how);
    for (int64_t i = 0; i < a.count; i++) {
        const int64_t at = start + (a.reverse ? a.count - 1 - i : i) * a.inner;
        const number next = folded(a.type, a.how, so_far, load_number(a.type, a.x, at));
        store_number(a.type, a.out, at, a.exclusive ? so_far : next);
        so_far = next;
    }
}
