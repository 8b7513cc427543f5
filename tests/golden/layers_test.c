/* layers_test.c - What layers compute, as it is written down: against the hidden states of
 * transformers, the logits and final hidden states of ordinary calls, the evaluator, and the
 * emulated CUDA device. */
#include "sluice/inspect.h"
#include "sluice/tensors.h"
#include "tests/support/shared.h"
#include <dlfcn.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TOKENS = 90, LAST = 8, MOST = 128, SHORT = 6 };
static sl_error err;

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

/* Values of layers of a whole prompt, collected from its forward passes. */
typedef struct {
    char name[48], dtype[8];
    uint32_t rows, columns;
    float *data; /* or int32_t */
} value;
typedef struct {
    value values[MOST];
    uint32_t count, calls;
    float *logits, *hidden;
    sl_model_info info;
} found;

static sl_status add(void *ctx, const sl_layer_item *item, sl_error *why) {
    found *f = ctx;
    uint32_t i = 0;
    (void)why;
    while (i < f->count && strcmp(f->values[i].name, item->name) != 0) i++;
    value *v = &f->values[i];
    if (i == f->count) {
        assert_true(f->count++ < MOST);
        (void)snprintf(v->name, sizeof v->name, "%s", item->name);
        (void)snprintf(v->dtype, sizeof v->dtype, "%s", item->dtype);
        v->columns = item->columns;
        v->data = calloc((size_t)TOKENS * item->columns, sizeof *v->data);
    }
    assert_int_equal(item->columns, v->columns);
    assert_int_equal(item->first_token, v->rows); /* each row once, in order */
    memcpy(v->data + item->first_token * item->columns, item->data,
           (size_t)item->rows * item->columns * sizeof *v->data);
    v->rows += item->rows;
    f->calls++;
    return SL_OK;
}

static found *collect(const char *path, const char *device, const sl_token *tokens, size_t count,
                      uint32_t chunk) {
    found *f = calloc(1, sizeof *f);
    sl_model *model = NULL;
    sl_session *session = NULL;
    const sl_model_options options = {.struct_size = sizeof options, .device = device};
    const sl_session_options how = {.struct_size = sizeof how, .chunk_tokens = chunk};
    must(sl_model_open(path, &options, &model, &err));
    f->info.struct_size = sizeof f->info;
    must(sl_model_describe(model, &f->info, &err));
    f->logits = calloc(count * f->info.vocab, sizeof(float));
    f->hidden = calloc(count * f->info.hidden, sizeof(float));
    must(sl_session_create(model, &how, &session, &err));
    const sl_layer_options layers = {.struct_size = sizeof layers,
                                     .layers = add,
                                     .ctx = f,
                                     .logits = f->logits,
                                     .hidden = f->hidden};
    must(sl_session_extend_layers(session, tokens, count, &layers, &err));
    sl_session_destroy(session);
    sl_model_close(model);
    for (uint32_t i = 0; i < f->count; i++) assert_int_equal(f->values[i].rows, count);
    return f;
}

static void discard(found *f) {
    for (uint32_t i = 0; i < f->count; i++) free(f->values[i].data);
    free(f->logits);
    free(f->hidden);
    free(f);
}

static const value *find(const found *f, uint32_t layer, const char *what) {
    char name[48];
    (void)snprintf(name, sizeof name, "layers.%u.%s", layer, what);
    for (uint32_t i = 0; i < f->count; i++)
        if (strcmp(f->values[i].name, name) == 0) return &f->values[i];
    return NULL;
}

static void check_near(const char *what, const float *a, const float *b, size_t count,
                       double bound) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        difference += pow((double)a[i] - (double)b[i], 2);
        size += pow((double)b[i], 2);
    }
    const double error = sqrt(difference / size);
    if (!(error <= bound)) fail_msg("%s: relative error %.3g, at most %.3g", what, error, bound);
}

static void check_routes(const found *f, uint32_t layer) {
    const value *experts = find(f, layer, "experts"), *weights = find(f, layer, "expert_weights");
    assert_true(!experts == !weights);
    if (!experts || !weights) return;
    assert_string_equal(experts->dtype, "i32");
    assert_int_equal(experts->columns, f->info.experts_used);
    assert_int_equal(weights->columns, f->info.experts_used);
    for (uint32_t r = 0; r < experts->rows; r++)
        for (uint32_t k = 0; k < experts->columns; k++) {
            const int32_t *row = (const int32_t *)experts->data + (size_t)r * experts->columns;
            assert_in_range(row[k], 0, f->info.experts - 1);
            for (uint32_t other = 0; other < k; other++) assert_true(row[other] != row[k]);
            assert_true(weights->data[(size_t)r * experts->columns + k] > 0);
        }
}

/* ---- the final norm, from the checkpoint ---- */

typedef struct {
    const char *name;
    bool stored_minus_one; /* the gain of its last norm */
} family;
static const family families[] = {
    {"qwen3_5_moe_a", true}, {"qwen3_next", true},   {"qwen3_moe", false},
    {"qwen3", false},        {"mixtral", false},     {"olmoe", false},
    {"glm4_moe", false},     {"deepseek_v3", false}, {"gpt_oss", false},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

static double eps_of(const char *folder) {
    char path[600];
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    json_t *config = json_load_file(path, 0, NULL);
    json_t *text = json_object_get(config, "text_config");
    const json_t *eps = json_object_get(text ? text : config, "rms_norm_eps");
    assert_non_null(eps);
    const double result = json_number_value(eps);
    json_decref(config);
    return result;
}

/* The last layer's output, normed here, is what `logits --hidden` writes. */
static void check_last(const found *f, const char *folder, const family *of) {
    char path[600];
    sl_tensors *weights = NULL;
    const uint32_t width = f->info.hidden;
    const value *last = find(f, f->info.layers - 1, "output");
    const double eps = eps_of(folder);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
    must(sl_tensors_open(path, &weights, &err));
    sl_tensor_item gain;
    sl_status status = sl_tensors_find(weights, "model.norm.weight", &gain, &err);
    if (status != SL_OK)
        must(sl_tensors_find(weights, "model.language_model.norm.weight", &gain, &err));
    assert_string_equal(gain.dtype, "bf16");
    float *normed = calloc((size_t)TOKENS * width, sizeof *normed);
    for (uint32_t r = 0; r < TOKENS; r++) {
        const float *row = last->data + (size_t)r * width;
        double sum = 0;
        for (uint32_t c = 0; c < width; c++) sum += (double)row[c] * (double)row[c];
        const double scale = 1 / sqrt(sum / width + eps);
        for (uint32_t c = 0; c < width; c++) {
            const uint32_t bits = (uint32_t)((const uint16_t *)gain.data)[c] << 16;
            float g;
            memcpy(&g, &bits, sizeof g);
            normed[(size_t)r * width + c] =
                (float)((double)row[c] * scale * ((double)g + (of->stored_minus_one ? 1 : 0)));
        }
    }
    check_near("the norm of the last layer", normed, f->hidden, (size_t)TOKENS * width, 1e-6);
    free(normed);
    sl_tensors_close(weights);
}

/* ---- tests ---- */

static void check_plain(const char *path, const found *f, const sl_token *tokens, size_t count,
                        uint32_t chunk) {
    sl_model *model = NULL;
    sl_session *session = NULL;
    const sl_model_options options = {.struct_size = sizeof options, .device = "cpu"};
    const sl_session_options how = {.struct_size = sizeof how, .chunk_tokens = chunk};
    float *logits = calloc(count * f->info.vocab, sizeof *logits);
    float *hidden = calloc(count * f->info.hidden, sizeof *hidden);
    must(sl_model_open(path, &options, &model, &err));
    must(sl_session_create(model, &how, &session, &err));
    must(sl_session_extend_all(session, tokens, count, logits, hidden, &err));
    assert_memory_equal(logits, f->logits, count * f->info.vocab * sizeof *logits);
    assert_memory_equal(hidden, f->hidden, count * f->info.hidden * sizeof *hidden);
    sl_session_destroy(session);
    sl_model_close(model);
    free(logits);
    free(hidden);
}

static void check_reference(const found *f, sl_tensors *reference) {
    const size_t width = f->info.hidden;
    for (uint32_t layer = 0; layer < f->info.layers; layer++) {
        char name[32];
        sl_tensor_item wanted;
        const value *input = find(f, layer, "input"), *output = find(f, layer, "output");
        const value *mixed = find(f, layer, "after_attention");
        assert_true(input && mixed && output && input->columns == width);
        (void)snprintf(name, sizeof name, "hidden.%u", layer);
        must(sl_tensors_find(reference, name, &wanted, &err));
        check_near(name, input->data + (TOKENS - LAST) * width, wanted.data, LAST * width, 2e-5);
        if (layer + 1 < f->info.layers)
            assert_memory_equal(output->data, find(f, layer + 1, "input")->data,
                                TOKENS * width * sizeof(float));
        assert_memory_not_equal(input->data, mixed->data, TOKENS * width * sizeof(float));
        assert_memory_not_equal(mixed->data, output->data, TOKENS * width * sizeof(float));
        check_routes(f, layer);
    }
}

static void goldens_have_the_layers_of_the_reference(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        char name[64], path[512], file[600];
        sl_tensors *reference = NULL;
        sl_tensor_item tokens;
        (void)snprintf(name, sizeof name, "models/golden/%s", families[i].name);
        if (!shared_path(name, path, sizeof path)) skip();
        print_message("  %s\n", families[i].name);
        (void)snprintf(file, sizeof file, "%s/reference.safetensors", path);
        must(sl_tensors_open(file, &reference, &err));
        must(sl_tensors_find(reference, "tokens", &tokens, &err));
        assert_int_equal(tokens.dims[0], TOKENS);
        found *f = collect(path, "cpu", tokens.data, TOKENS, 32);
        check_reference(f, reference);
        check_last(f, path, &families[i]);
        check_plain(path, f, tokens.data, TOKENS, 32);
        discard(f);
        sl_tensors_close(reference);
    }
}

static void check_alike(const found *a, const found *b, double bound) {
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        const value *x = &a->values[i], *y = &b->values[i];
        const size_t count = (size_t)x->rows * x->columns;
        assert_string_equal(x->name, y->name);
        assert_string_equal(x->dtype, y->dtype);
        if (strcmp(x->dtype, "i32") == 0)
            assert_memory_equal(x->data, y->data, count * sizeof(int32_t));
        else
            check_near(x->name, x->data, y->data, count, bound);
    }
}

static void devices_agree(void **state) {
    (void)state;
    static const sl_token tokens[SHORT] = {3, 141, 59, 26, 53, 58};
    const char *driver = getenv("SLUICE_CUDA_EMULATOR");
    char path[512];
    if (!shared_path("models/golden/qwen3_5_moe_a", path, sizeof path)) skip();
    found *cpu = collect(path, "cpu", tokens, SHORT, 4);
    found *ref = collect(path, "ref", tokens, SHORT, 4);
    check_alike(cpu, ref, 2e-5);
    if (driver && dlopen(driver, RTLD_NOW | RTLD_GLOBAL)) {
        found *cuda = collect(path, "cuda", tokens, SHORT, 4);
        check_alike(cuda, ref, 2e-4);
        discard(cuda);
    } else {
        print_message("no emulated driver was built\n");
    }
    discard(cpu);
    discard(ref);
}

/* Quantised: the values of layers change neither logits nor what is fused to the same bits. */
static void quantised_models_stay_as_they_are(void **state) {
    (void)state;
    sl_token tokens[40];
    for (int i = 0; i < 40; i++) tokens[i] = 11 + 17 * i;
    for (uint32_t chunk = 1; chunk <= 40; chunk += 39) {
        found *f = collect("models/fable", "cpu", tokens, 40, chunk);
        check_plain("models/fable", f, tokens, 40, chunk);
        assert_int_equal(f->count, f->info.layers * 5);
        assert_int_equal(f->calls, f->count * (chunk == 1 ? 40 : 1));
        discard(f);
    }
}

static sl_status ignore(void *ctx, const sl_layer_item *item, sl_error *why) {
    (void)ctx, (void)item, (void)why;
    return SL_OK;
}

/* Where the caller has no room for all logits, the last ones are there as after any other call. */
static void logits_are_there_beside_layers(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "ref"};
    const sl_token tokens[30] = {5, 6, 7};
    const sl_layer_options layers = {.struct_size = sizeof layers, .layers = ignore};
    for (int i = 0; i < 2; i++) {
        sl_model *model = NULL;
        sl_session *session = NULL;
        size_t count;
        const sl_model_options options = {.struct_size = sizeof options, .device = devices[i]};
        must(sl_model_open("models/fable", &options, &model, &err));
        must(sl_session_create(model, NULL, &session, &err));
        must(sl_session_extend(session, tokens, 30, &err));
        const float *logits = sl_session_logits(session, &count);
        float *wanted = calloc(count, sizeof *wanted);
        memcpy(wanted, logits, count * sizeof *wanted);
        must(sl_session_rewind(session, 0, &err));
        must(sl_session_extend_layers(session, tokens, 30, &layers, &err));
        assert_memory_equal(sl_session_logits(session, NULL), wanted, count * sizeof *wanted);
        free(wanted);
        sl_session_destroy(session);
        sl_model_close(model);
    }
}

static sl_status refuse(void *ctx, const sl_layer_item *item, sl_error *why) {
    (void)ctx;
    (void)snprintf(why->message, sizeof why->message, "no more than %s", item->name);
    return SL_IO;
}

static void callbacks_may_fail(void **state) {
    (void)state;
    const sl_token tokens[3] = {5, 6, 7};
    sl_model *model = NULL;
    sl_session *session = NULL;
    sl_layer_options layers = {.struct_size = sizeof layers, .layers = refuse};
    must(sl_model_open("models/fable", NULL, &model, &err));
    must(sl_session_create(model, NULL, &session, &err));
    assert_int_equal(sl_session_extend_layers(session, tokens, 3, &layers, &err), SL_IO);
    assert_string_equal(err.message, "no more than layers.0.input");
    assert_int_equal(sl_session_length(session), 0);
    must(sl_session_extend(session, tokens, 3, &err));
    layers.layers = NULL;
    assert_int_equal(sl_session_extend_layers(session, tokens, 3, &layers, &err), SL_INVALID);
    float hidden;
    layers = (sl_layer_options){.struct_size = sizeof layers, .layers = refuse, .hidden = &hidden};
    assert_int_equal(sl_session_extend_layers(session, tokens, 3, &layers, &err), SL_INVALID);
    sl_session_destroy(session);
    sl_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_have_the_layers_of_the_reference),
        cmocka_unit_test(devices_agree),
        cmocka_unit_test(quantised_models_stay_as_they_are),
        cmocka_unit_test(logits_are_there_beside_layers),
        cmocka_unit_test(callbacks_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
