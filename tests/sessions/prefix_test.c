/* prefix_test.c - The radix tree of prefixes and the folder of them, with made-up states: whatever
 * is added, dropped, damaged or removed, what is found are the bytes that belong to these tokens.
 */
#include "tests/support/made_state.h"
#include "tests/support/rounds.h"

#include <fcntl.h>
#include <sys/file.h>

/* ---- the tree ---- */

static uint64_t dropped_tokens;
static void on_dropped(void *ctx, const sl_state_content *content) {
    static char bytes[1 << 22];
    (void)ctx;
    dropped_tokens += content->to - content->from;
    for (uint32_t i = 0; i < content->length_count; i++) {
        assert_int_equal(content->recurrent(content->ctx, i, bytes, &err), SL_OK);
        check_recurrent(content->tokens, content->lengths[i], bytes);
    }
    assert_int_equal(content->blocks(content->ctx, content->from / 16, 1, bytes, &err), SL_OK);
}

enum { SOME_BYTES = 1 << 19 }; /* for tokens and nodes */

static sl_prefix_tree *new_tree(uint64_t pages, uint64_t bytes) {
    const sl_prefix_tree_options options = {.forward = at->forward,
                                            .fingerprint = &at->fingerprint,
                                            .vocab = at->config.vocab,
                                            .most_pages = pages,
                                            .most_bytes = bytes,
                                            .allocator = &at->allocator,
                                            .dropped = on_dropped};
    sl_prefix_tree *tree;
    must(sl_prefix_tree_create(&options, &tree, &err));
    return tree;
}

static void look_up(sl_prefix_tree *tree, const sl_token *tokens, uint64_t count) {
    const sl_prefix_match match = sl_prefix_tree_find(tree, tokens, count, count - 1);
    assert_true(match.same <= count && match.usable < count && match.usable <= match.same);
    if (match.usable == 0) return;
    spoil_slot();
    must(sl_prefix_tree_load(tree, tokens, match.usable, 0, &err));
    check_slot(tokens, match.usable);
    const void *state = sl_prefix_tree_recurrent(tree, tokens, match.usable);
    if (recurrent_bytes) check_recurrent(tokens, match.usable, state);
}

/* No page has a reference when no slot has one. */
static void check_pages_are_free(void) {
    sl_kv_pages *pages = sl_forward_kv_pages(at->forward);
    for (uint32_t slot = 0; slot < 2; slot++) sl_kv_pages_truncate(pages, slot, 0);
    const sl_kv_pages_stats stats = sl_kv_pages_describe(pages);
    assert_int_equal(stats.free, stats.count);
}

static void what_a_tree_finds_belongs_to_the_tokens(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        static const uint64_t pages[] = {250, 15, 3};
        use_model(which);
        for (int b = 0; b < 3; b++) {
            sl_prefix_tree *tree = new_tree(pages[b], SOME_BYTES + 5 * recurrent_bytes);
            seed = (uint32_t)(which * 10 + b);
            dropped_tokens = 0;
            uint64_t reused = 0;
            for (int i = 0; i < rounds(300); i++) {
                made m;
                make(&m, 20 + draw(MOST - 20));
                const sl_prefix_match match =
                    sl_prefix_tree_find(tree, m.tokens, m.content.to, m.content.to - 1);
                reused += match.usable;
                look_up(tree, m.tokens, m.content.to);
                put_in_pages(&m);
                sl_prefix_tree_add(tree, &m.content);
                if (!sl_prefix_tree_verify(tree)) fail_msg("the tree is wrong after %d", i);
                look_up(tree, m.tokens, m.content.to);
            }
            print_message("  model %d, %llu pages: %llu tokens reused, %llu dropped\n", which,
                          (unsigned long long)pages[b], (unsigned long long)reused,
                          (unsigned long long)dropped_tokens);
            assert_true(reused > 0);
            assert_true(b == 0 || dropped_tokens > 0);
            sl_prefix_tree_destroy(tree);
            check_pages_are_free();
        }
    }
}

/* Everything is found as long as there is room, and what was used last stays. */
static void a_tree_keeps_what_was_used_last(void **state) {
    (void)state;
    use_model(1);
    made kept, other;
    seed = 1;
    make(&kept, 300);
    sl_prefix_tree *tree = new_tree(13, SOME_BYTES);
    put_in_pages(&kept);
    sl_prefix_tree_add(tree, &kept.content);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(sl_prefix_tree_find(tree, kept.tokens, 300, 299).usable, 299);
        make(&other, 200);
        for (int t = 0; t < 200; t++) other.tokens[t] += 200 + i; /* shares nothing */
        put_in_pages(&other);
        sl_prefix_tree_add(tree, &other.content);
        assert_true(sl_prefix_tree_verify(tree));
        (void)usleep(2000);
    }
    sl_prefix_tree_destroy(tree);
}

static void a_tree_bears_failing_memory(void **state) {
    (void)state;
    const sl_allocator allocator = models[0]->allocator;
    for (int which = 0; which < 2; which++) {
        use_model(which);
        for (long left = 1; left < 60; left++) {
            failing_memory memory = {.left = 1L << 40};
            at->allocator = (sl_allocator){failing_resize, &memory};
            sl_prefix_tree *tree = new_tree(1000, 1ull << 30);
            seed = (uint32_t)left;
            made m;
            make(&m, 150);
            put_in_pages(&m);
            sl_prefix_tree_add(tree, &m.content);
            for (int i = 0; i < 4; i++) {
                make(&m, 50 + draw(MOST - 50));
                put_in_pages(&m);
                memory.left = left;
                sl_prefix_tree_add(tree, &m.content);
                memory.left = 1L << 40;
                assert_true(sl_prefix_tree_verify(tree));
                look_up(tree, m.tokens, m.content.to);
            }
            sl_prefix_tree_destroy(tree);
            at->allocator = allocator;
        }
    }
}

/* ---- the folder ---- */

static char last_note[600];
static int notes;
static void on_note(void *ctx, const char *line) {
    (void)ctx;
    notes++;
    (void)snprintf(last_note, sizeof last_note, "%s", line);
    assert_null(strchr(line, '\n'));
}

static sl_prefix_disk *open_disk(uint64_t bytes) {
    sl_prefix_disk *disk;
    const sl_prefix_disk_options options = {.folder = test_path("kv"),
                                            .bytes = bytes,
                                            .forward = at->forward,
                                            .fingerprint = &at->fingerprint,
                                            .vocab = at->config.vocab,
                                            .allocator = &at->allocator,
                                            .note = on_note};
    must(sl_prefix_disk_create(&options, &disk, &err));
    notes = 0;
    return disk;
}

typedef void visit_fn(const char *path, const char *name, void *ctx);
static void each_file(visit_fn *visit, void *ctx) {
    DIR *folder = opendir(test_path("kv"));
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        char path[600];
        (void)snprintf(path, sizeof path, "%s/%s", test_path("kv"), e->d_name);
        if (e->d_name[0] != '.') visit(path, e->d_name, ctx);
    }
    if (folder) (void)closedir(folder);
}
static void remove_file(const char *path, const char *name, void *ctx) {
    (void)name, (void)ctx;
    (void)remove(path);
}
static void add_size(const char *path, const char *name, void *ctx) {
    struct stat info;
    if (strcmp(name, "lock") != 0 && stat(path, &info) == 0)
        *(uint64_t *)ctx += (uint64_t)info.st_size;
}
static void count_file(const char *path, const char *name, void *ctx) {
    (void)path;
    *(int *)ctx += strcmp(name, "lock") != 0;
}
static int count_entries(void) {
    int count = 0;
    each_file(count_file, &count);
    return count;
}
static int empty_folder(void **state) {
    (void)chmod(test_path("kv"), 0700);
    each_file(remove_file, NULL);
    (void)rmdir(test_path("kv"));
    return empty_test_folder(state);
}

static uint64_t look_on_disk(sl_prefix_disk *disk, const sl_token *tokens, uint64_t count) {
    static char found[1 << 22];
    const sl_prefix_match match = sl_prefix_disk_find(disk, tokens, count, count - 1);
    assert_true(match.usable < count && match.usable <= match.same);
    if (match.usable == 0) return 0;
    spoil_slot();
    uint64_t next = 0;
    if (sl_prefix_disk_load(disk, match.usable, &next, 0, 0) != SL_DISK_ALL) return 0;
    check_slot(tokens, match.usable);
    if (recurrent_bytes) {
        must(sl_slot_read_recurrent(at->forward, 0, found, &err));
        check_recurrent(tokens, match.usable, found);
    }
    return match.usable;
}

/* Two that share a folder, one of them opened again and again. */
static void what_a_folder_finds_belongs_to_the_tokens(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        use_model(which);
        const uint64_t most = 40 * (20 * block_bytes + recurrent_bytes);
        sl_prefix_disk *one = open_disk(most), *two = NULL;
        seed = (uint32_t)which;
        uint64_t reused = 0;
        for (int i = 0; i < rounds(120); i++) {
            made m;
            make(&m, 70 + draw(MOST - 70));
            if (i % 5 == 0) {
                sl_prefix_disk_destroy(two);
                two = open_disk(most);
            }
            reused += look_on_disk(one, m.tokens, m.content.to);
            sl_prefix_disk_add(i % 2 ? one : two, &m.content);
            const uint64_t again = look_on_disk(i % 2 ? two : one, m.tokens, m.content.to);
            if (!recurrent_bytes) assert_true(again + 64 >= m.content.to - 1);
            uint64_t bytes = 0;
            each_file(add_size, &bytes);
            assert_true(bytes <= most);
        }
        assert_int_equal(notes, 0);
        assert_true(reused > 0);
        print_message("  model %d: %llu tokens reused from %d entries\n", which,
                      (unsigned long long)reused, count_entries());
        sl_prefix_disk_destroy(one);
        sl_prefix_disk_destroy(two);
        (void)empty_folder(NULL);
    }
}

static void damage(const char *path, const char *name, void *ctx) {
    if (strcmp(name, "lock") == 0) return;
    struct stat info;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    const off_t offset = *(int *)ctx ? info.st_size - 100 : 100;
    const char junk[] = "damaged";
    assert_int_equal(pwrite(fd, junk, sizeof junk, offset), sizeof junk);
    (void)close(fd);
}

static void damaged_entries_are_told_once_and_removed(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++)
        for (int end = 0; end < 2; end++) {
            use_model(which);
            sl_prefix_disk *disk = open_disk(1ull << 30);
            made m;
            seed = 5;
            make(&m, 200);
            sl_prefix_disk_add(disk, &m.content);
            assert_int_equal(count_entries(), 1);
            assert_true(look_on_disk(disk, m.tokens, 200) > 0);
            each_file(damage, &end);
            sl_prefix_disk_destroy(disk);
            disk = open_disk(1ull << 30);
            assert_int_equal(look_on_disk(disk, m.tokens, 200), 0);
            assert_int_equal(notes, 1);
            if (!strstr(last_note, "damaged")) fail_msg("'%s'", last_note);
            assert_int_equal(look_on_disk(disk, m.tokens, 200), 0);
            assert_int_equal(notes, 1);
            assert_int_equal(count_entries(), 0);
            sl_prefix_disk_add(disk, &m.content); /* goes on */
            assert_true(look_on_disk(disk, m.tokens, 200) > 0);
            sl_prefix_disk_destroy(disk);
            (void)empty_folder(NULL);
        }
}

/* Files that others put there, and temporary files of killed writers. */
static void only_entries_are_touched(void **state) {
    (void)state;
    use_model(1);
    sl_prefix_disk *disk = open_disk(1ull << 30);
    made m;
    seed = 6;
    make(&m, 200);
    char path[600], stale[600], held[600];
    (void)snprintf(path, sizeof path, "%s/notes.txt", test_path("kv"));
    (void)snprintf(stale, sizeof stale, "%s/%016llx-0-64-0123456789abcdef.kv.tmp-0123456789abcdef",
                   test_path("kv"), 77ull);
    (void)snprintf(held, sizeof held, "%s/%016llx-0-80-0123456789abcdef.kv.tmp-0123456789abcdef",
                   test_path("kv"), 77ull);
    for (int i = 0; i < 3; i++) {
        FILE *file = fopen(i == 0 ? path : i == 1 ? stale : held, "w");
        assert_non_null(file);
        (void)fclose(file);
    }
    const int fd = open(held, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    sl_prefix_disk_add(disk, &m.content);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(access(held, F_OK), 0);
    assert_int_not_equal(access(stale, F_OK), 0);
    assert_int_equal(notes, 0);
    (void)close(fd);
    use_model(0); /* entries of another model are not looked at */
    sl_prefix_disk *other = open_disk(1ull << 30);
    assert_int_equal(sl_prefix_disk_find(other, m.tokens, 200, 199).same, 0);
    assert_int_equal(notes, 0);
    sl_prefix_disk_destroy(other);
    sl_prefix_disk_destroy(disk);
}

static void what_cannot_be_written_is_told(void **state) {
    (void)state;
    use_model(1);
    made m;
    seed = 8;
    make(&m, 200);
    sl_prefix_disk *disk = open_disk(1000);
    sl_prefix_disk_add(disk, &m.content);
    assert_int_equal(notes, 1);
    if (!strstr(last_note, "the folder may have 1000")) fail_msg("'%s'", last_note);
    sl_prefix_disk_destroy(disk);
    if (geteuid() != 0) { /* who may write anywhere */
        (void)chmod(test_path("kv"), 0500);
        disk = open_disk(1 << 30);
        sl_prefix_disk_add(disk, &m.content);
        assert_int_equal(notes, 1);
        sl_prefix_disk_destroy(disk);
    }
    (void)empty_folder(NULL);
    write_test_file("kv", "a file", 6);
    sl_prefix_disk_options options = {.folder = test_path("kv"),
                                      .bytes = 1,
                                      .forward = at->forward,
                                      .fingerprint = &at->fingerprint,
                                      .allocator = &at->allocator};
    assert_int_equal(sl_prefix_disk_create(&options, &disk, &err), SL_IO);
    expect_message(&err, "not a folder");
    options.folder = "/nonexistent/folder";
    assert_int_equal(sl_prefix_disk_create(&options, &disk, &err), SL_IO);
    expect_message(&err, "cannot make the folder");
    (void)remove(test_path("kv"));
    /* The folder disappears while it is in use. */
    disk = open_disk(1 << 30);
    (void)empty_folder(NULL);
    sl_prefix_disk_add(disk, &m.content);
    assert_true(notes > 0);
    sl_prefix_disk_destroy(disk);
}

static int tear_down(void **state) {
    close_models();
    (void)empty_folder(state);
    return remove_test_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_tree_finds_belongs_to_the_tokens),
        cmocka_unit_test(a_tree_keeps_what_was_used_last),
        cmocka_unit_test(a_tree_bears_failing_memory),
        cmocka_unit_test_teardown(what_a_folder_finds_belongs_to_the_tokens, empty_folder),
        cmocka_unit_test_teardown(damaged_entries_are_told_once_and_removed, empty_folder),
        cmocka_unit_test_teardown(only_entries_are_touched, empty_folder),
        cmocka_unit_test_teardown(what_cannot_be_written_is_told, empty_folder),
    };
    return cmocka_run_group_tests(tests, open_models, tear_down);
}
