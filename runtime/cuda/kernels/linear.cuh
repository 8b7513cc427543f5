/* linear.cuh - Common parts of the product kernels: the units of a block, and the epilogue. */
#ifndef SL_RUNTIME_CUDA_KERNELS_LINEAR_CUH
#define SL_RUNTIME_CUDA_KERNELS_LINEAR_CUH
#include "runtime/cuda/kernels/linear.h"
#include "runtime/cuda/kernels/elementwise.cuh"
#include "runtime/cuda/kernels/rows.cuh"

/* ---- units ---- */

struct unit_place {
    int weight, unit; /* unit: of that weight; -1: no more units */
};

/* Whether the epilogue combines the sums of two weights, gate and up. */
DEVICE bool joins(const sl_linear_finish &f) {
    return f.kind == SL_FINISH_SWIGLU || f.kind == SL_FINISH_QUANTISE;
}

/* Unit `u` of a task. */
DEVICE unit_place unit_at(const sl_linear_division &d, const sl_linear_finish &f, int task, int u) {
    if (joins(f)) {
        const int each = d.units / 2, unit = task * each + u % each;
        return {u / each, unit < d.first[1] ? unit : -1};
    }
    const int unit = task * d.units + u;
    const int weight = (int)(unit >= d.first[1]) + (int)(unit >= d.first[2]);
    return {weight, unit < d.first[d.weights] ? unit - d.first[weight] : -1};
}

/* Activation functions, numbered as in linear_bias_act. */
DEVICE float activated(int act, float x) {
    switch (act) {
    case 1: return apply_relu(x);
    case 2: return apply_silu(x);
    case 3: return apply_gelu(x);
    case 4: return apply_sigmoid(x);
    case 5: return apply_tanh(x);
    default: return x;
    }
}

/* ---- epilogue ---- */

/* The partial sums of a task in shared memory: of warp w, column c and row r at
 * parts[(w * columns + c) * ROWS + r].  `at` adds up those of the `split` warps of a unit and of
 * the PARTS columns of a token, the last column first. */
template <int ROWS, int PARTS> struct task_sums {
    const float *parts;
    int columns, split;
    MEMBER float at(int unit, int token, int row) const {
        float sum = 0;
#pragma unroll
        for (int p = PARTS - 1; p >= 0; p--) {
            const float *from = parts + (unit * split * columns + token * PARTS + p) * ROWS + row;
#pragma unroll
            for (int s = 0; s < SL_LINEAR_SPLIT; s++) /* unrolled: all loads at once */
                sum += s < split ? from[s * columns * ROWS] : 0.0f;
        }
        return sum;
    }
};

template <int ROWS, int PARTS>
DEVICE void finish_store(const sl_linear_finish &f, const sl_linear_division &d,
                         const task_sums<ROWS, PARTS> &sums, int task, int token, int tokens) {
    for (int i = (int)threadIdx.x; i < d.units * tokens * ROWS; i += (int)blockDim.x) {
        const int row = i % ROWS, unit = i / ROWS % d.units, t = i / ROWS / d.units;
        const unit_place u = unit_at(d, f, task, unit);
        const int at = u.unit * ROWS + row, rows = d.rows[u.weight];
        if (u.unit < 0 || at >= rows) continue;
        float value = sums.at(unit, t, row);
        if (f.kind == SL_FINISH_BIAS) value = activated(f.act, value + f.bias[at]);
        f.out[u.weight][(int64_t)(token + t) * rows + at] = value;
    }
}

template <int ROWS, int PARTS>
DEVICE void finish_swiglu(const sl_linear_finish &f, const sl_linear_division &d,
                          const task_sums<ROWS, PARTS> &sums, int task, int token, int tokens) {
    const int each = d.units / 2, rows = d.rows[0];
    for (int i = (int)threadIdx.x; i < each * tokens * ROWS; i += (int)blockDim.x) {
        const int row = i % ROWS, unit = i / ROWS % each, t = i / ROWS / each;
        const int at = (task * each + unit) * ROWS + row;
        if (at >= rows) continue;
        f.out[0][(int64_t)(token + t) * rows + at] =
            apply_swiglu(sums.at(unit, t, row), sums.at(each + unit, t, row));
    }
}

/* A task has 32 rows of the result: a warp quantises one group of a token. */
template <int ROWS, int PARTS>
DEVICE void finish_quantise(const sl_linear_finish &f, const sl_linear_division &d,
                            const task_sums<ROWS, PARTS> &sums, int task, int token, int tokens) {
    const int each = d.units / 2, unit = lane_id() / ROWS, row = lane_id() % ROWS;
    for (int t = warp_id(); t < tokens; t += (int)blockDim.x / WARP) {
        float value = 0;
        if (task * WARP + lane_id() < d.rows[0])
            value = apply_swiglu(sums.at(unit, t, row), sums.at(each + unit, t, row));
        quantise_warp(f.codes, (int64_t)(token + t) * f.codes.groups + task, true, value);
    }
}

/* The epilogue of a task for tokens [token, token + tokens).  The block has passed a barrier since
 * the sums were stored. */
template <int ROWS, int PARTS>
DEVICE void finish_task(const sl_linear_finish &f, const sl_linear_division &d,
                        const task_sums<ROWS, PARTS> &sums, int task, int token, int tokens) {
    if (f.kind == SL_FINISH_SWIGLU)
        finish_swiglu(f, d, sums, task, token, tokens);
    else if (f.kind == SL_FINISH_QUANTISE)
        finish_quantise(f, d, sums, task, token, tokens);
    else
        finish_store(f, d, sums, task, token, tokens);
}
#endif
