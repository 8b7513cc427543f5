/* closest.c - Which known word a misspelt one may stand for: one that it begins with or that begins
 * with it, else the one with the fewest letters to insert, remove or change, at most a third of
 * them. */
#include "apps/cli/closest.h"
#include <stdbool.h>
#include <string.h>

enum { LONGEST = 31, LEAST_COMMON = 3 };

void cli_closest_begin(cli_closest *closest, const char *word, size_t bytes) {
    *closest = (cli_closest){.word = word, .bytes = bytes, .distance = (unsigned)bytes / 3 + 1};
}

static unsigned least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

/* Letters to insert, remove, change, or swap with the next one. */
static unsigned distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    unsigned of[LONGEST + 1][LONGEST + 1]; /* from the first i letters of a to the first j of b */
    for (size_t i = 0; i <= a_bytes; i++) {
        for (size_t j = 0; j <= b_bytes; j++) {
            if (!i || !j) {
                of[i][j] = (unsigned)(i + j);
                continue;
            }
            of[i][j] = least(of[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                             least(of[i - 1][j], of[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                of[i][j] = least(of[i][j], of[i - 2][j - 2] + 1);
        }
    }
    return of[a_bytes][b_bytes];
}

void cli_closest_add(cli_closest *closest, const char *known) {
    const size_t bytes = strlen(known);
    if (bytes > LONGEST || closest->bytes > LONGEST) return;
    const size_t common = bytes < closest->bytes ? bytes : closest->bytes;
    const bool begins = common >= LEAST_COMMON && strncmp(known, closest->word, common) == 0;
    const unsigned apart = begins ? 0 : distance(closest->word, closest->bytes, known, bytes);
    if (apart >= closest->distance) return;
    closest->found = known;
    closest->distance = apart;
}
