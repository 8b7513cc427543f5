/* faults.c - Preloaded into the program (LD_PRELOAD): the n-th allocation or the n-th read fails.
 *
 *   FAULT_KIND   malloc (and all that allocates, anonymous mappings too), or read (read, pread)
 *   FAULT_AT     which one, from 1; 0: none
 *   FAULT_COUNT  a file to which the number of calls is written at the end, and the number of
 * blocks that were not freed */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *block);

static _Atomic long mallocs, reads, live;
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
    char text[64];
    if (!path || !kind) return;
    const long count = strcmp(kind, "read") == 0 ? reads : mallocs, kept = live;
    FILE *file = fopen(path, "w");
    if (!file) return;
    (void)snprintf(text, sizeof text, "%ld %ld\n", count, kept);
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

/* The dynamic linker keeps blocks of threads that have ended: they are not counted. */
enum { LINKER_BYTES = 1 << 18, LINKER_BLOCKS = 256 };
static void *_Atomic linker_blocks[LINKER_BLOCKS];

/* Whether an entry of the list was `from` and is `to` now. */
static int exchange(void *from, void *to) {
    for (int i = 0; i < LINKER_BLOCKS; i++) {
        void *expected = from;
        if (atomic_compare_exchange_strong(&linker_blocks[i], &expected, to)) return 1;
    }
    return 0;
}
static int is_linker(const void *caller) {
    return (uintptr_t)caller - getauxval(AT_BASE) < LINKER_BYTES;
}

/* Counts a block that was made. */
static void *made(void *block) {
    if (block) atomic_fetch_add(&live, 1);
    return block;
}

void *malloc(size_t bytes) {
    return malloc_fails() ? NULL : made(__libc_malloc(bytes));
}
void *calloc(size_t count, size_t bytes) {
    void *block = malloc_fails() ? NULL : __libc_calloc(count, bytes);
    if (block && is_linker(__builtin_return_address(0)) && exchange(NULL, block)) return block;
    return made(block);
}
void *realloc(void *block, size_t bytes) {
    if (malloc_fails()) return NULL;
    void *fresh = __libc_realloc(block, bytes);
    if (!block) return made(fresh);
    if (!fresh && !bytes) atomic_fetch_sub(&live, 1); /* freed */
    return fresh;
}
void *aligned_alloc(size_t align, size_t bytes) {
    return malloc_fails() ? NULL : made(__libc_memalign(align, bytes));
}
int posix_memalign(void **out, size_t align, size_t bytes) {
    if (malloc_fails()) return ENOMEM;
    *out = made(__libc_memalign(align, bytes));
    return *out ? 0 : ENOMEM;
}
void free(void *block) {
    if (block && !exchange(block, NULL)) atomic_fetch_sub(&live, 1);
    __libc_free(block);
}
void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (flags & MAP_ANONYMOUS && malloc_fails()) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
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
