#include "base/memory.h"
#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Blocks that are large enough for huge pages are mapped one by one, and unmapped when they are
 * freed: the C library may keep freed memory, which is then missing elsewhere.  Debug builds leave
 * them to the C library, whose blocks the sanitizers watch. */
enum { HUGE_PAGE_BYTES = 2 << 20, LARGE_BYTES = 2 * HUGE_PAGE_BYTES };

static bool is_mapped(size_t bytes) {
#ifdef SL_DEBUG
    return (void)bytes, false;
#else
    return bytes >= LARGE_BYTES;
#endif
}

static size_t whole_pages(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Maps a block that begins on a huge page, and requests huge pages for all but its last, partial
 * one. */
static void *map_block(size_t bytes, size_t align) {
    const size_t used = whole_pages(bytes), mapped = used + align;
    if (bytes > SIZE_MAX - 2 * align) return NULL;
    char *start = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    char *block = start + (align - (uintptr_t)start % align) % align;
    if (block > start) (void)munmap(start, (size_t)(block - start));
    (void)munmap(block + used, (size_t)(start + mapped - (block + used)));
    (void)madvise(block, bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_HUGEPAGE);
    return block;
}

static void *allocate_block(size_t bytes, size_t align) {
    void *fresh = NULL;
    if (bytes >= LARGE_BYTES && align < HUGE_PAGE_BYTES) align = HUGE_PAGE_BYTES;
    if (is_mapped(bytes)) return map_block(bytes, align);
    if (align < sizeof(void *)) align = sizeof(void *);
    return posix_memalign(&fresh, align, bytes) == 0 ? fresh : NULL;
}

static void release_block(void *ptr, size_t bytes) {
    if (ptr && is_mapped(bytes))
        (void)munmap(ptr, whole_pages(bytes));
    else
        free(ptr);
}

static void *libc_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes, size_t align) {
    (void)ctx;
    const bool large = new_bytes >= LARGE_BYTES || (ptr && old_bytes >= LARGE_BYTES);
    if (new_bytes == 0) {
        release_block(ptr, old_bytes);
        return NULL;
    }
    if (align <= _Alignof(max_align_t) && !large) return realloc(ptr, new_bytes);
    void *fresh = allocate_block(new_bytes, align);
    if (fresh && ptr) {
        memcpy(fresh, ptr, old_bytes < new_bytes ? old_bytes : new_bytes);
        release_block(ptr, old_bytes);
    }
    return fresh;
}

const sl_allocator *sl_allocator_or_default(const sl_allocator *allocator) {
    static const sl_allocator libc = {libc_resize, NULL};
    return allocator && allocator->resize ? allocator : &libc;
}

static _Thread_local unsigned forbidden;
void sl_memory_forbid(void) {
    forbidden++;
}
void sl_memory_allow(void) {
    forbidden--;
}

void *sl_resize(const sl_allocator *allocator, void *ptr, size_t old_bytes, size_t new_bytes,
                size_t align) {
#ifdef SL_DEBUG
    assert(new_bytes == 0 || forbidden == 0);
#endif
    allocator = sl_allocator_or_default(allocator);
    return allocator->resize(allocator->ctx, ptr, old_bytes, new_bytes, align);
}

void *sl_allocate(const sl_allocator *allocator, size_t bytes, size_t align) {
    void *ptr = sl_resize(allocator, NULL, 0, bytes, align);
    if (ptr) memset(ptr, 0, bytes);
    return ptr;
}

void sl_release(const sl_allocator *allocator, void *ptr, size_t bytes, size_t align) {
    if (ptr) (void)sl_resize(allocator, ptr, bytes, 0, align);
}

sl_status sl_no_memory(sl_error *err, const char *what, uint64_t bytes) {
    return sl_fail(err, SL_NO_MEMORY, "no memory for %s (%llu bytes)", what,
                   (unsigned long long)bytes);
}

struct sl_arena_block {
    sl_arena_block *older;
    size_t bytes, used; /* both count from the start of this header */
};
enum { FIRST_BLOCK_BYTES = 4096, MAX_BLOCK_BYTES = 1 << 20, BLOCK_ALIGN = 64 };

void sl_arena_init(sl_arena *arena, const sl_allocator *allocator) {
    *arena = (sl_arena){.allocator = sl_allocator_or_default(allocator)};
}

void sl_arena_deinit(sl_arena *arena) {
    while (arena->newest) {
        sl_arena_block *block = arena->newest;
        arena->newest = block->older;
        sl_release(arena->allocator, block, block->bytes, BLOCK_ALIGN);
    }
    arena->used_bytes = 0;
}

static sl_arena_block *grow(sl_arena *arena, size_t need) {
    size_t bytes = arena->newest ? arena->newest->bytes * 2 : FIRST_BLOCK_BYTES;
    if (bytes > MAX_BLOCK_BYTES) bytes = MAX_BLOCK_BYTES;
    if (bytes < need) bytes = need;
    sl_arena_block *block = sl_resize(arena->allocator, NULL, 0, bytes, BLOCK_ALIGN);
    if (!block) return NULL;
    *block = (sl_arena_block){arena->newest, bytes, sizeof *block};
    arena->newest = block;
    return block;
}

static size_t align_up(size_t value, size_t align) {
    return (value + align - 1) & ~(align - 1);
}

void *sl_arena_alloc(sl_arena *arena, size_t bytes, size_t align) {
    if (bytes > SIZE_MAX / 2 || align > SIZE_MAX / 4) return NULL;
    sl_arena_block *block = arena->newest;
    /* Blocks start at BLOCK_ALIGN; a larger alignment is found by address. */
    for (int attempt = 0; attempt < 2; attempt++) {
        if (block) {
            const size_t start = align_up((uintptr_t)block + block->used, align) - (uintptr_t)block;
            if (start <= block->bytes && bytes <= block->bytes - start) {
                arena->used_bytes += start + bytes - block->used;
                block->used = start + bytes;
                return memset((char *)block + start, 0, bytes);
            }
        }
        block = attempt == 0 ? grow(arena, sizeof *block + bytes + align) : NULL;
        if (!block) break;
    }
    return NULL;
}

void *sl_arena_array(sl_arena *arena, size_t count, size_t bytes_each, size_t align) {
    if (bytes_each && count > SIZE_MAX / bytes_each) return NULL;
    return sl_arena_alloc(arena, count * bytes_each, align);
}

char *sl_arena_copy_text(sl_arena *arena, const char *text, size_t bytes) {
    char *copy = sl_arena_alloc(arena, bytes + 1, 1);
    if (copy && bytes) memcpy(copy, text, bytes);
    return copy;
}

char *sl_arena_format(sl_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : sl_arena_alloc(arena, (size_t)length + 1, 1);
    if (text) (void)vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}
