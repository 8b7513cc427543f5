/* values.h - Elements of tensors as numbers, for programs that show or invent them. */
#ifndef SL_APPS_VALUES_H
#define SL_APPS_VALUES_H
#include "sluice/graph.h"
#include <stdbool.h>

/* A complex number counts as two elements: its real and its imaginary part. */

/* Bytes of one element; 0 for quantised types, whose elements have no address. */
size_t cli_element_bytes(const char *dtype);
double cli_element_get(const char *dtype, const void *data, size_t index);
/* Repeatable contents: multiples of 1/64 in [-1/2, 1/2) for floats, which all float types hold
 * exactly; zeros for the rest. */
void cli_elements_invent(const char *dtype, void *data, size_t count, const char *name);

size_t cli_element_count(const char *dtype, uint32_t rank, const int64_t *dims);
/* "f32[2,4]"; returns text. */
char *cli_type_text(const char *dtype, uint32_t rank, const int64_t *dims, char *text,
                    size_t capacity);
#endif
