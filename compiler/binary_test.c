/* binary_test.c - The binary form: round trips, in place, and bytes that are wrong. */
#include "compiler/binary.h"
#include "compiler/compile.h"
#include "sluice/graph.h"
#include "tests/support/draw.h"
#include "tests/support/random_graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct {
    void *bytes;
    size_t count;
} binary;

static binary save(const sl_graph *graph) {
    binary b = {0};
    sl_error err = {0};
    if (sl_graph_to_bytes(graph, &b.bytes, &b.count, &err)) fail_msg("%s", err.message);
    return b;
}

static void release(binary *b) {
    sl_free(b->bytes);
}

static sl_graph *load(const binary *b) {
    sl_graph *graph = NULL;
    sl_error err = {0};
    if (sl_graph_from_bytes(b->bytes, b->count, &graph, &err)) fail_msg("%s", err.message);
    return graph;
}

static sl_graph *parse(const char *text) {
    sl_graph *graph = NULL;
    sl_error err = {0};
    if (sl_graph_parse(text, strlen(text), NULL, &graph, &err)) fail_msg("%s", err.message);
    return graph;
}

static char *print(const sl_graph *graph) {
    char *text = NULL;
    sl_error err = {0};
    if (sl_graph_text(graph, &text, &err)) fail_msg("%s", err.message);
    return text;
}

static uint64_t fingerprint(const sl_graph *graph) {
    uint64_t hash = 0;
    sl_error err = {0};
    assert_int_equal(sl_graph_fingerprint(graph, &hash, &err), SL_OK);
    return hash;
}

/* Both forms give the same graph again. */
static void round_trip(const sl_graph *graph) {
    sl_error err = {0};
    binary first = save(graph);
    sl_graph *loaded = load(&first);
    if (sl_graph_verify(loaded, &err)) fail_msg("%s", err.message);
    binary second = save(loaded);
    assert_int_equal(first.count, second.count);
    assert_memory_equal(first.bytes, second.bytes, first.count);
    char *text = print(graph), *again = print(loaded);
    assert_string_equal(text, again);
    sl_graph *parsed = parse(text);
    binary third = save(parsed);
    assert_int_equal(first.count, third.count);
    assert_memory_equal(first.bytes, third.bytes, first.count);
    assert_true(fingerprint(graph) == fingerprint(loaded));
    assert_true(fingerprint(graph) == fingerprint(parsed));
    sl_free(text);
    sl_free(again);
    sl_graph_destroy(loaded);
    sl_graph_destroy(parsed);
    release(&first);
    release(&second);
    release(&third);
}

static const char kinds_text[] =
    "graph \"every kind\" { symbol B = 3 symbol S = 5 "
    "input %x : f32[B,S,4] weight %w : q8[32,64] state %s : f32[2,2,4] input %\"odd name\" : i64[] "
    "constant %a : f32[3] = {1, nan:7fc00001, -inf} constant %b : bool[2] = {1, 0} "
    "constant %c : c64[1] = {1, 2} constant %d : f16[1] = {0.5} constant %e : u64[1] = "
    "{18446744073709551615} constant %f : f64[2] = {0.1, -1e300} constant %g : i8[0] = {} "
    "scope \"a b\" %1 = reshape(%x) {shape = [B, -1]} %2 = reduce_sum(%1) {axes = [1], keep = 1} "
    "scope \"\" %3 = slice(%1) {axis = 0, start = 0, length = B} "
    "%4, %5 = scan(%2, %x) {carries = 1, body = graph \"b\" { symbol B = 3 symbol S = 5 "
    "  input %c : f32[B,1] input %x : f32[S,4] constant %k : f32[] = {2} "
    "  %t = mul(%c, %k) %u = slice(%x) {axis = 0, start = 0, length = S} "
    "  output \"c\" = %t output \"y\" = %u }} "
    "output \"o\" = %4 output \"p\" = %5 output \"q\" = %3 output \"a\" = %a output \"g\" = %g }";

static void test_every_kind(void **state) {
    (void)state;
    sl_graph *graph = parse(kinds_text);
    round_trip(graph);
    sl_graph_destroy(graph);
}

static void test_random_graphs(void **state) {
    (void)state;
    const char *more = getenv("SLUICE_ROUND_TRIPS");
    const uint64_t count = more ? strtoull(more, NULL, 10) : 200;
    for (uint64_t seed = 1; seed <= count; seed++) {
        if (seed % 4 == 0) { /* deep, with states */
            sl_graph *graph = random_graph(seed, 3 + seed % 40);
            round_trip(graph);
            sl_graph_destroy(graph);
            continue;
        }
        drawn_graph *drawn = draw_graph(seed, 1 + seed % 20); /* of every op */
        round_trip(drawn->graph);
        drawn_destroy(drawn);
    }
}

static void test_fingerprints_differ(void **state) {
    (void)state;
    const char *const texts[] = {
        "graph \"g\" { input %x : f32[2] %1 = neg(%x) output \"y\" = %1 }",
        "graph \"g\" { input %x : f32[3] %1 = neg(%x) output \"y\" = %1 }",
        "graph \"g\" { input %x : f32[2] %1 = abs(%x) output \"y\" = %1 }",
        "graph \"g\" { input %x : f32[2] %1 = neg(%x) output \"z\" = %1 }",
        "graph \"g\" { symbol B = 2 input %x : f32[B] %1 = neg(%x) output \"y\" = %1 }",
        "graph \"g\" { constant %x : f32[2] = {1, 2} %1 = neg(%x) output \"y\" = %1 }",
        "graph \"g\" { constant %x : f32[2] = {1, 3} %1 = neg(%x) output \"y\" = %1 }",
    };
    enum { COUNT = sizeof texts / sizeof texts[0] };
    uint64_t seen[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sl_graph *graph = parse(texts[i]);
        seen[i] = fingerprint(graph);
        sl_graph_destroy(graph);
        for (int j = 0; j < i; j++) assert_true(seen[i] != seen[j]);
    }
}

/* Constants of a mapped file are used where they lie, by what is compiled too. */
static void test_in_place(void **state) {
    (void)state;
    const char *text = "graph \"g\" { input %x : f32[3] constant %k : f32[3] = {1, 2, 3} "
                       "constant %z : f32[1] = {5} %1 = mul(%x, %k) %2 = add(%1, %z) "
                       "output \"y\" = %2 }";
    sl_graph *graph = parse(text), *loaded = NULL;
    sl_compiled *compiled = NULL;
    sl_program *program = NULL;
    sl_error err = {0};
    char path[] = "/tmp/sluice-binary-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(sl_graph_save(graph, path, &err), SL_OK);
    if (sl_graph_load(path, &loaded, &err)) fail_msg("%s", err.message);
    (void)unlink(path);
    const sl_value_info *k = &loaded->values[2];
    assert_true(k->borrowed);
    assert_int_equal((uintptr_t)k->data % 64, 0);
    assert_memory_equal(k->data, ((const float[]){1, 2, 3}), 12);
    sl_graph *copy = NULL;
    assert_int_equal(sl_graph_copy(loaded, NULL, &copy, &err), SL_OK);
    assert_ptr_equal(copy->values[2].data, k->data);
    assert_int_equal(sl_compile_graph(copy, NULL, NULL, &program, &err), SL_OK);
    sl_buffer_id buffer;
    assert_true(sl_program_find(program, "k", &buffer));
    assert_ptr_equal(program->buffers[buffer.v].data, k->data);
    sl_program_destroy(program);
    sl_graph_destroy(copy);
    if (sl_compile(loaded, NULL, &compiled, &err)) fail_msg("%s", err.message);
    const float x[] = {1, 10, 100}, want[] = {6, 25, 305};
    assert_int_equal(sl_compiled_set(compiled, "x", x, sizeof x, &err), SL_OK);
    assert_int_equal(sl_compiled_run(compiled, &err), SL_OK);
    assert_memory_equal(sl_compiled_get(compiled, "y", NULL), want, sizeof want);
    sl_compiled_destroy(compiled);
    sl_graph_destroy(loaded);
    sl_graph_destroy(graph);
}

static void test_no_file(void **state) {
    (void)state;
    sl_graph *graph = NULL;
    sl_error err = {0};
    assert_int_not_equal(sl_graph_load("/nowhere/graph", &graph, &err), SL_OK);
    assert_true(err.message[0] != 0);
    sl_graph *wrong = NULL;
    assert_int_equal(sl_graph_create("wrong", NULL, &wrong, &err), SL_OK);
    sl_graph_mistake(wrong, SL_INVALID, "made on purpose");
    assert_int_equal(sl_graph_save(wrong, "/tmp/sluice-binary-never", &err), SL_INVALID);
    assert_string_equal(err.message, "made on purpose");
    assert_int_not_equal(access("/tmp/sluice-binary-never", F_OK), 0);
    sl_graph_destroy(wrong);
}

/* Files that another program wrote by the description of the form. */
static void test_seeds(void **state) {
    (void)state;
    static const char *const names[] = {"plain", "constant", "symbol", "scan"};
    for (int i = 0; i < 4; i++) {
        char path[100];
        sl_graph *graph = NULL;
        sl_error err = {0};
        (void)snprintf(path, sizeof path, "tests/data/fuzz/compiler_binary_fuzz/%s", names[i]);
        if (sl_graph_load(path, &graph, &err)) fail_msg("%s", err.message);
        round_trip(graph);
        sl_graph_destroy(graph);
    }
}

/* ---- bytes that are wrong ---- */

static void refuses(const binary *b, const char *message) {
    sl_graph *graph = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_from_bytes(b->bytes, b->count, &graph, &err), SL_FORMAT);
    if (!strstr(err.message, message)) fail_msg("'%s', must be '%s'", err.message, message);
}

/* Version 1 counted the axis of softmax from the end. */
static void test_version_1(void **state) {
    (void)state;
    sl_graph *graph = parse("graph \"g\" { input %x : f32[2,3] %1 = softmax(%x) {axis = 1} "
                            "%2 = argmax(%1) {axis = 0} output \"y\" = %2 }");
    binary b = save(graph);
    ((unsigned char *)b.bytes)[8] = 1;
    sl_graph *loaded = load(&b);
    char *text = print(loaded);
    assert_non_null(strstr(text, "softmax(%x) {axis = -2}"));
    assert_non_null(strstr(text, "argmax(%2) {axis = -1, keep = false"));
    sl_free(text);
    sl_graph_destroy(loaded);
    sl_graph_destroy(graph);
    release(&b);
}

static void test_header(void **state) {
    (void)state;
    sl_graph *graph = parse(kinds_text);
    binary b = save(graph);
    unsigned char *bytes = b.bytes;
    bytes[0] ^= 1;
    refuses(&b, "bytes are not a graph in binary form");
    bytes[0] ^= 1;
    bytes[8] = 3;
    refuses(&b, "a graph in binary form has version 3, must be 1 to 2");
    bytes[8] = 2;
    bytes[16] ^= 1;
    refuses(&b, "in binary form has 1665 bytes, found 1664");
    bytes[16] ^= 1;
    bytes[24] ^= 1;
    refuses(&b, "whose data begin at");
    bytes[24] ^= 1;
    const binary half = {bytes, 40};
    refuses(&half, "40 bytes are not a graph");
    bytes[68] = 0;
    refuses(&b, "byte 68: a graph's name has a zero byte");
    release(&b);
    sl_graph_destroy(graph);
}

/* Cut anywhere, or with any byte changed: a graph or an error, never anything else. */
static void test_damage(void **state) {
    (void)state;
    sl_graph *graph = parse(kinds_text);
    binary b = save(graph);
    unsigned char *copy = aligned_alloc(64, (b.count + 63) / 64 * 64);
    assert_non_null(copy);
    uint32_t loaded = 0, refused = 0;
    for (size_t at = 0; at < b.count; at++)
        for (int change = 0; change < 4; change++) {
            static const unsigned char changes[] = {0xff, 0x01, 0x80, 0x10};
            sl_graph *damaged = NULL;
            sl_error err = {0};
            memcpy(copy, b.bytes, b.count);
            copy[at] ^= changes[change];
            const sl_load_options options = {.in_place = change % 2};
            if (sl_graph_load_bytes(copy, b.count, &options, &damaged, &err) == SL_OK)
                loaded++;
            else
                refused++;
            if (!damaged) assert_true(err.message[0] != 0);
            sl_graph_destroy(damaged);
        }
    for (size_t count = 0; count < b.count; count++) {
        sl_graph *cut = NULL;
        sl_error err = {0};
        memcpy(copy, b.bytes, b.count);
        for (int i = 0; i < 8 && count > 24; i++) copy[16 + i] = (unsigned char)(count >> (8 * i));
        const sl_status status = sl_graph_from_bytes(copy, count, &cut, &err);
        if (count + 64 < b.count) assert_int_not_equal(status, SL_OK); /* the rest is padding */
        sl_graph_destroy(cut);
    }
    assert_true(loaded > 100 && refused > 100);
    free(copy);
    release(&b);
    sl_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),    cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_random_graphs), cmocka_unit_test(test_fingerprints_differ),
        cmocka_unit_test(test_in_place),      cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_version_1),     cmocka_unit_test(test_header),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
