/* recognise_attention_test.c - Attention is recognised in every spelling of its parts and means
 * what was spelled; what only looks like attention is left alone. */
#include "compiler/passes/pipeline.h"
#include "core/attention.h"
#include "tests/support/graph_case.h"

#define NUMBERS                                                                                    \
    "constant %c : f32[] = {0.3} constant %d : f32[] = {2} constant %zero : f32[] = {0} "          \
    "constant %low : f32[] = {-3.4028235e38} constant %none : f32[] = {-inf} "
#define OPERANDS NUMBERS "input %q : f32[2,4,3,8] input %k : f32[2,4,5,8] input %v : f32[2,4,5,6] "
#define SQUARE   NUMBERS "input %q : f32[2,4,4,8] input %k : f32[2,4,4,8] input %v : f32[2,4,4,6] "
/* Scores %s, and what is made of them. */
#define SCORES  "%t = transpose(%k) {perm = [0,1,3,2]} %r = matmul(%q, %t) %s = mul(%r, %c) "
#define WEIGHED "%p = softmax(%m) %o = matmul(%p, %v) output \"o\" = %o"
#define TRIANGLE                                                                                   \
    "constant %a : f32[1,1,4,4] = {0, -1e9, -1e9, -1e9, 0, 0, -1e9, -1e9, 0, 0, 0, -1e9, 0, 0, "   \
    "0, 0} "
#define LATER "constant %b : bool[4,4] = {0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0} "

/* Runs the pass; *report, unless NULL, gets its rows, in the arena. */
static uint32_t recognise(sl_graph *graph, sl_fusion_report *report) {
    sl_error err = {0};
    bool changed = false, pruned = false;
    const sl_compiler_options options = {.fusions = report};
    sl_pass_context context = {.options = &options};
    if (sl_pass_attention(graph, &context, &changed, &err) != SL_OK) fail_msg("%s", err.message);
    assert_int_equal(sl_pass_prune(graph, &context, &pruned, &err), SL_OK);
    if (sl_graph_verify(graph, &err) != SL_OK) fail_msg("%s", err.message);
    return graph->node_count;
}

static const sl_node *attention_of(const sl_graph *graph) {
    const sl_node *found = NULL;
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == SL_OP_attention) found = &graph->nodes[n];
    return found;
}

static const struct {
    const char *body;
    uint32_t mask, window, inputs;
    double scale, softcap;
} rows[] = {
    /* scales */
    {OPERANDS SCORES "%p = softmax(%s) %o = matmul(%p, %v) output \"o\" = %o", SL_MASK_NONE, 0, 3,
     0.3, 0},
    {OPERANDS "%t = transpose(%k) {perm = [0,1,3,2]} %x = mul(%c, %q) %y = div(%t, %d) "
              "%m = matmul(%x, %y) " WEIGHED,
     SL_MASK_NONE, 0, 3, 0.15, 0},
    {OPERANDS "%t = transpose(%k) {perm = [0,1,3,2]} %m = matmul(%q, %t) " WEIGHED, SL_MASK_NONE, 0,
     3, 1, 0},
    /* keys that come transposed, or with tokens before heads */
    {NUMBERS "input %q : f32[1,4,3,8] input %t : f32[1,4,8,5] input %v : f32[1,4,5,6] "
             "%r = matmul(%q, %t) %m = div(%r, %d) " WEIGHED,
     SL_MASK_NONE, 0, 3, 0.5, 0},
    {NUMBERS "input %q : f32[1,4,3,8] input %k : f32[1,5,4,8] input %v : f32[1,4,5,6] "
             "%t = transpose(%k) {perm = [0,2,3,1]} %r = matmul(%q, %t) %m = div(%r, %d) " WEIGHED,
     SL_MASK_NONE, 0, 3, 0.5, 0},
    /* soft caps */
    {OPERANDS SCORES "%x = div(%s, %d) %y = tanh(%x) %m = mul(%y, %d) " WEIGHED, SL_MASK_NONE, 0, 3,
     0.3, 2},
    {SQUARE TRIANGLE SCORES
     "%x = mul(%s, %c) %y = tanh(%x) %z = mul(%d, %y) %m = add(%z, %a) " WEIGHED,
     SL_MASK_CAUSAL, 0, 3, 0.18, 2},
    /* constant masks */
    {SQUARE TRIANGLE SCORES "%m = add(%s, %a) " WEIGHED, SL_MASK_CAUSAL, 0, 3, 0.3, 0},
    {SQUARE LATER SCORES "%m = where(%b, %none, %s) " WEIGHED, SL_MASK_CAUSAL, 0, 3, 0.3, 0},
    {SQUARE LATER SCORES "%m = where(%b, %low, %s) " WEIGHED, SL_MASK_CAUSAL, 0, 3, 0.3, 0},
    {OPERANDS "constant %b : bool[1,3,5] = {1,1,1,0,0, 1,1,1,1,0, 1,1,1,1,1} " SCORES
              "%m = where(%b, %s, %none) " WEIGHED,
     SL_MASK_CAUSAL, 0, 3, 0.3, 0},
    {OPERANDS "constant %b : bool[3,5] = {0,1,1,0,0, 0,0,1,1,0, 0,0,0,1,1} " SCORES
              "%m = where(%b, %s, %none) " WEIGHED,
     SL_MASK_SLIDING, 2, 3, 0.3, 0},
    {SQUARE "constant %a : f32[4,4] = {0,-inf,-inf,-inf, 0,0,-inf,-inf, -inf,0,0,-inf, "
            "-inf,-inf,0,0} " SCORES "%m = add(%a, %s) " WEIGHED,
     SL_MASK_SLIDING, 2, 3, 0.3, 0},
    {OPERANDS SCORES "%m = add(%s, %zero) " WEIGHED, SL_MASK_NONE, 0, 3, 0.3, 0},
    /* Not the op's triangle: from the top, with a gap, of one head. */
    {OPERANDS "constant %b : bool[3,5] = {1,0,0,0,0, 1,1,0,0,0, 1,1,1,0,0} " SCORES
              "%m = where(%b, %s, %none) " WEIGHED,
     SL_MASK_CUSTOM, 0, 4, 0.3, 0},
    {OPERANDS "constant %a : f32[3,5] = {0,-1e9,0,-1e9,-1e9, 0,0,0,0,-1e9, 0,0,0,0,0} " SCORES
              "%m = add(%s, %a) " WEIGHED,
     SL_MASK_BIAS, 0, 4, 0.3, 0},
    {OPERANDS "constant %a : f32[3,5] = {0,0,0,0.5,-1e9, 0,0,0,0,-1e9, 0,0,0,0,0} " SCORES
              "%m = add(%s, %a) " WEIGHED,
     SL_MASK_BIAS, 0, 4, 0.3, 0},
    /* masks that are operands */
    {OPERANDS "input %a : f32[2,1,1,5] " SCORES "%m = add(%s, %a) " WEIGHED, SL_MASK_BIAS, 0, 4,
     0.3, 0},
    {OPERANDS "input %b : bool[5] " SCORES "%x = where(%b, %s, %low) "
              "%p = softmax(%x) %o = matmul(%p, %v) output \"o\" = %o",
     SL_MASK_BIAS, 0, 4, 0.3, 0},
    /* The first position is always seen. */
    {OPERANDS "input %b : bool[2,1,3,4] constant %one : bool[2,1,3,1] = {1,1,1,1,1,1} "
              "%f = concat(%one, %b) {axis = 3} " SCORES "%m = where(%f, %s, %none) " WEIGHED,
     SL_MASK_CUSTOM, 0, 4, 0.3, 0},
    /* a triangle and an operand */
    {SQUARE LATER "input %e : f32[2,1,1,4] " SCORES
                  "%x = where(%b, %low, %s) %m = add(%x, %e) " WEIGHED,
     SL_MASK_BIAS, 0, 4, 0.3, 0},
    /* the guard against NaN */
    {SQUARE TRIANGLE SCORES "%m = add(%s, %a) %p = softmax(%m) {axis = 3} %i = is_nan(%p) "
                            "%w = where(%i, %zero, %p) %o = matmul(%w, %v) output \"o\" = %o",
     SL_MASK_CAUSAL, 0, 3, 0.3, 0},
    /* casts of f16 */
    {"input %q : f16[2,4,3,8] input %t : f16[2,4,8,5] input %v : f16[2,4,5,6] "
     "%r = matmul(%q, %t) %x = cast(%r) {to = f32} %p = softmax(%x) %y = cast(%p) {to = f16} "
     "%o = matmul(%y, %v) %z = cast(%o) {to = f32} output \"o\" = %z",
     SL_MASK_NONE, 0, 3, 1, 0},
    /* heads and batch as one dim, seen as two where the mask is added */
    {NUMBERS "input %q : f32[8,3,8] input %k : f32[8,5,8] input %v : f32[8,5,6] "
             "input %a : f32[2,1,3,5] %t = transpose(%k) {perm = [0,2,1]} %r = matmul(%q, %t) "
             "%x = reshape(%r) {shape = [2,4,3,5]} %y = add(%x, %a) "
             "%m = reshape(%y) {shape = [8,3,5]} " WEIGHED,
     SL_MASK_BIAS, 0, 4, 1, 0},
    {NUMBERS "input %q : f32[8,3,8] input %k : f32[8,5,8] input %v : f32[8,5,6] "
             "input %a : f32[8,3,5] %t = transpose(%k) {perm = [0,2,1]} %r = matmul(%q, %t) "
             "%m = add(%r, %a) " WEIGHED,
     SL_MASK_BIAS, 0, 4, 1, 0},
    /* heads that share keys and values */
    {NUMBERS "input %q : f32[2,6,3,8] input %k : f32[2,2,5,8] input %v : f32[2,2,5,4] "
             "%1 = reshape(%k) {shape = [2,2,1,5,8]} %2 = expand(%1) {shape = [2,2,3,5,8]} "
             "%3 = reshape(%2) {shape = [2,6,5,8]} %4 = reshape(%v) {shape = [2,2,1,5,4]} "
             "%5 = expand(%4) {shape = [2,2,3,5,4]} %6 = reshape(%5) {shape = [2,6,5,4]} "
             "%t = transpose(%3) {perm = [0,1,3,2]} %r = matmul(%q, %t) %m = mul(%r, %c) "
             "%p = softmax(%m) %o = matmul(%p, %6) output \"o\" = %o",
     SL_MASK_NONE, 0, 3, 0.3, 0},
};

static void spellings_are_known(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        graph_case spelled = graph_open(rows[i].body), known = graph_open(rows[i].body);
        (void)recognise(known.graph, NULL);
        const sl_node *node = attention_of(known.graph);
        if (!node) fail_msg("not recognised: %s", rows[i].body);
        for (uint32_t n = 0; n < known.graph->node_count; n++)
            assert_true(known.graph->nodes[n].op != SL_OP_softmax);
        const sl_attention_attrs *attrs = node->attrs;
        if (attrs->mask != rows[i].mask || attrs->window != rows[i].window ||
            node->input_count != rows[i].inputs)
            fail_msg("mask %u, window %u, %u operands: %s", attrs->mask, attrs->window,
                     node->input_count, rows[i].body);
        assert_true(fabs((double)attrs->scale - rows[i].scale) < 1e-6);
        assert_true((double)attrs->softcap == rows[i].softcap);
        /* What is spelled in f16 rounds each result to it. */
        graph_alike(&spelled, &known, strstr(rows[i].body, "f16") ? 0x1p-10 : 1e-6, rows[i].body);
        graph_close(&spelled);
        graph_close(&known);
    }
}

/* Keys and values of two heads are read by six query heads as they are. */
static void shared_heads_are_not_repeated(void **state) {
    (void)state;
    graph_case c = graph_open(rows[sizeof rows / sizeof rows[0] - 1].body);
    assert_int_equal(recognise(c.graph, NULL), 1);
    graph_close(&c);
}

static void others_stay(void **state) {
    (void)state;
    static const struct {
        const char *body, *why; /* NULL: it does not look like attention */
    } others[] = {
        /* softmax over the queries */
        {OPERANDS SCORES "%p = softmax(%s) {axis = 2} %o = matmul(%p, %v) output \"o\" = %o", NULL},
        /* matrices without heads */
        {NUMBERS "input %q : f32[4,8] input %k : f32[4,8] input %v : f32[4,8] "
                 "%t = transpose(%k) {perm = [1,0]} %m = matmul(%q, %t) " WEIGHED,
         NULL},
        /* another function of the scores */
        {OPERANDS SCORES "%m = exp(%s) " WEIGHED, NULL},
        /* a scale after the mask */
        {OPERANDS "input %a : f32[3,5] " SCORES "%x = add(%s, %a) %m = mul(%x, %d) " WEIGHED, NULL},
        /* queries of one batch entry, keys of two */
        {NUMBERS "input %q : f32[1,4,3,8] input %t : f32[2,4,8,5] input %v : f32[2,4,5,6] "
                 "%m = matmul(%q, %t) " WEIGHED,
         NULL},
        /* other floats than the operands */
        {"input %q : f32[2,4,3,8] input %t : f32[2,4,8,5] input %v : f16[2,4,5,6] "
         "%m = matmul(%q, %t) %p = softmax(%m) %y = cast(%p) {to = f16} %o = matmul(%y, %v) "
         "output \"o\" = %o",
         NULL},
        {OPERANDS SCORES "%p = softmax(%s) %o = matmul(%p, %v) output \"o\" = %o output \"p\" = %p",
         "its weights are used elsewhere too"},
        {OPERANDS SCORES "%p = softmax(%s) %o = matmul(%p, %v) %e = exp(%s) output \"o\" = %o "
                         "output \"p\" = %e",
         "its scores are used elsewhere too"},
        {OPERANDS "input %b : bool[3,5] constant %w : f32[] = {-100000000} " SCORES
                  "%m = where(%b, %s, %w) " WEIGHED,
         "its mask may hide all positions, and what it puts in is not minus infinity"},
        {OPERANDS "constant %b : bool[3,5] = {0,0,0,0,0, 1,1,1,1,0, 1,1,1,1,1} "
                  "constant %w : f32[] = {-100000} " SCORES "%m = where(%b, %s, %w) " WEIGHED,
         "its mask may hide all positions, and what it puts in is not minus infinity"},
        {OPERANDS "input %b : bool[3,5] constant %w : f32[] = {-5} " SCORES
                  "%m = where(%b, %s, %w) " WEIGHED,
         "its mask puts in a number that is not large"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        sl_arena arena;
        sl_arena_init(&arena, NULL);
        sl_fusion_report report = {.arena = &arena};
        graph_case c = graph_open(others[i].body);
        const uint32_t before = c.graph->node_count;
        if (recognise(c.graph, &report) != before) fail_msg("recognised: %s", others[i].body);
        const char *why = report.row_count ? report.rows[0].reason : NULL;
        if ((why == NULL) != (others[i].why == NULL) || (why && strcmp(why, others[i].why) != 0))
            fail_msg("%s: %s", why ? why : "no reason", others[i].body);
        graph_close(&c);
        sl_arena_deinit(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spellings_are_known),
        cmocka_unit_test(shared_heads_are_not_repeated),
        cmocka_unit_test(others_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
