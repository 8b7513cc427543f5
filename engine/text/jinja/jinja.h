/* jinja.h - Internals of the chat template interpreter: syntax tree, values, and running state.
 *
 * Text becomes tokens (lex.c), tokens become a tree (parse.c, expression.c), and the tree is walked
 * once per rendering (exec.c, eval.c).  The tree lives in the template's arena and is immutable
 * after parsing; values live in the arena of one rendering.  All text is valid UTF-8: both inputs
 * are checked first.  Values behave as in Python. */
#ifndef SL_ENGINE_TEXT_JINJA_H
#define SL_ENGINE_TEXT_JINJA_H
#include "base/memory.h"
#include <stdbool.h>

enum {
    JINJA_MAX_TEMPLATE_BYTES = 4 << 20,
    JINJA_MAX_NESTING = 100, /* nesting of expressions and blocks in the template */
    /* depth of evaluation, including macros, and of nested values */
    JINJA_MAX_DEPTH = 400,
    JINJA_MAX_STEPS = 10 << 20,      /* nodes visited, plus bytes touched / 64 */
    JINJA_MAX_TEXT_BYTES = 64 << 20, /* of one string, including the output */
    JINJA_MAX_MEMORY_BYTES = 256 << 20,
    JINJA_MAX_RANGE = 100000,
    JINJA_MAX_PARAMETERS = 8, /* of a builtin */
};

typedef struct {
    const char *data;
    size_t bytes;
} jinja_text;
#define JINJA_TEXT(literal) ((jinja_text){(literal), sizeof(literal) - 1})
/* Arguments for "%.*s": error messages show the beginning of long texts. */
#define JINJA_SHOW(text) (int)((text).bytes < 80 ? (text).bytes : 80), (text).data

typedef struct { /* the position that a message refers to */
    sl_error *err;
    uint32_t line;
} jinja_place;
/* Sets the message "chat template line 12: ..." and evaluates to the status, which is written out
 * so that compilers see that it is not SL_OK. */
#define JINJA_FAIL_AS(status, at, ...)                                                             \
    (sl_jinja_report(&(at)->place, (status), __VA_ARGS__), (status))
#define JINJA_REJECT(at, ...) JINJA_FAIL_AS(SL_FORMAT, at, __VA_ARGS__)  /* while parsing */
#define JINJA_FAIL(at, ...)   JINJA_FAIL_AS(SL_INVALID, at, __VA_ARGS__) /* while rendering */
void sl_jinja_report(const jinja_place *place, sl_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- values ---- */
typedef enum {
    JINJA_UNDEFINED, /* text: the name that was looked up */
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INTEGER,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE, /* stored in `list` */
    JINJA_DICT,
    JINJA_NAMESPACE, /* stored in `dict`; the only value that a template can change */
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_FUNCTION,
} jinja_kind;

typedef struct jinja_list jinja_list;
typedef struct jinja_dict jinja_dict;
typedef struct jinja_loop jinja_loop;
typedef struct jinja_macro jinja_macro;
typedef struct jinja_function jinja_function;
typedef struct jinja_node jinja_node;
typedef struct jinja_run jinja_run;

typedef struct {
    jinja_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        jinja_text text;
        const jinja_list *list;
        jinja_dict *dict;
        jinja_loop *loop;
        const jinja_macro *macro;
        const jinja_function *function;
    };
} jinja_value;

struct jinja_list {
    jinja_value *items;
    size_t count;
};
struct jinja_dict { /* in order of insertion */
    jinja_value *keys, *values;
    size_t count, capacity;
};
struct jinja_loop {
    const jinja_list *items;
    size_t index;
    const jinja_value *last_change; /* arguments of the last loop.changed(), a list; NULL before */
    const jinja_node *node;         /* for a recursive loop, which can be called; else NULL */
    struct jinja_scope *scope;      /* scope of the loop statement */
    uint32_t depth;                 /* recursion depth */
};

/* ---- builtins: filters, tests, methods and functions are rows of the same type ---- */
typedef struct {
    jinja_value self;
    const jinja_value *values;
    const jinja_text *names; /* names[i].data NULL: positional; names NULL: all positional */
    size_t count;
} jinja_args;
typedef sl_status jinja_call(jinja_run *run, const jinja_args *args, jinja_value *out);
typedef struct {
    const char *name;
    const char *parameters; /* "width first blank"; NULL: any arguments, passed as written */
    size_t required;
    jinja_call *call; /* with parameters, values[i] is the i-th, undefined if missing */
} jinja_builtin;
struct jinja_function { /* a builtin bound to the object of which it is a method */
    const jinja_builtin *builtin;
    jinja_value self;
};

/* Tables end with a row without a name.  NULL if there is no row of that name. */
const jinja_builtin *sl_jinja_find(const jinja_builtin *table, jinja_text name);
const jinja_builtin *sl_jinja_find_filter(jinja_text name);
const jinja_builtin *sl_jinja_find_test(jinja_text name);
const jinja_builtin *sl_jinja_find_method(jinja_kind kind, jinja_text name);
const jinja_builtin *sl_jinja_find_global(jinja_text name);
extern const jinja_builtin sl_jinja_scalar_filters[], sl_jinja_sequence_filters[];
extern const jinja_builtin sl_jinja_string_methods[];
/* Matches the arguments to the row's parameters and calls it. */
SL_CHECKED sl_status sl_jinja_invoke(jinja_run *run, const jinja_builtin *builtin,
                                     const jinja_args *args, jinja_value *out);

/* ---- syntax tree ---- */
typedef enum {
    /* expressions */
    JINJA_NODE_CONSTANT,  /* value */
    JINJA_NODE_NAME,      /* text */
    JINJA_NODE_LIST,      /* list */
    JINJA_NODE_TUPLE,     /* list */
    JINJA_NODE_DICT,      /* list: key, value, key, value ... */
    JINJA_NODE_ATTRIBUTE, /* first.text */
    JINJA_NODE_ITEM,      /* first[second] */
    JINJA_NODE_SLICE,     /* first[list: start, stop, step]; absent ones are constant none */
    JINJA_NODE_CALL,      /* first(list) */
    JINJA_NODE_ARGUMENT,  /* text=first in a list of arguments; text may be empty; *first and
                           * **first: takes_varargs, takes_kwargs */
    JINJA_NODE_FILTER,    /* first | text(list), builtin or NULL */
    JINJA_NODE_TEST,      /* first is text(list), builtin or NULL */
    JINJA_NODE_NOT,       /* first */
    JINJA_NODE_NEGATE,    /* first */
    JINJA_NODE_POSITIVE,  /* first */
    JINJA_NODE_BINARY,    /* first op second */
    JINJA_NODE_AND,
    JINJA_NODE_OR,
    JINJA_NODE_COMPARE, /* first, then list: links of op, first */
    JINJA_NODE_LINK,
    JINJA_NODE_CONDITION, /* second if first else third (may be NULL) */
    JINJA_NODE_BODY,      /* the text of body, rendered in its own scope */
    /* statements */
    JINJA_NODE_TEXT,       /* text */
    JINJA_NODE_OUTPUT,     /* first */
    JINJA_NODE_IF,         /* first; body; otherwise */
    JINJA_NODE_FOR,        /* first in second if third (may be NULL); body; otherwise */
    JINJA_NODE_SET,        /* first = second */
    JINJA_NODE_WITH,       /* list of arguments; body */
    JINJA_NODE_MACRO,      /* text(list of arguments: name=default or NULL); body */
    JINJA_NODE_CALL_BLOCK, /* first: a call; second: the macro passed as its caller */
    JINJA_NODE_BREAK,
    JINJA_NODE_CONTINUE,
} jinja_node_kind;

typedef enum {
    JINJA_ADD,
    JINJA_SUBTRACT,
    JINJA_MULTIPLY,
    JINJA_DIVIDE,
    JINJA_FLOOR_DIVIDE,
    JINJA_MODULO,
    JINJA_POWER,
    JINJA_CONCAT,
    JINJA_EQUAL,
    JINJA_NOT_EQUAL,
    JINJA_LESS,
    JINJA_LESS_EQUAL,
    JINJA_GREATER,
    JINJA_GREATER_EQUAL,
    JINJA_IN,
    JINJA_NOT_IN,
} jinja_op;

struct jinja_node {
    jinja_node_kind kind;
    uint32_t line;
    jinja_op op;
    bool takes_varargs, takes_kwargs; /* a macro that uses varargs or kwargs */
    bool recursive;                   /* a recursive loop */
    jinja_text text;
    jinja_value value;
    const jinja_builtin *builtin;
    jinja_node *first, *second, *third;
    jinja_node *list, *body, *otherwise; /* linked lists */
    jinja_node *next;
};

SL_CHECKED sl_status sl_jinja_parse(jinja_text source, sl_arena *arena, jinja_node **out_body,
                                    sl_error *err);
#endif
