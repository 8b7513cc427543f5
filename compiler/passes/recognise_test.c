/* recognise_test.c - Every row of idioms.def is recognised and means what it spells; what only
 * looks like one is left alone. */
#include "compiler/passes/pipeline.h"
#include "tests/support/graph_case.h"
#include <ctype.h>

static const struct {
    const char *spelling, *op;
} idioms[] = {
#define IDIOM(SPELLING, OP) {SPELLING, OP},
#include "compiler/passes/idioms.def"
};

enum { WORD_BYTES = 40 };

/* A spelling as the text of a graph. */
typedef struct {
    char values[2000], nodes[4000];
    int count;
} writer;

static void append(char *text, size_t room, const char *more) {
    const size_t used = strlen(text);
    assert_true((size_t)snprintf(text + used, room - used, "%s", more) < room - used);
}

/* Constants are named after what they are: numbers are for results. */
static void declare(writer *w, const char *word, char name[WORD_BYTES + 8]) {
    char line[200];
    const bool number = isdigit((unsigned char)word[0]), constant = number || word[0] == '$';
    const bool vector = strcmp(word, "gain") == 0 || strcmp(word, "bias") == 0;
    (void)snprintf(name, WORD_BYTES + 8, constant ? "%%\"is %s\"" : "%%%s", word);
    if (constant)
        (void)snprintf(line, sizeof line, "constant %s : f32[] = {%s}\n", name,
                       number ? word : "0.25");
    else
        (void)snprintf(line, sizeof line, "input %s : f32[%s]\n", name, vector ? "8" : "2,3,8");
    if (!strstr(w->values, line)) append(w->values, sizeof w->values, line);
}

/* Writes the next part of a spelling; operand: what others call its result. */
static void write_part(writer *w, const char **at, char operand[WORD_BYTES + 8]) {
    char word[WORD_BYTES], operands[200] = "";
    size_t n = 0;
    while (**at == ' ') (*at)++;
    while (isalnum((unsigned char)**at) || strchr("_$.", **at)) word[n++] = *(*at)++;
    word[n] = 0;
    if (**at != '(') {
        declare(w, word, operand);
        return;
    }
    do {
        char one[WORD_BYTES + 8];
        (*at)++;
        write_part(w, at, one);
        if (operands[0]) append(operands, sizeof operands, ", ");
        append(operands, sizeof operands, one);
    } while (**at == ',');
    (*at)++;
    const bool first = strcmp(word, "first") == 0, second = strcmp(word, "second") == 0;
    const char *attrs = strcmp(word, "reduce_mean") == 0 ? " {axes = [2], keep = 1}"
                        : first                          ? " {axis = 2, start = 0, length = 4}"
                        : second                         ? " {axis = 2, start = 4, length = 4}"
                                                         : "";
    (void)snprintf(w->nodes + strlen(w->nodes), sizeof w->nodes - strlen(w->nodes),
                   "%%%d = %s(%s)%s\n", w->count, first || second ? "slice" : word, operands,
                   attrs);
    (void)snprintf(operand, WORD_BYTES + 8, "%%%d", w->count++);
}

static char *text_of(const char *spelling) {
    static char text[8000];
    writer w = {0};
    char last[WORD_BYTES + 8];
    const char *at = spelling;
    write_part(&w, &at, last);
    (void)snprintf(text, sizeof text, "%s%s output \"o\" = %s", w.values, w.nodes, last);
    return text;
}

static uint32_t recognise(sl_graph *graph) {
    sl_error err = {0};
    bool changed = false, pruned = false;
    assert_int_equal(sl_pass_recognise(graph, NULL, &changed, &err), SL_OK);
    assert_int_equal(sl_pass_prune(graph, NULL, &pruned, &err), SL_OK);
    assert_int_equal(sl_graph_verify(graph, &err), SL_OK);
    return graph->node_count;
}

static void every_row(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof idioms / sizeof idioms[0]; i++) {
        graph_case spelled = graph_open(text_of(idioms[i].spelling));
        graph_case known = graph_open(text_of(idioms[i].spelling));
        if (recognise(known.graph) != 1) fail_msg("not recognised: %s", idioms[i].spelling);
        const sl_op_info *info = sl_op_info_of(known.graph->nodes[0].op);
        assert_memory_equal(info->name, idioms[i].op, strlen(info->name));
        graph_alike(&spelled, &known, 1e-6, idioms[i].spelling);
        graph_close(&spelled);
        graph_close(&known);
    }
}

/* Each of these has so many nodes after it. */
static void others_stay(void **state) {
    (void)state;
    static const struct {
        const char *body;
        uint32_t nodes;
    } rows[] = {
        /* another constant */
        {"input %x : f32[4] constant %h : f32[] = {0.6} constant %s : f32[] = {1.4142135} constant "
         "%one : f32[] = {1} "
         "%a = div(%x, %s) %b = erf(%a) %c = add(%b, %one) %d = mul(%x, %c) %e = mul(%d, %h) "
         "output "
         "\"o\" = %e",
         5},
        /* another value */
        {"input %x : f32[4] input %y : f32[4] %a = sigmoid(%y) %b = mul(%x, %a) output \"o\" = %b",
         2},
        /* a mean over another axis */
        {"input %x : f32[4,4] input %g : f32[4] constant %e : f32[] = {1e-6} %a = mul(%x, %x) "
         "%b = reduce_mean(%a) {axes = [0], keep = 1} %c = add(%b, %e) %d = rsqrt(%c) %f = mul(%x, "
         "%d) "
         "%h = mul(%f, %g) output \"o\" = %h",
         6},
        /* a gain of another shape: a norm without gain, and a product */
        {"input %x : f32[4,4] input %g : f32[4,4] constant %e : f32[] = {1e-6} %a = mul(%x, %x) "
         "%b = reduce_mean(%a) {axes = [1], keep = 1} %c = add(%b, %e) %d = rsqrt(%c) %f = mul(%x, "
         "%d) "
         "%h = mul(%f, %g) output \"o\" = %h",
         2},
        /* halves of different tensors, parts that are not halves, halves of another axis */
        {"input %x : f32[4,8] input %y : f32[4,8] %a = slice(%x) {axis = 1, start = 0, length = 4} "
         "%b = slice(%y) {axis = 1, start = 4, length = 4} %c = silu(%a) %d = mul(%c, %b) "
         "output \"o\" = %d",
         3},
        {"input %x : f32[4,9] %a = slice(%x) {axis = 1, start = 0, length = 4} "
         "%b = slice(%x) {axis = 1, start = 4, length = 4} %c = silu(%a) %d = mul(%c, %b) "
         "output \"o\" = %d",
         3},
        {"input %x : f32[8,4] %a, %b = split(%x) {axis = 0, sizes = [4, 4]} %c = silu(%a) "
         "%d = mul(%c, %b) output \"o\" = %d",
         2},
        /* a part that is needed itself stays beside the op */
        {"input %x : f32[4] %a = sigmoid(%x) %b = mul(%a, %x) output \"o\" = %b output \"p\" = %a",
         2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        graph_case c = graph_open(rows[i].body);
        const uint32_t nodes = recognise(c.graph);
        if (nodes != rows[i].nodes) fail_msg("row %zu: %u nodes", i, nodes);
        graph_close(&c);
    }
}

/* Halves by a split and by strided slices. */
static void halves_have_spellings(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "input %x : f32[3,8] %a, %b = split(%x) {axis = 1, sizes = [4, 4]} %c = silu(%b) "
        "%d = mul(%a, %c) output \"o\" = %d",
        "input %x : f16[3,8] %a = strided_slice(%x) {starts = [0, 0], ends = [3, 4], steps = [1, "
        "1]} "
        "%b = strided_slice(%x) {starts = [0, 4], ends = [3, 99], steps = [1, 1]} %c = sigmoid(%a) "
        "%d = mul(%a, %c) %e = mul(%d, %b) output \"o\" = %e",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        graph_case c = graph_open(bodies[i]);
        assert_int_equal(recognise(c.graph), 1);
        assert_int_equal(c.graph->nodes[0].op, SL_OP_fused_swiglu);
        const sl_fused_swiglu_attrs *attrs = c.graph->nodes[0].attrs;
        assert_int_equal(attrs->gate_first, i);
        graph_close(&c);
    }
}

static void a_bias_becomes_an_operand(void **state) {
    (void)state;
#define IMAGE "input %x : f32[2,3,5,6] input %w : f32[4,3,3,2] "
    static const struct {
        const char *body;
        uint32_t nodes;
    } bodies[] = {
        {IMAGE "input %b : f32[4,1,1] %1 = conv(%x, %w) {strides = [2, 1]} %2 = add(%1, %b) "
               "output \"o\" = %2",
         2},
        {IMAGE "input %b : f32[1,4,1,1] %1 = conv(%x, %w) {strides = [2, 1]} %2 = add(%b, %1) "
               "%3 = relu(%2) output \"o\" = %3",
         3},
        /* one per column; another number of channels; used without the bias, too; two of them */
        {IMAGE "input %b : f32[5] %1 = conv(%x, %w) %2 = add(%1, %b) output \"o\" = %2", 2},
        {IMAGE "input %b : f32[1,1] %1 = conv(%x, %w) %2 = add(%1, %b) output \"o\" = %2", 2},
        {IMAGE "input %b : f32[4,1,1] %1 = conv(%x, %w) %2 = add(%1, %b) output \"o\" = %2 "
               "output \"p\" = %1",
         2},
        {IMAGE "input %b : f32[4] input %c : f32[4,1,1] %1 = conv(%x, %w, %b) %2 = add(%1, %c) "
               "output \"o\" = %2",
         2},
    };
#undef IMAGE
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        graph_case spelled = graph_open(bodies[i].body), known = graph_open(bodies[i].body);
        assert_int_equal(recognise(known.graph), bodies[i].nodes);
        uint32_t operands = 0;
        for (uint32_t n = 0; n < known.graph->node_count; n++)
            if (known.graph->nodes[n].op == SL_OP_conv)
                operands = known.graph->nodes[n].input_count;
        assert_int_equal(operands, i < 2 || i == 5 ? 3 : 2);
        graph_alike(&spelled, &known, 1e-6, bodies[i].body);
        graph_close(&spelled);
        graph_close(&known);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(halves_have_spellings),
        cmocka_unit_test(a_bias_becomes_an_operand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
