/* draw_parts.h - What the files of the generator (draw.h) share. */
#ifndef SL_TESTS_SUPPORT_DRAW_PARTS_H
#define SL_TESTS_SUPPORT_DRAW_PARTS_H
#include "tests/support/draw.h"

enum { DRAW_OPERANDS = 24, DRAW_TEXT = 4096, DRAW_ELEMENTS = 2048, DRAW_UNBOUND = -1000000 };

/* What the letters of a row stand for so far. */
typedef struct {
    int64_t sizes[128];   /* by letter; DRAW_UNBOUND: not yet */
    sl_dtype dtypes[128]; /* by class; SL_DTYPE_COUNT: not yet */
    int prefix;           /* dims of @; -1: not yet */
    int64_t lead[SL_MAX_RANK];
} draw_names;

typedef struct {
    drawn_graph *drawn;
    sl_graph *graph;
    test_random random;
    sl_value pool[DRAWN_VALUES]; /* what may be an operand */
    uint32_t pooled, declared;
    bool body; /* declares constants alone */
} generator;

static inline uint32_t draw(generator *g, uint32_t limit) {
    return test_draw(&g->random, limit);
}

/* draw_text.c: the value of an expression; a letter without a size gets one where g is given, else
 * the result is DRAW_UNBOUND.  *text is left behind it. */
int64_t draw_expression(generator *g, draw_names *names, const char **text);
/* "k=1:3 m=?1,2;" if the row begins with it; returns what follows. */
const char *draw_declarations(generator *g, draw_names *names, const char *row);
/* Attributes with all braces replaced; first: the first operand's type. */
void draw_attributes(generator *g, draw_names *names, const sl_type *first, const char *row,
                     char out[DRAW_TEXT]);
/* The dtypes of a class; ends with SL_DTYPE_COUNT.  NULL: no class. */
const sl_dtype *draw_class(char letter);
sl_dtype draw_dtype(generator *g, draw_names *names, char letter);

/* draw_values.c: bytes for a new value, in the drawn graph's arena; kind as in vocabulary.def, with
 * its limit. */
void *draw_bytes(generator *g, const sl_type *type, char kind, int64_t limit);
/* Whether a value is of that kind. */
bool draw_fits(const sl_eval_tensor *tensor, char kind, int64_t limit);

/* draw.c: appends a node if inference and evaluation take it.  Results of a list: extra. */
bool draw_append(generator *g, sl_op op, sl_values inputs, const char *attrs, uint32_t extra,
                 sl_value *outputs);
/* A new input, or constant; or weight or state. */
sl_value draw_declare(generator *g, sl_value_kind kind, const sl_type *type, void *bytes);
/* A node of any row. */
void draw_node(generator *g);
void generator_init(generator *g, const char *name, uint64_t seed);

/* draw_bodies.c: if, while, scan, its gradients, custom_fn. */
bool draw_control(generator *g);
/* A node of that op; false as well where it is none of these. */
bool draw_control_of(generator *g, sl_op op);
#endif
