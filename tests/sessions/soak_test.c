/* soak_test.c - soak_test [SESSIONS SECONDS [RECORD [SEED]]]: three models at the same time, each
 * with sessions that live at random (tests/support/soak.h).  Without arguments a few; SECONDS
 * spreads the sessions over that time, and RECORD gets the memory of the process once a second. */
#include "base/clock.h"
#include "tests/support/peak.h"
#include "tests/support/rounds.h"
#include "tests/support/soak.h"
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { WORLDS = 3, AT_ONCE = 24 };

static const char attention_only[] =
    "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 1280, \"hidden_size\": 64,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
    " \"head_dim\": 32, \"num_experts\": 8, \"num_experts_per_tok\": 2,"
    " \"moe_intermediate_size\": 32, \"tie_word_embeddings\": false}";

static char folder[64], attention_path[128];
static soak_counts counts;
static double start;
static soak_world worlds[WORLDS] = {
    {.name = "hybrid, caches",
     .path = "models/fable",
     .options = {.compile = "exact", .prefix_cache_bytes = 6 << 20},
     .disk_bytes = 24 << 20},
    {.name = "hybrid, few experts",
     .path = "models/fable",
     .options = {.expert_budget_share = 0.2},
     .only_bits = true},
    {.name = "attention, caches",
     .path = attention_path,
     .options = {.prefix_cache_bytes = 1 << 20},
     .any_division = true,
     .disk_bytes = 4 << 20},
};

static void on_note(void *ctx, const char *line) {
    (void)ctx;
    soak_fail("the cache on disk", line);
}

/* ---- worlds ---- */

static void open_world(soak_world *world, uint64_t seed) {
    sl_error err;
    sl_model_options options = world->options;
    options.struct_size = sizeof options;
    options.device = "cpu";
    options.threads = 2;
    options.max_sessions = SOAK_SESSIONS;
    options.context_tokens = SOAK_CONTEXT;
    options.allocator = soak_allocator(&world->memory);
    world->counts = &counts;
    world->random.state = seed;
    (void)snprintf(world->folder, sizeof world->folder, "%s/%d", folder, (int)(world - worlds));
    if (mkdir(world->folder, 0700) != 0) soak_fail(world->folder, "cannot be made");
    soak_must(sl_model_open(world->path, &options, &world->model, &err), &err);
    sl_model_info info = {.struct_size = sizeof info};
    soak_must(sl_model_describe(world->model, &info, &err), &err);
    world->vocab = info.vocab;
    const sl_disk_cache_options disk = {.struct_size = sizeof disk,
                                        .folder = world->folder,
                                        .bytes = world->disk_bytes,
                                        .note = on_note};
    if (disk.bytes) soak_must(sl_model_cache_on_disk(world->model, &disk, &err), &err);
}

static void remove_folder(const char *path) {
    char name[600];
    DIR *directory = opendir(path);
    for (const struct dirent *e; directory && (e = readdir(directory));) {
        (void)snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) (void)remove(name);
    }
    if (directory) (void)closedir(directory);
    if (rmdir(path) != 0) soak_fail(path, "cannot be removed");
}

/* Everything is given back with the model. */
static void close_world(soak_world *world) {
    char why[96];
    sl_model_close(world->model);
    world->model = NULL;
    const long long blocks = atomic_load(&world->memory.blocks);
    const long long bytes = atomic_load(&world->memory.bytes);
    (void)snprintf(why, sizeof why, "%lld blocks, %lld bytes leak", blocks, bytes);
    if (blocks || bytes) soak_fail(world->name, why);
    remove_folder(world->folder);
}

/* Without sessions there is what the model has, and its caches. */
static void look_at_idle_memory(soak_world *world) {
    const int64_t blocks = atomic_load(&world->memory.blocks);
    const int64_t bytes = atomic_load(&world->memory.bytes);
    if (blocks > world->idle_blocks) world->idle_blocks = blocks;
    if (bytes > world->idle_bytes) world->idle_bytes = bytes;
}

static void *run_world(void *ctx) {
    soak_world *world = ctx;
    const uint64_t half = (world->pace.sessions + 1) / 2;
    const uint32_t lives = half < AT_ONCE ? (uint32_t)half : AT_ONCE;
    while (soak_wait(&world->pace)) {
        soak_batches(world, lives);
        look_at_idle_memory(world);
        if (!soak_wait(&world->pace)) break;
        soak_requests(world, lives);
        look_at_idle_memory(world);
    }
    return NULL;
}

/* ---- the record ---- */

static atomic_bool recording;

static int count_files(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory)) count++;
    if (directory) (void)closedir(directory);
    return count - 3; /* ., .. and this one */
}

static void write_line(FILE *file) {
    long long blocks = 0, bytes = 0;
    for (int i = 0; i < WORLDS; i++) {
        blocks += atomic_load(&worlds[i].memory.blocks);
        bytes += atomic_load(&worlds[i].memory.bytes);
    }
    (void)fprintf(file, "%.1f,%llu,%ld,%lld,%lld,%d\n", sl_clock_seconds() - start,
                  (unsigned long long)atomic_load(&counts.lives), memory_kib("VmRSS:"), blocks,
                  bytes, count_files());
    (void)fflush(file);
}

static void *record(void *ctx) {
    FILE *file = ctx;
    (void)fprintf(file, "seconds,sessions,rss_kib,blocks,bytes,files\n");
    while (atomic_load(&recording)) {
        write_line(file);
        (void)usleep(1000000);
    }
    write_line(file);
    return NULL;
}

/* ---- all of it ---- */

static unsigned long long of(const atomic_uint_fast64_t *count) {
    return atomic_load(count);
}

static void report(double seconds) {
    struct rusage use = {0};
    (void)getrusage(RUSAGE_SELF, &use);
    (void)printf("%llu sessions in %.0f s, %.0f s of processor time: %llu tokens, %llu passes of "
                 "batches, %llu requests, %llu cancels, %llu forks, %llu files, %llu rewinds\n",
                 of(&counts.lives), seconds, (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec),
                 of(&counts.tokens), of(&counts.batches), of(&counts.requests), of(&counts.cancels),
                 of(&counts.forks), of(&counts.files), of(&counts.rewinds));
    (void)printf("%llu times brought to other tokens, %llu of them reused; %llu sessions with "
                 "%llu tokens compared with one alone, %llu of them within rounding\n",
                 of(&counts.syncs), of(&counts.reused), of(&counts.checked),
                 of(&counts.checked_tokens), of(&counts.near));
    for (int i = 0; i < WORLDS; i++)
        (void)printf("%s: without sessions at most %lld blocks, %lld bytes\n", worlds[i].name,
                     (long long)worlds[i].idle_blocks, (long long)worlds[i].idle_bytes);
}

static void run(FILE *file, uint64_t seed) {
    pthread_t threads[WORLDS], recorder;
    for (int i = 0; i < WORLDS; i++) open_world(&worlds[i], seed + (uint64_t)i);
    start = sl_clock_seconds();
    for (int i = 0; i < WORLDS; i++) worlds[i].pace.start = start;
    atomic_store(&recording, true);
    if (file && pthread_create(&recorder, NULL, record, file) != 0)
        soak_fail("the record", "no thread");
    for (int i = 0; i < WORLDS; i++)
        if (pthread_create(&threads[i], NULL, run_world, &worlds[i]) != 0)
            soak_fail("a model", "no thread");
    for (int i = 0; i < WORLDS; i++) (void)pthread_join(threads[i], NULL);
    report(sl_clock_seconds() - start);
    atomic_store(&recording, false);
    if (file) (void)pthread_join(recorder, NULL);
    for (int i = 0; i < WORLDS; i++) close_world(&worlds[i]);
}

static void make_attention_model(void) {
    char path[128];
    sl_error err;
    const sl_synth_options options = {.struct_size = sizeof options};
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    (void)snprintf(attention_path, sizeof attention_path, "%s/m.sluice", folder);
    FILE *file = fopen(path, "w");
    if (!file || fputs(attention_only, file) < 0 || fclose(file) != 0)
        soak_fail(path, "cannot be written");
    soak_must(sl_synth_write(path, attention_path, &options, &err), &err);
}

int main(int count, char **words) {
    const uint64_t sessions = count > 1 ? strtoull(words[1], NULL, 10) : is_slow_run() ? 24 : 150;
    for (int i = 0; i < WORLDS; i++)
        worlds[i].pace = (soak_pace){.sessions = sessions / WORLDS,
                                     .seconds = count > 2 ? strtod(words[2], NULL) : 0};
    FILE *file = count > 3 ? fopen(words[3], "w") : NULL;
    if (count > 3 && !file) soak_fail(words[3], "cannot be written");
    (void)snprintf(folder, sizeof folder, "/tmp/sluice-soak-XXXXXX");
    if (!mkdtemp(folder)) soak_fail(folder, "cannot be made");
    make_attention_model();
    run(file, count > 4 ? strtoull(words[4], NULL, 10) : 1);
    if (file) (void)fclose(file);
    remove_folder(folder);
    return 0;
}
