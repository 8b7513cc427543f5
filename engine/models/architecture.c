#include "engine/models/architecture.h"
#include <string.h>

static const sl_architecture table[] = {
    {"qwen3_5_moe", sl_qwen3_5_moe_build},
    {"qwen3_5_moe_text", sl_qwen3_5_moe_build},
};

const sl_architecture *sl_architecture_find(const char *model_type) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].model_type, model_type) == 0) return &table[i];
    return NULL;
}
