#include "base/limits.h"
#include "base/memory.h"
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Where a version of control groups keeps what it knows.  Both give bytes. */
typedef struct {
    const char *root, *limit, *used; /* used: the line of memory.stat with what cannot be dropped */
} group_kind;
static const group_kind unified = {"/sys/fs/cgroup", "memory.max", "anon %llu"};
static const group_kind separate = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                    "total_rss %llu"};

/* The first line of a file that matches, as a number; false when there is none. */
static bool read_number(const char *path, const char *format, uint64_t *out) {
    FILE *file = fopen(path, "re");
    if (!file) return false;
    char line[128];
    unsigned long long value;
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) found = sscanf(line, format, &value) == 1;
    (void)fclose(file);
    if (found) *out = value;
    return found;
}

static uint64_t left_in_group(const group_kind *kind, const char *group) {
    char path[PATH_MAX];
    uint64_t limit, used = 0;
    (void)snprintf(path, sizeof path, "%s%s/%s", kind->root, group, kind->limit);
    if (!read_number(path, "%llu", &limit)) return UINT64_MAX; /* none, or "max" */
    (void)snprintf(path, sizeof path, "%s%s/memory.stat", kind->root, group);
    (void)read_number(path, kind->used, &used);
    return limit > used ? limit - used : 0;
}

/* The least that a group and those around it leave; group is cut down on the way. */
static uint64_t left_in_groups(const group_kind *kind, char *group) {
    uint64_t least = UINT64_MAX;
    for (;;) {
        const uint64_t left = left_in_group(kind, group);
        if (left < least) least = left;
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = '\0';
    }
}

uint64_t sl_memory_left(void) {
    const uint64_t machine = sl_memory_available();
    uint64_t least = machine ? machine : UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX];
    while (file && fgets(line, sizeof line, file)) { /* "4:memory:/group" or "0::/group" */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        if (controllers[1] != '\0' && strcmp(controllers + 1, "memory") != 0) continue;
        const uint64_t left = left_in_groups(controllers[1] ? &separate : &unified, group);
        if (left < least) least = left;
    }
    if (file) (void)fclose(file);
    return least;
}
