/* movement.cu - Copy, gather, strided copy and transpose. */
#include "runtime/cuda/kernels/movement.h"
#include "runtime/cuda/kernels/strides.cuh"

template <class UNIT> DEVICE void copy(const sl_copies &a) {
    const sl_copy &part = a.parts[blockIdx.y];
    const int64_t i = thread_number();
    if (i >= part.units) return;
    const int64_t n = quotient(i, part.stretch), inside = i - n * part.stretch;
    ((UNIT *)part.to)[n * part.to_step + inside] =
        ((const UNIT *)part.from)[n * part.from_step + inside];
}

template <class UNIT> DEVICE void gather(const sl_gathering &a) {
    const int64_t i = thread_number();
    if (i >= a.units) return;
    const int64_t n = quotient(i, a.stretch), inside = i - n * a.stretch;
    const int64_t outer = quotient(n, a.count), at = n - outer * a.count;
    const int given = a.indices[at], from_start = given < 0 ? given + (int)a.extent : given;
    const int index = checked(a.fault, SL_FAULT_INDEX, (int)at, from_start, (int)a.extent);
    ((UNIT *)a.out)[i] = ((const UNIT *)a.x)[(outer * a.extent + index) * a.stretch + inside];
}

template <class UNIT> DEVICE void strided(const sl_strided &a) {
    const int64_t i = thread_number();
    if (i >= a.units) return;
    ((UNIT *)a.out)[i] = ((const UNIT *)a.x)[walk_to(a.walk, i).x];
}

/* Transpose through a shared-memory tile, so that both loads and stores are coalesced; the padded
 * column avoids bank conflicts. */
template <class UNIT> DEVICE void tile(const sl_tiles &a) {
    enum { STEP = SL_TILE_THREADS / SL_TILE };
    __shared__ UNIT tile[SL_TILE][SL_TILE + 1];
    const int64_t tiles = blockIdx.x, above = quotient(tiles, a.col_tiles);
    const int64_t matrix = quotient(above, a.row_tiles);
    const int64_t col = (tiles - above * a.col_tiles) * SL_TILE;
    const int64_t row = (above - matrix * a.row_tiles) * SL_TILE;
    const places at = walk_to(a.others, matrix);
    const UNIT *x = (const UNIT *)a.x + at.x;
    UNIT *out = (UNIT *)a.out + at.y;
    const int near = (int)threadIdx.x % SL_TILE, far = (int)threadIdx.x / SL_TILE;
    for (int r = far; r < SL_TILE; r += STEP)
        if (row + r < a.rows && col + near < a.cols)
            tile[r][near] = x[(row + r) * a.x_row + col + near];
    __syncthreads();
    for (int c = far; c < SL_TILE; c += STEP)
        if (row + near < a.rows && col + c < a.cols)
            out[(col + c) * a.out_col + row + near] = tile[near][c];
}

#define UNITS(UNIT, BYTES)                                                                         \
    SL_CUDA_KERNEL(sl_copy_##BYTES, sl_copies) {                                                   \
        copy<UNIT>(a);                                                                             \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_gather_##BYTES, sl_gathering) {                                              \
        gather<UNIT>(a);                                                                           \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_strided_##BYTES, sl_strided) {                                               \
        strided<UNIT>(a);                                                                          \
    }
UNITS(uint8_t, 1)
UNITS(uint16_t, 2)
UNITS(unsigned, 4)
UNITS(uint2, 8)
UNITS(uint4, 16)

SL_CUDA_KERNEL(sl_tiles_1, sl_tiles, SL_TILE_THREADS) {
    tile<uint8_t>(a);
}
SL_CUDA_KERNEL(sl_tiles_2, sl_tiles, SL_TILE_THREADS) {
    tile<uint16_t>(a);
}
SL_CUDA_KERNEL(sl_tiles_4, sl_tiles, SL_TILE_THREADS) {
    tile<unsigned>(a);
}
