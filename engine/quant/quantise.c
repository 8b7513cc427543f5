/* quantise.c - Finds scales and codes that minimise the squared error.
 *
 * A panel's 16 rows are searched together, one lane each, so that every inner loop runs over lanes
 * without branches and the compiler turns it into vector code.  The search alternates two exact
 * steps, the best codes for a scale and minimum and the best scale and minimum for the codes, from
 * several clipped ranges, and keeps the best end point. */
#include "engine/quant/quantise.h"
#include "engine/quant/tile.h"

enum { Q4_TOP = 15, Q8_TOP = 127, CODE_TOP = 255 };

/* Beyond this an f16 scale would overflow; no trained weight comes near. */
static const float LARGEST_WEIGHT = 0x1p20f;

/* Scale and minimum of each lane, as floats or as codes, and the squared error they cause. */
typedef struct {
    lanes scale, minimum, error;
} fit;

/* Codes the tile by f's scale and minimum, then replaces these by the least-squares solution for
 * the codes, under the rule that the minimum is not negative.  f->error is that solution's. */
static void improve(const tile *t, fit *f) {
    lanes q1 = {0}, q2 = {0}, wq = {0}, per_scale;
    for (int l = 0; l < LANES; l++) per_scale[l] = inverse(f->scale[l]);
    for (int c = 0; c < t->cols; c++) {
        for (int l = 0; l < LANES; l++) {
            const float w = t->w[c][l];
            const float q = round_even(clamp((w + f->minimum[l]) * per_scale[l], 0, Q4_TOP));
            q1[l] += q;
            q2[l] += q * q;
            wq[l] += w * q;
        }
    }
    const float n = (float)t->cols;
    for (int l = 0; l < LANES; l++) {
        float scale = (n * wq[l] - q1[l] * t->sum[l]) * inverse(n * q2[l] - q1[l] * q1[l]);
        float minimum = (scale * q1[l] - t->sum[l]) / n;
        const float through_zero = wq[l] * inverse(q2[l]);
        const bool free = scale >= 0 && minimum > 0; /* scale 0: all codes are equal */
        scale = free ? scale : positive(through_zero);
        minimum = free ? minimum : 0;
        f->scale[l] = scale;
        f->minimum[l] = minimum;
        f->error[l] = t->squares[l] - 2 * (scale * wq[l] - minimum * t->sum[l]) +
                      scale * scale * q2[l] - 2 * scale * minimum * q1[l] + n * minimum * minimum;
    }
}

static void keep_better(fit *best, const fit *f) {
    for (int l = 0; l < LANES; l++) {
        const bool better = f->error[l] < best->error[l];
        best->scale[l] = better ? f->scale[l] : best->scale[l];
        best->minimum[l] = better ? f->minimum[l] : best->minimum[l];
        best->error[l] = better ? f->error[l] : best->error[l];
    }
}

/* Ranges to start from: either end of the range drawn in by up to (CLIPS - 1) steps, and the rounds
 * of improvement from each.  docs/quantisation.md has the measurements. */
enum { CLIPS = 4, ROUNDS = 3 };
static const float CLIP_STEP = 0.06f;

/* The best scale and minimum found for each lane, as floats. */
static void search(const tile *t, fit *best) {
    memset(best, 0, sizeof *best);
    memcpy(best->error, t->squares, sizeof best->error); /* all zero */
    for (int start = 0; start < CLIPS * CLIPS; start++) {
        const float keep_low = 1 - CLIP_STEP * (float)(start / CLIPS);
        const float keep_high = 1 - CLIP_STEP * (float)(start % CLIPS);
        fit f;
        for (int l = 0; l < LANES; l++) {
            const float low = t->low[l] < 0 ? t->low[l] * keep_low : 0;
            const float high = t->high[l] > low ? t->high[l] : low;
            f.minimum[l] = -low;
            f.scale[l] = ((high > 0 ? high * keep_high : high) - low) / Q4_TOP;
        }
        for (int round = 0; round < ROUNDS; round++) {
            improve(t, &f);
            keep_better(best, &f);
        }
    }
}

/* What codes cost when every weight takes its best nibble, exactly as the decoder computes it. */
static void measure(const tile *t, const float header[2], fit *code) {
    lanes scale, per_scale, minimum;
    for (int l = 0; l < LANES; l++) {
        scale[l] = header[0] * code->scale[l];
        minimum[l] = header[1] * code->minimum[l];
        per_scale[l] = inverse(scale[l]);
        code->error[l] = 0;
    }
    for (int c = 0; c < t->cols; c++) {
        for (int l = 0; l < LANES; l++) {
            const float w = t->w[c][l];
            const float q = round_even(clamp((w + minimum[l]) * per_scale[l], 0, Q4_TOP));
            const float miss = scale[l] * q - minimum[l] - w;
            code->error[l] += miss * miss;
        }
    }
}

/* The best of the nine pairs of codes around the float solution. */
static void choose_codes(const tile *t, const fit *f, const float header[2], fit *best) {
    for (int l = 0; l < LANES; l++) best->error[l] = INFINITY;
    for (int pair = 0; pair < 9; pair++) {
        fit code;
        for (int l = 0; l < LANES; l++) {
            const float scale = round_even(f->scale[l] * inverse(header[0]));
            const float minimum = round_even(f->minimum[l] * inverse(header[1]));
            code.scale[l] = clamp(scale + (float)(pair % 3 - 1), 0, CODE_TOP);
            code.minimum[l] = clamp(minimum + (float)(pair / 3 - 1), 0, CODE_TOP);
        }
        measure(t, header, &code);
        keep_better(best, &code);
    }
}

static void q4_store(const tile *t, const fit *code, const float header[2], uint8_t *codes,
                     uint8_t *nibbles) {
    for (int64_t l = 0; l < LANES; l++) {
        codes[l] = (uint8_t)code->scale[l];
        codes[LANES + l] = (uint8_t)code->minimum[l];
        const float per_scale = inverse(header[0] * code->scale[l]);
        const float minimum = header[1] * code->minimum[l];
        for (int64_t c = 0; c < COLS; c++) {
            const float q = round_even(clamp((t->w[c][l] + minimum) * per_scale, 0, Q4_TOP));
            uint8_t *byte = nibbles + c / 8 * 64 + l * 4 + c % 4;
            *byte = (uint8_t)(c % 8 < 4 ? (uint8_t)q : *byte | (uint8_t)q << 4);
        }
    }
}

/* One super-group of one panel: `count` tiles that share a header, coded from `blocks` on. */
static void q4_super(const tile *tiles, int count, float header[2], const sl_panel_layout *l,
                     uint8_t *blocks) {
    fit fits[SUPER];
    float scale = 0, minimum = 0;
    for (int g = 0; g < count; g++) {
        search(&tiles[g], &fits[g]);
        for (int lane = 0; lane < LANES; lane++) {
            scale = fits[g].scale[lane] > scale ? fits[g].scale[lane] : scale;
            minimum = fits[g].minimum[lane] > minimum ? fits[g].minimum[lane] : minimum;
        }
    }
    header[0] = scale / CODE_TOP;
    header[1] = minimum / CODE_TOP;
    for (int64_t g = 0; g < count; g++) {
        fit code;
        choose_codes(&tiles[g], &fits[g], header, &code);
        q4_store(&tiles[g], &code, header, blocks + sl_group_params(l, g),
                 blocks + sl_group_codes(l, g));
    }
}

static void q4_matrix(const float *matrix, const int64_t dims[2], uint8_t *out) {
    const sl_panel_layout l = sl_panel_layout_of(SL_DTYPE_q4, dims[0], dims[1]);
    for (int64_t p = 0; p < l.panels; p++) {
        uint8_t *panel = out + l.header_bytes + (uint64_t)p * l.panel_bytes;
        memset(panel, 0, l.panel_bytes);
        for (int64_t s = 0; s < l.supers; s++) {
            const int64_t first = s * SUPER;
            const int count = (int)(l.groups - first < SUPER ? l.groups - first : SUPER);
            tile tiles[SUPER];
            for (int g = 0; g < count; g++)
                tile_load(&tiles[g], matrix, dims, p * LANES, (first + g) * COLS);
            float header[2];
            q4_super(tiles, count, header, &l, panel + sl_group_params(&l, first));
            memcpy(out + (uint64_t)(p * l.supers + s) * sizeof header, header, sizeof header);
        }
    }
}

/* An 8-bit scale a little below range / 127 clips the largest weight and serves the others. */
enum { Q8_SCALES = 8 };

static void q8_group(const tile *t, uint8_t *scales, uint8_t *codes) {
    lanes best = {0}, best_error;
    memcpy(best_error, t->squares, sizeof best_error);
    for (int step = 0; step < Q8_SCALES; step++) {
        lanes scale, per_scale, error = {0};
        for (int l = 0; l < LANES; l++) {
            const float range = t->high[l] > -t->low[l] ? t->high[l] : -t->low[l];
            scale[l] = sl_f32_from_f16(sl_f16_from_f32(range / (Q8_TOP + 0.25f * (float)step)));
            per_scale[l] = inverse(scale[l]);
        }
        for (int c = 0; c < t->cols; c++) {
            for (int l = 0; l < LANES; l++) {
                const float w = t->w[c][l];
                const float q = round_even(clamp(w * per_scale[l], -Q8_TOP, Q8_TOP));
                error[l] += (scale[l] * q - w) * (scale[l] * q - w);
            }
        }
        for (int l = 0; l < LANES; l++) {
            best[l] = error[l] < best_error[l] ? scale[l] : best[l];
            best_error[l] = error[l] < best_error[l] ? error[l] : best_error[l];
        }
    }
    for (int64_t l = 0; l < LANES; l++) {
        const uint16_t half = sl_f16_from_f32(best[l]);
        memcpy(scales + l * 2, &half, sizeof half);
        const float per_scale = inverse(best[l]);
        for (int64_t c = 0; c < COLS; c++) {
            const float q = round_even(clamp(t->w[c][l] * per_scale, -Q8_TOP, Q8_TOP));
            codes[c / 4 * 64 + l * 4 + c % 4] = (uint8_t)(int8_t)q;
        }
    }
}

static void q8_matrix(const float *matrix, const int64_t dims[2], uint8_t *out) {
    const sl_panel_layout l = sl_panel_layout_of(SL_DTYPE_q8, dims[0], dims[1]);
    for (int64_t p = 0; p < l.panels; p++) {
        uint8_t *panel = out + (uint64_t)p * l.panel_bytes;
        memset(panel, 0, l.panel_bytes);
        for (int64_t g = 0; g < l.groups; g++) {
            tile t;
            tile_load(&t, matrix, dims, p * LANES, g * COLS);
            q8_group(&t, panel + sl_group_params(&l, g), panel + sl_group_codes(&l, g));
        }
    }
}

static sl_status check_weights(const float *matrix, int64_t rows, int64_t cols, sl_error *err) {
    for (int64_t i = 0; i < rows * cols; i++)
        if (!(fabsf(matrix[i]) <= LARGEST_WEIGHT))
            return sl_fail(err, SL_FORMAT,
                           "weight at row %lld column %lld is %g, wanted at most %g",
                           (long long)(i / cols), (long long)(i % cols), (double)matrix[i],
                           (double)LARGEST_WEIGHT);
    return SL_OK;
}

sl_status sl_quantise(sl_dtype dtype, const float *matrix, int64_t rows, int64_t cols, void *out,
                      sl_error *err) {
    const sl_type type = sl_type_make(dtype, 2, rows, cols);
    SL_TRY(sl_type_check(&type, "matrix to quantise", err));
    sl_quantise_fn *quantise = dtype == SL_DTYPE_q4     ? q4_matrix
                               : dtype == SL_DTYPE_q6_k ? sl_quantise_q6
                               : dtype == SL_DTYPE_q8   ? q8_matrix
                                                        : NULL;
    if (!quantise)
        return sl_fail(err, SL_INVALID, "cannot quantise to %s%s, wanted q4, q6_k or q8",
                       sl_dtype_infos[dtype].name,
                       sl_dtype_infos[dtype].kind == SL_KIND_PANEL ? ", which only files hold"
                                                                   : "");
    SL_TRY(check_weights(matrix, rows, cols, err));
    memset(out, 0, sl_type_bytes(&type)); /* alignment gaps are part of the bytes */
    quantise(matrix, (const int64_t[]){rows, cols}, out);
    return SL_OK;
}
