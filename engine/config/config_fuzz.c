/* Input: config.json. */
#include "engine/models/architecture.h"
#include "tests/support/mutate_json.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sl_arena arena;
    sl_error err;
    sl_model_config config;
    sl_arena_init(&arena, NULL);
    if (sl_model_config_parse((const char *)data, size, &arena, &config, &err) == SL_OK) {
        uint32_t full = 0;
        for (uint32_t i = 0; i < config.layers; i++) full += !config.layer[i].linear;
        const uint32_t turned = config.kv_heads ? config.head_dim : config.rope_dim;
        if (full > config.layers || config.rope.dims > turned || config.rope.dims % 2 ||
            (config.kv_heads && config.query_heads % config.kv_heads) ||
            config.experts_used > config.experts)
            abort();
    }
    sl_arena_deinit(&arena);
    return 0;
}
