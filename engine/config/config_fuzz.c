/* Input: config.json.  The program of a small model is compiled and verified. */
#include "engine/models/architecture.h"
#include "sluice/inspect.h"
#include "tests/support/mutate_json.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_small(const sl_model_config *config) {
    return config->layers <= 6 && config->hidden <= 1 << 16 && config->vocab <= 1 << 20;
}

static void compile(const uint8_t *data, size_t size) {
    sl_error err;
    sl_inspect_report report = {.struct_size = sizeof report};
    char path[64];
    const int fd = memfd_create("fuzz", 0);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const sl_inspect_options options = {
        .struct_size = sizeof options, .shape = path, .tokens = 1 + (uint32_t)(size % 5)};
    if (fd >= 0 && write(fd, data, size) == (ssize_t)size &&
        sl_inspect(NULL, &options, &report, &err) == SL_OK)
        sl_inspect_report_deinit(&report);
    if (fd >= 0) (void)close(fd);
}

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
        if (is_small(&config)) compile(data, size);
    }
    sl_arena_deinit(&arena);
    return 0;
}
