/* panel_rows.cuh - Reading panels a few rows per lane, with loads separate from their use, so that
 * a warp can prefetch the next groups while it computes on these.
 *
 * A lane takes R (2 or 4) rows from `row` on, and columns 8j to 8j+7 of each in a group.  Every
 * type has:
 *   GROUP      bytes of a group's codes
 *   HALVES     scales apply to half groups
 *   MINIMUM    there is a minimum; with HALVES, one per half
 *   BIAS       value of a code = unsigned code - BIAS; SIGNED: codes are signed bytes already
 *   super_of<R>, group_of<R>   the loaded data: once per super-group, and per group
 *   codes      columns 8j to 8j+3 and 8j+4 to 8j+7 of the lane's row k, as bytes
 *   scale      scale and minimum of row k; with HALVES, of one half */
#ifndef SL_RUNTIME_CUDA_KERNELS_PANEL_ROWS_CUH
#define SL_RUNTIME_CUDA_KERNELS_PANEL_ROWS_CUH
#include "runtime/cuda/kernels/panel.cuh"

/* ---- loads of one item for each of R rows ---- */

template <int R> struct row_words { /* 32 bits for each row */
    unsigned v[R];
};
DEVICE void load_rows(row_words<2> &to, const uint8_t *from) {
    const uint2 w = __ldcs((const uint2 *)from);
    to.v[0] = w.x, to.v[1] = w.y;
}
DEVICE void load_rows(row_words<4> &to, const uint8_t *from) {
    const uint4 w = __ldcs((const uint4 *)from);
    to.v[0] = w.x, to.v[1] = w.y, to.v[2] = w.z, to.v[3] = w.w;
}

template <int R> struct row_halves { /* 16 bits for each row */
    unsigned v[R / 2];
    MEMBER unsigned at(int k) const {
        return v[k / 2] >> 16 * (k % 2) & 0xffff;
    }
    MEMBER float f16(int k) const {
        return f32_of_f16((uint16_t)at(k));
    }
    MEMBER float bf16(int k) const {
        return __uint_as_float(k % 2 ? v[k / 2] & 0xffff0000u : v[k / 2] << 16);
    }
};
DEVICE void load_rows(row_halves<2> &to, const uint8_t *from) {
    to.v[0] = __ldg((const unsigned *)from);
}
DEVICE void load_rows(row_halves<4> &to, const uint8_t *from) {
    const uint2 w = __ldg((const uint2 *)from);
    to.v[0] = w.x, to.v[1] = w.y;
}

template <int R> struct row_bytes { /* 8 bits for each row */
    unsigned v;
    MEMBER float unsigned_at(int k) const {
        return (float)(uint8_t)(v >> 8 * k);
    }
    MEMBER float signed_at(int k) const {
        return (float)(int8_t)(uint8_t)(v >> 8 * k);
    }
};
DEVICE void load_rows(row_bytes<2> &to, const uint8_t *from) {
    to.v = __ldg((const uint16_t *)from);
}
DEVICE void load_rows(row_bytes<4> &to, const uint8_t *from) {
    to.v = __ldg((const unsigned *)from);
}

/* ---- types ---- */

/* The lane's word `word` of a group's codes: a word of all 16 rows takes 64 bytes. */
DEVICE const uint8_t *lane_codes(const uint8_t *codes, int row, int word) {
    return codes + 64 * word + 4 * row;
}

struct rows_4bit {
    enum { GROUP = 256, HALVES = 0, MINIMUM = 1, SIGNED = 0, BIAS = 0 };
    template <class G> DEVICE uint2 codes(const G &g, int k, int) {
        return nibbles(g.codes.v[k]);
    }
};

/* With one byte of scale and one of minimum per row of a group. */
struct rows_4bit_bytes : rows_4bit {
    template <int R> struct group_of {
        row_words<R> codes;
        row_bytes<R> s, n;
    };
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        load_rows(to.codes, lane_codes(codes, row, j));
        load_rows(to.s, own + row);
        load_rows(to.n, own + 16 + row);
    }
};

struct rows_q4 : rows_4bit_bytes {
    using rows_4bit_bytes::load;
    template <int R> struct super_of {
        float2 header;
    };
    template <int R>
    DEVICE void load(super_of<R> &to, const sl_cuda_panels &p, int panel, const uint8_t *,
                     int super, int) {
        to.header = __ldg((const float2 *)p.data + (int64_t)panel * p.supers + super);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &s, const group_of<R> &g, int k, int) {
        return {s.header.x * g.s.unsigned_at(k), s.header.y * g.n.unsigned_at(k)};
    }
};

struct rows_q4_k : rows_4bit_bytes {
    using rows_4bit_bytes::load;
    template <int R> struct super_of {
        row_halves<R> d, m;
    };
    template <int R>
    DEVICE void load(super_of<R> &to, const sl_cuda_panels &, int, const uint8_t *own, int,
                     int row) {
        load_rows(to.d, own + 2 * row);
        load_rows(to.m, own + 32 + 2 * row);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &s, const group_of<R> &g, int k, int) {
        return {s.d.f16(k) * g.s.unsigned_at(k), s.m.f16(k) * g.n.unsigned_at(k)};
    }
};

struct rows_q4_0 : rows_4bit {
    template <int R> struct super_of {};
    template <int R> struct group_of {
        row_words<R> codes;
        row_halves<R> d;
    };
    template <int R>
    DEVICE void load(super_of<R> &, const sl_cuda_panels &, int, const uint8_t *, int, int) {
    }
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        load_rows(to.codes, lane_codes(codes, row, j));
        load_rows(to.d, own + 2 * row);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &, const group_of<R> &g, int k, int) {
        const float d = g.d.f16(k);
        return {d, 8.0f * d};
    }
};

/* The two groups of a block share their parameters, which are at the start of the block. */
struct rows_q4_m : rows_4bit {
    template <int R> struct super_of {};
    template <int R> struct group_of {
        row_words<R> codes;
        row_halves<R> scale, bias;
    };
    template <int R>
    DEVICE void load(super_of<R> &, const sl_cuda_panels &, int, const uint8_t *, int, int) {
    }
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        const uint8_t *block = (const uint8_t *)((uintptr_t)own & ~(uintptr_t)63);
        load_rows(to.codes, lane_codes(codes, row, j));
        load_rows(to.scale, block + 2 * row);
        load_rows(to.bias, block + 32 + 2 * row);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &, const group_of<R> &g, int k, int) {
        return {g.scale.bf16(k), -g.bias.bf16(k)};
    }
};

struct rows_q8 {
    enum { GROUP = 512, HALVES = 0, MINIMUM = 0, SIGNED = 1, BIAS = 0 };
    template <int R> struct super_of {};
    template <int R> struct group_of {
        row_words<R> first, second;
        row_halves<R> d;
    };
    template <int R>
    DEVICE void load(super_of<R> &, const sl_cuda_panels &, int, const uint8_t *, int, int) {
    }
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        load_rows(to.first, lane_codes(codes, row, 2 * j));
        load_rows(to.second, lane_codes(codes, row, 2 * j + 1));
        load_rows(to.d, own + 2 * row);
    }
    template <class G> DEVICE uint2 codes(const G &g, int k, int) {
        return make_uint2(g.first.v[k], g.second.v[k]);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &, const group_of<R> &g, int k, int) {
        return {g.d.f16(k), 0.0f};
    }
};

struct rows_q6_k {
    enum { GROUP = 384, HALVES = 1, MINIMUM = 0, SIGNED = 0, BIAS = 32 };
    template <int R> struct super_of {
        row_halves<R> d;
    };
    template <int R> struct group_of {
        row_words<R> low, high;
        row_bytes<R> s[2];
    };
    template <int R>
    DEVICE void load(super_of<R> &to, const sl_cuda_panels &, int, const uint8_t *own, int,
                     int row) {
        load_rows(to.d, own + 2 * row);
    }
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        load_rows(to.low, lane_codes(codes, row, j));
        load_rows(to.high, lane_codes(codes + 256, row, j / 2));
        load_rows(to.s[0], own + row);
        load_rows(to.s[1], own + 16 + row);
    }
    template <class G> DEVICE uint2 codes(const G &g, int k, int j) {
        const uint2 low = nibbles(g.low.v[k]);
        const unsigned high = g.high.v[k] >> 4 * (j % 2);
        return make_uint2(low.x | (high << 4 & 0x30303030u), low.y | (high << 2 & 0x30303030u));
    }
    template <int R>
    DEVICE params scale(const super_of<R> &s, const group_of<R> &g, int k, int half) {
        const float own = half ? g.s[1].signed_at(k) : g.s[0].signed_at(k);
        return {s.d.f16(k) * own, 0.0f};
    }
};

/* ---- codes of other widths, and lookup tables ---- */

/* No super-group parameters. */
struct rows_alone {
    template <int R> struct super_of {};
    template <int R>
    DEVICE void load(super_of<R> &, const sl_cuda_panels &, int, const uint8_t *, int, int) {
    }
};
/* One or two f16 super-group parameters per row. */
struct rows_under_one {
    template <int R> struct super_of {
        row_halves<R> d;
    };
    template <int R>
    DEVICE void load(super_of<R> &to, const sl_cuda_panels &, int, const uint8_t *own, int,
                     int row) {
        load_rows(to.d, own + 2 * row);
    }
};
struct rows_under_two {
    template <int R> struct super_of {
        row_halves<R> d, m;
    };
    template <int R>
    DEVICE void load(super_of<R> &to, const sl_cuda_panels &, int, const uint8_t *own, int,
                     int row) {
        load_rows(to.d, own + 2 * row);
        load_rows(to.m, own + 32 + 2 * row);
    }
};

struct rows_q5_k : rows_under_two {
    using rows_under_two::load;
    enum { GROUP = 320, HALVES = 0, MINIMUM = 1, SIGNED = 0, BIAS = 0 };
    template <int R> struct group_of {
        row_words<R> low, bits;
        row_bytes<R> s, n;
    };
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        load_rows(to.low, lane_codes(codes, row, j));
        load_rows(to.bits, lane_codes(codes, row, 4));
        load_rows(to.s, own + row);
        load_rows(to.n, own + 16 + row);
    }
    template <class G> DEVICE uint2 codes(const G &g, int k, int j) {
        const uint2 low = nibbles(g.low.v[k]), high = single_bits(g.bits.v[k], j);
        return make_uint2(low.x | high.x << 4, low.y | high.y << 4);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &s, const group_of<R> &g, int k, int) {
        return {s.d.f16(k) * g.s.unsigned_at(k), s.m.f16(k) * g.n.unsigned_at(k)};
    }
};

struct rows_q2_k : rows_under_two {
    using rows_under_two::load;
    enum { GROUP = 128, HALVES = 1, MINIMUM = 1, SIGNED = 0, BIAS = 0 };
    template <int R> struct group_of {
        row_words<R> pairs;
        row_bytes<R> s[2];
    };
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        load_rows(to.pairs, lane_codes(codes, row, j / 2));
        load_rows(to.s[0], own + row);
        load_rows(to.s[1], own + 16 + row);
    }
    template <class G> DEVICE uint2 codes(const G &g, int k, int j) {
        return bit_pairs(g.pairs.v[k], j);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &s, const group_of<R> &g, int k, int half) {
        const unsigned both = (half ? g.s[1].v : g.s[0].v) >> 8 * k;
        return {s.d.f16(k) * (float)(both & 15), s.m.f16(k) * (float)(both >> 4 & 15)};
    }
};

struct rows_q3_k : rows_under_one {
    using rows_under_one::load;
    enum { GROUP = 192, HALVES = 1, MINIMUM = 0, SIGNED = 0, BIAS = 4 };
    template <int R> struct group_of {
        row_words<R> pairs, bits;
        row_bytes<R> s[2];
    };
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        load_rows(to.pairs, lane_codes(codes, row, j / 2));
        load_rows(to.bits, lane_codes(codes, row, 2));
        load_rows(to.s[0], own + row);
        load_rows(to.s[1], own + 16 + row);
    }
    template <class G> DEVICE uint2 codes(const G &g, int k, int j) {
        const uint2 low = bit_pairs(g.pairs.v[k], j), high = single_bits(g.bits.v[k], j);
        return make_uint2(low.x | high.x << 2, low.y | high.y << 2);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &s, const group_of<R> &g, int k, int half) {
        const float own = half ? g.s[1].signed_at(k) : g.s[0].signed_at(k);
        return {s.d.f16(k) * own, 0.0f};
    }
};

/* Codes index a table; one 16-bit float scale per row of a group. */
template <class TABLE> struct rows_table_halves : rows_alone {
    using rows_alone::load;
    enum { GROUP = 256, HALVES = 0, MINIMUM = 0, SIGNED = 1, BIAS = 0 };
    template <int R> struct group_of {
        row_words<R> codes;
        row_halves<R> d;
    };
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        load_rows(to.codes, lane_codes(codes, row, j));
        load_rows(to.d, own + 2 * row);
    }
    template <class G> DEVICE uint2 codes(const G &g, int k, int) {
        return TABLE::entries(g.codes.v[k]);
    }
};
struct rows_iq4_nl : rows_table_halves<iq4_table> {
    template <int R>
    DEVICE params scale(const super_of<R> &, const group_of<R> &g, int k, int) {
        return {g.d.f16(k), 0.0f};
    }
};
struct rows_mxfp4 : rows_table_halves<fp4_table> {
    template <int R>
    DEVICE params scale(const super_of<R> &, const group_of<R> &g, int k, int) {
        return {g.d.bf16(k), 0.0f};
    }
};

struct rows_iq4_xs : rows_under_one {
    using rows_under_one::load;
    enum { GROUP = 256, HALVES = 0, MINIMUM = 0, SIGNED = 1, BIAS = 0 };
    template <int R> struct group_of {
        row_words<R> codes;
        row_bytes<R> s;
    };
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        load_rows(to.codes, lane_codes(codes, row, j));
        load_rows(to.s, own + row);
    }
    template <class G> DEVICE uint2 codes(const G &g, int k, int) {
        return iq4_table::entries(g.codes.v[k]);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &s, const group_of<R> &g, int k, int) {
        return {s.d.f16(k) * g.s.signed_at(k), 0.0f};
    }
};

struct rows_nvfp4 {
    enum { GROUP = 256, HALVES = 1, MINIMUM = 0, SIGNED = 1, BIAS = 0 };
    template <int R> struct super_of {
        float d;
    };
    template <int R> struct group_of {
        row_words<R> codes;
        row_bytes<R> s[2];
    };
    template <int R>
    DEVICE void load(super_of<R> &to, const sl_cuda_panels &p, int panel, const uint8_t *,
                     int super, int) {
        to.d = 0.5f * __ldg((const float *)p.data + 2 * ((int64_t)panel * p.supers + super));
    }
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        load_rows(to.codes, lane_codes(codes, row, j));
        load_rows(to.s[0], own + row);
        load_rows(to.s[1], own + 16 + row);
    }
    template <class G> DEVICE uint2 codes(const G &g, int k, int) {
        return fp4_table::entries(g.codes.v[k]);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &s, const group_of<R> &g, int k, int half) {
        return {s.d * f32_of_e4m3((half ? g.s[1].v : g.s[0].v) >> 8 * k & 0x7f), 0.0f};
    }
};

/* Like q4_m: the two groups of a block share their parameters. */
struct rows_q6_m : rows_alone {
    using rows_alone::load;
    enum { GROUP = 384, HALVES = 0, MINIMUM = 1, SIGNED = 0, BIAS = 0 };
    template <int R> struct group_of {
        row_words<R> low, high;
        row_halves<R> scale, bias;
    };
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        const uint8_t *block = (const uint8_t *)((uintptr_t)own & ~(uintptr_t)63);
        load_rows(to.low, lane_codes(codes, row, j));
        load_rows(to.high, lane_codes(codes + 256, row, j / 2));
        load_rows(to.scale, block + 2 * row);
        load_rows(to.bias, block + 32 + 2 * row);
    }
    template <class G> DEVICE uint2 codes(const G &g, int k, int j) {
        const uint2 low = nibbles(g.low.v[k]), high = bit_pairs(g.high.v[k], j);
        return make_uint2(low.x | high.x << 4, low.y | high.y << 4);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &, const group_of<R> &g, int k, int) {
        return {g.scale.bf16(k), -g.bias.bf16(k)};
    }
};

/* Unsigned codes, used minus 128; the minimum compensates. */
struct rows_q8_m : rows_alone {
    using rows_alone::load;
    enum { GROUP = 512, HALVES = 0, MINIMUM = 1, SIGNED = 1, BIAS = 0 };
    template <int R> struct group_of {
        row_words<R> first, second;
        row_halves<R> scale, bias;
    };
    template <int R>
    DEVICE void load(group_of<R> &to, const uint8_t *own, const uint8_t *codes, int row,
                     int j) {
        const uint8_t *block = (const uint8_t *)((uintptr_t)own & ~(uintptr_t)63);
        load_rows(to.first, lane_codes(codes, row, 2 * j));
        load_rows(to.second, lane_codes(codes, row, 2 * j + 1));
        load_rows(to.scale, block + 2 * row);
        load_rows(to.bias, block + 32 + 2 * row);
    }
    template <class G> DEVICE uint2 codes(const G &g, int k, int) {
        return make_uint2(g.first.v[k] ^ 0x80808080u, g.second.v[k] ^ 0x80808080u);
    }
    template <int R>
    DEVICE params scale(const super_of<R> &, const group_of<R> &g, int k, int) {
        const float scale = g.scale.bf16(k);
        return {scale, -(g.bias.bf16(k) + 128.0f * scale)};
    }
};

/* Codes minus BIAS, as signed bytes.  Unsigned codes are below 128, so that no byte borrows. */
template <class TYPE> DEVICE unsigned signed_codes(unsigned codes) {
    if (TYPE::SIGNED || TYPE::BIAS == 0) return codes;
    return ((codes | 0x80808080u) - 0x01010101u * (unsigned)TYPE::BIAS) ^ 0x80808080u;
}

/* ---- a batch: groups of one super-group ---- */

template <class TYPE, int R, int GROUPS> struct panel_batch {
    typename TYPE::template super_of<R> super;
    typename TYPE::template group_of<R> groups[GROUPS];
};
/* The part of a panel that a lane reads. */
struct panel_lane {
    const uint8_t *data; /* start of the panel */
    int panel, row, j;
};

template <class TYPE, int R, int GROUPS>
DEVICE void load_super(panel_batch<TYPE, R, GROUPS> &b, const sl_cuda_panels &p,
                       const panel_lane &lane, int group) {
    TYPE::load(b.super, p, lane.panel, super_params(p, lane.data, group),
               group / SL_CUDA_SUPER_GROUPS, lane.row);
}
/* Loads group `k` of a batch whose first block (of two groups) is at `block`. */
template <class TYPE, class G>
DEVICE void load_group(G &g, const uint8_t *block, const panel_lane &lane, int k) {
    const uint8_t *own = block + k / 2 * (64 + 2 * TYPE::GROUP);
    TYPE::load(g, own + k % 2 * 32, own + 64 + k % 2 * TYPE::GROUP, lane.row, lane.j);
}
#endif
