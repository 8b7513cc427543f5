/* binary_fuzz.c - Any bytes load or fail; what loads saves, and saves the same again.  Half of the
 * mutations change words of the graph's text form, the others bytes behind a right header. */
#include "compiler/binary.h"
#define LLVMFuzzerCustomMutator mutate_graph_text
#include "tests/support/graph_words.h"
#undef LLVMFuzzerCustomMutator

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

/* ---- mutations ---- */

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

/* The new size, or 0 if the bytes are no graph or its changed text is none. */
static size_t mutate_as_text(uint8_t *data, size_t size, size_t most, unsigned seed) {
    enum { MOST_TEXT = 1 << 16 };
    static uint8_t text[MOST_TEXT];
    sl_graph *graph = NULL, *changed = NULL;
    sl_arena arena;
    sl_error err;
    char *printed = NULL;
    size_t written = 0;
    sl_arena_init(&arena, NULL);
    if (sl_graph_load_bytes(data, size, NULL, &graph, &err) != SL_OK ||
        sl_graph_print(graph, &arena, &printed, &err) != SL_OK || strlen(printed) >= MOST_TEXT)
        goto done;
    memcpy(text, printed, strlen(printed));
    const size_t bytes = mutate_graph_text(text, strlen(printed), MOST_TEXT, seed);
    if (sl_graph_parse((const char *)text, bytes, NULL, &changed, &err) != SL_OK) goto done;
    const buffer b = save(changed);
    if (b.count <= most) memcpy(data, b.bytes, written = b.count);
    free(b.bytes);
done:
    sl_graph_destroy(changed);
    sl_graph_destroy(graph);
    sl_arena_deinit(&arena);
    return written;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    if (seed % 2 == 0) {
        const size_t written = mutate_as_text(data, size, most, seed / 2);
        if (written) return written;
    }
    size = LLVMFuzzerMutate(data, size, most);
    if (seed % 8 && size >= SL_BINARY_HEADER_BYTES) {
        const uint64_t total = size;
        memcpy(data, SL_BINARY_MAGIC, 8);
        memcpy(data + 16, &total, 8);
    }
    return size;
}
