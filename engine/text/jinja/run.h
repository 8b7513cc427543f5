/* run.h - The state of one rendering, and the operations on values. */
#ifndef SL_ENGINE_TEXT_JINJA_RUN_H
#define SL_ENGINE_TEXT_JINJA_RUN_H
#include "engine/text/jinja/jinja.h"

typedef struct jinja_variable {
    struct jinja_variable *next;
    jinja_text name;
    jinja_value value;
} jinja_variable;
typedef struct jinja_scope {
    struct jinja_scope *parent;
    jinja_variable *variables;
} jinja_scope;
struct jinja_macro {
    const jinja_node *node;
    jinja_scope *scope; /* where it was defined */
};

typedef struct {
    char *data;
    size_t bytes, capacity;
} jinja_buffer;
typedef enum { JINJA_GO_ON, JINJA_BREAK, JINJA_CONTINUE } jinja_signal;

struct jinja_run {
    jinja_place place;
    sl_arena *arena;
    const jinja_dict *variables; /* given by the caller */
    jinja_scope *scope;
    jinja_buffer *out;
    jinja_signal signal; /* break or continue of the innermost loop */
    uint32_t depth;
    uint64_t steps;
};

/* ---- limits ---- */
SL_CHECKED sl_status sl_jinja_charge(jinja_run *run, uint64_t steps);
SL_CHECKED sl_status sl_jinja_deeper(jinja_run *run); /* depth++; undone with run->depth-- */
SL_CHECKED sl_status sl_jinja_alloc(jinja_run *run, size_t count, size_t bytes_each, void *out);
SL_CHECKED sl_status sl_jinja_append(jinja_run *run, jinja_buffer *buffer, const char *data,
                                     size_t bytes);
SL_CHECKED sl_status sl_jinja_append_value(jinja_run *run, jinja_buffer *buffer, jinja_value value);

/* ---- execution ---- */
SL_CHECKED sl_status sl_jinja_eval(jinja_run *run, const jinja_node *node, jinja_value *out);
SL_CHECKED sl_status sl_jinja_exec(jinja_run *run, const jinja_node *chain);
SL_CHECKED sl_status sl_jinja_exec_to_text(jinja_run *run, const jinja_node *chain,
                                           jinja_scope *scope, jinja_value *out);
SL_CHECKED sl_status sl_jinja_scope_new(jinja_run *run, jinja_scope *parent, jinja_scope **out);
SL_CHECKED sl_status sl_jinja_scope_set(jinja_run *run, jinja_scope *scope, jinja_text name,
                                        jinja_value value);
SL_CHECKED sl_status sl_jinja_lookup(jinja_run *run, jinja_text name, jinja_value *out);
/* The arguments of a call, filter or test, with room for one more. */
SL_CHECKED sl_status sl_jinja_eval_args(jinja_run *run, const jinja_node *list, jinja_args *out);
SL_CHECKED sl_status sl_jinja_call_value(jinja_run *run, jinja_value callee, const jinja_args *args,
                                         jinja_value *out);
SL_CHECKED sl_status sl_jinja_call_macro(jinja_run *run, const jinja_macro *macro,
                                         const jinja_args *args, jinja_value *out);
SL_CHECKED sl_status sl_jinja_call_loop(jinja_run *run, const jinja_loop *loop,
                                        const jinja_args *args, jinja_value *out);

/* ---- making values ---- */
static inline jinja_value sl_jinja_bool(bool boolean) {
    return (jinja_value){.kind = JINJA_BOOL, .boolean = boolean};
}
static inline jinja_value sl_jinja_integer(int64_t integer) {
    return (jinja_value){.kind = JINJA_INTEGER, .integer = integer};
}
static inline jinja_value sl_jinja_float(double real) {
    return (jinja_value){.kind = JINJA_FLOAT, .real = real};
}
static inline jinja_value sl_jinja_string(const char *data, size_t bytes) {
    return (jinja_value){.kind = JINJA_STRING, .text = {data, bytes}};
}
static inline jinja_value sl_jinja_undefined(jinja_text name) {
    return (jinja_value){.kind = JINJA_UNDEFINED, .text = name};
}
static inline jinja_value sl_jinja_buffer_value(const jinja_buffer *buffer) {
    return sl_jinja_string(buffer->bytes ? buffer->data : "", buffer->bytes);
}
static inline bool sl_jinja_text_equal(jinja_text a, jinja_text b) {
    return a.bytes == b.bytes && (a.bytes == 0 || __builtin_memcmp(a.data, b.data, a.bytes) == 0);
}
SL_CHECKED sl_status sl_jinja_list_new(jinja_run *run, size_t count, jinja_list **out);
SL_CHECKED sl_status sl_jinja_pair(jinja_run *run, jinja_value a, jinja_value b, jinja_value *out);
SL_CHECKED sl_status sl_jinja_dict_new(jinja_run *run, jinja_dict **out);
SL_CHECKED sl_status sl_jinja_dict_set(jinja_run *run, jinja_dict *dict, jinja_value key,
                                       jinja_value value);
/* NULL if there is none. */
const jinja_value *sl_jinja_dict_find(const jinja_dict *dict, jinja_text key);
SL_CHECKED sl_status sl_jinja_dict_get(jinja_run *run, const jinja_dict *dict, jinja_value key,
                                       const jinja_value **out);

/* ---- Python's operations on values ---- */
const char *sl_jinja_kind_name(jinja_kind kind); /* "str", "dict", ... */
bool sl_jinja_truth(jinja_value value);
bool sl_jinja_is_number(jinja_value value); /* true for bools too */
double sl_jinja_real(jinja_value number);
SL_CHECKED sl_status sl_jinja_equal(jinja_run *run, jinja_value a, jinja_value b, bool *out);
/* Negative, zero or positive; fails if Python does not order such values. */
SL_CHECKED sl_status sl_jinja_order(jinja_run *run, jinja_value a, jinja_value b, int *out);
SL_CHECKED sl_status sl_jinja_contains(jinja_run *run, jinja_value container, jinja_value item,
                                       bool *out);
SL_CHECKED sl_status sl_jinja_iterate(jinja_run *run, jinja_value value, const jinja_list **out);
SL_CHECKED sl_status sl_jinja_str(jinja_run *run, jinja_value value, jinja_text *out);
SL_CHECKED sl_status sl_jinja_repr(jinja_run *run, jinja_buffer *buffer, jinja_value value);
size_t sl_jinja_format_real(double real, char *text, size_t capacity); /* like repr() */
SL_CHECKED sl_status sl_jinja_binary(jinja_run *run, jinja_op op, jinja_value a, jinja_value b,
                                     jinja_value *out);
SL_CHECKED sl_status sl_jinja_compare(jinja_run *run, jinja_op op, jinja_value a, jinja_value b,
                                      bool *out);
SL_CHECKED sl_status sl_jinja_attribute(jinja_run *run, jinja_value object, jinja_text name,
                                        jinja_value *out);
SL_CHECKED sl_status sl_jinja_item(jinja_run *run, jinja_value object, jinja_value key,
                                   jinja_value *out);
/* bounds: start, stop, step; none if omitted. */
SL_CHECKED sl_status sl_jinja_slice(jinja_run *run, jinja_value object, const jinja_value *bounds,
                                    jinja_value *out);
/* format % values; a value that is not a tuple counts as a tuple of one. */
SL_CHECKED sl_status sl_jinja_percent(jinja_run *run, jinja_text format, jinja_value values,
                                      jinja_value *out);

/* formats the variable "now", an ISO date with or without a time */
jinja_call sl_jinja_strftime_now;
jinja_call sl_jinja_format_method; /* str.format */

/* ---- JSON ---- */
SL_CHECKED sl_status sl_jinja_from_json(jinja_run *run, const char *json, size_t bytes,
                                        jinja_dict **out);
typedef struct {
    jinja_text indent; /* data NULL: everything on one line */
    jinja_text comma, colon;
    bool ascii, sorted;
} jinja_json_style;
SL_CHECKED sl_status sl_jinja_to_json(jinja_run *run, const jinja_json_style *style,
                                      jinja_value value, jinja_buffer *buffer);

/* ---- arguments of builtins ---- */
SL_CHECKED sl_status sl_jinja_want_text(jinja_run *run, jinja_value value, const char *what,
                                        jinja_text *out);
SL_CHECKED sl_status sl_jinja_want_integer(jinja_run *run, jinja_value value, const char *what,
                                           int64_t *out);
static inline bool sl_jinja_given(jinja_value value) {
    return value.kind != JINJA_UNDEFINED && value.kind != JINJA_NONE;
}
/* Stable sort by sl_jinja_order of the keys; items move with their keys. */
SL_CHECKED sl_status sl_jinja_sort(jinja_run *run, jinja_list *keys, jinja_list *items,
                                   bool reverse);
SL_CHECKED sl_status sl_jinja_lower_value(jinja_run *run, jinja_value value, jinja_value *out);
#endif
