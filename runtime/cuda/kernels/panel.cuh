/* panel.cuh - Reading panels: codes as signed bytes, and the scale and minimum of a row's group.
 *
 * Every panel type except f8 means  w = scale * code - minimum  within a group, or within half a
 * group (16 columns).  A product with a8 is therefore the sum over groups (or halves) of a_scale *
 * (scale * dot(codes, a_codes) - minimum * a_sum).  Every code fits a signed byte. */
#ifndef SL_RUNTIME_CUDA_KERNELS_PANEL_CUH
#define SL_RUNTIME_CUDA_KERNELS_PANEL_CUH
#include "runtime/cuda/kernels/cuda.cuh"
#include "runtime/cuda/kernels/panel.h"

/* Panel types are template arguments: struct type_q4 and so on. */
struct params {
    float scale, minimum;
};

/* ---- addresses ---- */

DEVICE const uint8_t *panel_at(const sl_cuda_panels &p, int panel) {
    return p.data + p.header_bytes + (uint64_t)panel * p.panel_bytes;
}
DEVICE uint32_t block_offset(const sl_cuda_panels &p, int group) {
    return (uint32_t)(group / SL_CUDA_SUPER_GROUPS + 1) * p.super_bytes +
           (uint32_t)(group / 2) * p.block_bytes;
}
DEVICE const uint8_t *group_params(const sl_cuda_panels &p, const uint8_t *panel, int group) {
    return panel + block_offset(p, group) + (uint32_t)(group % 2) * p.param_bytes;
}
DEVICE const uint8_t *group_codes(const sl_cuda_panels &p, const uint8_t *panel, int group) {
    return panel + block_offset(p, group) + 2 * p.param_bytes +
           (uint32_t)(group % 2) * p.group_bytes;
}
/* Parameters of the super-group that contains a group. */
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

/* A word of bit_pairs has the 2-bit fields of the 16 columns that include 8j; a word of single_bits
 * has one bit of each of the 32 columns. */
DEVICE uint2 bit_pairs(unsigned word, int j) {
    const unsigned own = word >> 4 * (j % 2);
    return make_uint2(own & 0x03030303u, own >> 2 & 0x03030303u);
}
DEVICE uint2 single_bits(unsigned word, int j) {
    const unsigned own = word >> 2 * j;
    return make_uint2(own & 0x01010101u, own >> 1 & 0x01010101u);
}

/* Looks up four nibbles in a table of 16 bytes: in both halves, then selects by bit 3. */
DEVICE unsigned four_entries(const unsigned (&table)[4], unsigned four) {
    const unsigned first = __byte_perm(table[0], table[1], four & 0x7777u);
    const unsigned second = __byte_perm(table[2], table[3], four & 0x7777u);
    return __byte_perm(first, second, 0x3210u + ((four & 0x8888u) >> 1));
}
/* Looks up the eight nibbles of a word; the order is that of `nibbles`. */
DEVICE uint2 eight_entries(const unsigned (&table)[4], unsigned word) {
    const unsigned low = four_entries(table, word), high = four_entries(table, word >> 16);
    return make_uint2(__byte_perm(low, high, 0x6420), __byte_perm(low, high, 0x7531));
}
/* The tables of core/codec.c. */
struct iq4_table {
    DEVICE uint2 entries(unsigned word) {
        const unsigned table[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
        return eight_entries(table, word);
    }
};
struct fp4_table {
    DEVICE uint2 entries(unsigned word) {
        const unsigned table[4] = {0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu};
        return eight_entries(table, word);
    }
};

/* Magnitude of an e4m3 float; NaN is not decoded. */
DEVICE float f32_of_e4m3(unsigned bits) {
    if (bits < 8) return (float)bits * 0x1p-9f;
    return __uint_as_float((bits << 20) + (120u << 23));
}

/* A panel type has
 *   WORDS        32-bit words of codes per row of a group; the words of a row are 16 words apart
 *   GROUP_BYTES  bytes of a group's codes
 *   ABOVE_BYTES  bytes of the parameters of a super-group
 *   HALVES       scales apply to half groups
 *   MINIMUM      minima may be other than 0
 *   MIDDLE       midpoint of the codes, an integer
 *   NIBBLES      codes are the plain nibbles of a word
 *   unpack       codes 8j to 8j+7, from a function that returns word i of the row
 *   of           parameters of a row, from those of its block (`which`: first or second group) and
 *                of its super-group
 *   above_step   bytes from the parameters of one super-group to those of the next */
#define READ_PANELS                                                                              \
    DEVICE uint2 codes(const uint8_t *group, int row, int j) {                                     \
        return unpack([=](int i) { return load_word(group, row + 16 * i); }, j);                   \
    }                                                                                              \
    DEVICE params read(const sl_cuda_panels &p, int panel, const uint8_t *at, int group, int row,  \
                       int half) {                                                                 \
        return of(at + block_offset(p, group), group % 2, above(p, panel, at, group), row, half);  \
    }
struct type_4bit {
    enum { HALVES = 0, MINIMUM = 1, MIDDLE = 8, NIBBLES = 1, WORDS = 4, GROUP_BYTES = 64 * WORDS };
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

/* Super-group parameters inside the panel (BYTES 64), or none (BYTES 0). */
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

/* The two groups of a block share their parameters. */
struct type_q4_m : type_4bit, above_inside<0> {
    DEVICE params of(const uint8_t *block, int, const uint8_t *, int row, int) {
        const uint16_t *own = (const uint16_t *)block;
        return {f32_of_bf16(own[row]), -f32_of_bf16(own[16 + row])};
    }
    READ_PANELS
};

struct type_q8 : above_inside<0> {
    enum { HALVES = 0, MINIMUM = 0, MIDDLE = 0, NIBBLES = 0, WORDS = 8, GROUP_BYTES = 64 * WORDS };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        return make_uint2(word(2 * j), word(2 * j + 1));
    }
    DEVICE params of(const uint8_t *block, int which, const uint8_t *, int row, int) {
        return {load_f16(block + 32 * which, row), 0.0f};
    }
    READ_PANELS
};

/* Low nibbles as in type_4bit, then two words of high bits per row: bits 2*(c%4) and 2*(c%4)+1 of
 * byte b of word c/4 belong to column 4c+b. */
struct type_q6_k : above_inside<64> {
    enum { HALVES = 1, MINIMUM = 1, MIDDLE = 32, NIBBLES = 0, WORDS = 6, GROUP_BYTES = 64 * WORDS };
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

/* ---- types that occur in model files ---- */

struct type_q5_k : above_inside<64> {
    enum { HALVES = 0, MINIMUM = 1, MIDDLE = 16, NIBBLES = 0, WORDS = 5, GROUP_BYTES = 64 * WORDS };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        const uint2 low = nibbles(word(j)), high = single_bits(word(4), j);
        return make_uint2(low.x | high.x << 4, low.y | high.y << 4);
    }
    DEVICE params of(const uint8_t *block, int which, const uint8_t *above, int row, int half) {
        return type_q4_k::of(block, which, above, row, half);
    }
    READ_PANELS
};

struct type_q2_k : above_inside<64> {
    enum { HALVES = 1, MINIMUM = 1, MIDDLE = 2, NIBBLES = 0, WORDS = 2, GROUP_BYTES = 64 * WORDS };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        return bit_pairs(word(j / 2), j);
    }
    DEVICE params of(const uint8_t *block, int which, const uint8_t *above, int row, int half) {
        const uint8_t both = block[32 * which + 16 * half + row];
        return {load_f16(above, row) * (float)(both & 15),
                load_f16(above, 16 + row) * (float)(both >> 4)};
    }
    READ_PANELS
};

struct type_q3_k : above_inside<64> {
    enum { HALVES = 1, MINIMUM = 1, MIDDLE = 4, NIBBLES = 0, WORDS = 3, GROUP_BYTES = 64 * WORDS };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        const uint2 low = bit_pairs(word(j / 2), j), high = single_bits(word(2), j);
        return make_uint2(low.x | high.x << 2, low.y | high.y << 2);
    }
    DEVICE params of(const uint8_t *block, int which, const uint8_t *above, int row, int half) {
        const float scale = type_q6_k::of(block, which, above, row, half).scale;
        return {scale, 4.0f * scale};
    }
    READ_PANELS
};

template <class TABLE> struct type_table {
    enum { HALVES = 0, MINIMUM = 0, MIDDLE = 0, NIBBLES = 0, WORDS = 4, GROUP_BYTES = 64 * WORDS };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        return TABLE::entries(word(j));
    }
};
struct type_iq4_nl : type_table<iq4_table>, above_inside<0> {
    DEVICE params of(const uint8_t *block, int which, const uint8_t *, int row, int) {
        return {load_f16(block + 32 * which, row), 0.0f};
    }
    READ_PANELS
};
struct type_iq4_xs : type_table<iq4_table>, above_inside<64> {
    DEVICE params of(const uint8_t *block, int which, const uint8_t *above, int row, int) {
        return {load_f16(above, row) * (float)(int8_t)block[32 * which + row], 0.0f};
    }
    READ_PANELS
};
struct type_mxfp4 : type_table<fp4_table>, above_inside<0> {
    DEVICE params of(const uint8_t *block, int which, const uint8_t *, int row, int) {
        return {f32_of_bf16(((const uint16_t *)(block + 32 * which))[row]), 0.0f};
    }
    READ_PANELS
};
struct type_nvfp4 : type_q4 {
    enum { HALVES = 1, MINIMUM = 0, MIDDLE = 0, NIBBLES = 0 };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        return fp4_table::entries(word(j));
    }
    DEVICE params of(const uint8_t *block, int which, const uint8_t *above, int row, int half) {
        const float u = f32_of_e4m3(block[32 * which + 16 * half + row] & 0x7fu);
        return {*(const float *)above * (0.5f * u), 0.0f};
    }
    READ_PANELS
};

struct type_q6_m : above_inside<0> {
    enum { HALVES = 0, MINIMUM = 1, MIDDLE = 32, NIBBLES = 0, WORDS = 6, GROUP_BYTES = 64 * WORDS };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        return type_q6_k::unpack(word, j);
    }
    DEVICE params of(const uint8_t *block, int which, const uint8_t *above, int row, int half) {
        return type_q4_m::of(block, which, above, row, half);
    }
    READ_PANELS
};

/* Unsigned 8-bit codes, used minus 128; `of` compensates in the minimum, `exactly` returns the
 * parameters of the unsigned codes. */
template <class EXACTLY> struct type_unsigned : above_inside<0> {
    enum { HALVES = 0, MINIMUM = 1, MIDDLE = 0, NIBBLES = 0, WORDS = 8, GROUP_BYTES = 64 * WORDS };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        return make_uint2(word(2 * j) ^ 0x80808080u, word(2 * j + 1) ^ 0x80808080u);
    }
    DEVICE params exactly(const uint8_t *block, int which, int row) {
        return EXACTLY::of(block, which, nullptr, row, 0);
    }
    DEVICE params of(const uint8_t *block, int which, const uint8_t *, int row, int) {
        const params p = exactly(block, which, row);
        return {p.scale, p.minimum - 128.0f * p.scale};
    }
    READ_PANELS
};
struct type_q8_m : type_unsigned<type_q4_m> {};

/* 64 bytes of f32 scales, then 64 bytes of f32 biases, per group. */
struct type_q4_f : type_4bit, above_inside<0> {
    DEVICE params of(const uint8_t *block, int which, const uint8_t *, int row, int) {
        const float *own = (const float *)(block + 128 * which);
        return {own[row], -own[16 + row]};
    }
    READ_PANELS
};
struct type_q8_f : type_unsigned<type_q4_f> {};

/* Codes are e4m3 floats. */
struct type_f8 : above_inside<0> {
    enum { HALVES = 0, MINIMUM = 0, WORDS = 8, GROUP_BYTES = 64 * WORDS };
    template <class WORD> DEVICE uint2 unpack(WORD word, int j) {
        return make_uint2(word(2 * j), word(2 * j + 1));
    }
    DEVICE params of(const uint8_t *block, int which, const uint8_t *, int row, int) {
        return {((const float *)(block + 64 * which))[row], 0.0f};
    }
    READ_PANELS
};

#undef READ_PANELS

/* A single weight, by row and column. */
template <class TYPE> struct one_weight {
    DEVICE float at(const sl_cuda_panels &p, int row, int column) {
        const int panel = row / 16, lane = row % 16, group = column / 32, inside = column % 32;
        const uint8_t *at = panel_at(p, panel);
        const uint2 pair = TYPE::codes(group_codes(p, at, group), lane, inside / 8);
        const unsigned word = inside % 8 < 4 ? pair.x : pair.y;
        const int code = (int)(int8_t)(word >> 8 * (inside % 4));
        const params w = TYPE::read(p, panel, at, group, lane, inside / 16);
        return w.scale * (float)code - w.minimum;
    }
};
template <> struct one_weight<type_f8> {
    DEVICE float at(const sl_cuda_panels &p, int row, int column) {
        const int lane = row % 16, group = column / 32, inside = column % 32;
        const uint8_t *at = panel_at(p, row / 16);
        const unsigned code = group_codes(p, at, group)[inside / 4 * 64 + lane * 4 + inside % 4];
        const float size = f32_of_e4m3(code & 0x7f);
        const params w = type_f8::read(p, row / 16, at, group, lane, 0);
        return w.scale * (code & 0x80 ? -size : size);
    }
};
template <class TYPE> DEVICE float weight_of(const sl_cuda_panels &p, int row, int column) {
    return one_weight<TYPE>::at(p, row, column);
}
#endif
