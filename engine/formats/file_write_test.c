/* file_write_test.c - What writers do with what is at their destination already. */
#include "tests/support/folder.h"

#include "engine/formats/file.h"
#include "engine/formats/source.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static sl_error err;

static sl_status write_to(const char *path, const char *text) {
    sl_file_writer writer;
    err = (sl_error){0};
    sl_status status = sl_file_writer_open(&writer, path, NULL, &err);
    if (status == SL_OK) status = sl_file_writer_append(&writer, text, strlen(text), &err);
    if (status == SL_OK) status = sl_file_writer_commit(&writer, &err);
    sl_file_writer_close(&writer);
    return status;
}

static void expect_content(const char *path, const char *wanted) {
    char found[64] = "";
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    (void)fread(found, 1, sizeof found - 1, file);
    (void)fclose(file);
    assert_string_equal(found, wanted);
}

static int count_entries(void) {
    int count = 0;
    DIR *folder = opendir(test_folder);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    (void)closedir(folder);
    return count;
}

static void regular_files_are_replaced(void **state) {
    (void)state;
    struct stat info;
    assert_int_equal(write_to(test_path("a"), "one"), SL_OK);
    assert_int_equal(chmod(test_path("a"), 0640), 0);
    assert_int_equal(write_to(test_path("a"), "two"), SL_OK);
    expect_content(test_path("a"), "two");
    assert_int_equal(stat(test_path("a"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(count_entries(), 1);
}

static void links_stay(void **state) {
    (void)state;
    struct stat info;
    assert_int_equal(mkdir(test_path("sub"), 0777), 0);
    assert_int_equal(write_to(test_path("sub/real"), "one"), SL_OK);
    assert_int_equal(symlink("sub/real", test_path("link")), 0);
    assert_int_equal(write_to(test_path("link"), "two"), SL_OK);
    assert_int_equal(lstat(test_path("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    expect_content(test_path("sub/real"), "two");
    assert_int_equal(symlink("nowhere", test_path("dangling")), 0);
    assert_int_equal(write_to(test_path("dangling"), "x"), SL_IO);
    expect_message(&err, "leads to no file");
    (void)unlink(test_path("sub/real"));
    (void)rmdir(test_path("sub"));
}

static void folders_are_refused_at_once(void **state) {
    (void)state;
    sl_file_writer writer;
    assert_int_equal(mkdir(test_path("sub"), 0777), 0);
    assert_int_equal(sl_file_writer_open(&writer, test_path("sub"), NULL, &err), SL_IO);
    sl_file_writer_close(&writer);
    expect_message(&err, "is a folder, wanted a file");
    assert_int_equal(count_entries(), 1);
    (void)rmdir(test_path("sub"));
}

static void pipes_and_devices_are_written_to(void **state) {
    (void)state;
    char found[8] = "";
    struct stat info;
    assert_int_equal(mkfifo(test_path("pipe"), 0666), 0);
    assert_int_equal(write_to(test_path("pipe"), "x"), SL_IO);
    expect_message(&err, "nobody reads");
    const int reader = open(test_path("pipe"), O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(write_to(test_path("pipe"), "text"), SL_OK);
    assert_int_equal(read(reader, found, sizeof found), 4);
    assert_string_equal(found, "text");
    (void)close(reader);
    assert_int_equal(lstat(test_path("pipe"), &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(write_to("/dev/null", "x"), SL_OK);
    assert_int_equal(write_to("/dev/full", "x"), SL_IO);
    assert_int_equal(count_entries(), 1);
}

/* A pipe as a model waits for nobody. */
static void pipes_are_no_models(void **state) {
    (void)state;
    sl_source *source = NULL;
    assert_int_equal(mkfifo(test_path("m.gguf"), 0666), 0);
    assert_int_equal(sl_source_open(test_path("m.gguf"), NULL, &source, &err), SL_IO);
    expect_message(&err, "not a regular file");
    assert_int_equal(sl_source_open(test_folder, NULL, &source, &err), SL_IO);
    expect_message(&err, "not a regular file");
}

/* What a killed process has left is removed, what another one is writing is not. */
static void stale_files_are_removed(void **state) {
    (void)state;
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    write_test_file("a.tmp-0123456789abcdef", "old", 3);
    write_test_file("a.tmp-0123456789abcde", "another name", 12);
    write_test_file("b.tmp-0123456789abcdef", "another file's", 14);
    const pid_t other = fork();
    if (other == 0) {
        sl_file_writer writer;
        if (sl_file_writer_open(&writer, test_path("a"), NULL, &err) == SL_OK)
            (void)!write(ready[1], "x", 1);
        (void)pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(count_entries(), 3); /* two of other names, and the child's */
    assert_int_equal(write_to(test_path("a"), "one"), SL_OK);
    assert_int_equal(count_entries(), 4);
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_int_equal(write_to(test_path("a"), "two"), SL_OK);
    assert_int_equal(count_entries(), 3);
    expect_content(test_path("a"), "two");
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static void checks_before_long_work(void **state) {
    (void)state;
    assert_int_equal(sl_file_check_new(test_path("a"), false, &err), SL_OK);
    write_test_file("a", "x", 1);
    assert_int_equal(sl_file_check_new(test_path("a"), false, &err), SL_IO);
    expect_message(&err, "exists");
    assert_int_equal(sl_file_check_new(test_path("a"), true, &err), SL_OK);
    assert_int_equal(sl_file_check_new(test_folder, true, &err), SL_IO);
    assert_int_equal(sl_file_check_new("/dev/null", true, &err), SL_IO);
    assert_int_equal(sl_file_check_space(test_path("a"), 1, &err), SL_OK);
    assert_int_equal(sl_file_check_space(test_path("a"), UINT64_MAX, &err), SL_IO);
    expect_message(&err, "No space left on device");
    assert_int_equal(link(test_path("a"), test_path("same")), 0);
    assert_true(sl_file_is_same(test_path("a"), test_path("same")));
    assert_false(sl_file_is_same(test_path("a"), test_path("none")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(regular_files_are_replaced, empty_test_folder),
        cmocka_unit_test_teardown(links_stay, empty_test_folder),
        cmocka_unit_test_teardown(folders_are_refused_at_once, empty_test_folder),
        cmocka_unit_test_teardown(pipes_and_devices_are_written_to, empty_test_folder),
        cmocka_unit_test_teardown(pipes_are_no_models, empty_test_folder),
        cmocka_unit_test_teardown(stale_files_are_removed, empty_test_folder),
        cmocka_unit_test_teardown(checks_before_long_work, empty_test_folder),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
