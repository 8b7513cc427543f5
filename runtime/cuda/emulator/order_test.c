/* order_test.c - The emulated driver refuses graphs whose kernels access memory that nothing
 * orders: without an edge, before follow(), or past a kernel that never waits. */
#include "runtime/cuda/driver.h"
#include "runtime/cuda/emulator/order_kernels.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 32, ROWS = 4, MOST_NODES = 3 };

static sl_cuda_driver cu;
static sl_error err;
static sl_cu_module module;
static sl_cu_address memory; /* float[ROWS][COUNT] */

#define MUST(CALL)                                                                                 \
    if (cu.CALL) fail_msg("%s", #CALL)

static int open_driver(void **state) {
    (void)state;
    if (sl_cuda_driver_open(getenv("SLUICE_CUDA_EMULATOR"), &cu, &err) != SL_OK)
        fail_msg("%s", err.message);
    MUST(module_load(&module, ""));
    MUST(memory_allocate(&memory, ROWS * COUNT * sizeof(float)));
    return 0;
}
static int close_driver(void **state) {
    (void)state;
    MUST(memory_free(memory));
    MUST(module_unload(module));
    sl_cuda_driver_close(&cu);
    return 0;
}

/* A node: adds 1 to a row and puts it in another; after: bits of nodes before it. */
typedef struct {
    const char *kernel;
    int from, to;
    unsigned after;
    bool whole; /* its edges are not programmatic */
} node;

static float *row(int index) {
    return (float *)(uintptr_t)memory + (ptrdiff_t)index * COUNT;
}

static void add_nodes(sl_cu_graph graph, const node *nodes, int count) {
    sl_cu_node made[MOST_NODES];
    for (int i = 0; i < count; i++) {
        char args[1024] = {0};
        memcpy(args, &(emulated_add_args){row(nodes[i].from), row(nodes[i].to)},
               sizeof(emulated_add_args));
        void *arguments[] = {args};
        sl_cu_kernel_node params = {.grid_x = 1,
                                    .grid_y = 1,
                                    .grid_z = 1,
                                    .block_x = COUNT,
                                    .block_y = 1,
                                    .block_z = 1,
                                    .arguments = arguments};
        const sl_cu_edge early = {SL_CU_PORT_PROGRAMMATIC, 0, SL_CU_EDGE_PROGRAMMATIC, {0}};
        const sl_cu_edge whole = {0};
        MUST(module_function(&params.function, module, nodes[i].kernel));
        MUST(graph_add_kernel(&made[i], graph, NULL, 0, &params));
        for (int j = 0; j < i; j++)
            if (nodes[i].after >> j & 1)
                MUST(graph_add_edges(graph, &made[j], &made[i], nodes[i].whole ? &whole : &early,
                                     1));
    }
}

/* Runs them some times, in whatever orders; NULL, or what is wrong, every time. */
static const char *run(const node *nodes, int count) {
    static char text[512];
    sl_cu_graph graph;
    sl_cu_graph_exec exec;
    const char *found = NULL;
    MUST(graph_create(&graph, 0));
    add_nodes(graph, nodes, count);
    MUST(graph_instantiate(&exec, graph, 0));
    for (int i = 0; i < 8; i++) {
        MUST(fill(memory, 0, ROWS * COUNT * sizeof(float), NULL));
        const sl_cu_result result = cu.graph_launch(exec, NULL);
        if (i > 0) assert_int_equal(result != 0, found != NULL);
        if (!result) continue;
        MUST(error_text(result, &found));
        (void)strncpy(text, found, sizeof text - 1);
        found = text;
    }
    MUST(graph_exec_destroy(exec));
    MUST(graph_destroy(graph));
    return found;
}

static void refused(const node *nodes, int count, const char *who, const char *why) {
    const char *found = run(nodes, count);
    if (!found) fail_msg("%s: nothing was found", who);
    if (!strstr(found, who) || !strstr(found, why)) fail_msg("found: %s", found);
}

static void what_waits_is_right(void **state) {
    (void)state;
    const node chain[] = {{"emulated_add", 0, 1, 0, false},
                          {"emulated_add_leading_late", 1, 2, 1, false},
                          {"emulated_add", 2, 3, 2, false}};
    assert_null(run(chain, 3));
    assert_true(row(3)[COUNT - 1] == 3);
    /* reading early what a full edge, or a predecessor's late lead(), guarantees */
    const node whole[] = {{"emulated_add", 0, 1, 0, false},
                          {"emulated_add_reading_early", 1, 2, 1, true}};
    assert_null(run(whole, 2));
    const node late[] = {{"emulated_add", 0, 1, 0, false},
                         {"emulated_add_leading_late", 1, 2, 1, false},
                         {"emulated_add_reading_early", 1, 3, 2, false}};
    assert_null(run(late, 3));
    /* what nobody writes */
    const node apart[] = {{"emulated_add", 0, 1, 0, false},
                          {"emulated_add_never_waiting", 0, 2, 1, false},
                          {"emulated_add", 2, 3, 2, false}};
    assert_null(run(apart, 3));
}

static void a_missing_edge_is_found(void **state) {
    (void)state;
    const node read[] = {{"emulated_add", 0, 1, 0, false}, {"emulated_add", 1, 2, 0, false}};
    refused(read, 2, "'emulated_add'", "no path of edges");
    const node written[] = {{"emulated_add", 0, 1, 0, false}, {"emulated_add", 2, 1, 0, false}};
    refused(written, 2, "'emulated_add'", "no path of edges");
}

static void an_early_access_is_found(void **state) {
    (void)state;
    const node reads[] = {{"emulated_add", 0, 1, 0, false},
                          {"emulated_add_reading_early", 1, 2, 1, false}};
    refused(reads, 2, "'emulated_add_reading_early' reads", "before follow()");
    /* over what another still reads, and over what it still writes */
    const node over_read[] = {{"emulated_add", 1, 2, 0, false},
                              {"emulated_add_writing_early", 3, 1, 1, false}};
    refused(over_read, 2, "'emulated_add_writing_early' writes", "before follow()");
    const node over_written[] = {{"emulated_add", 0, 1, 0, false},
                                 {"emulated_add_writing_early", 3, 1, 1, false}};
    refused(over_written, 2, "'emulated_add_writing_early' writes", "before follow()");
    /* by one thread of many */
    const node part[] = {{"emulated_add", 0, 1, 0, false},
                         {"emulated_add_waiting_in_part", 1, 2, 1, false}};
    refused(part, 2, "'emulated_add_waiting_in_part' reads bytes 128 to 131", "before follow()");
    /* what the predecessor's predecessor writes, which an early lead() does not wait for */
    const node far[] = {{"emulated_add", 0, 1, 0, false},
                        {"emulated_add", 3, 2, 1, false},
                        {"emulated_add_reading_early", 1, 3, 2, false}};
    refused(far, 3, "'emulated_add_reading_early'", "before follow()");
}

static void a_kernel_that_never_waits_is_found(void **state) {
    (void)state;
    const node chain[] = {{"emulated_add", 0, 1, 0, false},
                          {"emulated_add_never_waiting", 0, 2, 1, false},
                          {"emulated_add", 1, 3, 2, false}};
    refused(chain, 3, "'emulated_add_never_waiting' between them", "without follow()");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_is_right),
        cmocka_unit_test(a_missing_edge_is_found),
        cmocka_unit_test(an_early_access_is_found),
        cmocka_unit_test(a_kernel_that_never_waits_is_found),
    };
    if (!getenv("SLUICE_CUDA_EMULATOR") || getenv("SLUICE_SANITIZED")) {
        print_message("skipped: there is no emulated CUDA driver that sees accesses\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, open_driver, close_driver);
}
