/* parse_fuzz.c - Any bytes parse or fail; what parses prints, and prints the same again. */
#include "compiler/graph.h"
#include "tests/support/graph_words.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *print(const sl_graph *graph, sl_arena *arena) {
    char *text = NULL;
    sl_error err;
    if (sl_graph_print(graph, arena, &text, &err) != SL_OK) abort();
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sl_graph *graph = NULL, *again = NULL;
    sl_error err;
    if (sl_graph_parse((const char *)data, size, NULL, &graph, &err) != SL_OK) return 0;
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    const char *text = print(graph, &arena);
    if (sl_graph_parse(text, strlen(text), NULL, &again, &err) != SL_OK) abort();
    if (strcmp(text, print(again, &arena)) != 0) abort();
    if (sl_graph_verify(graph, &err) != sl_graph_verify(again, &err)) abort();
    sl_arena_deinit(&arena);
    sl_graph_destroy(again);
    sl_graph_destroy(graph);
    return 0;
}
