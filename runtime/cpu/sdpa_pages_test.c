/* sdpa_pages_test.c - Attention over a KV cache in pages: each kernel gives the same bits as over
 * one slot per sequence, wherever the pages are. */
#include "core/kv.h"
#include "tests/support/op_case.h"
#include "tests/support/rounds.h"

enum { SEQUENCES = 3, SPARE = 5, NO_PAGE = 1 << 30, KEYS = 0, VALUES = 1 };

static int64_t between(int64_t low, int64_t high) {
    return low + (int64_t)(next() % (uint32_t)(high - low + 1));
}

typedef struct {
    sl_op op;
    sl_dtype dtype;
    int64_t heads, ratio, key_dim, value_dim;
    int64_t rows[SEQUENCES]; /* of each sequence, in order */
    int32_t first[SEQUENCES];
    int64_t pages; /* of each sequence */
    sl_sdpa_attrs attrs;
} shape;

static int64_t rows_of(const shape *s) {
    return s->rows[0] + s->rows[1] + s->rows[2];
}

/* The index of an operand of the op. */
static uint32_t operand(sl_op op, const char *name) {
    const sl_op_info *info = sl_op_info_of(op);
    for (uint32_t i = 0; i < info->input_count; i++)
        if (strcmp(info->input_names[i], name) == 0) return i;
    fail_msg("%s has no operand %s", info->name, name);
    return 0;
}

static sl_kv_shape cache_of(const shape *s, int which) {
    return (sl_kv_shape){.dtype = s->dtype,
                         .slots = SEQUENCES,
                         .heads = s->heads,
                         .capacity = s->pages * SL_KV_PAGE,
                         .dim = which == KEYS ? s->key_dim : s->value_dim};
}

/* An input of the case by its name. */
static void add_input(op_case *c, const shape *s, const char *name) {
    const int64_t rows = rows_of(s), heads = s->heads;
    if (strcmp(name, "q") == 0) floats(c, f32(3, rows, heads * s->ratio, s->key_dim, 0));
    if (strcmp(name, "k") == 0) floats(c, f32(3, rows, heads, s->key_dim, 0));
    if (strcmp(name, "v") == 0) floats(c, f32(3, rows, heads, s->value_dim, 0));
    if (strcmp(name, "gain") == 0) floats(c, f32(1, s->key_dim, 0, 0, 0));
    if (strcmp(name, "cos") == 0 || strcmp(name, "sin") == 0)
        floats(c, f32(3, rows, 1, s->key_dim / 2, 0));
    if (strcmp(name, "sinks") == 0) input(c, f32(1, heads * s->ratio, 0, 0, 0), -2, 4);
    if (strcmp(name, "cache_k") == 0) floats(c, sl_kv_keys(cache_of(s, KEYS)));
    if (strcmp(name, "cache_v") == 0) floats(c, sl_kv_values(cache_of(s, VALUES)));
    if (strcmp(name, "slots") != 0 && strcmp(name, "positions") != 0) return;
    int32_t *to = input(c, i32(rows), 0, 1);
    for (int64_t i = 0, t = 0; i < SEQUENCES; i++)
        for (int64_t n = 0; n < s->rows[i]; n++, t++)
            to[t] = name[0] == 's' ? (int32_t)((i + 1) % SEQUENCES) : s->first[i] + (int32_t)n;
}

/* With a slot for each sequence. */
static op_case slots_case(const shape *s) {
    const sl_op_info *info = sl_op_info_of(s->op);
    const bool appends = s->op == SL_OP_kv_append || s->op == SL_OP_norm_rope_append;
    op_case c = case_of(s->op, appends ? NULL : (const void *)&s->attrs, 1e-4);
    for (uint32_t i = 0; i < info->input_count; i++) add_input(&c, s, info->input_names[i]);
    c.by_tensor = true;
    return c;
}

/* ---- the same in pages ---- */

/* Which pages each sequence has, in random order. */
static int32_t *draw_pages(const shape *s) {
    const int64_t count = SEQUENCES * s->pages + SPARE;
    int32_t *pages = calloc((size_t)count, sizeof *pages);
    assert_non_null(pages);
    for (int64_t i = 0; i < count; i++) pages[i] = (int32_t)i;
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t other = between(0, i);
        const int32_t page = pages[i];
        pages[i] = pages[other];
        pages[other] = page;
    }
    return pages;
}

/* Copies keys or values from slots into pages, or back. */
static void move_pages(const shape *s, const int32_t *pages, const sl_type *type, void *slots,
                       void *paged, bool back) {
    const uint64_t units = (uint64_t)(SEQUENCES * s->heads * s->pages);
    const uint64_t bytes = sl_type_bytes(type) / units;
    for (int64_t i = 0; i < SEQUENCES * s->pages; i++)
        for (int64_t h = 0; h < s->heads; h++) {
            const int64_t sequence = i / s->pages;
            const uint64_t from =
                (uint64_t)((sequence * s->heads + h) * s->pages + i % s->pages) * bytes;
            const uint64_t to = (uint64_t)(pages[i] * s->heads + h) * bytes;
            char *slot = (char *)slots + from, *page = (char *)paged + to;
            memcpy(back ? slot : page, back ? page : slot, bytes);
        }
}

static bool is_used(const shape *s, int64_t sequence, int64_t page) {
    int64_t first = INT64_MAX, end = 0;
    for (int64_t i = 0; i < SEQUENCES; i++) {
        if ((i + 1) % SEQUENCES != sequence || s->rows[i] == 0) continue;
        const int64_t window = s->attrs.window, last = s->first[i] + s->rows[i] - 1;
        first = window && window <= s->first[i] ? s->first[i] + 1 - window : 0;
        end = last + 1;
    }
    return page * SL_KV_PAGE < end && (page + 1) * SL_KV_PAGE > first;
}

/* Entries of pages that nobody sees are out of range, or what the sequence of the rows before has
 * there. */
static void fill_table(const shape *s, const op_case *from, const int32_t *pages, int32_t *table) {
    const int32_t *slots = from->data[operand(s->op, "slots")];
    for (int64_t t = 0; t < rows_of(s); t++)
        for (int64_t i = 0; i < s->pages; i++) {
            const int64_t before = (slots[t] + SEQUENCES - 1) % SEQUENCES;
            const int32_t other = i % 2 ? NO_PAGE + (int32_t)i : pages[before * s->pages + i];
            table[t * s->pages + i] =
                is_used(s, slots[t], i) ? pages[slots[t] * s->pages + i] : other;
        }
}

static op_case paged_case(const shape *s, const op_case *from, const int32_t *pages) {
    op_case c = case_of(from->op, from->attrs, from->tolerance);
    for (uint32_t i = 0; i < from->inputs; i++) {
        sl_type type = from->types[i];
        const char *name = sl_op_info_of(s->op)->input_names[i];
        const bool cache = strncmp(name, "cache_", 6) == 0, table = strcmp(name, "slots") == 0;
        if (cache) {
            sl_kv_shape all = cache_of(s, name[6] == 'k' ? KEYS : VALUES);
            all.slots = SEQUENCES * s->pages + SPARE;
            all.capacity = SL_KV_PAGE;
            type = name[6] == 'k' ? sl_kv_keys(all) : sl_kv_values(all);
        }
        if (table) type = sl_type_make(SL_DTYPE_i32, 2, rows_of(s), s->pages);
        void *data = input(&c, type, -1, 1);
        if (cache)
            move_pages(s, pages, &from->types[i], from->data[i], data, false);
        else if (table)
            fill_table(s, from, pages, data);
        else
            memcpy(data, from->data[i], sl_type_bytes(&type));
    }
    c.by_tensor = true;
    return c;
}

/* ---- the same bits ---- */

/* Compares what two runs have written; states are moved back into slots first. */
static void compare_runs(const shape *s, const int32_t *pages, const op_case *plain, void **one,
                         void **other) {
    for (uint32_t i = 0; i < plain->operands; i++) {
        const uint64_t bytes = sl_type_bytes(&plain->types[i]);
        if (!is_written(plain, i)) continue;
        if (i >= plain->inputs) {
            assert_memory_equal(one[i], other[i], bytes);
            continue;
        }
        void *back = calloc(1, bytes);
        assert_non_null(back);
        move_pages(s, pages, &plain->types[i], back, other[i], true);
        assert_memory_equal(one[i], back, bytes);
        free(back);
    }
}

#ifdef SL_CASE_CUDA
/* What a run on the device has written, by operand. */
static cuda_run run_on_device(const op_case *c, void **out) {
    const sl_device_ops *ops = cuda_device()->ops;
    const sl_op_info *info = sl_op_info_of(c->op);
    cuda_run r = cuda_start(c);
    sl_error err = {0};
    if (ops->run(r.exe, &err)) fail_msg("%s: %s", info->name, err.message);
    for (uint32_t i = 0; i < c->inputs; i++) {
        if (!r.states[i]) continue;
        const uint64_t bytes = sl_type_bytes(&c->types[i]);
        out[i] = malloc(bytes);
        assert_non_null(out[i]);
        if (ops->copy_out(cuda_device(), out[i], r.states[i], bytes, &err))
            fail_msg("%s", err.message);
    }
    uint32_t next_out = c->inputs;
    for (uint32_t o = 0; o < info->output_count; o++) {
        if (info->output_state[o] >= 0) continue;
        const uint64_t bytes = sl_type_bytes(&c->types[next_out]);
        out[next_out] = malloc(bytes);
        assert_non_null(out[next_out]);
        memcpy(out[next_out++], ops->output(r.exe, o), bytes);
    }
    return r;
}

static void compare_kernels(const shape *s, const int32_t *pages, const op_case *plain,
                            const op_case *paged) {
    void *one[MAX_OPERANDS] = {0}, *other[MAX_OPERANDS] = {0};
    cuda_run first = run_on_device(plain, one), second = run_on_device(paged, other);
    compare_runs(s, pages, plain, one, other);
    for (int i = 0; i < MAX_OPERANDS; i++) free(one[i]), free(other[i]);
    cuda_end(plain, &first);
    cuda_end(paged, &second);
}
#else
static void compare_kernels(const shape *s, const int32_t *pages, const op_case *plain,
                            const op_case *paged) {
    for (int i = 0; i < ISA_COUNT; i++) {
        if (!sl_cpu_kernel_set(isas[i])) continue;
        memory one = memory_of(plain), other = memory_of(paged);
        sl_error err = {0};
        if (run_kernel(plain, isas[i], &one, 2, false, &err)) fail_msg("%s", err.message);
        if (run_kernel(paged, isas[i], &other, 3, true, &err)) fail_msg("%s", err.message);
        compare_runs(s, pages, plain, one.views, other.views);
        memory_free(&one);
        memory_free(&other);
    }
}
#endif

/* The evaluator's doubles, of every operand that is written. */
static void compare_meaning(const shape *s, const int32_t *pages, const op_case *plain,
                            const op_case *paged) {
    double *one[MAX_OPERANDS] = {0}, *other[MAX_OPERANDS] = {0};
    evaluate(plain, one);
    evaluate(paged, other);
    for (uint32_t i = plain->inputs; i < plain->operands; i++)
        assert_memory_equal(one[i], other[i],
                            (size_t)sl_type_slots(&plain->types[i]) * sizeof(double));
    for (uint32_t i = 0; i < plain->inputs; i++) {
        if (!is_written(plain, i)) continue;
        sl_type doubles = {SL_DTYPE_f64, plain->types[i].shape};
        double *back = calloc((size_t)sl_type_elements(&doubles), sizeof *back);
        assert_non_null(back);
        move_pages(s, pages, &doubles, back, other[i], true);
        assert_memory_equal(one[i], back, sl_type_bytes(&doubles));
        free(back);
    }
    for (int i = 0; i < MAX_OPERANDS; i++) free(one[i]), free(other[i]);
}

static void check_shape(const shape *s) {
    op_case plain = slots_case(s);
    int32_t *pages = draw_pages(s);
    op_case paged = paged_case(s, &plain, pages);
    infer_outputs(&plain);
    infer_outputs(&paged);
    compare_meaning(s, pages, &plain, &paged);
    compare_kernels(s, pages, &plain, &paged);
    free(pages);
    release_case(&paged);
    release_case(&plain);
}

static shape random_shape(int round, sl_op op) {
    static const int64_t ratios[] = {1, 2, 8, 3, 16};
    static const int64_t widths[] = {16, 5, 72, 64, 128, 256};
    static const int32_t firsts[] = {0, 14, 63, 64, 130, 1000, 1023, 1024, 1500};
    static const uint32_t windows[] = {1, 16, 65, 128, 1000};
    shape s = {.op = op,
               .dtype = cache_types[round % CACHE_TYPES],
               .heads = between(1, 3),
               .ratio = ratios[next() % 5],
               .key_dim = widths[next() % 6],
               .attrs = {.scale = 0.3f, .window = next() % 3 ? 0 : windows[next() % 5]}};
    int64_t most = 0;
    s.value_dim = next() % 3 ? s.key_dim : widths[next() % 6];
    for (int i = 0; i < SEQUENCES; i++) {
        s.rows[i] = i == 0 ? between(1, round % 2 ? 40 : 3) : between(0, 3);
        s.first[i] = firsts[next() % 9];
        const int64_t end = s.first[i] + s.rows[i];
        most = s.rows[i] && end > most ? end : most;
    }
    s.pages = sl_kv_page_count(most) + between(0, 2);
    if (op == SL_OP_norm_rope_append) s.key_dim += s.key_dim % 2;
    return s;
}

static void test_same_bits(void **state) {
    (void)state;
    static const sl_op ops[] = {SL_OP_sdpa, SL_OP_sdpa_sinks, SL_OP_sdpa_parts, SL_OP_kv_append,
                                SL_OP_norm_rope_append};
    for (int round = 0; round < rounds_of_kinds(45, 15); round++) {
        const shape s = random_shape(round, ops[round / 3 % 5]);
        check_shape(&s);
    }
}

/* Sequences whose first pages are the same ones, as after a fork: each sees its own last page. */
static void test_shared_pages(void **state) {
    (void)state;
    for (int round = 0; round < 6; round++) {
        shape s = random_shape(round, round % 2 ? SL_OP_sdpa_parts : SL_OP_sdpa);
        s.attrs.window = 0;
        s.pages = 4;
        for (int i = 0; i < SEQUENCES; i++) s.rows[i] = round < 3 ? 1 : 9, s.first[i] = 130 + i;
        op_case plain = slots_case(&s);
        int32_t *pages = draw_pages(&s);
        for (uint32_t c = operand(s.op, "cache_k"); c <= operand(s.op, "cache_v"); c++) {
            const uint64_t each = sl_type_bytes(&plain.types[c]) / SEQUENCES;
            const uint64_t head = each / (uint64_t)s.heads, shared = head / 4 * 2;
            for (uint64_t n = 1; n < SEQUENCES; n++)
                for (uint64_t h = 0; h < (uint64_t)s.heads; h++)
                    memcpy((char *)plain.data[c] + n * each + h * head,
                           (char *)plain.data[c] + h * head, shared);
        }
        for (int i = 1; i < SEQUENCES; i++)
            for (int page = 0; page < 2; page++) pages[i * 4 + page] = pages[page];
        op_case paged = paged_case(&s, &plain, pages);
        infer_outputs(&plain);
        infer_outputs(&paged);
        compare_kernels(&s, pages, &plain, &paged);
        free(pages);
        release_case(&paged);
        release_case(&plain);
    }
}

static void test_what_is_refused(void **state) {
    (void)state;
    static const sl_op ops[] = {SL_OP_sdpa, SL_OP_sdpa_parts, SL_OP_kv_append};
    for (int round = 0; round < 6; round++) {
        const bool beyond = round % 2;
        shape s = random_shape(0, ops[round / 2]);
        s.attrs.window = 0;
        s.rows[0] = 1, s.rows[1] = s.rows[2] = 0;
        s.first[0] = 130;
        s.pages = 4;
        op_case plain = slots_case(&s);
        int32_t *pages = draw_pages(&s);
        op_case paged = paged_case(&s, &plain, pages);
        int32_t *table = paged.data[operand(s.op, "slots")];
        int32_t *positions = paged.data[operand(s.op, "positions")];
        if (beyond)
            positions[0] = 4 * SL_KV_PAGE;
        else
            table[2] = SEQUENCES * 4 + SPARE;
        check_refused(&paged);
        free(pages);
        release_case(&plain);
    }
}

static void test_size_of_pages(void **state) {
    (void)state;
    const sl_kv_shape cache = {SL_DTYPE_f32, 3, 1, 2 * SL_KV_LANES, 8};
    const sl_type in[] = {f32(3, 2, 1, 8, 0), sl_kv_keys(cache), sl_kv_values(cache),
                          sl_type_make(SL_DTYPE_i32, 2, (int64_t)2, (int64_t)5), i32(2)};
    const sl_sdpa_attrs attrs = {.scale = 1};
    sl_type out;
    sl_error err = {0};
    assert_int_equal(sl_infer(SL_OP_sdpa, &(sl_infer_args){"x", in, &attrs, &out, 5, 1}, &err),
                     SL_INVALID);
    assert_string_equal(err.message, "x: a page of the cache has 32 positions, must have 64");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_shared_pages),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_size_of_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
