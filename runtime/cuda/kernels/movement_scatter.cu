/* movement_scatter.cu - Scatter of any plain type.  Updates are sorted by destination (sort.cu);
 * the thread of the first update of a destination combines them in order. */
#include "runtime/cuda/kernels/indices.cuh"
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/movement_scatter.h"
#include "runtime/cuda/kernels/strides.cuh"

SL_CUDA_KERNEL(sl_places_of_tuples, sl_tuple_places, SL_SCATTER_THREADS) {
    const int64_t i = thread_number();
    if (i < a.count) a.places[i] = tuple_at(a.indices, i, a.length, a.dims);
}

SL_CUDA_KERNEL(sl_places_along_axis, sl_axis_places, SL_SCATTER_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    int64_t rest = i, place = 0, step = 1;
    for (int d = a.rank - 1; d >= 0; d--) {
        const int64_t own = take_coordinate(rest, a.own[d]);
        place += (d == a.axis ? index_at(a.indices, i, a.dims[d]) : own) * step;
        step *= a.dims[d];
    }
    a.places[i] = place;
}

SL_CUDA_KERNEL(sl_scatter_start, sl_scattered, SL_SCATTER_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.outer * a.extent * a.inner) return;
    store_number(a.type, a.out, i,
                 a.x ? load_number(a.type, a.x, i) : fold_start(a.type, SL_FOLD_ADD));
}

SL_CUDA_KERNEL(sl_scatter, sl_scattered, SL_SCATTER_THREADS) {
    int64_t rest = thread_number();
    if (rest >= a.outer * a.count * a.inner) return;
    const int64_t inner = take_coordinate(rest, a.inner), first = take_coordinate(rest, a.count);
    const int64_t place = a.places[a.order[first]];
    if (first > 0 && a.places[a.order[first - 1]] == place) return;
    const int64_t to = (rest * a.extent + place) * a.inner + inner;
    number result = load_number(a.type, a.out, to);
    for (int64_t i = first; i < a.count && a.places[a.order[i]] == place; i++) {
        const int64_t from = (rest * a.count + a.order[i]) * a.inner + inner;
        result = folded(a.type, a.how, result, load_number(a.type, a.updates, from));
    }
    store_number(a.type, a.out, to, result);
}
