/* kill_test.c - Two writers of one folder are killed at random moments while a reader looks things
 * up: what is found is always whole and right, nothing is ever told to be damaged, and what they
 * leave behind is removed.  With SLUICE_LONG 1000 times. */
#include "tests/support/made_state.h"
#include "tests/support/rounds.h"

#include <signal.h>
#include <sys/wait.h>

enum { WRITERS = 2 };

static int notes;
static void on_note(void *ctx, const char *line) {
    (void)ctx;
    notes++;
    print_message("  note: %s\n", line);
}

static uint64_t budget(void) {
    return 12 * (25 * block_bytes + 4 * recurrent_bytes);
}

static sl_prefix_disk *open_disk(sl_note_fn *note) {
    sl_prefix_disk *disk;
    const sl_prefix_disk_options options = {.folder = test_path("kv"),
                                            .bytes = budget(),
                                            .forward = at->forward,
                                            .fingerprint = &at->fingerprint,
                                            .vocab = at->config.vocab,
                                            .allocator = &at->allocator,
                                            .note = note};
    must(sl_prefix_disk_create(&options, &disk, &err));
    return disk;
}

/* Writes entries until it is killed. */
static void write_entries(uint32_t number) {
    sl_prefix_disk *disk = open_disk(NULL);
    seed = number;
    for (;;) {
        made m;
        make(&m, 70 + draw(MOST - 70));
        sl_prefix_disk_add(disk, &m.content);
    }
}

static pid_t start_writer(uint32_t number) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) write_entries(number);
    return child;
}

/* Tokens that are reused; fails if what is found is wrong. */
static uint64_t look_up(sl_prefix_disk *disk) {
    static char found[1 << 22];
    made m;
    make(&m, 70 + draw(MOST - 70));
    const uint64_t count = m.content.to;
    const sl_prefix_match match = sl_prefix_disk_find(disk, m.tokens, count, count - 1);
    assert_true(match.usable <= match.same && match.usable < count);
    uint64_t next = 0;
    if (match.usable == 0 || sl_prefix_disk_load(disk, match.usable, &next, 0, 0) != SL_DISK_ALL)
        return 0;
    check_slot(m.tokens, match.usable);
    if (recurrent_bytes) {
        must(sl_slot_read_recurrent(at->forward, 0, found, &err));
        check_recurrent(m.tokens, match.usable, found);
    }
    return match.usable;
}

typedef struct {
    int entries, temporary;
    uint64_t bytes;
} folder_state;

static folder_state look_at_folder(void) {
    folder_state now = {0};
    char path[600];
    DIR *folder = opendir(test_path("kv"));
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        struct stat info;
        (void)snprintf(path, sizeof path, "%s/%s", test_path("kv"), e->d_name);
        if (!strstr(e->d_name, ".kv") || stat(path, &info) != 0) continue;
        now.bytes += (uint64_t)info.st_size;
        if (strstr(e->d_name, ".tmp-"))
            now.temporary++;
        else
            now.entries++;
    }
    if (folder) (void)closedir(folder);
    return now;
}

static void empty_folder(void) {
    char path[600];
    DIR *folder = opendir(test_path("kv"));
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        (void)snprintf(path, sizeof path, "%s/%s", test_path("kv"), e->d_name);
        if (e->d_name[0] != '.') (void)remove(path);
    }
    if (folder) (void)closedir(folder);
    (void)rmdir(test_path("kv"));
}

static void killed_writers_leave_nothing_wrong(void **state) {
    (void)state;
    const int most = is_long_run() ? 1000 : rounds(40);
    uint64_t reused = 0;
    int halves = 0, entries = 0;
    for (int i = 0; i < most; i++) {
        pid_t writers[WRITERS];
        use_model(i % 4 == 3); /* mostly the one with large entries */
        for (int w = 0; w < WRITERS; w++) writers[w] = start_writer((uint32_t)(i * WRITERS + w));
        sl_prefix_disk *disk = open_disk(on_note);
        seed = (uint32_t)i * 77 + 5;
        const useconds_t wait = 1000 + draw(is_slow_run() ? 200000 : 40000);
        if (i % 2) reused += look_up(disk); /* while they write */
        (void)usleep(wait);
        for (int w = 0; w < WRITERS; w++) {
            int status;
            assert_int_equal(kill(writers[w], SIGKILL), 0);
            assert_int_equal(waitpid(writers[w], &status, 0), writers[w]);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
        halves += look_at_folder().temporary;
        for (int t = 0; t < 4; t++) {
            if (t < WRITERS) seed = (uint32_t)(i * WRITERS + t); /* what a writer wrote first */
            reused += look_up(disk);
        }
        sl_prefix_disk_destroy(disk);
        disk = open_disk(on_note); /* as after a restart */
        for (int t = 0; t < 4; t++) reused += look_up(disk);
        made m;
        make(&m, 300);
        for (int t = 0; t < 300; t++) m.tokens[t] += (sl_token)(300 + i % 500); /* is new */
        sl_prefix_disk_add(disk, &m.content);
        const folder_state now = look_at_folder();
        assert_int_equal(now.temporary, 0);
        assert_true(now.bytes <= budget());
        entries += now.entries;
        sl_prefix_disk_destroy(disk);
        assert_int_equal(notes, 0);
    }
    print_message("  %d times %d writers killed, %d of them with a file half written; %llu tokens "
                  "reused, %d entries on average\n",
                  most, WRITERS, halves, (unsigned long long)reused, entries / most);
    assert_true(reused > 0 && entries > most);
    empty_folder();
}

static int tear_down(void **state) {
    close_models();
    return remove_test_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_writers_leave_nothing_wrong),
    };
    return cmocka_run_group_tests(tests, open_models, tear_down);
}
