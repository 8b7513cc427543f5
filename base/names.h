/* names.h - A table of names that are looked up often: name -> number. */
#ifndef SL_BASE_NAMES_H
#define SL_BASE_NAMES_H
#include "base/memory.h"
#include <stdbool.h>

typedef struct {
    const char *name; /* borrowed; NULL: free */
    uint32_t number;
} sl_name;

/* Open-addressed, at most half full. */
typedef struct {
    sl_name *slots;
    uint64_t mask;
} sl_names;

/* Makes room for `most` names in arena; false without memory. */
bool sl_names_init(sl_names *names, uint32_t most, sl_arena *arena);
/* False if the name is in the table already. */
bool sl_names_add(sl_names *names, const char *name, uint32_t number);
/* False if the name is not there.  A zeroed table has no names. */
bool sl_names_find(const sl_names *names, const char *name, uint32_t *out);
#endif
