/* reader_bench.c - Speed of random reads from a file, by kind of reader and number of reads in
 * flight: the floor of expert streaming.  Buffers are on huge pages, like expert slots.
 *
 *   reader_bench FILE [piece_bytes [seconds]]     default: 1769472 and 1; without FILE, a small
 * file */
#include "base/clock.h"
#include "base/sizes.h"
#include "io/reader.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { DEFAULT_BYTES = 1769472, BUFFERS = 64, SMALL_FILE_BYTES = 64 << 20 };

typedef struct {
    const char *path;
    uint64_t file_bytes, piece_bytes;
    double seconds;
    unsigned char *memory; /* [BUFFERS] pieces */
} subject;

static uint64_t random_offset(const subject *s, uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 20) % (s->file_bytes / s->piece_bytes) * s->piece_bytes;
}

static double processor_seconds(void) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Keeps `depth` reads in flight for the given time.  False on failure. */
static bool measure(const subject *s, sl_reader_kind kind, uint32_t depth, uint64_t *state) {
    const sl_reader_options options = {.kind = kind, .depth = depth};
    sl_reader *reader = NULL;
    sl_error err = {0};
    if (sl_reader_open(&s->path, 1, &options, NULL, &reader, &err) != SL_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        return false;
    }
    const double processor = processor_seconds(), begin = sl_clock_seconds();
    uint64_t submitted = 0, done = 0;
    sl_status status = SL_OK;
    while (status == SL_OK) {
        const bool late = sl_clock_seconds() - begin > s->seconds;
        while (!late && status == SL_OK && submitted < done + depth) {
            const sl_read read = {.offset = random_offset(s, state),
                                  .bytes = s->piece_bytes,
                                  .into = s->memory + submitted++ % BUFFERS * s->piece_bytes};
            status = sl_reader_submit(reader, &read, &err);
        }
        if (status != SL_OK || done == submitted) break;
        sl_read_result result;
        status = sl_reader_next(reader, &result, &err);
        if (status == SL_OK && (status = result.status) != SL_OK) err = result.error;
        done++;
    }
    const double elapsed = sl_clock_seconds() - begin;
    if (status == SL_OK)
        (void)printf("%-9s depth %2u  %6.2f GB/s  %5.2f ms a read  %3.0f %% of a core\n",
                     sl_reader_name(reader), depth,
                     (double)(done * s->piece_bytes) / elapsed * 1e-9,
                     elapsed * depth / (double)done * 1e3,
                     100 * (processor_seconds() - processor) / elapsed);
    else
        (void)fprintf(stderr, "%s\n", err.message);
    sl_reader_close(reader);
    return status == SL_OK;
}

/* A file to read if none is given; on failure it is removed at once. */
static bool make_small_file(char *path) {
    const int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) return false;
    for (uint32_t i = 0; i < SMALL_FILE_BYTES; i++) (void)putc((int)(i * 7919u >> 24), file);
    return fclose(file) == 0;
}

int main(int argc, char **argv) {
    static const uint32_t depths[] = {1, 2, 4, 8, 16, 32};
    char small[] = "reader_bench.XXXXXX";
    subject s = {.path = argc > 1 ? argv[1] : small,
                 .piece_bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : DEFAULT_BYTES,
                 .seconds = argc > 3 ? strtod(argv[3], NULL) : 1};
    if (argc < 2 && !make_small_file(small)) return 1;
    s.piece_bytes = sl_round_up(s.piece_bytes, 4096);
    struct stat info;
    bool fine = stat(s.path, &info) == 0 && (uint64_t)info.st_size >= s.piece_bytes;
    s.file_bytes = fine ? (uint64_t)info.st_size : 0;
    s.memory = sl_allocate(NULL, BUFFERS * s.piece_bytes, 4096);
    fine &= s.memory != NULL;
    if (!fine) (void)fprintf(stderr, "%s: too small\n", s.path);
    uint64_t state = 1;
    for (size_t i = 0; fine && i < sizeof depths / sizeof depths[0]; i++)
        fine = measure(&s, SL_READER_AUTO, depths[i], &state) &&
               measure(&s, SL_READER_THREADS, depths[i], &state);
    sl_release(NULL, s.memory, BUFFERS * s.piece_bytes, 4096);
    if (argc < 2) (void)remove(small);
    return !fine;
}
