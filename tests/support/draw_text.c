/* draw_text.c - Reading the rows of vocabulary.def. */
#include "tests/support/draw_parts.h"
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- classes of types ---- */

#define FLOATS SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_bf16, SL_DTYPE_f64
#define INTS                                                                                       \
    SL_DTYPE_i32, SL_DTYPE_i64, SL_DTYPE_u8, SL_DTYPE_i8, SL_DTYPE_i16, SL_DTYPE_u16,              \
        SL_DTYPE_u32, SL_DTYPE_u64
#define PANELS                                                                                     \
    SL_DTYPE_q4, SL_DTYPE_q8, SL_DTYPE_q4_k, SL_DTYPE_q4_0, SL_DTYPE_q6_k, SL_DTYPE_q4_m,          \
        SL_DTYPE_q2_k, SL_DTYPE_q3_k, SL_DTYPE_q5_k, SL_DTYPE_iq4_nl, SL_DTYPE_iq4_xs,             \
        SL_DTYPE_mxfp4, SL_DTYPE_nvfp4, SL_DTYPE_q6_m, SL_DTYPE_q8_m, SL_DTYPE_q4_f,               \
        SL_DTYPE_q8_f, SL_DTYPE_f8
#define END SL_DTYPE_COUNT

const sl_dtype *draw_class(char letter) {
    static const sl_dtype floats[] = {SL_DTYPE_f32, SL_DTYPE_f32, FLOATS, END};
    static const sl_dtype full[] = {SL_DTYPE_f32, SL_DTYPE_f64, END};
    static const sl_dtype narrow[] = {SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_bf16, END};
    static const sl_dtype ints[] = {INTS, END}, indices[] = {SL_DTYPE_i32, SL_DTYPE_i64, END};
    static const sl_dtype bytes[] = {SL_DTYPE_i8, SL_DTYPE_u8, END};
    static const sl_dtype codes[] = {SL_DTYPE_i8,  SL_DTYPE_u8,  SL_DTYPE_i16,
                                     SL_DTYPE_u16, SL_DTYPE_i32, END};
    static const sl_dtype numbers[] = {SL_DTYPE_f32, SL_DTYPE_f32, FLOATS, INTS, END};
    static const sl_dtype fields[] = {SL_DTYPE_f32, SL_DTYPE_f32, FLOATS, INTS, SL_DTYPE_c64, END};
    static const sl_dtype plain[] = {SL_DTYPE_f32, SL_DTYPE_f32,  SL_DTYPE_f32,  FLOATS, INTS,
                                     SL_DTYPE_c64, SL_DTYPE_bool, SL_DTYPE_bool, END};
    static const sl_dtype weights[] = {SL_DTYPE_f32,  SL_DTYPE_f32, SL_DTYPE_f16,
                                       SL_DTYPE_bf16, PANELS,       END};
    static const sl_dtype panels[] = {PANELS, END}, caches[] = {SL_DTYPE_f32, SL_DTYPE_f16, END};
    static const struct {
        char letter;
        const sl_dtype *dtypes;
    } classes[] = {{'F', floats},  {'E', full},    {'G', full},    {'H', narrow}, {'h', narrow},
                   {'I', ints},    {'J', indices}, {'j', indices}, {'B', bytes},  {'b', bytes},
                   {'o', bytes},   {'K', codes},   {'N', numbers}, {'X', fields}, {'P', plain},
                   {'W', weights}, {'V', weights}, {'Q', panels},  {'L', caches}};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (classes[i].letter == letter) return classes[i].dtypes;
    return NULL;
}

sl_dtype draw_dtype(generator *g, draw_names *names, char letter) {
    const sl_dtype *all = draw_class(letter);
    assert_non_null(all);
    sl_dtype *found = &names->dtypes[(unsigned char)letter];
    if (*found != SL_DTYPE_COUNT) return *found;
    uint32_t count = 0;
    while (all[count] != SL_DTYPE_COUNT) count++;
    return *found = all[draw(g, count)];
}

/* ---- sizes ---- */

static int64_t some_size(generator *g) {
    static const int64_t sizes[] = {1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 9, 11, 16, 17, 33};
    if (draw(g, 60) == 0) return 0;
    return sizes[draw(g, sizeof sizes / sizeof sizes[0])];
}

static int64_t factor(generator *g, draw_names *names, const char **text) {
    const char c = **text;
    if (c == '(') {
        ++*text;
        const int64_t value = draw_expression(g, names, text);
        assert_int_equal(**text, ')');
        ++*text;
        return value;
    }
    if (isdigit(c) || c == '-') return strtoll(*text, (char **)(uintptr_t)text, 10);
    assert_true(isalpha(c));
    ++*text;
    int64_t *size = &names->sizes[(unsigned char)c];
    if (*size == DRAW_UNBOUND && g) *size = some_size(g);
    return *size;
}

static int64_t term(generator *g, draw_names *names, const char **text) {
    int64_t value = factor(g, names, text);
    while (**text == '*' || **text == '/') {
        const char op = *(*text)++;
        const int64_t by = factor(g, names, text);
        if (value == DRAW_UNBOUND || by == DRAW_UNBOUND)
            value = DRAW_UNBOUND;
        else if (op == '*')
            value *= by;
        else
            value = by > 0 && value >= 0 ? value / by : -1;
    }
    return value;
}

int64_t draw_expression(generator *g, draw_names *names, const char **text) {
    int64_t value = term(g, names, text);
    while (**text == '+' || **text == '-') {
        const bool plus = *(*text)++ == '+';
        const int64_t by = term(g, names, text);
        if (value == DRAW_UNBOUND || by == DRAW_UNBOUND)
            value = DRAW_UNBOUND;
        else
            value += plus ? by : -by;
    }
    return value;
}

/* "a:b", behind the colon's left side. */
static int64_t in_range(generator *g, draw_names *names, int64_t least, const char **text) {
    ++*text;
    const int64_t most = draw_expression(g, names, text);
    return most <= least ? least : least + (int64_t)draw(g, (uint32_t)(most - least + 1));
}

/* One of "x,y,z" or "x|y|z"; *text is left at what ends it. */
static void choose(generator *g, const char **text, char between, const char *ends, char *out) {
    uint32_t count = 1;
    for (const char *p = *text; !strchr(ends, *p); p++) count += *p == between;
    uint32_t chosen = draw(g, count);
    for (; !strchr(ends, **text); ++*text) {
        if (**text == between)
            chosen--;
        else if (chosen == 0)
            *out++ = **text;
    }
    *out = 0;
}

const char *draw_declarations(generator *g, draw_names *names, const char *row) {
    const char *end = strchr(row, ';');
    if (!end) return row;
    while (row < end) {
        const char letter = *row;
        assert_true(isalpha(letter) && row[1] == '=');
        row += 2;
        int64_t value;
        if (*row == '?') {
            char text[16];
            row++;
            choose(g, &row, ',', " ;", text);
            value = strtoll(text, NULL, 10);
        } else {
            value = draw_expression(g, names, &row);
            if (*row == ':') value = in_range(g, names, value, &row);
        }
        names->sizes[(unsigned char)letter] = value;
        while (*row == ' ') row++;
    }
    for (row++; *row == ' ';) row++;
    return row;
}

/* ---- lists that depend on the first operand ---- */

static void put_list(const int64_t *items, uint32_t count, char *out) {
    char *at = out;
    *at++ = '[';
    for (uint32_t i = 0; i < count; i++)
        at += sprintf(at, "%s%lld", i ? ", " : "", (long long)items[i]);
    *at++ = ']';
    *at = 0;
}

static void some_axes(generator *g, const sl_dims *x, char *out) {
    int64_t axes[SL_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t d = 0; d < x->rank; d++)
        if (draw(g, 2)) axes[count++] = draw(g, 3) ? (int64_t)d : (int64_t)d - x->rank;
    put_list(axes, count, out);
}

static void some_order(generator *g, const sl_dims *x, char *out) {
    int64_t order[SL_MAX_RANK];
    for (uint32_t d = 0; d < x->rank; d++) order[d] = d;
    for (uint32_t d = x->rank; d > 1; d--) {
        const uint32_t other = draw(g, d);
        const int64_t kept = order[d - 1];
        order[d - 1] = order[other];
        order[other] = kept;
    }
    put_list(order, x->rank, out);
}

/* Another shape of as many elements; now and then one of its dims is -1. */
static void some_shape(generator *g, const sl_dims *x, char *out) {
    int64_t dims[SL_MAX_RANK], left = sl_dims_tail(x, 0);
    uint32_t count = 0;
    const bool guess = left > 0 && draw(g, 3) == 0;
    while (left > 1 && count < 4) {
        const int64_t by = 1 + draw(g, 8);
        if (left % by) continue;
        dims[count++] = by;
        left /= by;
    }
    if (count == 0 || left != 1) dims[count++] = left;
    if (draw(g, 8) == 0) dims[count++] = 1;
    if (guess) dims[draw(g, count)] = -1;
    put_list(dims, count, out);
}

static void some_wide(generator *g, const sl_dims *x, char *out) {
    int64_t dims[SL_MAX_RANK];
    uint32_t count = 0;
    if (draw(g, 2) && x->rank < 4) dims[count++] = 1 + draw(g, 3);
    for (uint32_t d = 0; d < x->rank; d++)
        dims[count++] = x->dims[d] == 1 ? 1 + draw(g, 4) : draw(g, 4) ? x->dims[d] : -1;
    if (count && count > x->rank && dims[0] == 0) dims[0] = 1;
    put_list(dims, count, out);
}

/* Whether what stands in braces is the name of such a list. */
static bool named(generator *g, const sl_dims *x, const char *text, char *out) {
    static const struct {
        const char *name;
        void (*put)(generator *g, const sl_dims *x, char *out);
    } lists[] = {
        {"axes}", some_axes}, {"perm}", some_order}, {"shape}", some_shape}, {"wide}", some_wide}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (strncmp(text, lists[i].name, strlen(lists[i].name)) == 0) {
            lists[i].put(g, x, out);
            return true;
        }
    const int64_t rank = x->rank ? x->rank : 1;
    if (strncmp(text, "axis}", 5) == 0)
        (void)sprintf(out, "%lld", (long long)(draw(g, (uint32_t)rank * 2) - rank));
    else
        return false;
    return true;
}

void draw_attributes(generator *g, draw_names *names, const sl_type *first, const char *row,
                     char out[DRAW_TEXT]) {
    char *at = out;
    while (*row) {
        if (*row != '{') {
            *at++ = *row++;
            continue;
        }
        row++;
        if (*row == '?') {
            row++;
            choose(g, &row, '|', "}", at);
        } else if (*row == '$') {
            (void)sprintf(at, "%s", sl_dtype_infos[draw_dtype(g, names, row[1])].name);
            row += 2;
        } else if (named(g, &first->shape, row, at)) {
            row = strchr(row, '}');
        } else {
            int64_t value = draw_expression(g, names, &row);
            if (*row == ':') value = in_range(g, names, value, &row);
            (void)sprintf(at, "%lld", (long long)value);
        }
        assert_int_equal(*row, '}');
        row++;
        at += strlen(at);
    }
    *at = 0;
}
