/* faults.c - Preloaded into the program (LD_PRELOAD): the n-th allocation or the n-th read fails.
 *
 *   FAULT_KIND   malloc, or read (read, pread)
 *   FAULT_AT     which one, from 1; 0: none
 *   FAULT_COUNT  a file to which the number of calls is written at the end */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static _Atomic long mallocs, reads;
static long failing_malloc, failing_read;

__attribute__((constructor)) static void start(void) {
    const char *kind = getenv("FAULT_KIND"), *at = getenv("FAULT_AT");
    const long number = at ? strtol(at, NULL, 10) : 0;
    mallocs = reads = 0;
    if (kind && strcmp(kind, "malloc") == 0) failing_malloc = number;
    if (kind && strcmp(kind, "read") == 0) failing_read = number;
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAULT_COUNT"), *kind = getenv("FAULT_KIND");
    char text[32];
    if (!path || !kind) return;
    const long count = strcmp(kind, "read") == 0 ? reads : mallocs;
    FILE *file = fopen(path, "w");
    if (!file) return;
    (void)snprintf(text, sizeof text, "%ld\n", count);
    (void)fputs(text, file);
    (void)fclose(file);
}

static int malloc_fails(void) {
    if (atomic_fetch_add(&mallocs, 1) + 1 != failing_malloc) return 0;
    errno = ENOMEM;
    return 1;
}

static int read_fails(int fd) {
    if (fd <= STDERR_FILENO || atomic_fetch_add(&reads, 1) + 1 != failing_read) return 0;
    errno = EIO;
    return 1;
}

void *malloc(size_t bytes) {
    return malloc_fails() ? NULL : __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    return malloc_fails() ? NULL : __libc_calloc(count, bytes);
}
void *realloc(void *block, size_t bytes) {
    return malloc_fails() ? NULL : __libc_realloc(block, bytes);
}
void *aligned_alloc(size_t align, size_t bytes) {
    return malloc_fails() ? NULL : __libc_memalign(align, bytes);
}
int posix_memalign(void **out, size_t align, size_t bytes) {
    if (malloc_fails()) return ENOMEM;
    *out = __libc_memalign(align, bytes);
    return *out ? 0 : ENOMEM;
}

ssize_t read(int fd, void *into, size_t bytes) {
    return read_fails(fd) ? -1 : (ssize_t)syscall(SYS_read, fd, into, bytes);
}
ssize_t pread(int fd, void *into, size_t bytes, off_t offset) {
    return read_fails(fd) ? -1 : (ssize_t)syscall(SYS_pread64, fd, into, bytes, offset);
}
ssize_t pread64(int fd, void *into, size_t bytes, off_t offset) {
    return pread(fd, into, bytes, offset);
}
