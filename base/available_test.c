/* available_test.c - The available memory of this machine, and of control groups that are files in
 * a temporary folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"

static void test_left(void **state) {
    (void)state;
    const sl_memory_left left = sl_memory_available();
    const uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(left.machine > 1 << 20); /* this test runs in it */
    assert_true(left.machine <= all);
    assert_true(left.group > 1 << 20);
    assert_true(sl_memory_own() > 1 << 16);
    assert_true(sl_memory_own() <= all);
    assert_int_equal(sl_memory_group_left("/no/such/folder"), UINT64_MAX);
}

/* ---- control groups in a temporary folder ---- */

typedef struct {
    const char *path, *text; /* a file below the root */
} group_file;

static void make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(path, 0700);
        *slash = '/';
    }
}

static void remove_parents(char *path, size_t root) {
    for (char *slash = strrchr(path, '/'); slash && (size_t)(slash - path) >= root;
         slash = strrchr(path, '/')) {
        *slash = 0;
        (void)rmdir(path);
    }
}

/* What is left, with the given files below "proc" and "sys"; the list ends with a NULL path. */
static uint64_t left_with(const group_file *files) {
    char root[] = "/tmp/sluice-groups-XXXXXX", path[512];
    assert_non_null(mkdtemp(root));
    for (const group_file *f = files; f->path; f++) {
        (void)snprintf(path, sizeof path, "%s/%s", root, f->path);
        make_parents(path);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(f->text, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    const uint64_t left = sl_memory_group_left(root);
    for (const group_file *f = files; f->path; f++) {
        (void)snprintf(path, sizeof path, "%s/%s", root, f->path);
        assert_int_equal(unlink(path), 0);
        remove_parents(path, strlen(root));
    }
    return left;
}
#define LEFT(...) left_with((const group_file[]){__VA_ARGS__, {NULL, NULL}})
#define OWN(TEXT)                                                                                  \
    { "proc/self/cgroup", TEXT }
#define V2(FILE, TEXT)                                                                             \
    { "sys/fs/cgroup/" FILE, TEXT }

static void test_v2(void **state) {
    (void)state;
    const group_file own = OWN("0::/a/b\n"), used = V2("a/b/memory.current", "300\n");
    assert_int_equal(LEFT(own, used, V2("a/b/memory.max", "1000\n")), 700);
    assert_int_equal(LEFT(own, used, V2("a/b/memory.max", "max\n")), UINT64_MAX);
    assert_int_equal(LEFT(own, used, V2("a/b/memory.max", "200\n")), 0);
    assert_int_equal(LEFT(own, V2("a/b/memory.max", "1000\n")), UINT64_MAX); /* no usage known */
    assert_int_equal(LEFT(own, used, V2("a/b/memory.max", "1000\n"),
                          V2("a/b/memory.stat", "anon 50\ninactive_file 100\nactive_file 40\n"
                                                "workingset_refault_file 7\n")),
                     840);
}

static void test_v2_high(void **state) {
    (void)state;
    const group_file own = OWN("0::/a/b\n"), used = V2("a/b/memory.current", "300\n");
    assert_int_equal(LEFT(own, used, V2("a/b/memory.max", "max\n"), V2("a/b/memory.high", "900\n")),
                     600);
    assert_int_equal(
        LEFT(own, used, V2("a/b/memory.max", "1000\n"), V2("a/b/memory.high", "900\n")), 600);
    assert_int_equal(
        LEFT(own, used, V2("a/b/memory.max", "1000\n"), V2("a/b/memory.high", "max\n")), 700);
}

/* The limit of an ancestor counts what all its groups use. */
static void test_v2_nested(void **state) {
    (void)state;
    const group_file own = OWN("0::/a/b\n"), used = V2("a/b/memory.current", "300\n");
    const group_file most = V2("a/b/memory.max", "1000\n"),
                     parent = V2("a/memory.current", "800\n");
    assert_int_equal(LEFT(own, used, most, parent, V2("a/memory.max", "1200\n")), 400);
    assert_int_equal(LEFT(own, used, most, parent, V2("a/memory.max", "max\n")), 700);
    assert_int_equal(LEFT(own, used, most, parent, V2("a/memory.high", "1100\n")), 300);
    /* In a container the path is that of the host, and the mount point is the group. */
    assert_int_equal(LEFT(own, V2("memory.current", "300\n"), V2("memory.max", "500\n")), 200);
}

/* In a namespace of control groups, paths begin at its root, and groups outside of it with "..". */
static void test_v2_namespace(void **state) {
    (void)state;
    const group_file used = V2("memory.current", "300\n"), most = V2("memory.max", "500\n");
    assert_int_equal(LEFT(OWN("0::/\n"), used, most), 200);
    assert_int_equal(LEFT(OWN("0::/\n"), used),
                     UINT64_MAX); /* the root of a machine has no limit */
    assert_int_equal(LEFT(OWN("0::/../../other\n"), used, most), 200);
    assert_int_equal(LEFT(OWN("0::/a/b (deleted)\n"), used, most), 200);
}

/* Files that are not as they should be set no limit. */
static void test_v2_damaged(void **state) {
    (void)state;
    const group_file own = OWN("0::/a\n"), used = V2("a/memory.current", "300\n");
    assert_int_equal(LEFT(own, used, V2("a/memory.max", "")), UINT64_MAX);
    assert_int_equal(LEFT(own, used, V2("a/memory.max", "all\n")), UINT64_MAX);
    assert_int_equal(LEFT(own, used, V2("a/memory.max", "99999999999999999999\n")), UINT64_MAX);
    assert_int_equal(LEFT(own, used, V2("a/memory.max", "0\n")), 0);
    assert_int_equal(LEFT(own, used, V2("a/memory.max", "1000")), 700);
    assert_int_equal(LEFT(OWN("0:/a\n0\n\n"), used, V2("a/memory.max", "1000\n")), UINT64_MAX);
}

static void test_v1(void **state) {
    (void)state;
    const group_file own = OWN("5:cpu:/\n4:memory:/a\n0::/c\n"),
                     used = V2("memory/a/memory.usage_in_bytes", "300\n");
    assert_int_equal(LEFT(own, used, V2("memory/a/memory.limit_in_bytes", "1000\n")), 700);
    assert_int_equal(LEFT(own, used, V2("memory/a/memory.limit_in_bytes", "9223372036854771712\n")),
                     UINT64_MAX);
    /* An ancestor's limit; the page cache counts as free, that of descendants too. */
    assert_int_equal(LEFT(own, used, V2("memory/a/memory.limit_in_bytes", "1000\n"),
                          V2("memory/memory.usage_in_bytes", "900\n"),
                          V2("memory/memory.limit_in_bytes", "1100\n")),
                     200);
    assert_int_equal(LEFT(own, used, V2("memory/a/memory.limit_in_bytes", "1000\n"),
                          V2("memory/a/memory.stat", "cache 9\ninactive_file 1\nactive_file 2\n"
                                                     "total_inactive_file 100\n"
                                                     "total_active_file 50\n")),
                     850);
    /* In a container only the mount point exists. */
    assert_int_equal(LEFT(OWN("4:memory:/docker/a\n"), V2("memory/memory.usage_in_bytes", "300\n"),
                          V2("memory/memory.limit_in_bytes", "400\n")),
                     100);
    /* Controllers that are mounted together, and one whose name begins alike. */
    assert_int_equal(
        LEFT(OWN("4:cpu,memory:/a\n"), used, V2("memory/a/memory.limit_in_bytes", "1000\n")), 700);
    assert_int_equal(
        LEFT(OWN("4:memory2,cpu:/a\n"), used, V2("memory/a/memory.limit_in_bytes", "1000\n")),
        UINT64_MAX);
    /* v2 mounted beside v1: mostly without the memory controller, else what is less. */
    assert_int_equal(LEFT(own, used, V2("memory/a/memory.limit_in_bytes", "1000\n"),
                          V2("unified/c/cgroup.procs", "1\n")),
                     700);
    assert_int_equal(LEFT(own, used, V2("memory/a/memory.limit_in_bytes", "1000\n"),
                          V2("unified/c/memory.current", "10\n"),
                          V2("unified/c/memory.max", "50\n")),
                     40);
    assert_int_equal(
        LEFT(own, V2("unified/c/memory.current", "10\n"), V2("unified/c/memory.max", "50\n")), 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left),
                                       cmocka_unit_test(test_v2),
                                       cmocka_unit_test(test_v2_high),
                                       cmocka_unit_test(test_v2_nested),
                                       cmocka_unit_test(test_v2_namespace),
                                       cmocka_unit_test(test_v2_damaged),
                                       cmocka_unit_test(test_v1)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
