/* elementwise_test.c - Elementwise ops against PyTorch and NumPy (tests/data/ops/elementwise.json),
 * derivatives against finite differences, and error messages. */
#include "compiler/eval.h"
#include "compiler/ops/elementwise.h"
#include "core/elementwise_region.h"
#include "tests/support/fixture_case.h"

static const sl_op family[] = {
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/elementwise.def"
#include "core/ops.def"
#undef SL_FAMILY
};
enum { FAMILY = sizeof family / sizeof family[0] };

/* ---- fixtures ---- */

static uint32_t seen[SL_OP_COUNT];

static bool is_close(sl_dtype dtype, const double *found, const double *wanted, double largest) {
    if (sl_dtype_infos[dtype].kind == SL_KIND_INT || dtype == SL_DTYPE_bool)
        return sl_same_slot(found, wanted);
    if (isnan(*wanted)) return isnan(*found);
    if (isinf(*wanted) || *wanted == 0) return *found == *wanted || fabs(*found) < 1e-15 * largest;
    return fabs(*found - *wanted) <= 1e-12 * largest;
}

/* Printing and parsing a node gives the same node. */
static void check_text(const fixture_case *c) {
    sl_graph *graph = NULL, *again = NULL;
    sl_arena arena;
    sl_error err = {0};
    sl_value inputs[CASE_INPUTS], out;
    char *text = NULL, *other = NULL;
    assert_int_equal(sl_graph_create("case", NULL, &graph, &err), SL_OK);
    sl_arena_init(&arena, NULL);
    for (uint32_t i = 0; i < c->in_count; i++) {
        const char name[] = {(char)('a' + i % 26), (char)('a' + i / 26), 0};
        inputs[i] = sl_graph_declare(graph, SL_VALUE_INPUT, name, c->in[i].type);
    }
    sl_graph_append_list(graph, c->op, (sl_values){c->in_count, inputs}, c->attrs,
                         (sl_value_slots){1, &out});
    sl_graph_output(graph, "out", out);
    if (sl_graph_verify(graph, &err) || sl_graph_print(graph, &arena, &text, &err) ||
        sl_graph_parse(text, strlen(text), NULL, &again, &err) ||
        sl_graph_print(again, &arena, &other, &err))
        fail_msg("%s in\n%s", err.message, text ? text : "no text");
    assert_string_equal(text, other);
    sl_graph_destroy(graph);
    sl_graph_destroy(again);
    sl_arena_deinit(&arena);
}

static void check_fixture(fixture_case *c, size_t index) {
    char got[SL_TYPE_TEXT], want[SL_TYPE_TEXT];
    if (case_evaluate(c) != SL_OK) fail_msg("case %zu: %s", index, c->err.message);
    if (!sl_type_equal(&c->out.type, &c->wanted_type))
        fail_msg("case %zu, %s: %s instead of %s", index, c->info->name,
                 sl_type_format(&c->out.type, got, sizeof got),
                 sl_type_format(&c->wanted_type, want, sizeof want));
    double largest = 0;
    const int64_t count = sl_type_slots(&c->wanted_type);
    for (int64_t i = 0; i < count; i++)
        if (isfinite(c->wanted[i])) largest = fmax(largest, fabs(c->wanted[i]));
    for (int64_t i = 0; i < count; i++)
        if (!is_close(c->out.type.dtype, &c->out.data[i], &c->wanted[i], largest))
            fail_msg("case %zu, %s: slot %lld is %.17g instead of %.17g", index, c->info->name,
                     (long long)i, c->out.data[i], c->wanted[i]);
    check_text(c);
    seen[c->op]++;
}

static void every_op_matches_its_fixtures(void **state) {
    (void)state;
    for_each_case("tests/data/ops/elementwise.json", check_fixture);
    for (int i = 0; i < FAMILY; i++)
        if (seen[family[i]] < 3)
            fail_msg("%s has %u fixtures", sl_op_info_of(family[i])->name, seen[family[i]]);
}

/* ---- derivatives ---- */

static double value_at(fixture_case *c, double x) {
    c->in[0].data[0] = x;
    assert_int_equal(case_evaluate(c), SL_OK);
    return c->out.data[0];
}

/* Compares the derivative with a finite difference, where both are smooth. */
static void check_slope(const char *kind, double x) {
    char attrs[64];
    fixture_case forward, backward;
    (void)snprintf(attrs, sizeof attrs, "kind = \"%s\"", kind);
    case_open(&forward, kind, "");
    case_add(&forward, sl_type_make(SL_DTYPE_f64, 0));
    case_open(&backward, "activation_backward", attrs);
    case_add(&backward, sl_type_make(SL_DTYPE_f64, 0));
    case_add(&backward, sl_type_make(SL_DTYPE_f64, 0));
    backward.in[1].data[0] = 1.5;
    const double step = 1e-5;
    const double slope = (value_at(&forward, x + step) - value_at(&forward, x - step)) / (2 * step);
    const double found = value_at(&backward, x) / 1.5;
    if (!(fabs(found - slope) <= 1e-7 * fmax(1, fabs(slope))))
        fail_msg("%s at %g: %.12g, differences give %.12g", kind, x, found, slope);
    case_close(&forward);
    case_close(&backward);
}

static void derivatives_are_differences(void **state) {
    (void)state;
    uint32_t kinds = 0;
    for (int i = 0; i < FAMILY; i++) {
        const char *kind = sl_op_info_of(family[i])->name;
        if (sl_elementwise_slope_find(kind) < 0) continue;
        kinds++;
        const bool inside =
            strcmp(kind, "asin") == 0 || strcmp(kind, "acos") == 0 || strcmp(kind, "atanh") == 0;
        for (int step = 0; step < (inside ? 4 : 12); step++) {
            const double x = 0.125 + 0.26 * step;
            if (strcmp(kind, "acosh") != 0) check_slope(kind, x);
            if (strcmp(kind, "acosh") == 0) check_slope(kind, x + 1);
        }
        const bool below = strcmp(kind, "log") != 0 && strcmp(kind, "acosh") != 0 &&
                           strcmp(kind, "sqrt") != 0 && strcmp(kind, "rsqrt") != 0;
        for (double x = -0.9; x < -0.1 && below; x += 0.26) check_slope(kind, x);
    }
    assert_int_equal(kinds, 32);
}

/* ---- errors ---- */

typedef struct {
    const char *op, *attrs, *types[4], *message;
} refusal;

static sl_type type_of(const char *text) {
    sl_type type = {0};
    const char *bracket = strchr(text, '[');
    assert_non_null(bracket);
    assert_true(sl_dtype_find(text, (size_t)(bracket - text), &type.dtype));
    for (const char *p = bracket; *p != ']' && p[1] != ']'; p = strpbrk(p + 1, ",]"))
        type.shape.dims[type.shape.rank++] = strtoll(p + 1, NULL, 10);
    return type;
}

static const refusal refusals[] = {
    {"add",
     "",
     {"bool[2]", "bool[2]"},
     "add: a is bool[2], must be a float or integer type or c64"},
    {"add", "", {"i32[2]", "f32[2]"}, "add: b is f32[2], must be i32 as a"},
    {"add",
     "",
     {"a8[2,32]", "f32[2]"},
     "add: a is a8[2,32], must be a float or integer type or c64"},
    {"mul",
     "",
     {"f64[2,3]", "f64[2]"},
     "mul: dims 3 and 2 (number 1 from the end) do not broadcast: they must be equal or 1"},
    {"atan2",
     "",
     {"i8[2]", "i8[2]"},
     "atan2: a is i8[2], must be a float type (f32, f16, bf16 or f64)"},
    {"maximum", "", {"c64[2]", "c64[2]"}, "maximum: a is c64[2], must be a float or integer type"},
    {"less", "", {"bool[2]", "bool[2]"}, "less: a is bool[2], must be a float or integer type"},
    {"logical_and", "", {"u8[2]", "bool[2]"}, "logical_and: a is u8[2], must be bool"},
    {"bitwise_or", "", {"f32[2]", "f32[2]"}, "bitwise_or: a is f32[2], must be an integer type"},
    {"mod", "truncate = 2", {"f32[2]", "f32[2]"}, "mod: truncate is 2, must be 0 to 1"},
    {"exp", "", {"i32[2]"}, "exp: x is i32[2], must be a float type or c64"},
    {"sin", "", {"c64[2]"}, "sin: x is c64[2], must be a float type (f32, f16, bf16 or f64)"},
    {"is_inf", "which = 4", {"f32[2]"}, "is_inf: which is 4, must be 0 to 3"},
    {"where", "", {"u8[2]", "f32[2]", "f32[2]"}, "where: condition is u8[2], must be bool"},
    {"where", "", {"bool[2]", "f32[2]", "f64[2]"}, "where: b is f64[2], must be f32 as a"},
    {"clamp", "", {"f32[2]", "f32[]", "f16[]"}, "clamp: high is f16[], must be f32 as x"},
    {"cast", "to = q8", {"f32[2]"}, "cast: to is q8, must be a plain type"},
    {"cast", "to = f32, saturate = 2", {"f32[2]"}, "cast: saturate is 2, must be 0 to 1"},
    {"cast", "to = f32", {"c64[2]"}, "cast: x is c64, which can only be cast to c64; use real"},
    {"bitcast",
     "to = i64",
     {"f32[2]"},
     "bitcast: to is i64, must have elements of 4 bytes as x, not bool"},
    {"bitcast",
     "to = bool",
     {"i8[2]"},
     "bitcast: to is bool, must have elements of 1 bytes as x, not bool"},
    {"complex", "", {"f32[2]", "f64[2]"}, "complex: im is f64[2], must be f32"},
    {"real", "", {"f32[2]"}, "real: x is f32[2], must be c64"},
    {"activation_backward",
     "kind = \"add\"",
     {"f32[2]", "f32[2]"},
     "activation_backward: kind is 'add', must be the name of an op of one operand with a "
     "derivative, such as 'gelu'"},
    {"complex_norm_sq_backward",
     "",
     {"c64[2]", "f64[2]"},
     "complex_norm_sq_backward: dy is f64[2], must be f32"},
    {"elementwise_region",
     "code = []",
     {"f32[2]"},
     "elementwise_region: code has 0 numbers, must have 5 for each of 1 to 64 steps"},
    {"elementwise_region",
     "code = [1, 0, 1, 0, 0]",
     {"f32[2]"},
     "elementwise_region: step 0 of code is not a valid step"},
    {"elementwise_region",
     "code = [99, 0, 0, 0, 0]",
     {"f32[2]"},
     "elementwise_region: step 0 of code is not a valid step"},
    {"elementwise_region",
     "code = [-1, 0, 0, 0, 0]",
     {"f32[2]"},
     "elementwise_region: step 0 of code is not a valid step"},
    {"elementwise_region",
     "code = [31, 0, 0, 0, 7]",
     {"f32[2]"},
     "elementwise_region: step 0 of code is not a valid step"},
    {"elementwise_region",
     "code = [1, 0, 1, 0, 0, 31, 0, 0, 0, 0]",
     {"f32[1]", "f32[2]"},
     "elementwise_region: register 1 is f32[2], must broadcast to the result f32[1]"},
    {"elementwise_region",
     "code = [1, 0, 1, 0, 0]",
     {"f32[2]", "i32[2]"},
     "elementwise_region: b is i32[2], must be f32 as a"},
    {"elementwise_region",
     "code = [31, 0, 0, 0, 0], prologue = 1",
     {"f32[2]"},
     "elementwise_region: the prologue's input has rank 1, must be at least 2 to be upsampled"},
    {"elementwise_region",
     "code = [31, 0, 0, 0, 0], prologue_input = 1",
     {"f32[2]"},
     "elementwise_region: prologue_input is 1, must be 0 to 0"},
    {"elementwise_region",
     "code = [31, 0, 0, 0, 0], prologue = 2",
     {"f32[2]"},
     "elementwise_region: prologue is 2, must be 0 to 1"},
    {"transform_region",
     "steps = [2]",
     {"f32[2,2]"},
     "transform_region: a step is 2, must be 1 to 1"},
    {"transform_region",
     "steps = []",
     {"f32[2,2]"},
     "transform_region: the number of steps is 0, must be 1 to 16"},
    {"batch_elementwise_region",
     "code = [31, 0, 0, 0, 0]",
     {"f32[1,2]", "f32[1,3]"},
     "batch_elementwise_region: input 1 is f32[1,3], must be like input 0 f32[1,2], [1,..]"},
    {"batch_elementwise_region",
     "code = [31, 0, 0, 0, 0]",
     {"f32[2,2]"},
     "batch_elementwise_region: input 0 is f32[2,2], must be like input 0 f32[2,2], [1,..]"},
};

static void bad_operands_are_refused(void **state) {
    (void)state;
    for (size_t r = 0; r < sizeof refusals / sizeof refusals[0]; r++) {
        fixture_case c;
        case_open(&c, refusals[r].op, refusals[r].attrs);
        for (uint32_t i = 0; i < 4 && refusals[r].types[i]; i++)
            case_add(&c, type_of(refusals[r].types[i]));
        assert_int_equal(case_evaluate(&c), SL_INVALID);
        assert_string_equal(c.err.message, refusals[r].message);
        case_close(&c);
    }
}

/* Regions with random code: inference never crashes, and what it accepts can be evaluated. */
static void any_code_is_answered(void **state) {
    (void)state;
    uint64_t random = 5;
    uint32_t accepted = 0;
    for (int round = 0; round < 20000; round++) {
        fixture_case c;
        int64_t numbers[3 * SL_ELEMENTWISE_STEP_NUMBERS];
        case_open(&c, "elementwise_region", "code = []");
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const int64_t most = i % 5 == 0 ? SL_ELEMENTWISE_OPS + 2 : i % 5 > 2 ? 1 : 3;
            numbers[i] = (int64_t)((random >> 33) % (uint64_t)most) - (random >> 59 == 0);
        }
        const uint32_t count = 5 * (1 + (uint32_t)(random >> 40) % 3);
        sl_elementwise_region_attrs *attrs = (void *)c.attrs;
        attrs->code = (sl_integers){count, numbers};
        attrs->prologue = (random >> 50) % 8 == 0;
        case_add(&c, sl_type_make((random >> 52) % 2 ? SL_DTYPE_f32 : SL_DTYPE_i32, 2, (int64_t)2,
                                  (int64_t)1));
        case_add(&c, sl_type_make(SL_DTYPE_f32, 1, (int64_t)((random >> 56) % 3)));
        accepted += case_evaluate(&c) == SL_OK;
        case_close(&c);
    }
    assert_true(accepted > 300);
}

/* 2048 + 1 is 2048 in f16, in a region as between nodes. */
static void halves_are_rounded_by_each_step(void **state) {
    (void)state;
    fixture_case c;
    case_open(&c, "elementwise_region", "code = [1, 0, 1, 0, 0, 2, 2, 0, 0, 0]");
    for (int i = 0; i < 2; i++) case_add(&c, sl_type_make(SL_DTYPE_f16, 1, (int64_t)1));
    c.in[0].data[0] = 2048, c.in[1].data[0] = 1;
    assert_int_equal(case_evaluate(&c), SL_OK);
    assert_true(c.out.data[0] == 0);
    case_close(&c);
    const char *text = "graph \"g\" { constant %a : f16[1] = {2048} constant %b : f16[1] = {1} "
                       "%1 = add(%a, %b) %2 = sub(%1, %a) output \"y\" = %2 }";
    sl_graph *graph = NULL;
    sl_evaluator *evaluator = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_parse(text, strlen(text), NULL, &graph, &err), SL_OK);
    assert_int_equal(sl_evaluator_create(graph, NULL, &evaluator, &err), SL_OK);
    assert_int_equal(sl_evaluator_run(evaluator, &err), SL_OK);
    assert_true(sl_evaluator_result(evaluator, graph->outputs[0].value)[0] == 0);
    sl_evaluator_destroy(evaluator);
    sl_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_matches_its_fixtures),
        cmocka_unit_test(derivatives_are_differences),
        cmocka_unit_test(bad_operands_are_refused),
        cmocka_unit_test(any_code_is_answered),
        cmocka_unit_test(halves_are_rounded_by_each_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
