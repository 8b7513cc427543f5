/* memory.h - Allocation through a replaceable function, and arenas on top of it.
 *
 * Most structures live in an arena and are released together.  A NULL allocator means that of the C
 * library.  Every allocation may fail, and callers must check it. */
#ifndef SL_BASE_MEMORY_H
#define SL_BASE_MEMORY_H
#include "base/error.h"

/* The allocator to use if the caller passed NULL or one without a function. */
const sl_allocator *sl_allocator_or_default(const sl_allocator *allocator);

/* Allocates if ptr is NULL, frees if new_bytes is 0, otherwise reallocates. */
void *sl_resize(const sl_allocator *allocator, void *ptr, size_t old_bytes, size_t new_bytes,
                size_t align);

/* Returns a zeroed block; NULL if there is no memory. */
void *sl_allocate(const sl_allocator *allocator, size_t bytes, size_t align);
void sl_release(const sl_allocator *allocator, void *ptr, size_t bytes, size_t align);

/* Fails with SL_NO_MEMORY and a message that names `what`; for `if (!p) return sl_no_memory(...)`.
 */
SL_CHECKED sl_status sl_no_memory(sl_error *err, const char *what, uint64_t bytes);

/* Bytes that can still be allocated without swapping; UINT64_MAX: no limit is known. */
typedef struct {
    uint64_t machine; /* on this machine */
    uint64_t group;   /* within the limits of the process's control groups (v1 and v2) */
} sl_memory_left;
sl_memory_left sl_memory_available(void);
/* The `group` part, from the files of /proc and /sys below `root` ("" but in tests). */
uint64_t sl_memory_group_left(const char *root);
/* Bytes of memory that this process has of its own now, without file pages; 0: unknown. */
uint64_t sl_memory_own(void);
static inline uint64_t sl_memory_least_left(void) {
    const sl_memory_left left = sl_memory_available();
    return left.machine < left.group ? left.machine : left.group;
}

/* Guards code that must not allocate: between forbid and allow, an allocation by the same thread
 * through an sl_allocator aborts debug builds.  Calls nest. */
void sl_memory_forbid(void);
void sl_memory_allow(void);

typedef struct sl_arena_block sl_arena_block;
typedef struct {
    const sl_allocator *allocator;
    sl_arena_block *newest;
    size_t used_bytes; /* handed out so far, alignment included */
} sl_arena;

void sl_arena_init(sl_arena *arena, const sl_allocator *allocator);
void sl_arena_deinit(sl_arena *arena);
void *sl_arena_alloc(sl_arena *arena, size_t bytes, size_t align); /* zeroed; NULL on failure */
/* An array of count items; NULL on failure or if the size overflows. */
void *sl_arena_array(sl_arena *arena, size_t count, size_t bytes_each, size_t align);
/* A NUL-terminated copy. */
char *sl_arena_copy_text(sl_arena *arena, const char *text, size_t bytes);
char *sl_arena_format(sl_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define SL_ARENA_NEW(arena, type) ((type *)sl_arena_alloc((arena), sizeof(type), _Alignof(type)))
#define SL_ARENA_NEW_ARRAY(arena, type, count)                                                     \
    ((type *)sl_arena_array((arena), (size_t)(count), sizeof(type), _Alignof(type)))
#endif
