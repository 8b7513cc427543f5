/* movement_test.c - Kernels that move, reduce and sort elements, against the evaluator: on fixtures
 * (tests/data/ops/movement.json) and on random shapes of every type. */
#include "tests/support/op_case.h"
#include "tests/support/op_fixture.h"

enum { ROUNDS = 400 };

static int64_t between(int64_t low, int64_t high) {
    return low + (int64_t)(next() % (uint64_t)(high - low + 1));
}
/* Mostly small, sometimes close to the block sizes of kernels. */
static int64_t ragged(int64_t most) {
    return next() % 4 ? between(1, most < 9 ? most : 9) : between(1, most);
}

static const sl_dtype plain_types[] = {SL_DTYPE_f32,  SL_DTYPE_f64, SL_DTYPE_f16, SL_DTYPE_bf16,
                                       SL_DTYPE_i8,   SL_DTYPE_i16, SL_DTYPE_i32, SL_DTYPE_i64,
                                       SL_DTYPE_u8,   SL_DTYPE_u16, SL_DTYPE_u32, SL_DTYPE_u64,
                                       SL_DTYPE_bool, SL_DTYPE_c64};
enum { PLAIN = 14, WITHOUT_COMPLEX = 13, NUMBERS = 12, FLOATS = 4 };
static sl_dtype some_type(uint32_t count) {
    return plain_types[next() % 3 ? next() % count : 0]; /* often f32 */
}

/* 1 to 4 dims with at most `most` elements. */
static sl_type some_shape(sl_dtype dtype, int64_t most) {
    sl_type type = {.dtype = dtype, .shape = {.rank = (uint32_t)between(1, 4)}};
    for (uint32_t d = 0; d < type.shape.rank; d++) {
        type.shape.dims[d] = ragged(most < 300 ? most : 300);
        most /= type.shape.dims[d];
        if (most < 1) most = 1;
    }
    return type;
}

/* Values that are representable in the type; for integers, all bits. */
static void *random_input(op_case *c, sl_type type) {
    const sl_dtype_kind kind = sl_dtype_infos[type.dtype].kind;
    if (kind == SL_KIND_BOOL) return input(c, type, 0, 2);
    void *data = input(c, type, kind == SL_KIND_INT ? 0 : -2, 2);
    if (kind == SL_KIND_INT && next() % 2)
        for (uint64_t i = 0; i < sl_type_bytes(&type); i++) ((uint8_t *)data)[i] = (uint8_t)next();
    return data;
}

/* Indices into `limit` elements, some of them from the end. */
static void index_input(op_case *c, sl_dims shape, int64_t limit) {
    const sl_type type = {next() % 2 ? SL_DTYPE_i32 : SL_DTYPE_i64, shape};
    input(c, type, (double)-limit, (double)limit);
}
static int64_t some_axis(uint32_t rank) {
    return (int64_t)(next() % (2 * rank)) - (int64_t)rank;
}

/* ---- movement ---- */

static void steps(void) {
    const sl_type x = some_shape(some_type(PLAIN), 3000);
    const uint32_t rank = x.shape.rank;
    int64_t starts[SL_MAX_RANK], ends[SL_MAX_RANK], strides[SL_MAX_RANK];
    sl_transpose_attrs transpose = {.perm.rank = rank};
    sl_reverse_attrs reverse = {0};
    sl_expand_attrs expand = {.shape = x.shape};
    sl_dynamic_slice_attrs dynamic = {.sizes.rank = rank};
    const uint32_t turn = next() % rank;
    for (uint32_t d = 0; d < rank; d++) {
        const int64_t size = x.shape.dims[d];
        transpose.perm.dims[d] = (d + turn) % rank;
        starts[d] = between(-size - 1, size + 1), ends[d] = between(-size - 1, size + 1);
        strides[d] = next() % 2 ? between(1, 3) : -between(1, 3);
        if (next() % 2)
            starts[d] = strides[d] < 0 ? -1 : 0, ends[d] = strides[d] < 0 ? -size - 1 : size;
        if (next() % 2)
            reverse.axes.dims[reverse.axes.rank++] = (int64_t)d - (next() % 2 ? rank : 0);
        dynamic.sizes.dims[d] = between(1, size);
    }
    const sl_strided_slice_attrs strided = {
        .starts = {rank, starts}, .ends = {rank, ends}, .steps = {rank, strides}};
    const struct {
        sl_op op;
        const void *attrs;
    } ops[] = {{SL_OP_transpose, &transpose},
               {SL_OP_strided_slice, &strided},
               {SL_OP_reverse, &reverse},
               {SL_OP_expand, &expand},
               {SL_OP_dynamic_slice, &dynamic}};
    const int which = (int)(next() % 5);
    op_case c = case_of(ops[which].op, ops[which].attrs, 0);
    sl_type given = x;
    if (which == 3)
        for (uint32_t d = 0; d < rank; d++)
            if (next() % 2) given.shape.dims[d] = 1;
    random_input(&c, given);
    if (which == 4) input(&c, sl_type_make(SL_DTYPE_i64, 1, (int64_t)rank), -3, 12);
    check(&c);
}

static void parts(void) {
    sl_type x = some_shape(some_type(PLAIN), 2000);
    const int64_t axis = some_axis(x.shape.rank);
    int64_t *along = &x.shape.dims[sl_axis(axis, x.shape.rank)], sizes[5], sum = 0;
    const uint32_t count = (uint32_t)between(1, 5);
    const sl_concat_attrs joins = {.axis = axis};
    op_case join = case_of(SL_OP_concat, &joins, 0);
    for (uint32_t i = 0; i < count; i++) {
        *along = sizes[i] = between(0, 6);
        sum += sizes[i];
        random_input(&join, x);
    }
    check(&join);
    *along = sum;
    const sl_split_attrs splits = {.axis = axis, .sizes = {count, sizes}};
    op_case split = case_of(SL_OP_split, &splits, 0);
    split.outs = count;
    random_input(&split, x);
    check(&split);
}

static void padding(void) {
    const sl_type x = some_shape(some_type(PLAIN), 500);
    const sl_type value = {.dtype = x.dtype};
    int64_t before[SL_MAX_RANK], after[SL_MAX_RANK];
    for (uint32_t d = 0; d < x.shape.rank; d++) {
        const int64_t size = x.shape.dims[d];
        before[d] = between(-size / 2, 5), after[d] = between(-size / 2, 5);
    }
    const sl_pad_attrs pads = {
        .before = {x.shape.rank, before}, .after = {x.shape.rank, after}, .mode = next() % 4};
    op_case pad = case_of(SL_OP_pad, &pads, 0);
    random_input(&pad, x), random_input(&pad, value);
    check(&pad);
    if (x.shape.rank < 2) return;
    const sl_trilu_attrs triangles = {.upper = next() % 2, .k = between(-9, 9)};
    op_case triangle = case_of(SL_OP_trilu, &triangles, 0);
    random_input(&triangle, x);
    check(&triangle);
}

static void update(void) {
    const sl_type x = some_shape(some_type(PLAIN), 2000);
    sl_type part = x;
    for (uint32_t d = 0; d < x.shape.rank; d++) part.shape.dims[d] = between(0, x.shape.dims[d]);
    op_case c = case_of(SL_OP_dynamic_update_slice, NULL, 0);
    random_input(&c, x), random_input(&c, part);
    input(&c, sl_type_make(SL_DTYPE_i32, 1, (int64_t)x.shape.rank), -3, 12);
    check(&c);
}

/* ---- indices ---- */

static void gathering(void) {
    const sl_type x = some_shape(some_type(PLAIN), 2000);
    const int64_t axis = some_axis(x.shape.rank);
    const int64_t size = x.shape.dims[sl_axis(axis, x.shape.rank)];
    const sl_gather_attrs gathers = {.axis = axis};
    op_case gather = case_of(SL_OP_gather, &gathers, 0);
    random_input(&gather, x);
    index_input(&gather, (sl_dims){2, {between(1, 4), ragged(20)}}, size);
    check(&gather);
    const uint32_t batch = next() % x.shape.rank;
    const uint32_t length = (uint32_t)between(1, x.shape.rank - batch);
    const sl_gather_nd_attrs tuples = {.batch_dims = batch};
    int64_t least = size;
    for (uint32_t d = batch; d < batch + length; d++)
        if (x.shape.dims[d] < least || d == batch) least = x.shape.dims[d];
    sl_dims shape = x.shape;
    shape.rank = batch;
    shape.dims[shape.rank++] = ragged(20), shape.dims[shape.rank++] = length;
    op_case nd = case_of(SL_OP_gather_nd, &tuples, 0);
    random_input(&nd, x), index_input(&nd, shape, least);
    check(&nd);
}

/* take_along and scatter, with fewer elements than x in other dims. */
static void along(void) {
    const uint32_t combine = next() % 5;
    const sl_type x = some_shape(some_type(combine ? NUMBERS : PLAIN), 3000);
    const int64_t axis = some_axis(x.shape.rank);
    sl_type updates = x;
    for (uint32_t d = 0; d < x.shape.rank; d++)
        if (next() % 2) updates.shape.dims[d] = between(1, x.shape.dims[d]);
    updates.shape.dims[sl_axis(axis, x.shape.rank)] = ragged(30);
    const int64_t size = x.shape.dims[sl_axis(axis, x.shape.rank)];
    const sl_take_along_attrs takes = {.axis = axis};
    op_case take = case_of(SL_OP_take_along, &takes, 0);
    random_input(&take, x), index_input(&take, updates.shape, size);
    check(&take);
    const sl_scatter_attrs scatters = {.axis = axis, .combine = combine};
    op_case scatter = case_of(SL_OP_scatter, &scatters, combine ? 2e-6 : 0);
    random_input(&scatter, x), index_input(&scatter, updates.shape, size);
    random_input(&scatter, updates);
    check(&scatter);
}

static void slices(void) {
    const uint32_t combine = next() % 5;
    const sl_type x = some_shape(some_type(combine ? NUMBERS : PLAIN), 3000);
    const uint32_t length = (uint32_t)between(1, x.shape.rank);
    int64_t least = x.shape.dims[0];
    for (uint32_t d = 1; d < length; d++)
        if (x.shape.dims[d] < least) least = x.shape.dims[d];
    const int64_t tuples = ragged(40);
    sl_type updates = {.dtype = x.dtype, .shape = {1, {tuples}}};
    for (uint32_t d = length; d < x.shape.rank; d++)
        updates.shape.dims[updates.shape.rank++] = x.shape.dims[d];
    const sl_scatter_nd_attrs attrs = {.combine = combine};
    op_case nd = case_of(SL_OP_scatter_nd, &attrs, combine ? 2e-6 : 0);
    random_input(&nd, x), index_input(&nd, (sl_dims){2, {tuples, length}}, least);
    random_input(&nd, updates);
    check(&nd);
}

/* Sometimes more rows and columns than one item holds. */
static void adding(void) {
    const bool many = next() % 16 == 0;
    const int64_t rows = many ? 20000 : ragged(90), width = many ? 3 : ragged(200);
    const int64_t count = ragged(300);
    sl_dtype dtype = some_type(PLAIN);
    if (dtype == SL_DTYPE_bool) dtype = SL_DTYPE_c64;
    const sl_scatter_add_attrs attrs = {.rows = (uint32_t)rows};
    op_case add = case_of(SL_OP_scatter_add, &attrs, 2e-6);
    index_input(&add, (sl_dims){1, {count}}, rows);
    random_input(&add, sl_type_make(dtype, 2, count, width));
    check(&add);
    const int64_t outer = between(1, 4);
    const sl_gather_backward_attrs back = {.axis = 1, .size = rows};
    op_case gradient = case_of(SL_OP_gather_backward, &back, 2e-6);
    index_input(&gradient, (sl_dims){1, {count}}, rows);
    random_input(&gradient, sl_type_make(some_type(FLOATS), 3, outer, count, between(1, 5)));
    check(&gradient);
}

static void made(void) {
    const sl_type like = some_shape(some_type(NUMBERS), 3000);
    const sl_iota_attrs counts = {
        .shape = like.shape, .axis = some_axis(like.shape.rank), .dtype = like.dtype};
    op_case iota = case_of(SL_OP_iota, &counts, 0);
    check(&iota);
    const sl_dims shape = some_shape(SL_DTYPE_i32, 200).shape;
    const sl_one_hot_attrs hot = {.axis = some_axis(shape.rank + 1), .depth = ragged(20)};
    op_case one_hot = case_of(SL_OP_one_hot, &hot, 0);
    index_input(&one_hot, shape, hot.depth + 2);
    random_input(&one_hot, sl_type_make(some_type(PLAIN), 1, (int64_t)2));
    check(&one_hot);
}

/* ---- reductions ---- */

static void reducing(void) {
    static const sl_op ops[] = {SL_OP_reduce_sum, SL_OP_reduce_mean, SL_OP_reduce_prod,
                                SL_OP_reduce_max, SL_OP_reduce_min};
    const int which = (int)(next() % 5);
    sl_type x = some_shape(some_type(WITHOUT_COMPLEX), 20000);
    if (x.dtype == SL_DTYPE_bool && which < 3) x.dtype = SL_DTYPE_c64;
    sl_reduce_sum_attrs attrs = {.keep = next() % 2};
    for (uint32_t d = 0; d < x.shape.rank; d++)
        if (next() % 2)
            attrs.axes.dims[attrs.axes.rank++] = (int64_t)d - (next() % 2 ? x.shape.rank : 0);
    const bool halves = x.dtype == SL_DTYPE_f16 || x.dtype == SL_DTYPE_bf16;
    op_case c = case_of(ops[which], &attrs, which < 3 && !halves ? 2e-6 : 0);
    const sl_dtype_kind kind = sl_dtype_infos[x.dtype].kind;
    if (kind == SL_KIND_FLOAT || kind == SL_KIND_COMPLEX)
        input(&c, x, which == 2 ? 0.9 : 0.1, which == 2 ? 1.1 : 2);
    else
        random_input(&c, x);
    if (x.dtype == SL_DTYPE_f32 && next() % 4 == 0)
        ((float *)c.data[0])[between(0, sl_type_elements(&x) - 1)] = NAN;
    check(&c);
}

static void over_axis(void) {
    const sl_type x = some_shape(some_type(FLOATS), 5000);
    const sl_softmax_attrs attrs = {.axis = (int64_t)(next() % (2 * x.shape.rank)) - x.shape.rank};
    static const sl_op ops[] = {SL_OP_softmax, SL_OP_log_softmax, SL_OP_softmax_backward,
                                SL_OP_log_softmax_backward};
    const int which = (int)(next() % 4);
    op_case c = case_of(ops[which], &attrs, 2e-6);
    c.by_tensor = true;
    if (which < 2)
        input(&c, x, -9, 9);
    else
        input(&c, x, which == 2 ? 0 : -9, which == 2 ? 1 : 0), input(&c, x, -1, 1);
    check(&c);
}

static void extreme_gradient(void) {
    const sl_type x = some_shape(some_type(FLOATS), 3000);
    sl_reduce_max_backward_attrs attrs = {.keep = 1};
    sl_type y = x;
    for (uint32_t d = 0; d < x.shape.rank; d++)
        if (next() % 2) {
            attrs.axes.dims[attrs.axes.rank++] = d;
            y.shape.dims[d] = 1;
        }
    op_case c = case_of(SL_OP_reduce_max_backward, &attrs, 2e-6);
    /* Few different integers, so that there are ties. */
    double *all[3];
    const sl_type types[3] = {x, y, y};
    for (int i = 0; i < 3; i++) {
        const size_t each = sl_dtype_infos[x.dtype].bytes;
        all[i] = random_input(&c, types[i]);
        for (int64_t e = 0; e < sl_type_elements(&types[i]); e++) {
            const double whole = floor(uniform(0, 4));
            sl_encode_f64(x.dtype, &whole, 1, (char *)all[i] + (size_t)e * each);
        }
    }
    check(&c);
}

/* ---- argmax, topk, sort ---- */

static void extremes(void) {
    const sl_type x = some_shape(some_type(WITHOUT_COMPLEX), 5000);
    const sl_argmax_attrs attrs = {.axis = (int64_t)(next() % (2 * x.shape.rank)) - x.shape.rank,
                                   .keep = next() % 2,
                                   .last = next() % 2,
                                   .to = next() % 2 ? SL_DTYPE_i64 : SL_DTYPE_f32};
    op_case c = case_of(next() % 2 ? SL_OP_argmax : SL_OP_argmin, &attrs, 0);
    if (next() % 2)
        input(&c, x, 0, x.dtype == SL_DTYPE_bool ? 2 : 5);
    else
        random_input(&c, x);
    if (x.dtype == SL_DTYPE_f32 && next() % 4 == 0)
        ((float *)c.data[0])[between(0, sl_type_elements(&x) - 1)] = NAN;
    check(&c);
}

static void running(void) {
    static const sl_op ops[] = {SL_OP_cumsum, SL_OP_cumprod, SL_OP_cumsum_backward};
    const int which = (int)(next() % 3);
    const sl_type x = some_shape(some_type(which == 2 ? FLOATS : NUMBERS), 5000);
    const sl_cumsum_attrs attrs = {
        .axis = some_axis(x.shape.rank), .exclusive = next() % 2, .reverse = next() % 2};
    op_case c = case_of(ops[which], &attrs, 2e-6);
    c.by_tensor = true;
    if (sl_dtype_infos[x.dtype].kind == SL_KIND_FLOAT)
        input(&c, x, which == 1 ? 0.9 : -1, which == 1 ? 1.1 : 1);
    else
        random_input(&c, x);
    check(&c);
}

static void sorting(void) {
    const sl_type x = some_shape(some_type(WITHOUT_COMPLEX), 5000);
    const int64_t axis = some_axis(x.shape.rank);
    const int64_t size = x.shape.dims[sl_axis(axis, x.shape.rank)];
    const sl_topk_attrs best = {.k = next() % 2 ? between(0, size) : between(0, 1 + size / 20),
                                .axis = axis,
                                .largest = next() % 2};
    const sl_sort_attrs all = {.axis = axis, .descending = next() % 2};
    static const sl_op ops[] = {SL_OP_topk, SL_OP_sort, SL_OP_argsort};
    const int which = (int)(next() % 3);
    op_case c = case_of(ops[which], which ? (const void *)&all : &best, 0);
    if (next() % 2)
        input(&c, x, 0, x.dtype == SL_DTYPE_bool ? 2 : 7);
    else
        random_input(&c, x);
    float *floats_of = c.data[0];
    if (x.dtype == SL_DTYPE_f32 && sl_type_elements(&x) > 3)
        floats_of[1] = NAN, floats_of[2] = -0.0f, floats_of[3] = 0.0f;
    check(&c);
}

/* ---- tests ---- */

static void of_fixture(fixture *f, size_t number) {
    (void)number;
    if (f->info->traits & SL_OP_VIEW) return; /* a view has no kernel */
    op_case c = case_of(f->op, f->attrs, 2e-6);
    c.by_tensor = true;
    for (uint32_t i = 0; i < f->in_count; i++) {
        void *data = input(&c, f->in[i].type, 0, 1);
        sl_encode_f64(f->in[i].type.dtype, f->in[i].data, sl_type_elements(&f->in[i].type), data);
    }
    c.outs = f->out_count - f->info->output_count;
    check(&c);
}
static void kernels_match_the_fixtures(void **state) {
    (void)state;
    uint32_t seen[SL_OP_COUNT] = {0};
    each_fixture("tests/data/ops/movement.json", of_fixture, seen);
}

#define RANDOM(NAME)                                                                               \
    static void test_##NAME(void **state) {                                                        \
        (void)state;                                                                               \
        for (int i = 0; i < ROUNDS; i++) NAME();                                                   \
    }
RANDOM(steps)
RANDOM(parts)
RANDOM(padding)
RANDOM(update)
RANDOM(gathering)
RANDOM(along)
RANDOM(slices)
RANDOM(adding)
RANDOM(made)
RANDOM(reducing)
RANDOM(over_axis)
RANDOM(extreme_gradient)
RANDOM(extremes)
RANDOM(running)
RANDOM(sorting)

static void indices_out_of_range_are_refused(void **state) {
    (void)state;
    const sl_gather_attrs gathers = {.axis = 0};
    op_case gather = case_of(SL_OP_gather, &gathers, 0);
    floats(&gather, f32(2, 5, 3, 0, 0)), input(&gather, i32(3), -9, -6);
    check_refused(&gather);
    const sl_scatter_add_attrs adds = {.rows = 4};
    op_case add = case_of(SL_OP_scatter_add, &adds, 0);
    input(&add, i32(3), 4, 5), floats(&add, f32(2, 3, 2, 0, 0));
    check_refused(&add);
    for (uint32_t combine = 0; combine < 2; combine++) {
        const sl_scatter_attrs scatters = {.axis = 0, .combine = combine};
        op_case scatter = case_of(SL_OP_scatter, &scatters, 0);
        floats(&scatter, f32(1, 5, 0, 0, 0)), input(&scatter, i32(3), 5, 6);
        floats(&scatter, f32(1, 3, 0, 0, 0));
        check_refused(&scatter);
        const sl_scatter_nd_attrs tuples = {.combine = combine};
        op_case nd = case_of(SL_OP_scatter_nd, &tuples, 0);
        floats(&nd, f32(1, 5, 0, 0, 0));
        input(&nd, sl_type_make(SL_DTYPE_i64, 2, (int64_t)3, (int64_t)1), -9, -6);
        floats(&nd, f32(1, 3, 0, 0, 0));
        check_refused(&nd);
    }
    const sl_take_along_attrs takes = {.axis = 0};
    op_case take = case_of(SL_OP_take_along, &takes, 0);
    floats(&take, f32(1, 5, 0, 0, 0)), input(&take, i32(3), 5, 6);
    check_refused(&take);
    op_case nd = case_of(SL_OP_gather_nd, NULL, 0);
    floats(&nd, f32(2, 2, 2, 0, 0));
    input(&nd, sl_type_make(SL_DTYPE_i64, 2, (int64_t)3, (int64_t)2), 2, 3);
    check_refused(&nd);
}

/* A long f32 sum is as accurate as a short one. */
static void long_sums_are_good(void **state) {
    (void)state;
    const sl_reduce_sum_attrs last = {.axes = {1, {1}}}, first = {.axes = {1, {0}}};
    op_case rows = case_of(SL_OP_reduce_sum, &last, 2e-7);
    input(&rows, f32(2, 2, 1000003, 0, 0), 0, 1);
    check(&rows);
    op_case columns = case_of(SL_OP_reduce_mean, &first, 2e-7);
    input(&columns, f32(2, 300007, 3, 0, 0), 0, 1);
    check(&columns);
    const sl_cumsum_attrs running_sum = {.axis = 0};
    op_case sums = case_of(SL_OP_cumsum, &running_sum, 2e-7);
    input(&sums, f32(1, 400009, 0, 0, 0), 0, 1);
    check(&sums);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_match_the_fixtures),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_update),
        cmocka_unit_test(test_gathering),
        cmocka_unit_test(test_along),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_adding),
        cmocka_unit_test(test_made),
        cmocka_unit_test(test_reducing),
        cmocka_unit_test(test_over_axis),
        cmocka_unit_test(test_extreme_gradient),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_running),
        cmocka_unit_test(test_sorting),
        cmocka_unit_test(indices_out_of_range_are_refused),
        cmocka_unit_test(long_sums_are_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
