/* binary_fuzz.c - Any bytes load or fail; what loads saves, and saves the same again. */
#include "compiler/binary.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    unsigned char *bytes;
    size_t count;
} buffer;

static sl_status add(void *ctx, const void *bytes, size_t count, sl_error *err) {
    buffer *b = ctx;
    (void)err;
    unsigned char *larger = realloc(b->bytes, b->count + count);
    if (!larger) abort();
    b->bytes = larger;
    memcpy(b->bytes + b->count, bytes, count);
    b->count += count;
    return SL_OK;
}

static buffer save(const sl_graph *graph) {
    buffer b = {0};
    sl_error err;
    if (sl_graph_write(graph, &(sl_sink){add, &b}, &err) != SL_OK) abort();
    return b;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sl_graph *graph = NULL, *again = NULL;
    sl_error err;
    void *aligned = aligned_alloc(SL_BINARY_ALIGNMENT,
                                  (size / SL_BINARY_ALIGNMENT + 1) * (size_t)SL_BINARY_ALIGNMENT);
    if (!aligned) return 0;
    if (size) memcpy(aligned, data, size);
    const sl_load_options in_place = {.in_place = true};
    if (sl_graph_load_bytes(aligned, size, &in_place, &graph, &err) == SL_OK) {
        const buffer first = save(graph);
        if (sl_graph_load_bytes(first.bytes, first.count, NULL, &again, &err) != SL_OK) abort();
        const buffer second = save(again);
        if (first.count != second.count || memcmp(first.bytes, second.bytes, first.count) != 0)
            abort();
        if (sl_graph_verify(graph, &err) != sl_graph_verify(again, &err)) abort();
        sl_graph_destroy(again);
        sl_graph_destroy(graph);
        free(first.bytes);
        free(second.bytes);
    }
    free(aligned);
    return 0;
}
