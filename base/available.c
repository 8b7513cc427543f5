/* available.c - Available memory of the machine and of the cgroups of the process.  The page cache
 * of a cgroup counts as available, because the kernel reclaims it first. */
#include "base/memory.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATH_BYTES = 4096, MAX_LINE_BYTES = 256 };

/* Where control groups are mounted, and the file names of their version.  v2 limits: at memory.max
 * a process is killed, at memory.high it is slowed down until it barely runs. */
typedef struct {
    const char *controller; /* in /proc/self/cgroup, where v1 lists those mounted together */
    const char *mount, *limits[2], *usage;
    const char *cache[2]; /* in memory.stat */
} group_version;
static const group_version versions[] = {
    {"memory",
     "/sys/fs/cgroup/memory",
     {"memory.limit_in_bytes", NULL},
     "memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file"}},
#define V2(MOUNT)                                                                                  \
    {                                                                                              \
        "", MOUNT, {"memory.max", "memory.high"}, "memory.current", {                              \
            "inactive_file", "active_file"                                                         \
        }                                                                                          \
    }
    V2("/sys/fs/cgroup"),
    V2("/sys/fs/cgroup/unified"), /* beside v1 */
#undef V2
};
enum { VERSIONS = sizeof versions / sizeof versions[0] };
/* v1 writes "no limit" as the largest number of whole pages. */
static const uint64_t no_limit_bytes = UINT64_C(1) << 62;

static FILE *open_in(const char *folder, const char *name) {
    char path[MAX_PATH_BYTES];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
}

/* False if there is no such file or it contains a word ("max"). */
static bool read_number(const char *folder, const char *name, uint64_t *out) {
    FILE *file = open_in(folder, name);
    if (!file) return false;
    unsigned long long value = 0;
    const bool found = fscanf(file, "%20llu", &value) == 1;
    (void)fclose(file);
    *out = value;
    return found;
}

static uint64_t read_cache(const char *folder, const group_version *version) {
    FILE *file = open_in(folder, "memory.stat");
    char line[MAX_LINE_BYTES], name[MAX_LINE_BYTES];
    unsigned long long value = 0;
    uint64_t cache = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%255s %20llu", name, &value) == 2 &&
            (strcmp(name, version->cache[0]) == 0 || strcmp(name, version->cache[1]) == 0))
            cache += value;
    if (file) (void)fclose(file);
    return cache;
}

/* UINT64_MAX: none. */
static uint64_t read_limit(const char *folder, const group_version *version) {
    uint64_t least = UINT64_MAX, limit = 0;
    for (int i = 0; i < 2 && version->limits[i]; i++)
        if (read_number(folder, version->limits[i], &limit) && limit < no_limit_bytes &&
            limit < least)
            least = limit;
    return least;
}

/* The memory left in a cgroup, but no more than `most`. */
static uint64_t left_in(const char *folder, const group_version *version, uint64_t most) {
    const uint64_t limit = read_limit(folder, version);
    uint64_t usage = 0;
    if (limit == UINT64_MAX || !read_number(folder, version->usage, &usage)) return most;
    const uint64_t cache = read_cache(folder, version);
    const uint64_t held = usage > cache ? usage - cache : 0;
    const uint64_t left = limit > held ? limit - held : 0;
    return left < most ? left : most;
}

/* The cgroup and all its ancestors, each of which may have a limit.  In a container the path may be
 * that of the host; then only the mount point exists. */
static uint64_t left_in_groups(const char *root, const char *group, const group_version *version,
                               uint64_t most) {
    char folder[MAX_PATH_BYTES];
    const size_t mount = strlen(root) + strlen(version->mount);
    const int length = snprintf(folder, sizeof folder, "%s%s%s", root, version->mount, group);
    if (length < 0 || (size_t)length >= sizeof folder) return most;
    for (;;) {
        most = left_in(folder, version, most);
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < mount) return most;
        *slash = 0;
    }
}

/* Whether a list with commas has the controller; v2 has an empty list. */
static bool has_controller(const char *list, const char *controller) {
    const size_t bytes = strlen(controller);
    if (!bytes) return !*list;
    for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
        if (strcspn(list, ",") == bytes && strncmp(list, controller, bytes) == 0) return true;
    return false;
}

/* Lines of "number:controllers:path". */
uint64_t sl_memory_group_left(const char *root) {
    FILE *file = open_in(root, "proc/self/cgroup");
    char line[MAX_PATH_BYTES];
    uint64_t most = UINT64_MAX;
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        controllers++;
        for (int v = 0; v < VERSIONS; v++)
            if (has_controller(controllers, versions[v].controller))
                most = left_in_groups(root, group, &versions[v], most);
    }
    if (file) (void)fclose(file);
    return most;
}

static uint64_t left_on_machine(void) {
    FILE *file = fopen("/proc/meminfo", "re");
    char line[MAX_LINE_BYTES];
    unsigned long long kilobytes = 0;
    while (file && fgets(line, sizeof line, file) &&
           sscanf(line, "MemAvailable: %20llu", &kilobytes) != 1) {}
    if (file) (void)fclose(file);
    return kilobytes ? kilobytes * 1024 : UINT64_MAX;
}

uint64_t sl_memory_own(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long size, resident = 0, shared = 0;
    if (file && fscanf(file, "%20llu %20llu %20llu", &size, &resident, &shared) != 3)
        resident = shared = 0;
    if (file) (void)fclose(file);
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

sl_memory_left sl_memory_available(void) {
    return (sl_memory_left){left_on_machine(), sl_memory_group_left("")};
}
