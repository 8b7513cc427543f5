/* closest.h - Which known word a misspelt one may stand for. */
#ifndef APPS_CLI_CLOSEST_H
#define APPS_CLI_CLOSEST_H
#include <stddef.h>

/* The closest of the known words so far. */
typedef struct {
    const char *word; /* what was typed, of `bytes` bytes */
    size_t bytes;
    const char *found; /* NULL: none is close enough */
    unsigned distance;
} cli_closest;

void cli_closest_begin(cli_closest *closest, const char *word, size_t bytes);
/* known is borrowed. */
void cli_closest_add(cli_closest *closest, const char *known);

#endif
