/* peak.h - The memory that opening a tokenizer takes, measured in a process of its own. */
#ifndef SL_TESTS_SUPPORT_PEAK_H
#define SL_TESTS_SUPPORT_PEAK_H
#include "sluice/sluice.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A figure of this process in KiB: "VmHWM:" is the most memory it ever had, "VmRSS:" what it has.
 * Unlike those of getrusage, they do not count what was there before exec. */
static inline long memory_kib(const char *figure) {
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && kib < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, figure, strlen(figure)) == 0)
            kib = strtol(line + strlen(figure), NULL, 10);
    if (file) (void)fclose(file);
    return kib;
}

/* For main: opens words[2] if words[1] asks for it, and prints by how many KiB the most and the
 * present memory have grown.  Returns false if there is something else to do. */
static inline bool measure_for_parent(int count, char **words) {
    if (count != 3 || strcmp(words[1], "measure") != 0) return false;
    sl_vocabulary *vocabulary;
    sl_error err;
    const long before = memory_kib("VmRSS:");
    if (sl_vocabulary_open(words[2], &vocabulary, &err) != SL_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        return true;
    }
    (void)printf("%ld %ld\n", memory_kib("VmHWM:") - before, memory_kib("VmRSS:") - before);
    (void)fflush(stdout);
    sl_vocabulary_close(vocabulary);
    return true;
}

/* Runs this program again to open a tokenizer; false if that fails. */
static inline bool measure_opening(const char *path, long *out_peak_kib, long *out_kept_kib) {
    char program[512], command[2048];
    const ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    if (bytes <= 0) return false;
    program[bytes] = '\0';
    (void)snprintf(command, sizeof command, "'%s' measure '%s'", program, path);
    FILE *child = popen(command, "r");
    if (!child) return false;
    const bool read = fscanf(child, "%ld %ld", out_peak_kib, out_kept_kib) == 2;
    return pclose(child) == 0 && read;
}

/* Sanitizers multiply memory. */
static inline bool memory_is_measured(void) {
    return !getenv("SLUICE_SANITIZED");
}
#endif
