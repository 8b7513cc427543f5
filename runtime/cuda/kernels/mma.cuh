/* mma.cuh - Warp-level matrix multiply-accumulate on tensor cores: d = a b + d.
 *
 * Fragments: lane l, with r = l / 4 and c = l % 4, holds in registers of two halves or four bytes:
 *   a (16 rows):   row r,     columns from 2c (halves) or 4c (bytes)     a[0]
 *                  row r + 8, the same columns                           a[1]
 *                  row r,     columns 8 (halves) or 16 (bytes) further   a[2]
 *                  row r + 8, likewise                                   a[3]
 *   b (8 columns): column r,  rows from 2c or 4c                         b[0]
 *                  column r,  rows 8 or 16 further                       b[1]
 *   d:             row r, columns 2c and 2c + 1                          d[0], d[1]
 *                  row r + 8, likewise                                   d[2], d[3] */
#ifndef SL_RUNTIME_CUDA_KERNELS_MMA_CUH
#define SL_RUNTIME_CUDA_KERNELS_MMA_CUH
#include "runtime/cuda/kernels/cuda.cuh"

#if SL_EMULATED
struct mma_operands {
    unsigned a[4], b[2];
};
/* Computes the four results of one lane; dot(x, y) is the dot product of two registers. */
template <class T, class DOT>
static void mma_emulated(T (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], DOT dot) {
    mma_operands mine;
    memcpy(mine.a, a, sizeof mine.a);
    memcpy(mine.b, b, sizeof mine.b);
    const unsigned char *all = emulated::warp_exchange(&mine, sizeof mine);
    const int r = lane_id() / 4, c = lane_id() % 4;
    for (int i = 0; i < 4; i++)
        for (int q = 0; q < 4; q++) {
            mma_operands row, column;
            memcpy(&row, all + 64 * (4 * r + q), sizeof row);
            memcpy(&column, all + 64 * (4 * (2 * c + i % 2) + q), sizeof column);
            for (int half = 0; half < 2; half++)
                d[i] += dot(row.a[i / 2 + 2 * half], column.b[half]);
        }
}
#endif

/* m16n8k32, signed bytes. */
DEVICE void mma_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if SL_EMULATED
    mma_emulated(d, a, b, [](unsigned x, unsigned y) { return __dp4a((int)x, (int)y, 0); });
#else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* m16n8k16, bf16. */
DEVICE void mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if SL_EMULATED
    mma_emulated(d, a, b, [](unsigned x, unsigned y) {
        const float2 p = f32_of_bf16_pair(x), q = f32_of_bf16_pair(y);
        return p.x * q.x + p.y * q.y;
    });
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* m16n8k16, f16. */
DEVICE void mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if SL_EMULATED
    mma_emulated(d, a, b, [](unsigned x, unsigned y) {
        const float2 p = f32_of_f16_pair(x), q = f32_of_f16_pair(y);
        return p.x * q.x + p.y * q.y;
    });
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* m16n8k8, f32 inputs truncated to tf32.  a[0] and a[1] are rows r and r + 8 of column c, a[2] and
 * a[3] those of column c + 4; b[0] and b[1] are rows c and c + 4 of column r. */
DEVICE void mma_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if SL_EMULATED
    mma_emulated(d, a, b, [](unsigned x, unsigned y) {
        return __uint_as_float(x & 0xffffe000u) * __uint_as_float(y & 0xffffe000u);
    });
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
#endif
