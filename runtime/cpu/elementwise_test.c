/* elementwise_test.c - Kernels of elementwise ops of every type against the evaluator: fixtures,
 * and random operands of random shapes, with special values, under several divisions of the
 * items. */
#include "core/elementwise_region.h"
#include "core/program.h"
#include "runtime/arguments.h"
#include "runtime/cpu/kernel_set.h"
#include "tests/support/fixture_case.h"
#include <float.h>

static const char *const isas[] = {SL_ISA_NAMES};

static uint64_t seed = 0x9e3779b97f4a7c15;
static uint32_t next(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32);
}
static double uniform(double low, double high) {
    return low + (high - low) * (double)next() / 4294967296.0;
}

/* ---- running a kernel ---- */

typedef struct {
    sl_arena arena;
    sl_step step;
    void *args;
    void *out;
    uint64_t out_bytes;
} bound;

static bound bind_case(const fixture_case *c) {
    bound b = {.out_bytes = sl_type_bytes(&c->out.type)};
    sl_arena_init(&b.arena, NULL);
    sl_operand *operands = SL_ARENA_NEW_ARRAY(&b.arena, sl_operand, (size_t)c->in_count + 1);
    assert_non_null(operands);
    for (uint32_t i = 0; i < c->in_count; i++) operands[i].type = c->in[i].type;
    operands[c->in_count].type = c->out.type;
    b.step = (sl_step){.op = c->op,
                       .operands = operands,
                       .operand_count = c->in_count + 1,
                       .input_count = c->in_count,
                       .attrs = c->attrs};
    b.args = sl_arguments_create(&b.step, &b.arena);
    assert_non_null(b.args);
    for (uint32_t i = 0; i < c->in_count; i++) {
        const sl_type *type = &c->in[i].type;
        /* Allocated exactly, so that sanitizers detect overruns. */
        void *data = malloc(sl_type_bytes(type) + 1);
        assert_non_null(data);
        sl_encode_f64(type->dtype, c->in[i].data, sl_type_elements(type), data);
        sl_argument(&b.step, b.args, i)->data = data;
    }
    b.out = malloc(b.out_bytes + 1);
    sl_argument(&b.step, b.args, c->in_count)->data = b.out;
    return b;
}
static void bound_free(bound *b) {
    for (uint32_t i = 0; i < b->step.operand_count; i++)
        free(sl_argument(&b->step, b->args, i)->data);
    sl_arena_deinit(&b->arena);
}

/* Runs the items in ranges of `step`, forwards or backwards. */
static void run_items(const sl_kernel *kernel, const bound *b, int64_t step, bool backwards) {
    sl_error err = {0};
    const sl_split split = kernel->split(b->args);
    void *scratch = NULL;
    assert_int_equal(posix_memalign(&scratch, 64, split.scratch_bytes + !split.scratch_bytes), 0);
    sl_worker worker = {.scratch = scratch, .err = &err};
    memset(b->out, 0xa5, b->out_bytes);
    const int64_t ranges = (split.items + step - 1) / step;
    for (int64_t i = 0; i < ranges; i++) {
        const int64_t begin = (backwards ? ranges - 1 - i : i) * step;
        const int64_t end = begin + step < split.items ? begin + step : split.items;
        memset(scratch, 0xff, split.scratch_bytes);
        if (kernel->run(b->args, begin, end, &worker)) fail_msg("%s", err.message);
    }
    free(scratch);
}

/* ---- comparing ---- */

/* The error may be relative to the true value, or to `size` where terms cancel. */
static bool is_close(sl_dtype dtype, double found, double wanted, double size) {
    const double tops[] = {[SL_DTYPE_f32] = 3.4028235677973366e38,
                           [SL_DTYPE_f16] = 65520,
                           [SL_DTYPE_bf16] = 3.3961775292304957e38};
    double relative = 1e-12, least = 1e-300;
    if (isnan(wanted)) return isnan(found);
    if (dtype != SL_DTYPE_f64) {
        const double top = dtype == SL_DTYPE_c64 ? tops[SL_DTYPE_f32] : tops[dtype];
        relative = dtype == SL_DTYPE_f16 ? 0x1.02p-11 : dtype == SL_DTYPE_bf16 ? 0x1.02p-8 : 1e-6;
        least = dtype == SL_DTYPE_f16 ? 0x1.02p-25 : 1e-37;
        if (fabs(wanted) >= top * 0.999999)
            return fabs(found) >= top * 0.99 && (found > 0) == (wanted > 0);
    }
    if (isinf(wanted)) return found == wanted;
    return fabs(found - wanted) <= relative * fmax(size, fabs(wanted)) + least;
}

static void compare(const fixture_case *c, const char *isa, const bound *b) {
    const sl_type *type = &c->out.type;
    const int64_t slots = sl_type_slots(type);
    double *found = calloc((size_t)slots + 1, sizeof *found), largest = 0;
    assert_non_null(found);
    sl_decode_f64(type->dtype, b->out, sl_type_elements(type), found);
    for (int64_t i = 0; i < slots; i++)
        if (isfinite(c->out.data[i])) largest = fmax(largest, fabs(c->out.data[i]));
    const bool cancels = type->dtype == SL_DTYPE_c64 || c->op == SL_OP_activation_backward;
    const bool exact =
        sl_dtype_infos[type->dtype].kind == SL_KIND_INT || type->dtype == SL_DTYPE_bool;
    for (int64_t i = 0; i < slots; i++) {
        const bool same =
            exact ? sl_same_slot(&found[i], &c->out.data[i])
                  : is_close(type->dtype, found[i], c->out.data[i], cancels ? largest : 0);
        if (same) continue;
        char text[SL_TYPE_TEXT];
        const double x = c->in_count == 1 ? c->in[0].data[i] : NAN;
        fail_msg("%s of %s on %s: slot %lld is %.17g instead of %.17g (of %.9g)", c->info->name,
                 sl_type_format(&c->in[0].type, text, sizeof text), isa, (long long)i, found[i],
                 c->out.data[i], x);
    }
    free(found);
}

static void check_kernels(fixture_case *c) {
    if (case_evaluate(c) != SL_OK) fail_msg("%s", c->err.message);
    if (sl_type_elements(&c->out.type) == 0 || (c->info->traits & SL_OP_VIEW)) return;
    sl_type types[CASE_INPUTS];
    for (uint32_t i = 0; i < c->in_count; i++) types[i] = c->in[i].type;
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(isas[i]);
        if (!set) continue;
        const sl_kernel *kernel = sl_cpu_kernel_find(set, c->op, types);
        if (!kernel) {
            fail_msg("%s has no kernel", c->info->name);
            return;
        }
        bound whole = bind_case(c), parts = bind_case(c);
        run_items(kernel, &whole, INT32_MAX, false);
        compare(c, isas[i], &whole);
        for (int s = 0; s < 4; s++) {
            run_items(kernel, &parts, s < 2 ? 1 : 3, s % 2);
            if (memcmp(whole.out, parts.out, whole.out_bytes) != 0)
                fail_msg("%s on %s: another division of items gives other bits", c->info->name,
                         isas[i]);
        }
        bound_free(&whole);
        bound_free(&parts);
    }
}

static void check_fixture(fixture_case *c, size_t index) {
    (void)index;
    check_kernels(c);
}
static void kernels_match_fixtures(void **state) {
    (void)state;
    assert_true(for_each_case("tests/data/ops/elementwise.json", check_fixture) > 1000);
}

/* ---- random operands ---- */

/* Stores a value rounded to the type. */
static void set_slot(sl_dtype dtype, double value, double *slot) {
    uint64_t bytes = 0;
    if (sl_dtype_infos[dtype].kind == SL_KIND_FLOAT) {
        sl_encode_f64(dtype, &value, 1, &bytes);
        sl_decode_f64(dtype, &bytes, 1, slot);
    } else if (dtype == SL_DTYPE_c64) {
        *slot = (double)(float)value;
    } else {
        sl_slot_set_integer(dtype, slot, dtype == SL_DTYPE_bool ? value > 0 : (int64_t)value);
    }
}

static const double rare[] = {0.0,  -0.0, INFINITY, -INFINITY, NAN,    1,     -1,   0.5,
                              1e6,  -1e7, 1e30,     -3e38,     1e-30,  1e-39, 88.8, -104,
                              -0.7, 1.7,  2.5,      -3.5,      1e-4,   -1e-7, 20,   -20,
                              2,    -2,   3,        1e9,       -1e-20, 0.999, 1.001};
enum { RARE = sizeof rare / sizeof rare[0] };

static bool is_unsigned(sl_dtype dtype) {
    return sl_dtype_infos[dtype].name[0] == 'u';
}

/* Mostly in [low, high); if `odd`, every 16th is a special value. */
static void fill(fixture_case *c, uint32_t input, double low, double high, bool odd) {
    const sl_type *type = &c->in[input].type;
    const bool floats = sl_dtype_infos[type->dtype].kind == SL_KIND_FLOAT;
    if (is_unsigned(type->dtype) && low < 0) low = 0;
    for (int64_t i = 0; i < sl_type_slots(type); i++) {
        const bool special = odd && floats && next() % 16 == 0;
        set_slot(type->dtype, special ? rare[next() % RARE] : uniform(low, high),
                 c->in[input].data + i);
    }
}

/* A shape that broadcasts to `whole`: leading dims may be missing, others 1. */
static sl_dims part_of(const sl_dims *whole) {
    sl_dims shape = *whole;
    const uint32_t drop = next() % 3 == 0 ? next() % (shape.rank + 1) : 0;
    shape.rank -= drop;
    for (uint32_t d = 0; d < shape.rank; d++)
        shape.dims[d] = next() % 4 == 0 ? 1 : whole->dims[d + drop];
    return shape;
}

static sl_dims random_shape(void) {
    sl_dims shape = {.rank = next() % 5};
    const int64_t largest[] = {2000, 2000, 70, 14, 7};
    for (uint32_t d = 0; d < shape.rank; d++)
        shape.dims[d] = 1 + next() % (uint32_t)largest[shape.rank];
    if (next() % 8 == 0) shape = (sl_dims){8, {2, 1, 3, 2, 1, 3, 2, 5}};
    return shape;
}

typedef struct {
    const char *op, *attrs;
    unsigned classes; /* bit set: floats 1, integers 2, bool 4, c64 8 */
    double low, high;
    bool odd;
} domain;
enum { F = 1, I = 2, B = 4, C = 8 };

static const domain domains[] = {
    {"add", "", F | I | C, -9, 9, true},
    {"sub", "", F | I | C, -9, 9, true},
    {"mul", "", F | I | C, -90, 90, true},
    {"div", "", F | I | C, -9, 9, true},
    {"maximum", "", F | I, -9, 9, true},
    {"minimum", "", F | I, -9, 9, true},
    {"pow", "", F | I, -5, 5, true},
    {"pow", "", F, 0, 90, false},
    {"mod", "", F | I, -90, 90, true},
    {"mod", "truncate = 1", F | I, -90, 90, true},
    {"atan2", "", F, -3, 3, true},
    {"logical_and", "", B, -1, 1, false},
    {"logical_or", "", B, -1, 1, false},
    {"logical_xor", "", B, -1, 1, false},
    {"bitwise_and", "", I, -100, 100, false},
    {"bitwise_or", "", I, -100, 100, false},
    {"bitwise_xor", "", I, -100, 100, false},
    {"shift_left", "", I, -3, 70, false},
    {"shift_right", "", I, -3, 70, false},
    {"equal", "", F | I | B | C, -3, 3, true},
    {"not_equal", "", F | I | B | C, -3, 3, true},
    {"less", "", F | I, -3, 3, true},
    {"less_equal", "", F | I, -3, 3, true},
    {"greater", "", F | I, -3, 3, true},
    {"greater_equal", "", F | I, -3, 3, true},
    {"clamp", "", F | I, -3, 3, true},
    {"relu_backward", "", F, -3, 3, true},
    {"neg", "", F | I | C, -9, 9, true},
    {"abs", "", F | I, -9, 9, true},
    {"exp", "", F | C, -60, 60, true},
    {"log", "", F | C, 0, 50, true},
    {"sqrt", "", F | C, -1, 50, true},
    {"rsqrt", "", F, 0, 50, true},
    {"tanh", "", F, -6, 6, true},
    {"sigmoid", "", F, -30, 30, true},
    {"silu", "", F, -30, 30, true},
    {"gelu", "", F, -6, 6, true},
    {"gelu_approx", "", F, -6, 6, true},
    {"relu", "", F | I, -6, 6, true},
    {"sin", "", F, -100, 100, true},
    {"cos", "", F, -9e5, 9e5, true},
    {"tan", "", F, -20, 20, true},
    {"asin", "", F, -1, 1, true},
    {"acos", "", F, -1, 1, true},
    {"atan", "", F, -5, 5, true},
    {"sinh", "", F, -20, 20, true},
    {"cosh", "", F, -20, 20, true},
    {"asinh", "", F, -20, 20, true},
    {"acosh", "", F, 1, 20, true},
    {"atanh", "", F, -1, 1, true},
    {"round", "", F, -20, 20, true},
    {"floor", "", F, -20, 20, true},
    {"ceil", "", F, -20, 20, true},
    {"sign", "", F | I, -20, 20, true},
    {"erf", "", F, -5, 5, true},
    {"log1p", "", F, -1, 5, true},
    {"log1p", "", F, -0.001, 0.001, true},
    {"expm1", "", F, -5, 5, true},
    {"expm1", "", F, -0.001, 0.001, true},
    {"softplus", "", F, -30, 30, true},
    {"reciprocal", "", F, -5, 5, true},
    {"logical_not", "", B, -1, 1, false},
    {"bitwise_not", "", I, -100, 100, false},
    {"is_nan", "", F, -1, 1, true},
    {"is_inf", "which = 1", F, -1, 1, true},
    {"is_inf", "", F, -1, 1, true},
    {"conjugate", "", C, -1, 1, false},
    {"real", "", C, -1, 1, false},
    {"imag", "", C, -1, 1, false},
    {"complex_norm_sq", "", C, -1, 1, false},
    {"activation_backward", "kind = \"gelu\"", F, -14, 14, true},
    {"activation_backward", "kind = \"silu\"", F, -6, 6, true},
    {"activation_backward", "kind = \"gelu_approx\"", F, -6, 6, true},
    {"activation_backward", "kind = \"tanh\"", F, -6, 6, true},
    {"activation_backward", "kind = \"sigmoid\"", F, -6, 6, true},
    {"activation_backward", "kind = \"softplus\"", F, -6, 6, true},
    {"activation_backward", "kind = \"erf\"", F, -3, 3, false},
};

static const sl_dtype types_of[4][8] = {{SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_bf16, SL_DTYPE_f64},
                                        {SL_DTYPE_i8, SL_DTYPE_i16, SL_DTYPE_i32, SL_DTYPE_i64,
                                         SL_DTYPE_u8, SL_DTYPE_u16, SL_DTYPE_u32, SL_DTYPE_u64},
                                        {SL_DTYPE_bool},
                                        {SL_DTYPE_c64}};
static const int type_counts[4] = {4, 8, 1, 1};

static void check_domain(const domain *d, sl_dtype dtype) {
    fixture_case c;
    const sl_dims whole = random_shape();
    case_open(&c, d->op, d->attrs);
    for (uint32_t i = 0; i < c.info->input_count; i++) {
        case_add(&c, (sl_type){dtype, i == 0 && next() % 2 ? whole : part_of(&whole)});
        fill(&c, i, d->low, d->high, d->odd);
    }
    check_kernels(&c);
    case_close(&c);
}

static void kernels_match_their_meaning(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++)
        for (int class = 0; class < 4; class ++)
            for (int t = 0; t < type_counts[class] && (domains[i].classes >> class & 1); t++)
                for (int round = 0; round < 4; round++)
                    check_domain(&domains[i], types_of[class][t]);
}

static void choices_match(void **state) {
    (void)state;
    for (int round = 0; round < 120; round++) {
        fixture_case c;
        const int class = (int)(next() % 4);
        const sl_dtype dtype = types_of[class][next() % (uint32_t)type_counts[class]];
        const sl_dims whole = random_shape();
        case_open(&c, "where", "");
        for (uint32_t i = 0; i < 3; i++) {
            case_add(&c, (sl_type){i ? dtype : SL_DTYPE_bool, part_of(&whole)});
            fill(&c, i, -9, 9, true);
        }
        check_kernels(&c);
        case_close(&c);
    }
}

static const sl_dtype plain[] = {SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_bf16, SL_DTYPE_f64,
                                 SL_DTYPE_i8,  SL_DTYPE_i16, SL_DTYPE_i32,  SL_DTYPE_i64,
                                 SL_DTYPE_u8,  SL_DTYPE_u16, SL_DTYPE_u32,  SL_DTYPE_u64,
                                 SL_DTYPE_bool};
enum { PLAIN = sizeof plain / sizeof plain[0] };

static void casts_match(void **state) {
    (void)state;
    const double reach[] = {5, 300, 1e5, 1e10, 1e20};
    for (int from = 0; from < PLAIN; from++)
        for (int to = 0; to <= PLAIN; to++)
            for (int round = 0; round < 10; round++) {
                char attrs[64];
                fixture_case c;
                (void)snprintf(attrs, sizeof attrs, "to = %s, saturate = %d",
                               to < PLAIN ? sl_dtype_infos[plain[to]].name : "c64", round % 2);
                case_open(&c, "cast", attrs);
                case_add(&c, sl_type_make(plain[from], 1, (int64_t)(1 + next() % 700)));
                const bool small = sl_dtype_infos[plain[from]].bytes < 4;
                const double far = reach[small ? round / 2 % 2 : round / 2];
                const bool integer = sl_dtype_infos[plain[from]].kind == SL_KIND_INT;
                const double most = integer && far > 1e9 ? 2e9 : integer && small ? 100 : far;
                fill(&c, 0, -most, most, true);
                check_kernels(&c);
                case_close(&c);
            }
}

/* ---- regions ---- */

/* A float step on registers below `registers`. */
static void random_step(int64_t *numbers, uint32_t registers) {
    static const int ops[] = {SL_STEP_add,  SL_STEP_sub,     SL_STEP_mul,     SL_STEP_maximum,
                              SL_STEP_tanh, SL_STEP_sigmoid, SL_STEP_minimum, SL_STEP_sin,
                              SL_STEP_neg,  SL_STEP_erf,     SL_STEP_clamp,   SL_STEP_softplus};
    assert_true(registers > 0);
    memset(numbers, 0, SL_ELEMENTWISE_STEP_NUMBERS * sizeof *numbers);
    numbers[0] = ops[next() % (sizeof ops / sizeof ops[0])];
    const bool three = numbers[0] == SL_STEP_clamp;
    const bool two = three || numbers[0] <= SL_STEP_minimum;
    numbers[1] = registers - 1; /* uses the previous result, so that no step is dead */
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
    if (two) numbers[2] = next() % registers;
    if (three) numbers[3] = next() % registers;
}

static void check_region(sl_dtype dtype, bool prologue) {
    fixture_case c;
    int64_t numbers[20 * SL_ELEMENTWISE_STEP_NUMBERS];
    const uint32_t inputs = 1 + next() % 9, steps = 1 + next() % 20;
    sl_dims whole = random_shape();
    if (prologue)
        whole = (sl_dims){4, {2, 1 + next() % 3, 2 * (1 + next() % 9), 2 * (1 + next() % 40)}};
    case_open(&c, "elementwise_region", "code = []");
    for (uint32_t i = 0; i < inputs; i++) {
        sl_dims shape = i + 1 == inputs ? whole : part_of(&whole);
        if (prologue && i == 0) {
            shape = whole;
            shape.dims[2] /= 2, shape.dims[3] /= 2;
        }
        case_add(&c, (sl_type){dtype, shape});
        fill(&c, i, -2, 2, false);
    }
    for (uint32_t s = 0; s < steps; s++)
        random_step(numbers + (size_t)s * SL_ELEMENTWISE_STEP_NUMBERS, inputs + s);
    sl_elementwise_region_attrs *attrs = (void *)c.attrs;
    attrs->code = (sl_integers){steps * SL_ELEMENTWISE_STEP_NUMBERS, numbers};
    attrs->prologue = prologue;
    /* In f64, where rounding errors do not accumulate; the other types are compared bit by bit
     * below. */
    check_kernels(&c);
    case_close(&c);
}

static void regions_match(void **state) {
    (void)state;
    for (int round = 0; round < 150; round++) check_region(SL_DTYPE_f64, round % 4 == 0);
}

/* A region gives the same bits as its steps run one kernel after another. */
static void *run_alone(const char *isa, fixture_case *c) {
    sl_type types[CASE_INPUTS];
    if (case_evaluate(c) != SL_OK) fail_msg("%s", c->err.message);
    for (uint32_t i = 0; i < c->in_count; i++) types[i] = c->in[i].type;
    const sl_kernel *kernel = sl_cpu_kernel_find(sl_cpu_kernel_set(isa), c->op, types);
    assert_non_null(kernel);
    bound b = bind_case(c);
    run_items(kernel, &b, INT32_MAX, false);
    void *out = malloc(b.out_bytes + 1);
    assert_non_null(out);
    memcpy(out, b.out, b.out_bytes);
    bound_free(&b);
    return out;
}

/* Functions that map 0 to 0 keep its sign. */
static void zeros_keep_their_sign(void **state) {
    (void)state;
    static const char *const ops[] = {
        "sin",   "tan",   "asin",  "atan", "sinh", "asinh", "atanh", "tanh", "erf",        "log1p",
        "expm1", "round", "floor", "ceil", "sqrt", "neg",   "silu",  "gelu", "gelu_approx"};
    static const sl_dtype dtypes[] = {SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_f64};
    for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
        for (size_t t = 0; t < 3; t++)
            for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
                fixture_case c;
                double found[20];
                if (!sl_cpu_kernel_set(isas[i])) continue;
                case_open(&c, ops[o], "");
                case_add(&c, sl_type_make(dtypes[t], 1, (int64_t)20));
                for (int j = 0; j < 20; j++) c.in[0].data[j] = j % 3 ? -0.0 : 0.0;
                void *out = run_alone(isas[i], &c);
                sl_decode_f64(dtypes[t], out, 20, found);
                for (int j = 0; j < 20; j++)
                    if (signbit(found[j]) != signbit(c.out.data[j]))
                        fail_msg("%s of %s on %s: %g instead of %g", ops[o],
                                 sl_dtype_infos[dtypes[t]].name, isas[i], found[j], c.out.data[j]);
                free(out);
                case_close(&c);
            }
}

/* Runs one step on the registers' tensors; its result, rounded to the type, becomes a new
 * register. */
static void step_alone(const char *isa, const int64_t *numbers, fixture_case *registers) {
    const sl_integers code = {SL_ELEMENTWISE_STEP_NUMBERS, numbers};
    const sl_elementwise_step step = sl_elementwise_decode(&code, 0, registers->in_count);
    fixture_case one;
    case_open(&one, sl_op_info_of(step.op)->name, step.op == SL_OP_cast ? "to = f32" : "");
    sl_elementwise_attrs(&step, one.attrs);
    for (uint32_t o = 0; o < step.operands; o++) {
        const sl_eval_tensor *from = &registers->in[step.registers[o]];
        case_add(&one, from->type);
        memcpy(one.in[o].data, from->data, (size_t)sl_type_slots(&from->type) * sizeof *from->data);
    }
    void *out = run_alone(isa, &one);
    case_add(registers, one.out.type);
    sl_decode_f64(one.out.type.dtype, out, sl_type_elements(&one.out.type),
                  registers->in[registers->in_count - 1].data);
    free(out);
    case_close(&one);
}

/* where(x < y, silu(x * y) as f16 and back, y) + x */
static const int64_t mixed[] = {SL_STEP_less, 0, 1, 0, 0, SL_STEP_mul,   0, 1, 0, 0,
                                SL_STEP_silu, 3, 0, 0, 0, SL_STEP_cast,  4, 0, 0, 2,
                                SL_STEP_cast, 5, 0, 0, 0, SL_STEP_where, 2, 6, 1, 0,
                                SL_STEP_add,  7, 0, 0, 0};
enum { MIXED = sizeof mixed / sizeof mixed[0] };

static void check_bits(const char *isa, sl_dtype dtype, bool is_mixed) {
    int64_t numbers[20 * SL_ELEMENTWISE_STEP_NUMBERS];
    uint32_t count = 1 + next() % 20;
    const sl_dims whole = random_shape();
    fixture_case c, registers;
    case_open(&c, "elementwise_region", "code = []");
    case_open(&registers, "neg", "");
    for (uint32_t i = 0; i < 2; i++) {
        case_add(&c, (sl_type){dtype, i ? whole : part_of(&whole)});
        fill(&c, i, -2, 2, false);
        case_add(&registers, c.in[i].type);
        registers.in[i] = c.in[i];
    }
    for (uint32_t s = 0; s < count; s++)
        random_step(numbers + (size_t)s * SL_ELEMENTWISE_STEP_NUMBERS, 2 + s);
    if (is_mixed) memcpy(numbers, mixed, sizeof mixed), count = MIXED / SL_ELEMENTWISE_STEP_NUMBERS;
    for (uint32_t s = 0; s < count; s++)
        step_alone(isa, numbers + (size_t)s * SL_ELEMENTWISE_STEP_NUMBERS, &registers);
    sl_elementwise_region_attrs *attrs = (void *)c.attrs;
    attrs->code = (sl_integers){count * SL_ELEMENTWISE_STEP_NUMBERS, numbers};
    void *out = run_alone(isa, &c);
    double *found = case_slots(&c, sl_type_slots(&c.out.type));
    sl_decode_f64(c.out.type.dtype, out, sl_type_elements(&c.out.type), found);
    assert_memory_equal(found, registers.in[registers.in_count - 1].data,
                        (size_t)sl_type_slots(&c.out.type) * sizeof *found);
    free(out);
    case_close(&c);
    case_close(&registers);
}

/* A derivative of 0 gives 0 even if dy is infinite. */
static void slopes_at_infinity(void **state) {
    (void)state;
    static const char *const kinds[] = {"tanh", "sigmoid", "softplus", "silu", "gelu"};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        char attrs[64];
        fixture_case c;
        (void)snprintf(attrs, sizeof attrs, "kind = \"%s\"", kinds[k]);
        case_open(&c, "activation_backward", attrs);
        for (uint32_t i = 0; i < 2; i++) case_add(&c, sl_type_make(SL_DTYPE_f32, 1, INT64_C(8)));
        for (int i = 0; i < 8; i++) {
            c.in[0].data[i] = i % 2 ? INFINITY : -INFINITY;
            c.in[1].data[i] = i < 2 ? 2 : i < 4 ? INFINITY : i < 6 ? -INFINITY : 0;
        }
        check_kernels(&c);
        case_close(&c);
    }
}

static void regions_have_the_bits_of_their_steps(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++)
        for (int round = 0; sl_cpu_kernel_set(isas[i]) && round < 60; round++)
            check_bits(isas[i], types_of[0][round % 3], round % 3 == 0 && round % 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_match_fixtures),
        cmocka_unit_test(kernels_match_their_meaning),
        cmocka_unit_test(choices_match),
        cmocka_unit_test(casts_match),
        cmocka_unit_test(regions_match),
        cmocka_unit_test(zeros_keep_their_sign),
        cmocka_unit_test(slopes_at_infinity),
        cmocka_unit_test(regions_have_the_bits_of_their_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
