/* views_test.c - Slices and reshapes that are views of another tensor's memory, for all element
 * sizes and for empty tensors, from text to results. */
#include "tests/support/graph_case.h"

static const char *const graphs[] = {
    /* A contiguous range of rows is a view; so is a reshape of it. */
    "input %x : i64[6,4] %a = slice(%x) {axis = 0, start = 2, length = 3} "
    "%b = reshape(%a) {shape = [4, 3]} %c = reverse(%b) {axes = [0]} output \"c\" = %c "
    "output \"b\" = %b",
    "input %x : c64[6,4] %a = slice(%x) {axis = 0, start = 5, length = 1} "
    "%c = concat(%a, %x, %a) {axis = 0} output \"c\" = %c output \"a\" = %a",
    "input %x : f64[1,5,4] %a = slice(%x) {axis = 1, start = 1, length = 2} "
    "%c = reduce_sum(%a) {axes = [2], keep = 0} output \"c\" = %c",
    /* A range of columns is copied. */
    "input %x : u64[6,4] %a = slice(%x) {axis = 1, start = 1, length = 3} "
    "%c = sort(%a) {axis = 0} output \"c\" = %c output \"a\" = %a",
    "input %x : i16[3,2,4] %a, %b, %c = split(%x) {axis = 0, sizes = [1, 0, 2]} "
    "%d = concat(%c, %b, %a) {axis = 0} output \"d\" = %d output \"b\" = %b",
    /* Empty slices: from the middle, from the end, and of an empty tensor. */
    "input %x : i64[6,4] %a = slice(%x) {axis = 0, start = 2, length = 0} "
    "%b = concat(%a, %x) {axis = 0} %c = reshape(%a) {shape = [4, 0]} output \"b\" = %b "
    "output \"c\" = %c",
    "input %x : f32[6,4] %a = slice(%x) {axis = 0, start = 6, length = 0} "
    "%b = reduce_max(%a) {axes = [0], keep = 0} %c = reduce_sum(%a) {axes = [1], keep = 1} "
    "output \"b\" = %b output \"c\" = %c",
    "input %x : f64[0,4] input %y : f64[2,4] %a = slice(%x) {axis = 1, start = 1, length = 2} "
    "%b = transpose(%a) {perm = [1, 0]} %s = reduce_prod(%b) {axes = [1], keep = 0} "
    "%t = slice(%y) {axis = 1, start = 0, length = 2} %c = concat(%a, %t) {axis = 0} "
    "output \"s\" = %s output \"c\" = %c",
    "input %x : f32[3,0] input %i : i64[2] %a = gather(%x, %i) {axis = 0} "
    "%b = slice(%x) {axis = 1, start = 0, length = 0} %c = softmax(%b) "
    "%d = argsort(%c) {axis = 1} output \"a\" = %a output \"d\" = %d",
    /* A chain of views and other ops. */
    "input %x : f32[4,6,8] %a = slice(%x) {axis = 0, start = 1, length = 2} "
    "%b = reshape(%a) {shape = [12, 8]} %c = slice(%b) {axis = 0, start = 3, length = 5} "
    "%d = cumsum(%c) {axis = 0} %e = expand(%d) {shape = [2, 5, 8]} "
    "%f = strided_slice(%e) {starts = [0, 4, 7], ends = [2, -9, 0], steps = [1, -2, -3]} "
    "output \"f\" = %f output \"c\" = %c",
};

static void test_views(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) check_graph(2e-6, graphs[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_views)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
