/* differential.h - Drawn graphs, compiled with all passes, against their plain meaning.
 *
 * A result may be as far from it as the fixtures allow one op to be (reference_limit).  Where it is
 * farther, evaluations whose every result was moved by that much say what the graph makes of it:
 * the limit grows by four times their largest distance, element by element; where these do not
 * suffice, by that of faint evaluations (reference.h) too.  Integers and bools
 * are exact unless such evaluations change them too, as where a rounded number decides.  What is
 * fused must give the bits of its parts besides. */
#ifndef SL_TESTS_SUPPORT_DIFFERENTIAL_H
#define SL_TESTS_SUPPORT_DIFFERENTIAL_H
#include "tests/support/draw.h"

typedef struct {
    char why[600];    /* the first difference; empty: none */
    uint32_t output;  /* where */
    uint64_t checked; /* elements compared */
    uint64_t wide;    /* that only the spread allowed */
    uint64_t open;    /* that the spread leaves undecided */
} difference;

/* Compiles the graph and runs it on every instruction set, with one thread and with two. */
void differential_check(const drawn_graph *drawn, difference *out);
/* The smallest graph found that still differs, of one output; nodes become inputs with the values
 * that they had. */
drawn_graph *differential_shrink(const drawn_graph *drawn, const difference *from);
/* Releases the devices. */
void differential_end(void);
#endif
