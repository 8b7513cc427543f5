/* sdpa_test.c - RoPE, the KV cache and attention: every kernel of every instruction set against the
 * evaluator on ragged shapes, and what must be bit-identical. */
#include "core/kv.h"
#include "tests/support/op_case.h"
#include "tests/support/rounds.h"

static int64_t between(int64_t low, int64_t high) {
    return low + (int64_t)(next() % (uint32_t)(high - low + 1));
}

/* ---- rope ---- */

static void test_rope_table(void **state) {
    (void)state;
    for (uint32_t rotary = 2; rotary <= 66; rotary += 16) {
        const sl_rope_table_attrs attrs = {.rotary = rotary, .theta = 1e7f};
        op_case c = case_of(SL_OP_rope_table, &attrs, 1e-7);
        int32_t *positions = input(&c, i32(40), 0, 1000000);
        positions[0] = 0, positions[1] = 32768, positions[2] = INT32_MAX - 1;
        check(&c);
    }
    const sl_rope_table_attrs attrs = {.rotary = 4, .theta = 1e4f};
    op_case negative = case_of(SL_OP_rope_table, &attrs, 0);
    input(&negative, i32(2), -5, -1);
    check_refused(&negative);
}

static void test_rope(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        const int64_t rows = between(1, 9), width = between(2, 140);
        const sl_rope_apply_attrs attrs = {.interleaved = (uint32_t)round % 2};
        op_case c = case_of(SL_OP_rope_apply, &attrs, 3e-7);
        floats(&c, f32(3, rows, between(1, 4), width, 0));
        const sl_type table = f32(3, rows, 1, between(1, width / 2), 0);
        floats(&c, table), floats(&c, table);
        check(&c);
    }
}

/* ---- caches ---- */

/* Rows of two slots: slot 2 from position `first` on, then slot 0 from 0 on. */
static void add_slots(op_case *c, int64_t rows, int64_t split, int32_t first) {
    int32_t *slots = input(c, i32(rows), 0, 1), *positions = input(c, i32(rows), 0, 1);
    for (int64_t t = 0; t < rows; t++) {
        slots[t] = t < split ? 2 : 0;
        positions[t] = (int32_t)(t < split ? first + t : t - split);
    }
}

static void add_caches(op_case *c, sl_kv_shape shape) {
    floats(c, sl_kv_keys(shape)), floats(c, sl_kv_values(shape));
}

static void append_case(op_case *c, sl_kv_shape shape, int32_t first) {
    *c = case_of(SL_OP_kv_append, NULL, 0);
    const sl_type rows = f32(3, 7, shape.heads, shape.dim, 0);
    floats(c, rows), floats(c, rows);
    add_slots(c, 7, 4, first);
    add_caches(c, shape);
}

static void test_append(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 5, 16, 72, 128};
    for (int i = 0; i < 10; i++) {
        op_case c;
        append_case(&c, (sl_kv_shape){i % 2 ? SL_DTYPE_f16 : SL_DTYPE_f32, 3, 3, 45, widths[i / 2]},
                    44); /* across the end of a block, up to the last position */
        check(&c);
    }
    op_case beyond;
    append_case(&beyond, (sl_kv_shape){SL_DTYPE_f32, 3, 3, 45, 4}, 45);
    check_refused(&beyond);
    op_case no_slot;
    append_case(&no_slot, (sl_kv_shape){SL_DTYPE_f16, 2, 3, 45, 4}, 3);
    check_refused(&no_slot);
}

/* ---- attention ---- */

static const sl_sdpa_attrs scaled = {.scale = 0.7f};

typedef struct {
    sl_kv_shape cache;
    int64_t rows, split, ratio;
    int32_t first;
} shape;

static void sdpa_case(op_case *c, sl_op op, shape s, double tolerance) {
    *c = case_of(op, &scaled, tolerance);
    floats(c, f32(3, s.rows, s.cache.heads * s.ratio, s.cache.dim, 0));
    add_caches(c, s.cache);
    add_slots(c, s.rows, s.split, s.first);
    c->by_tensor = true; /* the mean of many values may nearly cancel */
}

static shape random_shape(int round) {
    static const int32_t edges[] = {0, 14, 15, 16, 62, 63, 64, 1022, 1023, 1024, 2047};
    static const int64_t ratios[] = {1, 2, 8, 3, 16, 5};
    static const int64_t widths[] = {1, 5, 16, 31, 72, 128};
    const int32_t first = edges[round % 11];
    const int64_t rows = between(1, 11);
    return (shape){.cache = {round % 2 ? SL_DTYPE_f16 : SL_DTYPE_f32, 3, between(1, 3),
                             first + rows + between(0, 40), widths[next() % 6]},
                   .rows = rows,
                   .split = rows - rows / 3,
                   .ratio = ratios[round % 6],
                   .first = first};
}

/* A score is a sum of `dim` products: its error is about sqrt(dim) roundings of a number that also
 * grows with sqrt(dim).  In the final result the error of the largest score cancels; in a part it
 * does not. */
static double parts_tolerance(int64_t dim) {
    return 2e-6 + (double)dim * 0x1p-24;
}

static void test_sdpa(void **state) {
    (void)state;
    for (int round = 0; round < rounds_of_kinds(66, 11); round++) {
        const shape s = random_shape(round);
        op_case whole, parts;
        sdpa_case(&whole, SL_OP_sdpa, s, 2e-6);
        check(&whole);
        sdpa_case(&parts, SL_OP_sdpa_parts, s, parts_tolerance(s.cache.dim));
        check(&parts);
    }
    const shape many = {
        .cache = {SL_DTYPE_f16, 3, 2, 600, 128}, .rows = 24, .split = 16, .ratio = 8, .first = 500};
    op_case queries;
    sdpa_case(&queries, SL_OP_sdpa, many, parts_tolerance(many.cache.dim));
    check(&queries);
    const shape far = {
        .cache = {SL_DTYPE_f32, 3, 1, 40, 4}, .rows = 7, .split = 4, .ratio = 1, .first = 45};
    shape no_slot = far;
    no_slot.cache.slots = 2, no_slot.first = 3;
    static const sl_op ops[] = {SL_OP_sdpa, SL_OP_sdpa_parts};
    for (int i = 0; i < 4; i++) {
        op_case c;
        sdpa_case(&c, ops[i / 2], i % 2 ? far : no_slot, 0);
        check_refused(&c);
    }
}

/* Overwrites a row of a cache, counted over all slots and heads, with garbage: NaN, or for 16-bit
 * codes large codes or a NaN scale. */
static void spoil_row(const sl_type *type, void *cache, int64_t row, int64_t width) {
    const bool keys = type->shape.rank == 5;
    const size_t each = sl_dtype_infos[type->dtype].bytes;
    float wrong[512];
    assert_true(width <= 512);
    for (int64_t d = 0; d < width; d++) {
        const int64_t at = keys ? sl_kv_key_at(row, width) + d * SL_KV_LANES : row * width + d;
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
        if (each) memset((char *)cache + (size_t)at * each, 0xff, each);
        wrong[d] = row % 3 ? 1e30f : NAN;
    }
    if (!each) sl_kv_store_row(type, cache, row, wrong);
}

/* Overwrites all positions that no row sees: they must not affect the result, even if they were
 * never written. */
static void spoil_beyond(const op_case *c, void *keys, void *values) {
    const int64_t heads = c->types[2].shape.dims[1], capacity = c->types[2].shape.dims[2];
    const int64_t width = c->types[2].shape.dims[3], rows = c->types[0].shape.dims[0];
    const int32_t *slots = c->data[3], *positions = c->data[4];
    for (int64_t slot = 0; slot < c->types[2].shape.dims[0]; slot++) {
        int64_t used = 0;
        for (int64_t t = 0; t < rows; t++)
            if (slots[t] == slot) used = positions[t] + 1;
        for (int64_t i = 0; i < heads * capacity; i++) {
            const int64_t row = slot * heads * capacity + i;
            if (i % capacity < used) continue;
            spoil_row(&c->types[1], keys, row, width);
            spoil_row(&c->types[2], values, row, width);
        }
    }
}

/* Heads as in models; rows of three slots, with one, several or many rows each. */
static void test_wide_heads(void **state) {
    (void)state;
    static const struct {
        int64_t rows[3], width, ratio;
        int32_t first;
    } cases[] = {
        {{1, 0, 0}, 256, 8, 0},   {{1, 0, 0}, 256, 8, 300},  {{5, 2, 1}, 256, 8, 126},
        {{8, 0, 0}, 128, 8, 250}, {{1, 1, 1}, 64, 16, 1100}, {{3, 0, 1}, 64, 40, 60},
        {{2, 4, 0}, 128, 5, 130}, {{70, 0, 0}, 256, 8, 0},   {{40, 21, 9}, 256, 8, 100},
        {{30, 0, 3}, 128, 3, 65}, {{19, 1, 0}, 64, 16, 700}, {{9, 9, 9}, 64, 1, 63},
        {{9, 2, 0}, 256, 8, 400},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int op = 0; op < 2; op++) {
            const int64_t *count = cases[i].rows, rows = count[0] + count[1] + count[2];
            if (op && rows > 8) continue; /* positions are only divided for few rows */
            const shape s = {.cache = {SL_DTYPE_f16, 3, 2, cases[i].first + 80, cases[i].width},
                             .rows = rows,
                             .ratio = cases[i].ratio};
            op_case c;
            sdpa_case(&c, op ? SL_OP_sdpa_parts : SL_OP_sdpa, s, parts_tolerance(s.cache.dim));
            for (int64_t t = 0; t < rows; t++) {
                const int slot = t < count[0] ? 2 : t < count[0] + count[1] ? 0 : 1;
                const int64_t before = slot == 2 ? 0 : slot ? count[0] + count[1] : count[0];
                ((int32_t *)c.data[3])[t] = slot;
                ((int32_t *)c.data[4])[t] = cases[i].first / (slot + 1) + (int32_t)(t - before);
            }
            spoil_beyond(&c, c.data[1], c.data[2]);
            check(&c);
        }
}

static void test_wide_rope(void **state) {
    (void)state;
    for (int64_t width = 192; width <= 320; width += 64) {
        const sl_rope_apply_attrs attrs = {.interleaved = (uint32_t)(width / 64 % 2)};
        op_case c = case_of(SL_OP_rope_apply, &attrs, 3e-7);
        floats(&c, f32(3, 5, 3, width, 0));
        for (int i = 0; i < 2; i++) floats(&c, f32(3, 5, 1, width == 256 ? 32 : width / 2, 0));
        check(&c);
    }
}

static void test_merge(void **state) {
    (void)state;
    for (int round = 0; round < 12; round++) {
        const int64_t rows = between(1, 3), heads = between(1, 5), parts = 1 + round;
        op_case c = case_of(SL_OP_sdpa_merge, NULL, 1e-6);
        floats(&c, f32(4, rows, heads, parts, between(1, 70)));
        float *weights = input(&c, f32(4, rows, heads, parts, 2), 1, 50);
        for (int64_t i = 1; i < rows * heads * parts; i += 1 + i % parts % 3)
            if (i % parts) weights[i * 2 + 1] = 0; /* empty, except the first part */
        c.by_tensor = true;
        check(&c);
    }
}

/* Runs the op on every instruction set and passes on its results. */
typedef void with_results(const op_case *c, const char *isa, const memory *m);
static void each_isa(op_case *c, with_results *then) {
    infer_outputs(c);
    for (int i = 0; i < ISA_COUNT; i++) {
        if (!sl_cpu_kernel_set(isas[i])) continue;
        memory m = memory_of(c);
        sl_error err = {0};
        if (run_kernel(c, isas[i], &m, 3, true, &err)) fail_msg("%s", err.message);
        then(c, isas[i], &m);
        memory_free(&m);
    }
    release_case(c);
}

/* Runs one row of a sdpa case alone, with other memory for the rows and the same caches, and
 * compares bits. */
static void row_alone(const op_case *c, const char *isa, const memory *m) {
    const int64_t width = c->types[0].shape.dims[1] * c->types[0].shape.dims[2];
    op_case one = *c;
    one.types[0].shape.dims[0] = one.types[3].shape.dims[0] = one.types[4].shape.dims[0] = 1;
    one.types[5].shape.dims[0] = 1;
    for (int64_t t = 0; t < c->types[0].shape.dims[0]; t++) {
        one.data[0] = (float *)c->data[0] + t * width;
        one.data[3] = (int32_t *)c->data[3] + t;
        one.data[4] = (int32_t *)c->data[4] + t;
        memory alone = memory_of(&one);
        sl_error err = {0};
        if (run_kernel(&one, isa, &alone, 1, false, &err)) fail_msg("%s", err.message);
        assert_memory_equal(alone.views[5], (float *)m->views[5] + t * width,
                            (size_t)width * sizeof(float));
        memory_free(&alone);
    }
}

static void test_rows_alone(void **state) {
    (void)state;
    for (int round = 0; round < rounds_of_kinds(22, 11); round++) {
        op_case c;
        shape s = random_shape(round);
        s.rows += 40, s.split += 40, s.cache.capacity += 40; /* several tiles */
        sdpa_case(&c, SL_OP_sdpa, s, 0);
        each_isa(&c, row_alone);
    }
}

/* sdpa_parts and sdpa_merge give the same bits as sdpa. */
static void parts_merged(const op_case *c, const char *isa, const memory *m) {
    op_case parts = *c, merge = case_of(SL_OP_sdpa_merge, NULL, 0);
    parts.op = SL_OP_sdpa_parts;
    infer_outputs(&parts);
    memory taken = memory_of(&parts);
    sl_error err = {0};
    if (run_kernel(&parts, isa, &taken, 2, true, &err)) fail_msg("%s", err.message);
    merge.inputs = 2;
    for (int i = 0; i < 2; i++) {
        merge.types[i] = parts.types[5 + i];
        merge.data[i] = taken.views[5 + i];
    }
    infer_outputs(&merge);
    memory merged = memory_of(&merge);
    if (run_kernel(&merge, isa, &merged, 3, false, &err)) fail_msg("%s", err.message);
    assert_memory_equal(merged.views[2], m->views[5], sl_type_bytes(&c->types[5]));
    memory_free(&merged);
    memory_free(&taken);
}

static void test_parts_are_the_whole(void **state) {
    (void)state;
    for (int round = 0; round < rounds_of_kinds(33, 11); round++) {
        op_case c;
        sdpa_case(&c, SL_OP_sdpa, random_shape(round), 0);
        each_isa(&c, parts_merged);
    }
}

static void spoiled(const op_case *c, const char *isa, const memory *m) {
    op_case other = *c;
    memory wrong = memory_of(&other);
    if (!wrong.views[1] || !wrong.views[2]) {
        fail_msg("no caches");
        return;
    }
    spoil_beyond(c, wrong.views[1], wrong.views[2]);
    sl_error err = {0};
    if (run_kernel(&other, isa, &wrong, 1, false, &err)) fail_msg("%s", err.message);
    assert_memory_equal(wrong.views[5], m->views[5], sl_type_bytes(&c->types[5]));
    memory_free(&wrong);
}

static void test_what_is_beyond_is_not_used(void **state) {
    (void)state;
    for (int round = 0; round < rounds_of_kinds(22, 11); round++) {
        op_case c;
        sdpa_case(&c, SL_OP_sdpa, random_shape(round), 0);
        each_isa(&c, spoiled);
    }
}

/* Scores of several hundred, descending and ascending: nothing overflows, and small terms vanish
 * correctly. */
static void test_large_scores(void **state) {
    (void)state;
    for (int round = 0; round < 8; round++) {
        op_case c;
        const shape s = {.cache = {round % 2 ? SL_DTYPE_f16 : SL_DTYPE_f32, 3, 1, 300, 16},
                         .rows = 9,
                         .split = 9,
                         .ratio = 8,
                         .first = 280};
        sdpa_case(&c, round % 4 < 2 ? SL_OP_sdpa : SL_OP_sdpa_parts, s, 2e-4);
        for (int64_t i = 0; i < sl_type_elements(&c.types[0]); i++)
            ((float *)c.data[0])[i] *= round < 4 ? 300 : 30;
        check(&c);
    }
}

#ifndef SL_CASE_CUDA /* the GPU has no 16-bit codes */
static void test_append_codes(void **state) {
    (void)state;
    for (int64_t width = 1; width <= 129; width += width < 20 ? 3 : 37) {
        op_case c;
        append_case(&c, (sl_kv_shape){SL_DTYPE_k16, 3, 3, 45, width}, 44);
        c.tolerance = 1e-6; /* a scale may be rounded differently */
        check(&c);
    }
}

/* Rows that are not finite, and rows with the largest and smallest floats. */
static void test_codes_of_odd_rows(void **state) {
    (void)state;
    static const float values[] = {NAN, INFINITY, -INFINITY, 0, 1e-40f, 3e38f, -3e38f, 1e-30f};
    for (int i = 0; i < 8; i++) {
        op_case c;
        append_case(&c, (sl_kv_shape){SL_DTYPE_k16, 3, 1, 45, 37}, 3);
        c.tolerance = 1e-6;
        for (int input = 0; input < 2; input++)
            for (int d = 0; d < 37; d++)
                ((float *)c.data[input])[37 * 2 + d] = d == 5 || d == 36 ? values[i] : 0;
        infer_outputs(&c);
        for (int n = 0; n < ISA_COUNT; n++) {
            if (!sl_cpu_kernel_set(isas[n])) continue;
            memory m = memory_of(&c);
            sl_error err = {0};
            if (run_kernel(&c, isas[n], &m, 3, true, &err)) fail_msg("%s", err.message);
            double *values_kept = doubles_of(&c.types[5], m.views[5]);
            const double kept = values_kept[(2 * 48 + 5) * 37 + 5]; /* slot 2, third row */
            if (isfinite(values[i]))
                assert_true(fabs(kept - (double)values[i]) <= 1e-34 + fabs(kept) * 1e-4);
            else
                assert_true(isnan(kept));
            free(values_kept);
            memory_free(&m);
        }
        if (isfinite(values[i])) {
            check(&c);
        } else {
            release_case(&c);
        }
    }
}

/* 16-bit codes: against the evaluator, and the same bits for single rows, for parts, and with
 * garbage beyond the visible positions. */
static void test_sdpa_codes(void **state) {
    (void)state;
    static with_results *const same[] = {row_alone, parts_merged, spoiled};
    for (int round = 0; round < 11; round++) {
        shape s = random_shape(round);
        s.cache.dtype = SL_DTYPE_k16;
        const double tolerance = coded_tolerance(s.cache.dim, (double)scaled.scale);
        op_case whole, parts, other;
        sdpa_case(&whole, SL_OP_sdpa, s, 2e-6 + tolerance);
        check(&whole);
        sdpa_case(&parts, SL_OP_sdpa_parts, s, parts_tolerance(s.cache.dim) + tolerance);
        check(&parts);
        if (round % 2) s.rows += 40, s.split += 40, s.cache.capacity += 40; /* several tiles */
        sdpa_case(&other, SL_OP_sdpa, s, 0);
        each_isa(&other, same[round % 3]);
    }
}

#endif

/* ---- scaled angles, windows, sinks, values of a different width ---- */

static void test_scaled_rope_table(void **state) {
    (void)state;
    static const sl_rope_table_attrs scaled_tables[] = {
        {.rotary = 64, .theta = 1e4f, .scaling = 1, .factor = 8},
        {.rotary = 128,
         .theta = 5e5f,
         .scaling = 2,
         .factor = 8,
         .original = 8192,
         .low = 1,
         .high = 4},
        {.rotary = 64,
         .theta = 1e4f,
         .scaling = 3,
         .factor = 40,
         .original = 4096,
         .low = 1,
         .high = 32,
         .truncate = 1},
        {.rotary = 64,
         .theta = 1.5e5f,
         .scaling = 3,
         .factor = 32,
         .original = 4096,
         .low = 1,
         .high = 32,
         .magnitude = 1.3465736f},
        {.rotary = 6, .theta = 1e4f, .magnitude = 0.5f},
    };
    for (size_t i = 0; i < sizeof scaled_tables / sizeof scaled_tables[0]; i++) {
        op_case c = case_of(SL_OP_rope_table, &scaled_tables[i], 1e-7);
        int32_t *positions = input(&c, i32(20), 0, 1000000);
        positions[0] = 0, positions[1] = 131071, positions[2] = INT32_MAX - 1;
        check(&c);
    }
}

/* Attention of all kinds: op, cache type, window and sizes vary. */
typedef struct {
    sl_op op;
    sl_kv_shape keys;
    int64_t value_dim, rows, split, ratio;
    int32_t first;
    sl_sdpa_attrs attrs; /* shared by all the ops */
} kind;

static void kind_case(op_case *c, const kind *k) {
    const double coded = k->keys.dtype == SL_DTYPE_k16 ? coded_tolerance(k->keys.dim, 0.7) : 0;
    *c = case_of(k->op, &k->attrs, parts_tolerance(k->keys.dim) + coded);
    floats(c, f32(3, k->rows, k->keys.heads * k->ratio, k->keys.dim, 0));
    sl_kv_shape values = k->keys;
    values.dim = k->value_dim;
    floats(c, sl_kv_keys(k->keys)), floats(c, sl_kv_values(values));
    add_slots(c, k->rows, k->split, k->first);
    if (k->op == SL_OP_sdpa_sinks) input(c, f32(1, k->keys.heads * k->ratio, 0, 0, 0), -2, 4);
    c->by_tensor = true;
}

static kind random_kind(int round) {
    static const int32_t edges[] = {0, 14, 16, 63, 64, 200, 1023, 1024, 1500, 2047};
    static const uint32_t windows[] = {1, 2, 15, 16, 17, 63, 64, 65, 128, 1000, 1024, 1025, 5000};
    static const int64_t ratios[] = {1, 2, 8, 3, 16, 5, 17, 40};
    static const int64_t widths[] = {1, 5, 16, 31, 72, 128};
    static const sl_dtype types[] = {SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_k16};
    const int32_t first = edges[next() % 10];
    const int64_t rows = between(1, 11), capacity = first + rows + between(0, 40);
    return (kind){.keys = {types[round % 3], 3, between(1, 2), capacity, widths[next() % 6]},
                  .value_dim = widths[next() % 6],
                  .rows = rows,
                  .split = rows - rows / 3,
                  .ratio = ratios[next() % 8],
                  .first = first,
                  .attrs = {.scale = 0.7f, .window = next() % 4 ? windows[next() % 13] : 0}};
}

static bool runs_here(sl_dtype cache) {
#ifdef SL_CASE_CUDA
    return cache != SL_DTYPE_k16;
#else
    return cache != SL_DTYPE_COUNT;
#endif
}

static void test_kinds(void **state) {
    (void)state;
    static const sl_op ops[] = {SL_OP_sdpa, SL_OP_sdpa_sinks, SL_OP_sdpa_parts};
    for (int round = 0; round < rounds_of_kinds(60, 24); round++) {
        kind k = random_kind(round);
        k.op = ops[round / 3 % 3];
        if (round % 4 == 3) k.attrs.softcap = round % 8 == 3 ? 0.8f : 30;
        op_case c;
        if (!runs_here(k.keys.dtype)) continue;
        kind_case(&c, &k);
        check(&c);
    }
}

/* Latent attention: many query heads per KV head, keys wider than values. */
static void test_latent(void **state) {
    (void)state;
    static const struct {
        int64_t rows, ratio;
        int32_t first;
    } cases[] = {{1, 16, 100}, {1, 128, 20}, {3, 20, 64}, {20, 16, 3}};
    for (int i = 0; i < 12; i++) {
        static const sl_dtype types[] = {SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_k16};
        const int64_t rows = cases[i % 4].rows;
        const kind k = {.op = i % 2 ? SL_OP_sdpa_parts : SL_OP_sdpa,
                        .keys = {types[i / 4], 3, 1, 140, 576},
                        .value_dim = 512,
                        .rows = rows,
                        .split = rows - rows / 3,
                        .ratio = cases[i % 4].ratio,
                        .first = cases[i % 4].first,
                        .attrs = {.scale = 0.1f}};
        op_case c;
        if (!runs_here(k.keys.dtype)) continue;
        kind_case(&c, &k);
        check(&c);
    }
}

/* Heads as in models, with windows and sinks, for few and many rows. */
static void test_wide_windows(void **state) {
    (void)state;
    static const struct {
        int64_t rows, width, ratio;
        int32_t first;
        uint32_t window;
    } cases[] = {{1, 64, 8, 700, 128}, {1, 64, 8, 300, 129},  {5, 64, 8, 250, 128},
                 {3, 128, 4, 90, 7},   {40, 64, 8, 200, 128}, {70, 64, 2, 0, 16},
                 {20, 128, 5, 300, 1}, {9, 64, 16, 500, 200}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static const sl_op ops[] = {SL_OP_sdpa, SL_OP_sdpa_sinks, SL_OP_sdpa_parts};
        const int64_t rows = cases[i].rows;
        const kind k = {.op = ops[i % (rows > 8 ? 2 : 3)],
                        .keys = {SL_DTYPE_f16, 3, 2, cases[i].first + 80, cases[i].width},
                        .value_dim = cases[i].width,
                        .rows = rows,
                        .split = rows - rows / 3,
                        .ratio = cases[i].ratio,
                        .first = cases[i].first,
                        .attrs = {.scale = 0.2f, .window = cases[i].window}};
        op_case c;
        kind_case(&c, &k);
        check(&c);
    }
}

static void test_merge_sinks(void **state) {
    (void)state;
    for (int round = 0; round < 12; round++) {
        const int64_t rows = between(1, 3), heads = between(1, 5), parts = 1 + round;
        op_case c = case_of(SL_OP_sdpa_merge_sinks, NULL, 1e-6);
        floats(&c, f32(4, rows, heads, parts, between(1, 70)));
        float *weights = input(&c, f32(4, rows, heads, parts, 2), 1, 50);
        for (int64_t i = 1; i < rows * heads * parts; i += 1 + i % parts % 3)
            if (i % parts) weights[i * 2 + 1] = 0;
        input(&c, f32(1, heads, 0, 0, 0), 0, 60);
        c.by_tensor = true;
        check(&c);
    }
}

/* Sinks far above and far below all scores: the result is 0, or as without a sink. */
static void test_far_sinks(void **state) {
    (void)state;
    const kind k = {.op = SL_OP_sdpa_sinks,
                    .keys = {SL_DTYPE_f32, 3, 1, 40, 8},
                    .value_dim = 8,
                    .rows = 2,
                    .split = 1,
                    .ratio = 3,
                    .first = 30,
                    .attrs = {.scale = 1}};
    op_case c;
    kind_case(&c, &k);
    float *sinks = c.data[5];
    sinks[0] = 1000, sinks[1] = -1000, sinks[2] = -INFINITY;
    check(&c);
}

static void append_two_widths(sl_dtype dtype, int64_t key_dim, int64_t value_dim) {
    const sl_kv_shape keys = {dtype, 3, 2, 45, key_dim}, values = {dtype, 3, 2, 45, value_dim};
    op_case c = case_of(SL_OP_kv_append, NULL, dtype == SL_DTYPE_k16 ? 1e-6 : 0);
    floats(&c, f32(3, 7, 2, key_dim, 0)), floats(&c, f32(3, 7, 2, value_dim, 0));
    add_slots(&c, 7, 4, 44);
    floats(&c, sl_kv_keys(keys)), floats(&c, sl_kv_values(values));
    check(&c);
}

static void test_append_two_widths(void **state) {
    (void)state;
    static const sl_dtype types[] = {SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_k16};
    for (int i = 0; i < 3; i++) {
        if (!runs_here(types[i])) continue;
        append_two_widths(types[i], 24, 7);
        append_two_widths(types[i], 5, 72);
        append_two_widths(types[i], 576, 512);
    }
}

#ifndef SL_CASE_CUDA
/* sdpa_parts and sdpa_merge give the same bits as sdpa or sdpa_sinks. */
static void kinds_merged(const op_case *c, const char *isa, const memory *m) {
    const bool sinks = c->op == SL_OP_sdpa_sinks;
    const uint32_t result = c->inputs;
    op_case parts = *c, merge = case_of(sinks ? SL_OP_sdpa_merge_sinks : SL_OP_sdpa_merge, NULL, 0);
    parts.op = SL_OP_sdpa_parts;
    parts.inputs = 5;
    infer_outputs(&parts);
    memory taken = memory_of(&parts);
    sl_error err = {0};
    if (run_kernel(&parts, isa, &taken, 2, true, &err)) fail_msg("%s", err.message);
    merge.inputs = sinks ? 3 : 2;
    for (int i = 0; i < 2; i++) {
        merge.types[i] = parts.types[5 + i];
        merge.data[i] = taken.views[5 + i];
    }
    if (sinks) merge.types[2] = c->types[5], merge.data[2] = c->data[5];
    infer_outputs(&merge);
    memory merged = memory_of(&merge);
    if (run_kernel(&merge, isa, &merged, 3, false, &err)) fail_msg("%s", err.message);
    assert_memory_equal(merged.views[merge.inputs], m->views[result],
                        sl_type_bytes(&c->types[result]));
    memory_free(&merged);
    memory_free(&taken);
}

static void test_parts_are_the_whole_of_kinds(void **state) {
    (void)state;
    for (int round = 0; round < rounds_of_kinds(45, 18); round++) {
        kind k = random_kind(round);
        k.op = round / 3 % 2 ? SL_OP_sdpa_sinks : SL_OP_sdpa;
        op_case c;
        kind_case(&c, &k);
        each_isa(&c, kinds_merged);
    }
}

/* Positions before the window are not used either: rows of one slot, whose windows overlap. */
static void spoiled_before(const op_case *c, const char *isa, const memory *m) {
    const int64_t window = ((const sl_sdpa_attrs *)c->attrs)->window;
    const int64_t heads = c->types[2].shape.dims[1], capacity = c->types[2].shape.dims[2];
    const int32_t *positions = c->data[4];
    memory wrong = memory_of(c);
    for (int64_t head = 0; head < heads; head++)
        for (int64_t p = 0; p + window <= positions[0]; p++) {
            const int64_t row = (2 * heads + head) * capacity + p;
            spoil_row(&c->types[1], wrong.views[1], row, c->types[1].shape.dims[3]);
            spoil_row(&c->types[2], wrong.views[2], row, c->types[2].shape.dims[3]);
        }
    sl_error err = {0};
    if (run_kernel(c, isa, &wrong, 1, false, &err)) fail_msg("%s", err.message);
    assert_memory_equal(wrong.views[5], m->views[5], sl_type_bytes(&c->types[5]));
    memory_free(&wrong);
}

static void test_what_is_before_is_not_used(void **state) {
    (void)state;
    for (int round = 0; round < rounds_of_kinds(24, 12); round++) {
        kind k = random_kind(round);
        k.op = SL_OP_sdpa;
        k.split = k.rows;
        if (!k.attrs.window) k.attrs.window = 20;
        op_case c;
        kind_case(&c, &k);
        each_isa(&c, spoiled_before);
    }
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope_table),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_sdpa),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_rows_alone),
        cmocka_unit_test(test_parts_are_the_whole),
        cmocka_unit_test(test_what_is_beyond_is_not_used),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_wide_heads),
        cmocka_unit_test(test_wide_rope),
#ifndef SL_CASE_CUDA
        cmocka_unit_test(test_append_codes),
        cmocka_unit_test(test_codes_of_odd_rows),
        cmocka_unit_test(test_sdpa_codes),
#endif
        cmocka_unit_test(test_scaled_rope_table),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_latent),
        cmocka_unit_test(test_wide_windows),
        cmocka_unit_test(test_merge_sinks),
        cmocka_unit_test(test_far_sinks),
        cmocka_unit_test(test_append_two_widths),
#ifndef SL_CASE_CUDA
        cmocka_unit_test(test_parts_are_the_whole_of_kinds),
        cmocka_unit_test(test_what_is_before_is_not_used),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
