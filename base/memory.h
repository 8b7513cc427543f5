/* memory.h - Allocation through one replaceable function, and arenas on top of it.
 *
 * Most structures live in an arena and are released together.  A NULL allocator means the C
 * library's.  Every allocation may fail and says so. */
#ifndef SL_BASE_MEMORY_H
#define SL_BASE_MEMORY_H
#include "base/error.h"

/* The allocator to use when a caller gave none, or one without a function. */
const sl_allocator *sl_allocator_or_default(const sl_allocator *allocator);

/* resize == allocate when ptr is NULL, free when new_bytes is 0. */
void *sl_resize(const sl_allocator *allocator, void *ptr, size_t old_bytes, size_t new_bytes,
                size_t align);

/* Zeroed block; NULL when out of memory. */
void *sl_allocate(const sl_allocator *allocator, size_t bytes, size_t align);
void sl_release(const sl_allocator *allocator, void *ptr, size_t bytes, size_t align);

/* Fails with SL_NO_MEMORY and a message naming what; for `if (!p) return sl_no_memory(...)`. */
SL_CHECKED sl_status sl_no_memory(sl_error *err, const char *what, uint64_t bytes);

/* What the machine can still give without swapping, within the limits of the process's control
 * groups, in bytes; 0 when it does not say. */
uint64_t sl_memory_available(void);

/* Guard of code that must not allocate: between forbid and allow, an allocation by the same thread
 * through an sl_allocator is a bug that stops debug builds.  Calls nest. */
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
/* Count items of size bytes each; NULL on failure or when the product overflows. */
void *sl_arena_array(sl_arena *arena, size_t count, size_t bytes_each, size_t align);
/* A NUL-terminated copy. */
char *sl_arena_copy_text(sl_arena *arena, const char *text, size_t bytes);
char *sl_arena_format(sl_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define SL_ARENA_NEW(arena, type) ((type *)sl_arena_alloc((arena), sizeof(type), _Alignof(type)))
#define SL_ARENA_NEW_ARRAY(arena, type, count)                                                     \
    ((type *)sl_arena_array((arena), (size_t)(count), sizeof(type), _Alignof(type)))
#endif
