#include "tests/onnx/case.h"
#include "compiler/ops/semantics.h"
#include "core/codec.h"
#include "frontend/onnx/model.h"
#include "sluice/graph.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 64 };

typedef struct {
    const char *name;
    sl_type type;
    void *data; /* NULL: no tensor of ours */
} tensor;

typedef struct {
    sl_arena arena;
    const char *folder;
    void *bytes;
    size_t byte_count;
    sl_onnx_model model;
    uint32_t input_count, output_count;
    tensor inputs[MAX_VALUES], outputs[MAX_VALUES];
    bool bound[MAX_VALUES];
    sl_graph *graph;
    sl_onnx_result *result;
} test_case;

static bool fail(test_case *t, const char *what, const char *why) {
    t->result->outcome = SL_ONNX_FAILED;
    (void)snprintf(t->result->why, sizeof t->result->why, "%s: %.440s", what, why);
    return false;
}

/* ---- Files ---- */

static void *read_all(sl_arena *arena, const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    void *bytes = NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        const long size = ftell(file);
        rewind(file);
        bytes = size < 0 ? NULL : sl_arena_alloc(arena, (size_t)size + 1, 64);
        *count = bytes ? fread(bytes, 1, (size_t)size, file) : 0;
    }
    (void)fclose(file);
    return bytes;
}

/* False when there is no such file. */
static bool read_tensor(test_case *t, uint32_t set, const char *kind, uint32_t index, tensor *out) {
    char path[1024];
    size_t count;
    sl_onnx_tensor proto;
    sl_error err;
    (void)snprintf(path, sizeof path, "%s/test_data_set_%u/%s_%u.pb", t->folder, set, kind, index);
    void *bytes = read_all(&t->arena, path, &count);
    if (!bytes) return false;
    out->data = NULL;
    if (sl_onnx_tensor_read(bytes, count, &t->arena, &proto, &err) != SL_OK) return true;
    if (sl_onnx_tensor_decode(&proto, &t->arena, &out->type, &out->data, &err) != SL_OK)
        out->data = NULL;
    return true;
}

static bool is_initializer(const sl_onnx_graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->initializer_count; i++)
        if (strcmp(graph->initializers[i].name, name) == 0) return true;
    return false;
}

/* The tensors of a data set, by the model's names; false when there is no such set. */
static bool read_set(test_case *t, uint32_t set) {
    const sl_onnx_graph *graph = &t->model.graph;
    t->input_count = t->output_count = 0;
    for (uint32_t i = 0; i < graph->input_count && t->input_count < MAX_VALUES; i++) {
        tensor *input = &t->inputs[t->input_count];
        if (is_initializer(graph, graph->inputs[i].name)) continue;
        input->name = graph->inputs[i].name;
        if (!read_tensor(t, set, "input", t->input_count, input)) break;
        t->input_count++;
    }
    for (uint32_t i = 0; i < graph->output_count && i < MAX_VALUES; i++) {
        t->outputs[i].name = graph->outputs[i].name;
        if (!read_tensor(t, set, "output", i, &t->outputs[i])) break;
        t->output_count++;
    }
    return t->output_count > 0;
}

/* ---- Importing ---- */

/* Whether the model leaves a dim of the input open. */
static bool is_open(const test_case *t, const char *name) {
    const sl_onnx_graph *graph = &t->model.graph;
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const sl_onnx_value_info *input = &graph->inputs[i];
        if (strcmp(input->name, name) != 0) continue;
        for (uint32_t d = 0; d < input->rank; d++)
            if (input->dims[d] < 0) return true;
        return !input->has_shape;
    }
    return false;
}

static sl_status import_once(test_case *t, sl_onnx_refusal *refusal, sl_error *err) {
    sl_onnx_shape shapes[MAX_VALUES];
    sl_onnx_binding bindings[MAX_VALUES];
    sl_onnx_options options = {.shapes = shapes, .bindings = bindings, .refusal = refusal};
    for (uint32_t i = 0; i < t->input_count; i++) {
        const tensor *input = &t->inputs[i];
        if (!input->data) continue;
        if (is_open(t, input->name))
            shapes[options.shape_count++] = (sl_onnx_shape){input->name, input->type.shape};
        if (t->bound[i])
            bindings[options.binding_count++] =
                (sl_onnx_binding){input->name, input->type, input->data};
    }
    return sl_onnx_import(t->bytes, t->byte_count, &options, NULL, &t->graph, err);
}

/* Makes the input that an import asked for a constant; false when there is none. */
static bool bind_needed(test_case *t, const char *name) {
    sl_onnx_result *r = t->result;
    for (uint32_t i = 0; name[0] && i < t->input_count; i++) {
        if (strcmp(t->inputs[i].name, name) != 0 || t->bound[i] || !t->inputs[i].data) continue;
        t->bound[i] = true;
        if (r->bound_count < SL_ONNX_MOST_BOUND)
            (void)snprintf(r->bound[r->bound_count++], sizeof r->bound[0], "%.63s", name);
        return true;
    }
    return false;
}

static bool import(test_case *t) {
    sl_onnx_result *r = t->result;
    sl_onnx_refusal refusal;
    sl_error err;
    sl_status status;
    memset(t->bound, 0, sizeof t->bound);
    r->bound_count = 0;
    do {
        refusal = (sl_onnx_refusal){0};
        status = import_once(t, &refusal, &err);
    } while (status == SL_UNSUPPORTED && bind_needed(t, refusal.needs));
    if (status == SL_OK) return true;
    (void)fail(t, "import", err.message);
    (void)snprintf(r->op, sizeof r->op, "%s", refusal.op[0] ? refusal.op : "-");
    if (status == SL_UNSUPPORTED) r->outcome = SL_ONNX_NOT_APPLICABLE;
    return false;
}

/* ---- Comparing ---- */

static bool is_close(double found, double wanted) {
    if (isnan(wanted)) return isnan(found);
    if (isinf(wanted)) return found == wanted;
    return fabs(found - wanted) <= 1e-7 + 1e-3 * fabs(wanted);
}

static bool compare(test_case *t, const char *device, const tensor *wanted, const void *data) {
    const sl_dtype dtype = wanted->type.dtype;
    const int64_t count = sl_type_elements(&wanted->type), slots = sl_type_slots(&wanted->type);
    const bool exact = sl_dtype_infos[dtype].kind == SL_KIND_INT || dtype == SL_DTYPE_bool;
    if (exact && memcmp(data, wanted->data, sl_type_bytes(&wanted->type)) == 0) return true;
    double *found = sl_arena_array(&t->arena, (size_t)slots + 1, sizeof *found, 8);
    double *right = sl_arena_array(&t->arena, (size_t)slots + 1, sizeof *right, 8);
    if (!found || !right) return fail(t, device, "no memory");
    sl_decode_f64(dtype, data, count, found);
    sl_decode_f64(dtype, wanted->data, count, right);
    for (int64_t i = 0; i < slots; i++) {
        const bool same = sl_same_slot(&found[i], &right[i]);
        if (same || (!exact && is_close(found[i], right[i]))) continue;
        char text[200];
        (void)snprintf(text, sizeof text, "%s[%lld] is %.9g, wanted %.9g", wanted->name,
                       (long long)i, found[i], right[i]);
        return fail(t, device, text);
    }
    return true;
}

/* The suite's bfloat16 lies in files as uint16. */
static void read_as_bf16(test_case *t, tensor *wanted) {
    for (uint32_t i = 0; i < t->graph->output_count; i++) {
        const sl_dtype found = sl_graph_value(t->graph, t->graph->outputs[i].value)->type.dtype;
        if (strcmp(t->graph->outputs[i].name, wanted->name) == 0 && found == SL_DTYPE_bf16 &&
            wanted->type.dtype == SL_DTYPE_u16)
            wanted->type.dtype = SL_DTYPE_bf16;
    }
}

static bool check_type(test_case *t, const tensor *wanted) {
    for (uint32_t i = 0; i < t->graph->output_count; i++) {
        if (strcmp(t->graph->outputs[i].name, wanted->name) != 0) continue;
        const sl_type *type = &sl_graph_value(t->graph, t->graph->outputs[i].value)->type;
        if (sl_type_equal(type, &wanted->type)) return true;
        char text[2 * SL_TYPE_TEXT + 64], a[SL_TYPE_TEXT], b[SL_TYPE_TEXT];
        (void)snprintf(text, sizeof text, "%.60s is %s, wanted %s", wanted->name,
                       sl_type_format(type, a, sizeof a),
                       sl_type_format(&wanted->type, b, sizeof b));
        return fail(t, "type", text);
    }
    return fail(t, "no output", wanted->name);
}

/* ---- Running ---- */

static bool run_compiled(test_case *t, const char *device, sl_compiled *compiled) {
    sl_error err;
    for (uint32_t i = 0; i < t->input_count; i++) {
        const tensor *input = &t->inputs[i];
        const sl_value_info *value = sl_graph_value(t->graph, sl_graph_find(t->graph, input->name));
        if (t->bound[i] || !input->data || !value || !value->use_count) continue;
        if (sl_compiled_set(compiled, input->name, input->data, sl_type_bytes(&input->type),
                            &err) != SL_OK)
            return fail(t, device, err.message);
    }
    if (sl_compiled_run(compiled, &err) != SL_OK) return fail(t, device, err.message);
    for (uint32_t i = 0; i < t->output_count; i++) {
        tensor *wanted = &t->outputs[i];
        if (!wanted->data) return fail(t, device, "an output is no tensor");
        read_as_bf16(t, wanted);
        if (!check_type(t, wanted)) return false;
        const void *data = sl_compiled_get(compiled, wanted->name, NULL);
        if (!data) return fail(t, device, "an output is missing");
        if (!compare(t, device, wanted, data)) return false;
    }
    return true;
}

static bool run_on(test_case *t, const char *device) {
    const sl_compile_options options = {
        .struct_size = sizeof options, .device = device, .threads = 1};
    sl_compiled *compiled = NULL;
    sl_error err;
    if (sl_compile(t->graph, &options, &compiled, &err) != SL_OK)
        return fail(t, device, err.message);
    const bool good = run_compiled(t, device, compiled);
    sl_compiled_destroy(compiled);
    return good;
}

static bool run_set(test_case *t) {
    if (!import(t)) return false;
    t->result->folded = t->graph->node_count == 0;
    const bool good = run_on(t, "ref") && run_on(t, "cpu");
    sl_graph_destroy(t->graph);
    t->graph = NULL;
    return good;
}

void sl_onnx_case_run(const char *folder, sl_onnx_result *out) {
    char path[1024];
    sl_error err;
    *out = (sl_onnx_result){.outcome = SL_ONNX_PASSED};
    test_case *t = calloc(1, sizeof *t);
    if (!t) return;
    t->folder = folder;
    t->result = out;
    sl_arena_init(&t->arena, NULL);
    (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
    t->bytes = read_all(&t->arena, path, &t->byte_count);
    if (!t->bytes)
        (void)fail(t, "model", "cannot be read");
    else if (sl_onnx_model_read(t->bytes, t->byte_count, &t->arena, &t->model, &err) != SL_OK)
        (void)fail(t, "model", err.message);
    else if (!read_set(t, 0))
        (void)fail(t, "data", "there is none");
    else
        for (uint32_t set = 0; read_set(t, set) && run_set(t);) set++;
    sl_graph_destroy(t->graph);
    sl_arena_deinit(&t->arena);
    free(t);
}
