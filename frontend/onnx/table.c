/* table.c - Table of the ONNX ops by name. */
#include "frontend/onnx/families.h"
#include <string.h>

static const sl_onnx_row rows[] = {
#define ONNX(NAME, SINCE, FUNCTION, OP) {#NAME, SINCE, sl_onnx_##FUNCTION, OP},
#define NONE(NAME, REASON)              {#NAME, 1, NULL, REASON},
#include "frontend/onnx/ops.def"
};
static const sl_onnx_row training[] = {
#define TRAINING(NAME, SINCE, FUNCTION) {#NAME, SINCE, sl_onnx_##FUNCTION, NULL},
#include "frontend/onnx/ops.def"
    {"Gradient", 1, NULL, "gradients are not part of an imported graph"}};

static const sl_onnx_row *find(const sl_onnx_row *list, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

const sl_onnx_row *sl_onnx_row_find(const char *domain, const char *name) {
    if (!domain[0]) return find(rows, sizeof rows / sizeof rows[0], name);
    if (strcmp(domain, "ai.onnx.preview.training") == 0 || strcmp(domain, "ai.onnx.training") == 0)
        return find(training, sizeof training / sizeof training[0], name);
    return NULL;
}
