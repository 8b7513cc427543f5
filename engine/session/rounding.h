/* rounding.h - The size of the program that runs a pass, on a device where each size has a program
 * and for a model of several sequences, whose passes have another number of rows all the time. */
#ifndef SL_ENGINE_SESSION_ROUNDING_H
#define SL_ENGINE_SESSION_ROUNDING_H
#include "engine/session/forward.h"

typedef struct {
    uint32_t rows, wanted;
    bool gathers; /* the wanted rows are an input, although they are as many as the rows */
} sl_rounded_pass;

/* Whether passes of several rows are rounded up. */
bool sl_rounding_is_due(const sl_forward_options *options);
/* One of a few sizes, ascending with `rows`, and less than a quarter more. */
uint32_t sl_rounding_size(uint32_t rows);
/* The wanted rows of a pass are all, or a power of two of them.  At most `capacity` rows are added.
 */
sl_rounded_pass sl_rounding_pass(const sl_forward_options *options, const sl_forward_rows *rows);
#endif
