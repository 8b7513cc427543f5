/* structs.h - Structs of callers that were compiled with another version (sluice/status.h).
 *
 *   sl_pack_options options = {0};
 *   SL_TRY(SL_STRUCT_TAKE(sl_pack_options, &options, given, err));   // options that were given
 *
 *   SL_TRY(SL_STRUCT_CHECK(sl_stats, out, err));                     // a struct to fill in
 *   SL_STRUCT_GIVE(sl_stats, out, &found); */
#ifndef SL_BASE_STRUCTS_H
#define SL_BASE_STRUCTS_H
#include "base/error.h"

/* What its caller says of a struct that begins with its size, and what this library knows. */
typedef struct {
    const char *name;
    size_t known_bytes;
} sl_struct;

/* Fails if the size is none, or none that a version of this library could have. */
SL_CHECKED sl_status sl_struct_check(sl_struct type, const void *given, sl_error *err);
/* Copies the fields that both know into out; the others are left as they are.  given may be NULL.
 * Fails if a field that is not known here is not zero. */
SL_CHECKED sl_status sl_struct_take(sl_struct type, void *out, const void *given, sl_error *err);
/* Fills in a struct that was checked; fields of its caller that are not known here become zero. */
void sl_struct_give(sl_struct type, void *out, const void *found);

/* TYPE: of what is given, and of out. */
#define SL_STRUCT(TYPE)                 ((sl_struct){#TYPE, sizeof(TYPE)})
#define SL_STRUCT_CHECK(TYPE, out, err) sl_struct_check(SL_STRUCT(TYPE), (const TYPE *){out}, err)
#define SL_STRUCT_TAKE(TYPE, out, given, err)                                                      \
    sl_struct_take(SL_STRUCT(TYPE), (TYPE *){out}, (const TYPE *){given}, err)
#define SL_STRUCT_GIVE(TYPE, out, found)                                                           \
    sl_struct_give(SL_STRUCT(TYPE), (TYPE *){out}, (const TYPE *){found})
#endif
