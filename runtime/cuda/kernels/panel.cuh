/* panel.cuh - Reading panels: codes as signed bytes, scale and minimum of a row's group.
 *
 * Every panel type means  w = scale * code - minimum  within a group, or within a half of it
 * (16 columns) for q6_k, so that a product with a8 is
 *     sum over groups (halves) of  a_scale * (scale * dot(codes, a_codes) - minimum * a_sum).
 * A code fits a signed byte in all of them. */
#ifndef SL_RUNTIME_CUDA_KERNELS_PANEL_CUH
#define SL_RUNTIME_CUDA_KERNELS_PANEL_CUH
#include "runtime/cuda/kernels/cuda.cuh"
#include "runtime/cuda/kernels/panel.h"

/* The types, as template arguments: struct type_q4 and so on.  HALVES: scales of half groups. */
struct params {
    float scale, minimum;
};

/* ---- where things lie ---- */

DEVICE const uint8_t *panel_at(const sl_cuda_panels &p, int panel) {
    return p.data + p.header_bytes + (uint64_t)panel * p.panel_bytes;
}
DEVICE uint32_t block_offset(const sl_cuda_panels &p, int group) {
    return (uint32_t)(group / SL_CUDA_SUPER_GROUPS + 1) * p.super_bytes +
           (uint32_t)(group / 2) * p.block_bytes;
}
DEVICE const uint8_t *group_params(const sl_cuda_panels &p, const uint8_t *panel, int group) {
    return panel + block_offset(p, group) + group % 2 * 32;
}
DEVICE const uint8_t *group_codes(const sl_cuda_panels &p, const uint8_t *panel, int group) {
    return panel + block_offset(p, group) + 64 + (uint32_t)(group % 2) * p.group_bytes;
}
/* Parameters of the super-group that a group is in, q4_k and q6_k. */
DEVICE const uint8_t *super_params(const sl_cuda_panels &p, const uint8_t *panel, int group) {
    const int super = group / SL_CUDA_SUPER_GROUPS;
    return panel + (uint32_t)super * (p.super_bytes + SL_CUDA_SUPER_GROUPS / 2 * p.block_bytes);
}

DEVICE float load_f16(const uint8_t *from, int index) {
    return f32_of_f16(((const uint16_t *)from)[index]);
}
DEVICE unsigned load_word(const uint8_t *codes, int index) {
    return ((const unsigned *)codes)[index];
}

/* ---- codes: columns 8j to 8j+3 and 8j+4 to 8j+7 of a row, j in 0..3 ---- */

DEVICE uint2 nibbles(unsigned word) {
    return make_uint2(word & 0x0f0f0f0fu, word >> 4 & 0x0f0f0f0fu);
}

/* A type has: the bytes of a group's codes, which are WORDS words of each row, 16 words apart, and
 * of the parameters above a super-group;
 * `unpack`: codes 8j to 8j+7 from what `word` gives for the number of a word;
 * `of`: the parameters of a row, from those of its block, of which the group is the first or the
 * second, and from those above, which are `above_step` bytes from one super-group to the next.
 * MINIMUM: whether minima are ever other than 0. */
#define READ_PANELS                                                                              \
    DEVICE uint2 codes(const uint8_t *group, int row, int j) {                                     \
        return unpack([=](int i) { return load_word(group, row + 16 * i); }, j);                   \
    }                                                                                              \
    DEVICE params read(const sl_cuda_panels &p, int panel, const uint8_t *at, int group, int row,  \
                       int half) {                                                                 \
        return of(at + block_offset(p, group), group % 2, above(p, panel, at, group), row, half);  \
    }
struct type_4bit {
    enum { HALVES = 0, MINIMUM = 1, WORDS = 4, GROUP_BYTES = 64 * WORDS };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        return nibbles(word(j));
    }
};

struct type_q4 : type_4bit {
    enum { ABOVE_BYTES = 8 };
    DEVICE const uint8_t *above(const sl_cuda_panels &p, int panel, const uint8_t *, int group) {
        return p.data + 8 * ((int64_t)panel * p.supers + group / SL_CUDA_SUPER_GROUPS);
    }
    DEVICE unsigned above_step(const sl_cuda_panels &) {
        return 8;
    }
    DEVICE params of(const uint8_t *block, int which, const uint8_t *above, int row, int) {
        const float2 header = *(const float2 *)above;
        const uint8_t *own = block + 32 * which;
        return {header.x * (float)own[row], header.y * (float)own[16 + row]};
    }
    READ_PANELS
};

/* With parameters above a super-group in the panel itself, or with none. */
template <int BYTES> struct above_inside {
    enum { ABOVE_BYTES = BYTES };
    DEVICE const uint8_t *above(const sl_cuda_panels &p, int, const uint8_t *at, int group) {
        return super_params(p, at, group);
    }
    DEVICE unsigned above_step(const sl_cuda_panels &p) {
        return p.super_bytes + SL_CUDA_SUPER_GROUPS / 2 * p.block_bytes;
    }
};

struct type_q4_k : type_4bit, above_inside<64> {
    DEVICE params of(const uint8_t *block, int which, const uint8_t *above, int row, int) {
        const uint8_t *own = block + 32 * which;
        return {load_f16(above, row) * (float)own[row],
                load_f16(above, 16 + row) * (float)own[16 + row]};
    }
    READ_PANELS
};

struct type_q4_0 : type_4bit, above_inside<0> {
    DEVICE params of(const uint8_t *block, int which, const uint8_t *, int row, int) {
        const float d = load_f16(block + 32 * which, row);
        return {d, 8.0f * d};
    }
    READ_PANELS
};

/* Both groups of a block share their parameters. */
struct type_q4_m : type_4bit, above_inside<0> {
    DEVICE params of(const uint8_t *block, int, const uint8_t *, int row, int) {
        const uint16_t *own = (const uint16_t *)block;
        return {f32_of_bf16(own[row]), -f32_of_bf16(own[16 + row])};
    }
    READ_PANELS
};

struct type_q8 : above_inside<0> {
    enum { HALVES = 0, MINIMUM = 0, WORDS = 8, GROUP_BYTES = 64 * WORDS };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        return make_uint2(word(2 * j), word(2 * j + 1));
    }
    DEVICE params of(const uint8_t *block, int which, const uint8_t *, int row, int) {
        return {load_f16(block + 32 * which, row), 0.0f};
    }
    READ_PANELS
};

/* Low nibbles as above, then two words of high bits per row: bits 2*(c%4) and the next of byte b of
 * word c/4 belong to column 4c+b. */
struct type_q6_k : above_inside<64> {
    enum { HALVES = 1, MINIMUM = 1, WORDS = 6, GROUP_BYTES = 64 * WORDS };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        const uint2 low = nibbles(word(j));
        const unsigned high = word(4 + j / 2) >> 4 * (j % 2);
        return make_uint2(low.x | (high << 4 & 0x30303030u), low.y | (high << 2 & 0x30303030u));
    }
    DEVICE params of(const uint8_t *block, int which, const uint8_t *above, int row, int half) {
        const int8_t *own = (const int8_t *)block + 32 * which;
        const float scale = load_f16(above, row) * (float)own[16 * half + row];
        return {scale, 32.0f * scale};
    }
    READ_PANELS
};

#undef READ_PANELS

/* A weight by itself: any row and column. */
template <class TYPE> DEVICE float weight_of(const sl_cuda_panels &p, int row, int column) {
    const int panel = row / 16, lane = row % 16, group = column / 32, inside = column % 32;
    const uint8_t *at = panel_at(p, panel);
    const uint2 pair = TYPE::codes(group_codes(p, at, group), lane, inside / 8);
    const unsigned word = inside % 8 < 4 ? pair.x : pair.y;
    const int code = (int)(int8_t)(word >> 8 * (inside % 4));
    const params w = TYPE::read(p, panel, at, group, lane, inside / 16);
    return w.scale * (float)code - w.minimum;
}
#endif
