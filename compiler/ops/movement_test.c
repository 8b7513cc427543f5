/* movement_test.c - Ops that move, reduce and sort elements: against NumPy and PyTorch
 * (tests/data/ops/movement.json), their text form, and error messages. */
#include "tests/support/op_fixture.h"

static const char path[] = "tests/data/ops/movement.json";

static void compare(fixture *f, size_t number) {
    fixture_compare(f, number, 1e-12);
}

static void every_op_matches_its_fixtures(void **state) {
    (void)state;
    uint32_t seen[SL_OP_COUNT] = {0};
    each_fixture(path, compare, seen);
    static const sl_op ops[] = {
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/movement.def"
#include "core/ops.def"
#undef SL_FAMILY
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/reduce.def"
#include "core/ops.def"
#undef SL_FAMILY
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/softmax.def"
#include "core/ops.def"
#undef SL_FAMILY
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/sort.def"
#include "core/ops.def"
#undef SL_FAMILY
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (seen[ops[i]] < 3)
            fail_msg("%s has %u fixtures", sl_op_info_of(ops[i])->name, seen[ops[i]]);
}

static void round_trip(fixture *f, size_t number) {
    (void)number;
    fixture_round_trip(f);
}

static void text_parses_back(void **state) {
    (void)state;
    uint32_t seen[SL_OP_COUNT] = {0};
    each_fixture(path, round_trip, seen);
}

/* ---- errors ---- */

static void shapes_are_checked(void **state) {
    (void)state;
    const char *const *x = TYPES("f32[2,3]");
    fixture_rejects("reshape", "shape = [4]", x,
                    "reshape: x f32[2,3] does not fill f32[4] exactly");
    fixture_rejects("reshape", "shape = [4, -1]", x,
                    "reshape: x f32[2,3] does not fill f32[4,-1] exactly");
    fixture_rejects("reshape", "shape = [-1, -1]", x,
                    "reshape: dim 1 of shape is -1, must be at least 1, or -1 once");
    fixture_rejects("reshape", "shape = [9223372036854775807, 4]", x,
                    "reshape: x f32[2,3] does not fill f32[9223372036854775807,4] exactly");
    fixture_rejects("reshape", "shape = [0, -1]", TYPES("f32[0,3]"),
                    "reshape: x f32[0,3] does not fill f32[0,-1] exactly");
    fixture_rejects("transpose", "perm = [0]", x,
                    "transpose: the length of perm is 1, must be 2 to 2");
    fixture_rejects("transpose", "perm = [1, 1]", x, "transpose: perm names dim 1 twice");
    fixture_rejects("slice", "axis = 2, length = 1", x, "slice: axis is 2, must be -2 to 1");
    fixture_rejects("slice", "axis = 1, start = 4, length = 0", x,
                    "slice: start is 4, must be 0 to 3");
    fixture_rejects("slice", "axis = 1, start = 1, length = 3", x,
                    "slice: length is 3, must be 0 to 2");
    fixture_rejects("strided_slice", "starts = [0], ends = [1, 1], steps = [1, 1]", x,
                    "strided_slice: the number of starts is 1, must be 2 to 2");
    fixture_rejects("strided_slice", "starts = [0, 0], ends = [1, 1], steps = [1, 0]", x,
                    "strided_slice: step 1 is 0, must not be 0");
    fixture_rejects("reverse", "axes = [0, -2]", x, "reverse: axis 0 is given twice");
    fixture_rejects("expand", "shape = [3]", x, "expand: the rank of shape is 1, must be 2 to 8");
    fixture_rejects("expand", "shape = [4, 2, 4]", x,
                    "expand: dim 2 of shape is 4, x f32[2,3] does not fill it");
    fixture_rejects("concat", "axis = 0", TYPES("f32[2,3]", "f32[2,3]", "f32[2,4]"),
                    "concat: part 2 is f32[2,4], must be like the first f32[2,3] except along axis "
                    "0");
    fixture_rejects("concat", "axis = 0", TYPES("f32[2,3]", "f64[2,3]"),
                    "concat: part 1 is f64[2,3], must be like the first f32[2,3] except along axis "
                    "0");
    fixture_rejects("concat", "axis = -3", x, "concat: axis is -3, must be -2 to 1");
    fixture_rejects("split", "axis = 1, sizes = [1]", x,
                    "split: the number of sizes is 1, must be 2 to 2");
    fixture_rejects("split", "axis = 1, sizes = [1, 1]", x,
                    "split: the sizes sum to 2, must sum to 3");
    fixture_rejects("pad", "before = [0, -2], after = [0, -2], mode = 0",
                    TYPES("f32[2,3]", "f32[]"), "pad: after is -2, must be -1 to 281474976710656");
    fixture_rejects("pad", "before = [0, 1], after = [0, 1], mode = 4", TYPES("f32[2,3]", "f32[]"),
                    "pad: mode is 4, must be 0 to 3");
    fixture_rejects("pad", "before = [0], after = [1], mode = 0", TYPES("f32[3]", "i32[]"),
                    "pad: value is i32[], must be one element of the type of x");
    fixture_rejects("pad", "before = [0], after = [1], mode = 2", TYPES("f32[0]", "f32[]"),
                    "pad: x is f32[0], must be nonempty to be padded with its own elements");
    fixture_rejects("trilu", "upper = true", TYPES("f32[3]"),
                    "trilu: x is f32[3], must be of at least two dims");
    fixture_rejects("iota", "shape = [3], axis = 1, dtype = i32", (const char *const[]){NULL},
                    "iota: axis is 1, must be -1 to 0");
    fixture_rejects("iota", "shape = [3], axis = 0, dtype = bool", (const char *const[]){NULL},
                    "iota: the result is bool[3], must be floats or integers");
}

static void indices_are_checked(void **state) {
    (void)state;
    fixture_rejects("gather", "", TYPES("f32[2]", "f32[1]"),
                    "gather: indices is f32[1], must be i32 or i64");
    fixture_rejects("gather", "", TYPES("f32[2,1,1,1,1]", "i32[1,1,1,1,1]"),
                    "gather: the rank of the result is 9, must be 0 to 8");
    fixture_rejects("gather", "axis = 1", TYPES("f32[2]", "i32[1]"),
                    "gather: axis is 1, must be -1 to 0");
    fixture_rejects("gather", "", TYPES("f32[1]", "i32[1]"),
                    "gather: an index is 1, must be -1 to 0");
    fixture_rejects("gather_nd", "", TYPES("f32[2,2]", "i32[2,3]"),
                    "gather_nd: the last dim of indices is 3, must be 0 to 2");
    fixture_rejects("gather_nd", "batch_dims = 1", TYPES("f32[2,2]", "i32[3,1]"),
                    "gather_nd: indices is i32[3,1], must be like x in its batch dims");
    fixture_rejects("take_along", "axis = 0", TYPES("f32[2,2]", "i32[3,3]"),
                    "take_along: indices is i32[3,3], must be of the rank of x, and larger only "
                    "along axis");
    fixture_rejects("scatter", "axis = 0, combine = 5", TYPES("f32[2]", "i32[1]", "f32[1]"),
                    "scatter: combine is 5, must be 0 to 4");
    fixture_rejects("scatter", "axis = 0, combine = 1", TYPES("bool[2]", "i32[1]", "bool[1]"),
                    "scatter: x is bool[2], must be floats or integers");
    fixture_rejects("scatter", "axis = 0", TYPES("f32[2]", "i32[1]", "f64[1]"),
                    "scatter: updates is f64[1], must be f32[1] like x of the shape of indices");
    fixture_rejects("scatter_nd", "", TYPES("f32[2,3]", "i32[4,1]", "f32[4,2]"),
                    "scatter_nd: updates is f32[4,2], must be f32[4,3] by x and indices");
    fixture_rejects("scatter_add", "rows = 2", TYPES("i32[3]", "f32[2,2]"),
                    "scatter_add: updates is f32[2,2], must be dims of indices, then those of a "
                    "row");
    fixture_rejects("scatter_add", "rows = 1", TYPES("i32[1]", "f32[1]"),
                    "scatter_add: an index is 1, must be -1 to 0");
    fixture_rejects("gather_backward", "axis = 0, size = -1", TYPES("i32[1]", "f32[1]"),
                    "gather_backward: size is -1, must be 0 to 281474976710656");
    fixture_rejects("dynamic_slice", "sizes = [3]", TYPES("f32[2]", "i64[1]"),
                    "dynamic_slice: a size is 3, must be 0 to 2");
    fixture_rejects("dynamic_slice", "sizes = [1]", TYPES("f32[2]", "i64[2]"),
                    "dynamic_slice: starts is i64[2], must be i64[1] (one per dim of x)");
    fixture_rejects("dynamic_update_slice", "", TYPES("f32[2]", "f32[3]", "i64[1]"),
                    "dynamic_update_slice: update is f32[3], must be of the type and rank of x, "
                    "with no larger dim");
    fixture_rejects("one_hot", "axis = 0, depth = 3", TYPES("i32[2]", "f32[3]"),
                    "one_hot: values is f32[3], must be f32[2] (those of elsewhere and of the "
                    "place)");
    fixture_rejects("one_hot", "axis = 2, depth = 3", TYPES("i32[2]", "f32[2]"),
                    "one_hot: axis is 2, must be -2 to 1");
}

static void reductions_are_checked(void **state) {
    (void)state;
    const char *const *x = TYPES("f32[2,3]");
    fixture_rejects("reduce_sum", "axes = [2]", x, "reduce_sum: an axis is 2, must be -2 to 1");
    fixture_rejects("reduce_max", "axes = [1, -1]", x, "reduce_max: axis 1 is given twice");
    fixture_rejects("reduce_max", "axes = [1], keep = 2", x,
                    "reduce_max: keep is 2, must be 0 to 1");
    fixture_rejects("reduce_sum", "axes = [0]", TYPES("bool[2]"),
                    "reduce_sum: x is bool[2], must be floats, integers or c64");
    fixture_rejects("reduce_min", "axes = [0]", TYPES("c64[2]"),
                    "reduce_min: x is c64[2], must be floats, integers or bools");
    fixture_rejects("reduce_mean", "axes = [0]", TYPES("i32[0]"),
                    "reduce_mean: x is i32[0], must be floats or not empty");
    fixture_rejects("reduce_max_backward", "axes = [0]", TYPES("f32[2,3]", "f32[2]", "f32[3]"),
                    "reduce_max_backward: y is f32[2], must be f32[3] as x is reduced");
    fixture_rejects("softmax", "axis = 2", x, "softmax: axis is 2, must be -2 to 1");
    fixture_rejects("softmax", "", TYPES("i32[2]"), "softmax: x is i32[2], must be floats");
    fixture_rejects("softmax_backward", "", TYPES("f32[2]", "f32[3]"),
                    "softmax_backward: dy is f32[3], must be f32[2] as y");
    fixture_rejects("argmax", "to = u8", x, "argmax: to is u8, must be i32 or i64");
    fixture_rejects("argmin", "", TYPES("f32[2,0]"),
                    "argmin: x is f32[2,0], must be not empty along axis");
    fixture_rejects("cumsum", "axis = 2", x, "cumsum: axis is 2, must be -2 to 1");
    fixture_rejects("cumsum", "axis = 0", TYPES("bool[2]"),
                    "cumsum: x is bool[2], must be floats or integers");
    fixture_rejects("topk", "k = 4, axis = 1", x, "topk: k is 4, must be 0 to 3");
    fixture_rejects("sort", "axis = 0", TYPES("c64[2]"),
                    "sort: x is c64[2], must be floats, integers or bools");
    fixture_rejects("argsort", "axis = 0, descending = 2", x,
                    "argsort: descending is 2, must be 0 to 1");
}

/* ---- gradients against finite differences ---- */

/* The sum of a forward op's results, weighted by dy. */
static double weighted(fixture *f, const double *dy) {
    sl_eval_tensor out[MOST_TENSORS] = {0};
    if (fixture_eval(f, out) != SL_OK) fail_msg("%s", f->err.message);
    assert_non_null(out[0].data);
    double sum = 0;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    for (int64_t i = 0; i < sl_type_elements(&out[0].type); i++) sum += out[0].data[i] * dy[i];
    return sum;
}

static void set_tensor(fixture *f, uint32_t input, sl_type type, double (*value)(int64_t i)) {
    f->in[input] = (sl_eval_tensor){.type = type, .data = fixture_slots(f, &type)};
    for (int64_t i = 0; i < sl_type_elements(&type); i++) f->in[input].data[i] = value(i);
}
static double wave(int64_t i) {
    return 2 * sin(3.7 * (double)i + 1);
}
static double slope(int64_t i) {
    return cos(1.9 * (double)i);
}
static double place(int64_t i) {
    return (double)(i * 5 % 3);
}

/* The gradient op of `forward`.  `wants` lists its inputs: x or indices (i) of the forward op, its
 * result y, and dy (d). */
typedef struct {
    const char *forward, *attrs, *backward, *backward_attrs, *wants;
} gradient;

static void set_inputs(fixture *f) {
    set_tensor(f, 0, sl_type_make(SL_DTYPE_f64, 3, (int64_t)2, (int64_t)3, (int64_t)4), wave);
    if (f->in_count > 1)
        set_tensor(f, 1, sl_type_make(SL_DTYPE_i32, 2, (int64_t)2, (int64_t)2), place);
}

static void compare_gradient(fixture *f, const double *dy, const sl_eval_tensor *found) {
    double *x = f->in[0].data;
    for (int64_t i = 0; i < sl_type_elements(&f->in[0].type); i++) {
        const double kept = x[i], step = 1e-5;
        x[i] = kept + step;
        const double above = weighted(f, dy);
        x[i] = kept - step;
        const double below = weighted(f, dy);
        x[i] = kept;
        const double wanted = (above - below) / (2 * step);
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        if (!(fabs(found->data[i] - wanted) < 1e-8))
            fail_msg("%s: element %lld is %.12g instead of %.12g", f->info->name, (long long)i,
                     found->data[i], wanted);
    }
}

static void check_gradient(const gradient *g) {
    fixture forward, backward;
    sl_eval_tensor y[MOST_TENSORS], found[MOST_TENSORS];
    fixture_open(&forward, g->forward, g->attrs);
    fixture_open(&backward, g->backward, g->backward_attrs);
    set_inputs(&forward);
    assert_int_equal(fixture_eval(&forward, y), SL_OK);
    sl_eval_tensor dy = {.type = y[0].type, .data = fixture_slots(&forward, &y[0].type)};
    for (int64_t i = 0; i < sl_type_elements(&dy.type); i++) dy.data[i] = slope(i);
    for (uint32_t i = 0; i < backward.in_count; i++)
        backward.in[i] = g->wants[i] == 'x'   ? forward.in[0]
                         : g->wants[i] == 'i' ? forward.in[1]
                         : g->wants[i] == 'y' ? y[0]
                                              : dy;
    if (fixture_eval(&backward, found) != SL_OK) fail_msg("%s", backward.err.message);
    assert_true(sl_type_equal(&found[0].type, &forward.in[0].type));
    compare_gradient(&forward, dy.data, &found[0]);
    fixture_close(&forward);
    fixture_close(&backward);
}

static void gradients_are_differences(void **state) {
    (void)state;
    static const gradient all[] = {
        {"softmax", "axis = 0", "softmax_backward", "axis = 0", "yd"},
        {"softmax", "axis = 1", "softmax_backward", "axis = 1", "yd"},
        {"softmax", "axis = 2", "softmax_backward", "axis = 2", "yd"},
        {"log_softmax", "axis = 0", "log_softmax_backward", "axis = 0", "yd"},
        {"log_softmax", "axis = 1", "log_softmax_backward", "axis = 1", "yd"},
        {"reduce_max", "axes = [1]", "reduce_max_backward", "axes = [1]", "xyd"},
        {"reduce_max", "axes = [0, 2], keep = 1", "reduce_max_backward", "axes = [0, 2], keep = 1",
         "xyd"},
        {"reduce_min", "axes = [-1]", "reduce_max_backward", "axes = [-1]", "xyd"},
        {"cumsum", "axis = 1", "cumsum_backward", "axis = 1", "d"},
        {"cumsum", "axis = -1, exclusive = 1", "cumsum_backward", "axis = -1, exclusive = 1", "d"},
        {"cumsum", "axis = 0, reverse = 1", "cumsum_backward", "axis = 0, reverse = 1", "d"},
        {"cumsum", "axis = 2, reverse = 1, exclusive = 1", "cumsum_backward",
         "axis = 2, reverse = 1, exclusive = 1", "d"},
        {"gather", "axis = 1", "gather_backward", "axis = 1, size = 3", "id"},
        {"gather", "axis = -1", "gather_backward", "axis = -1, size = 4", "id"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) check_gradient(&all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_matches_its_fixtures),
        cmocka_unit_test(text_parses_back),
        cmocka_unit_test(shapes_are_checked),
        cmocka_unit_test(indices_are_checked),
        cmocka_unit_test(reductions_are_checked),
        cmocka_unit_test(gradients_are_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
