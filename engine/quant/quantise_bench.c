/* quantise_bench.c - How well and how fast weights are coded, against other ways to spend the bits.
 *
 *   quantise_bench [MODEL [EVERY]]
 *
 * MODEL: a Hugging Face folder with unquantised weights; of the routed experts every EVERYth is
 * measured (default 16).  Prints the table of docs/quantisation.md: ||coded - w|| / ||w|| in
 * percent, by kind of tensor.  The rivals are written for clarity: one group at a time, in plain
 * floats. */
#include "base/clock.h"
#include "engine/formats/source.h"
#include "engine/quant/quantise.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUPER_GROUPS = 8, MAX_GROUP = 64, MAX_SUPER = 128 };

typedef enum { OFFSET, SYMMETRIC, TABLE } form; /* s*q - n; s*q, q in -8..7; s*table[q] */
typedef enum { EXACT, HALF, BRAIN, CODES } coding;

typedef struct {
    const char *name;
    double bits;
    form form;
    int group;
    coding coding;
    int top, rows; /* CODES: the largest code, and rows that share a header */
    bool search;
} rival;

static const rival rivals[] = {
    {"offset g32, exact scales, searched", 0, OFFSET, 32, EXACT, 0, 1, true},
    {"offset g32 u8+u8, 16-row header, range", 4.516, OFFSET, 32, CODES, 255, 16, false},
    {"offset g32 6+6 bit, 256 header (Q4_K), range", 4.5, OFFSET, 32, CODES, 63, 1, false},
    {"offset g32 6+6 bit, 256 header (Q4_K), searched", 4.5, OFFSET, 32, CODES, 63, 1, true},
    {"offset g64 bf16+bf16 (MLX), range", 4.5, OFFSET, 64, BRAIN, 0, 1, false},
    {"offset g64 bf16+bf16 (MLX), searched", 4.5, OFFSET, 64, BRAIN, 0, 1, true},
    {"symmetric g32 f16 (Q4_0), range", 4.5, SYMMETRIC, 32, HALF, 0, 1, false},
    {"symmetric g32 f16 (Q4_0), searched", 4.5, SYMMETRIC, 32, HALF, 0, 1, true},
    {"symmetric g16 i8, 16-row header, searched", 4.516, SYMMETRIC, 16, CODES, 127, 16, true},
    {"table g32 f16 (IQ4_NL), searched", 4.5, TABLE, 32, HALF, 0, 1, true},
    {"table g16 i8, 16-row header, searched", 4.516, TABLE, 16, CODES, 127, 16, true},
};
enum { RIVALS = sizeof rivals / sizeof rivals[0] };

/* Levels that are denser where weights are. */
static const float table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};

typedef struct {
    float w[MAX_GROUP];
    int count;
    float scale, minimum;
} group;

static float best_level(const rival *r, float x) {
    if (r->form == OFFSET) return fminf(fmaxf(rintf(x), 0), 15);
    if (r->form == SYMMETRIC) return fminf(fmaxf(rintf(x), -8), 7);
    int at = 0;
    for (int i = 1; i < 16; i++)
        if (fabsf(table[i] - x) < fabsf(table[at] - x)) at = i;
    return table[at];
}

static double group_error(const rival *r, const group *g, float scale, float minimum) {
    double error = 0;
    for (int i = 0; i < g->count; i++) {
        const float q = scale != 0 ? best_level(r, (g->w[i] + minimum) / scale) : 0;
        const double miss = (double)(scale * q - minimum - g->w[i]);
        error += miss * miss;
    }
    return error;
}

/* Least squares for the levels that scale and minimum select. */
static void refine(const rival *r, const group *g, float *scale, float *minimum) {
    double n = g->count, q1 = 0, q2 = 0, w1 = 0, wq = 0;
    for (int i = 0; i < g->count; i++) {
        const double w = g->w[i], q = best_level(r, (g->w[i] + *minimum) / *scale);
        q1 += q;
        q2 += q * q;
        w1 += w;
        wq += w * q;
    }
    const double spread = n * q2 - q1 * q1;
    if (r->form != OFFSET || spread <= 0) {
        if (q2 > 0) *scale = (float)(wq / q2);
        return;
    }
    *scale = (float)((n * wq - q1 * w1) / spread);
    *minimum = (float)((*scale * q1 - w1) / n);
    if (*minimum < 0 && r->coding == CODES) {
        *minimum = 0;
        *scale = (float)(wq / q2);
    }
}

static void try_start(const rival *r, group *g, float scale, float minimum, double *best) {
    for (int round = 0; round <= 3 && scale != 0; round++) {
        const double error = group_error(r, g, scale, minimum);
        if (error < *best) {
            *best = error;
            g->scale = scale;
            g->minimum = minimum;
        }
        if (!r->search) break;
        refine(r, g, &scale, &minimum);
    }
}

static void fit_group(const rival *r, group *g) {
    float low = r->coding == CODES ? 0 : g->w[0], high = g->w[0], extreme = 0;
    for (int i = 0; i < g->count; i++) {
        low = fminf(low, g->w[i]);
        high = fmaxf(high, g->w[i]);
        if (fabsf(g->w[i]) > fabsf(extreme)) extreme = g->w[i];
    }
    double best = INFINITY;
    g->scale = g->minimum = 0;
    const int starts = r->search ? 16 : 1;
    for (int s = 0; s < starts; s++) {
        if (r->form == OFFSET) {
            const float lower = low * (1 - 0.06f * (float)(s / 4));
            const float upper = high * (1 - 0.06f * (float)(s % 4));
            try_start(r, g, (upper - lower) / 15, -lower, &best);
        } else {
            const float end = r->form == TABLE ? -127 : -8;
            const float stretch = 1 + 0.03f * (float)(s / 2 - 1) * (float)r->search;
            try_start(r, g, extreme / end / stretch * (s % 2 ? -1 : 1), 0, &best);
        }
    }
}

static float as_stored(coding quant, float x) {
    if (quant == HALF) return sl_f32_from_f16(sl_f16_from_f32(x));
    if (quant == BRAIN) return sl_f32_from_bf16(sl_bf16_from_f32(x));
    return x;
}

static double coded_error(const rival *r, const group *g, float step, float minimum_step) {
    if (r->coding != CODES)
        return group_error(r, g, as_stored(r->coding, g->scale), as_stored(r->coding, g->minimum));
    double best = INFINITY;
    const int reach = r->search ? 1 : 0;
    for (int ds = -reach; ds <= reach; ds++)
        for (int dn = -reach; dn <= reach; dn++) {
            const float s = step > 0 ? rintf(g->scale / step) + (float)ds : 0;
            const float n = minimum_step > 0 ? rintf(g->minimum / minimum_step) + (float)dn : 0;
            if (fabsf(s) > (float)r->top || n > (float)r->top || n < 0) continue;
            best = fmin(best, group_error(r, g, step * s, minimum_step * n));
        }
    return best;
}

/* A matrix by super-groups: rows x SUPER_GROUPS groups that share a header. */
static double rival_error(const rival *r, const float *w, int64_t rows, int64_t cols) {
    static group groups[MAX_SUPER];
    double error = 0;
    const int64_t span = (int64_t)r->group * SUPER_GROUPS;
    for (int64_t i = 0; i < (rows + r->rows - 1) / r->rows * ((cols + span - 1) / span); i++) {
        const int64_t row = i / ((cols + span - 1) / span) * r->rows;
        const int64_t col = i % ((cols + span - 1) / span) * span;
        int count = 0;
        float scale = 0, minimum = 0;
        for (int64_t y = row; y < rows && y < row + r->rows; y++)
            for (int64_t x = col; x < cols && x < col + span; x += r->group) {
                group *g = &groups[count++];
                g->count = (int)(cols - x < r->group ? cols - x : r->group);
                memcpy(g->w, w + y * cols + x, (size_t)g->count * sizeof *w);
                fit_group(r, g);
                scale = fmaxf(scale, fabsf(g->scale));
                minimum = fmaxf(minimum, g->minimum);
            }
        for (int g = 0; g < count; g++)
            error += coded_error(r, &groups[g], scale / (float)r->top, minimum / (float)r->top);
    }
    return error;
}

/* Kinds of tensors, the first match wins. */
static const char *const kinds[][2] = {
    {".mlp.experts.", "experts"}, {".shared_expert.", "shared"}, {".mlp.", "router"},
    {".in_proj_a", "delta a, b"}, {".in_proj_b", "delta a, b"},  {".linear_attn.", "delta net"},
    {".self_attn.", "attention"}, {"embed_tokens", "embedding"}, {"lm_head", "head"},
};
enum { KINDS = sizeof kinds / sizeof kinds[0], ROWS = RIVALS + 2 };

typedef struct {
    double miss[ROWS][KINDS + 1], size[KINDS + 1], seconds[2], weights;
} totals;

static double own_error(sl_dtype dtype, const float *w, int64_t rows, int64_t cols,
                        double *seconds) {
    void *codes = malloc(sl_panel_layout_of(dtype, rows, cols).matrix_bytes);
    float *row = calloc((size_t)cols, sizeof *row);
    sl_error error = {0};
    double miss = 0;
    const double start = sl_clock_seconds();
    if (!codes || !row || sl_quantise(dtype, w, rows, cols, codes, &error) != SL_OK) {
        (void)fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    *seconds += sl_clock_seconds() - start;
    for (int64_t r = 0; r < rows; r++) {
        sl_decode_row(dtype, codes, rows, cols, r, row);
        for (int64_t c = 0; c < cols; c++) miss += pow((double)(row[c] - w[r * cols + c]), 2);
    }
    free(row);
    free(codes);
    return miss;
}

static void measure(totals *t, int kind, const float *w, int64_t rows, int64_t cols) {
    double size = 0;
    for (int64_t i = 0; i < rows * cols; i++) size += (double)w[i] * w[i];
    t->weights += (double)(rows * cols);
    for (int row = 0; row < ROWS; row++) {
        const double miss =
            row < 2 ? own_error(row ? SL_DTYPE_q8 : SL_DTYPE_q4, w, rows, cols, &t->seconds[row])
                    : rival_error(&rivals[row - 2], w, rows, cols);
        t->miss[row][kind] += miss;
        t->miss[row][KINDS] += miss;
    }
    t->size[kind] += size;
    t->size[KINDS] += size;
}

static int kind_of(const sl_tensor_entry *entry, int every) {
    const char *experts = strstr(entry->name, ".mlp.experts.");
    if (entry->type.shape.rank != 2 || (experts && atoi(experts + 13) % every != 0)) return -1;
    for (int k = 0; k < KINDS; k++)
        if (strstr(entry->name, kinds[k][0]))
            return k > 0 && strcmp(kinds[k][1], kinds[k - 1][1]) == 0 ? k - 1 : k;
    return -1;
}

static sl_status measure_model(const char *path, int every, totals *t, sl_error *err) {
    sl_source *source;
    SL_TRY(sl_source_open(path, NULL, &source, err));
    for (uint32_t i = 0; i < sl_source_tensor_count(source); i++) {
        const sl_tensor_entry *entry = sl_source_tensor(source, i);
        const int kind = kind_of(entry, every);
        if (kind < 0) continue;
        const int64_t rows = entry->type.shape.dims[0], cols = entry->type.shape.dims[1];
        const void *data;
        SL_TRY(sl_source_load(source, entry, &data, err));
        float *w = calloc((size_t)(rows * cols), sizeof *w);
        if (!w) return sl_no_memory(err, entry->name, (uint64_t)(rows * cols) * sizeof *w);
        for (int64_t r = 0; r < rows; r++)
            sl_decode_row(entry->type.dtype, data, rows, cols, r, w + r * cols);
        measure(t, kind, w, rows, cols);
        free(w);
    }
    sl_source_close(source);
    return SL_OK;
}

int main(int argc, char **argv) {
    const char *shared = getenv("SLUICE_SHARED");
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/models/fable", shared ? shared : "../shared");
    static totals t;
    sl_error error = {0};
    if (measure_model(argc > 1 ? argv[1] : path, argc > 2 ? atoi(argv[2]) : 16, &t, &error) !=
        SL_OK) {
        (void)fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    (void)printf("| relative error, %% | bits | all |");
    for (int k = 0; k < KINDS; k++)
        if (t.size[k] > 0) (void)printf(" %s |", kinds[k][1]);
    (void)printf("\n");
    for (int row = 0; row < ROWS; row++) {
        static const char *const own[] = {"**q4**: offset g32 u8+u8, 16-row header, searched",
                                          "**q8**: symmetric g32 f16, searched"};
        static const double own_bits[] = {4.516, 8.5};
        (void)printf("| %s | %.2f | %.3f |", row < 2 ? own[row] : rivals[row - 2].name,
                     row < 2 ? own_bits[row] : rivals[row - 2].bits,
                     100 * sqrt(t.miss[row][KINDS] / t.size[KINDS]));
        for (int k = 0; k < KINDS; k++)
            if (t.size[k] > 0) (void)printf(" %.3f |", 100 * sqrt(t.miss[row][k] / t.size[k]));
        (void)printf("\n");
    }
    for (int i = 0; i < 2; i++)
        (void)printf("%s: %.0f MB of floats per second on one core\n", i ? "q8" : "q4",
                     t.weights * sizeof(float) / t.seconds[i] * 1e-6);
    return 0;
}
