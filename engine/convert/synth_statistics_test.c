/* synth_statistics_test.c - What goes through a deep synthetic model: the residual stream neither
 * vanishes nor explodes, routing is spread but not blind, logits differ. */
#include "tests/support/folder.h"

#include "compiler/eval.h"
#include "engine/session/model.h"
#include <math.h>

enum { LAYERS = 40, EXPERTS = 32, USED = 4, HIDDEN = 128, ROWS = 12, VOCAB = 200 };

static const char config[] =
    "{\"model_type\": \"qwen3_5_moe\", \"vocab_size\": 200, \"hidden_size\": 128,"
    " \"num_hidden_layers\": 40, \"full_attention_interval\": 4, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"head_dim\": 32, \"linear_num_key_heads\": 2,"
    " \"linear_num_value_heads\": 4, \"linear_key_head_dim\": 32, \"linear_value_head_dim\": 32,"
    " \"num_experts\": 32, \"num_experts_per_tok\": 4, \"moe_intermediate_size\": 64,"
    " \"shared_expert_intermediate_size\": 64, \"tie_word_embeddings\": false}";

static sl_error err;
static int32_t tokens[ROWS], slots[ROWS], positions[ROWS], pages[ROWS]; /* one page */

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static sl_model *make_model(void) {
    sl_model *model;
    const sl_synth_options options = {.struct_size = sizeof options};
    const sl_model_options open = {
        .struct_size = sizeof open, .device = "ref", .context_tokens = 2 * ROWS};
    write_test_file("config.json", config, sizeof config - 1);
    must(sl_synth_write(test_path("config.json"), test_path("m.sluice"), &options, &err));
    must(sl_model_open(test_path("m.sluice"), &open, &model, &err));
    return model;
}

/* The step of ROWS tokens as the model means it, with every value to look at. */
typedef struct {
    sl_graph *graph;
    sl_evaluator *evaluator;
    double **states;
} deep_step;

static void *memory_of_input(uint32_t tag) {
    if (tag == SL_FORWARD_INPUT_TOKENS) return tokens;
    if (tag == SL_FORWARD_INPUT_PAGES) return pages;
    return tag == SL_FORWARD_INPUT_SLOTS ? slots : positions;
}

static void bind(deep_step *s, const sl_forward_options *given, uint32_t v) {
    const sl_value_info *info = &s->graph->values[v];
    const sl_value value = {v};
    if (info->kind == SL_VALUE_EXPERTS) {
        must(sl_evaluator_bind_experts(s->evaluator, value, given->experts_source, &err));
    } else if (info->kind == SL_VALUE_STATE) {
        s->states[v] = calloc((size_t)sl_type_elements(&info->type), sizeof(double));
        assert_non_null(s->states[v]);
        must(sl_evaluator_bind_state(s->evaluator, value, s->states[v], &err));
    } else if (info->kind == SL_VALUE_WEIGHT) {
        const sl_weight *weight = sl_weights_find(given->shape.weights, info->name);
        assert_non_null(weight);
        must(sl_evaluator_bind(s->evaluator, value, weight->data, &err));
    } else if (info->kind == SL_VALUE_INPUT) {
        must(sl_evaluator_bind(s->evaluator, value, memory_of_input(info->tag), &err));
    }
}

static deep_step run_step(sl_model *model) {
    const sl_forward_options *given = sl_forward_options_of(model->forward);
    sl_forward_shape shape = given->shape;
    deep_step s = {0};
    shape.rows = shape.wanted = ROWS;
    for (int i = 0; i < ROWS; i++) {
        tokens[i] = i * 17 % VOCAB;
        positions[i] = i;
    }
    must(sl_graph_create("deep", NULL, &s.graph, &err));
    must(sl_architecture_build(given->architecture, &shape, s.graph, &err));
    must(sl_evaluator_create(s.graph, NULL, &s.evaluator, &err));
    s.states = calloc(s.graph->value_count + 1, sizeof *s.states);
    assert_non_null(s.states);
    for (uint32_t v = 1; v <= s.graph->value_count; v++) bind(&s, given, v);
    must(sl_evaluator_run(s.evaluator, &err));
    return s;
}

static void end_step(deep_step *s) {
    for (uint32_t v = 1; v <= s->graph->value_count; v++) free(s->states[v]);
    free(s->states);
    sl_evaluator_destroy(s->evaluator);
    sl_graph_destroy(s->graph);
}

static double rms(const double *x, int64_t count) {
    double squares = 0;
    for (int64_t i = 0; i < count; i++) squares += x[i] * x[i];
    return sqrt(squares / (double)count);
}

/* The sums that are the residual stream, two in each layer. */
static void check_residual(const deep_step *s) {
    int seen = 0;
    double last = 0;
    for (uint32_t n = 0; n < s->graph->node_count; n++) {
        const sl_node *node = &s->graph->nodes[n];
        if (node->op != SL_OP_add) continue;
        const sl_value out = node->outputs[0];
        const sl_type *type = &s->graph->values[out.v].type;
        if (type->shape.rank != 2 || type->shape.dims[1] != HIDDEN) continue;
        const double size = rms(sl_evaluator_result(s->evaluator, out), (int64_t)ROWS * HIDDEN);
        assert_true(size > 0.03 && size < 3);
        if (seen) assert_true(size < 2.5 * last && size > 0.8 * last);
        last = size;
        seen++;
    }
    assert_int_equal(seen, 2 * LAYERS);
    assert_true(last > 0.3);
}

/* Entropy of a row's softmax as a share of the most there could be. */
static double evenness(const double *logits, int64_t count) {
    double most = logits[0], sum = 0, entropy = 0;
    for (int64_t i = 1; i < count; i++) most = fmax(most, logits[i]);
    for (int64_t i = 0; i < count; i++) sum += exp(logits[i] - most);
    for (int64_t i = 0; i < count; i++) {
        const double p = exp(logits[i] - most) / sum;
        entropy -= p * log(p);
    }
    return entropy / log((double)count);
}

static void check_routing(const deep_step *s) {
    int layers = 0, used_overall = 0;
    for (uint32_t n = 0; n < s->graph->node_count; n++) {
        const sl_node *node = &s->graph->nodes[n];
        if (node->op != SL_OP_route) continue;
        const double *logits = sl_evaluator_result(s->evaluator, node->inputs[0]);
        const double *chosen = sl_evaluator_result(s->evaluator, node->outputs[0]);
        bool used[EXPERTS] = {0};
        double mean = 0;
        for (int r = 0; r < ROWS; r++) mean += evenness(logits + r * EXPERTS, EXPERTS) / ROWS;
        assert_true(mean > 0.75 && mean < 0.99);
        for (int i = 0; i < ROWS * USED; i++) used[(int)chosen[i]] = true;
        for (int e = 0; e < EXPERTS; e++) used_overall += used[e];
        layers++;
    }
    assert_int_equal(layers, LAYERS);
    /* Blind uniform choice would use 80 % of the experts, a constant one an eighth. */
    assert_true(used_overall > LAYERS * EXPERTS / 2);
}

static void check_logits(const deep_step *s) {
    const double *logits =
        sl_evaluator_result(s->evaluator, s->graph->outputs[SL_FORWARD_LOGITS].value);
    double difference[VOCAB];
    for (int r = 0; r < ROWS; r++) {
        const double size = rms(logits + (size_t)r * VOCAB, VOCAB);
        assert_true(size > 0.3 && size < 3); /* neither flat nor infinite; NaN is neither */
    }
    for (int i = 0; i < VOCAB; i++) difference[i] = logits[i] - logits[VOCAB + i];
    assert_true(rms(difference, VOCAB) > 0.1);
}

static void test_deep_model(void **state) {
    (void)state;
    sl_model *model = make_model();
    deep_step s = run_step(model);
    check_residual(&s);
    check_routing(&s);
    check_logits(&s);
    end_step(&s);
    sl_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_deep_model, empty_test_folder),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
