/* einsum.c - Einsum, two operands at a time.
 *
 * A label is a letter; the dims of an ellipsis get their own labels, counted from the end.  In each
 * operand, repeated labels are reduced to their diagonal, and labels that are not needed any more
 * are summed over.  Two operands are combined by a matrix product of [batch, left, shared] and
 * [batch, shared, right]. */
#include "frontend/onnx/families.h"
#include <ctype.h>
#include <string.h>

enum { MAX_TERMS = 16, FIRST_ELLIPSIS = 128 };

/* A tensor whose dim i has label labels[i]. */
typedef struct {
    sl_value value;
    uint32_t rank;
    unsigned char labels[SL_MAX_RANK + 1];
} term;

static bool has_label(const term *t, unsigned char label) {
    return memchr(t->labels, label, t->rank) != NULL;
}

static int64_t dim_of(const sl_onnx_call *c, const term *t, uint32_t i) {
    return sl_onnx_type(c, t->value).shape.dims[i];
}

/* Reads one term up to a comma or arrow.  dots: number of dims of an ellipsis. */
static const char *read_term(sl_onnx_call *c, const char *at, uint32_t dots, term *out) {
    out->rank = 0;
    while (*at && *at != ',' && *at != '-') {
        const bool ellipsis = strncmp(at, "...", 3) == 0;
        const uint32_t more = ellipsis ? dots : isalpha((unsigned char)*at) ? 1 : 0;
        if (*at != ' ' && !ellipsis && !more)
            sl_onnx_wrong(c, "unexpected '%c' in the equation", *at);
        if (out->rank + more > SL_MAX_RANK)
            sl_onnx_refuse(c, "more than %d dims are not supported", SL_MAX_RANK);
        if (sl_onnx_failed(c)) return at;
        for (uint32_t i = 0; ellipsis && i < dots; i++)
            out->labels[out->rank++] = (unsigned char)(FIRST_ELLIPSIS + dots - 1 - i);
        if (!ellipsis && more) out->labels[out->rank++] = (unsigned char)*at;
        at += ellipsis ? 3 : 1;
    }
    return at;
}

static uint32_t count_letters(const char *at, bool *ellipsis) {
    uint32_t letters = 0;
    *ellipsis = false;
    for (; *at && *at != ',' && *at != '-'; at++) {
        letters += isalpha((unsigned char)*at) != 0;
        *ellipsis |= *at == '.';
    }
    return letters;
}

/* The diagonal of two dims, as a sum over the second with the other elements masked. */
static void take_diagonal(sl_onnx_call *c, term *t, uint32_t first, uint32_t second) {
    const sl_type type = sl_onnx_type(c, t->value);
    sl_value at[2];
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t axis = i ? second : first;
        sl_dims along = {.rank = type.shape.rank};
        for (uint32_t d = 0; d < along.rank; d++)
            along.dims[d] = d == axis ? type.shape.dims[d] : 1;
        sl_onnx_append(c, &(sl_onnx_step){"iota", 0, 1, NULL, &at[i]},
                       "shape=%s, axis=%u, dtype=i64", sl_onnx_dims(c, &along), axis);
    }
    const sl_value same = sl_onnx_op2(c, "equal", at[0], at[1]);
    const sl_value zero = sl_onnx_scalar(c, type.dtype, 0);
    t->value = sl_onnx_op3(c, "where", same, t->value, zero);
    t->value = sl_onnx_reduce(c, "sum", t->value, &(sl_dims){1, {second}}, false);
    memmove(t->labels + second, t->labels + second + 1, t->rank - second);
    t->rank--;
}

static void drop_repeated(sl_onnx_call *c, term *t) {
    for (uint32_t i = 0; i < t->rank && !sl_onnx_failed(c); i++)
        for (uint32_t j = t->rank; j-- > i + 1;)
            if (t->labels[i] == t->labels[j]) take_diagonal(c, t, i, j);
}

/* Sums over the dims whose label is not needed. */
static void sum_unneeded(sl_onnx_call *c, term *t, const bool *needed) {
    sl_dims axes = {0};
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (needed[t->labels[i]])
            t->labels[rank++] = t->labels[i];
        else
            axes.dims[axes.rank++] = i;
    }
    t->rank = rank;
    t->value = sl_onnx_reduce(c, "sum", t->value, &axes, false);
}

/* The term with its dims in the order of `labels`; missing ones become 1. */
static sl_value arranged(sl_onnx_call *c, const term *t, const unsigned char *labels,
                         uint32_t count) {
    sl_dims perm = {0}, shape = {.rank = count};
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *found = memchr(t->labels, labels[i], t->rank);
        shape.dims[i] = found ? dim_of(c, t, (uint32_t)(found - t->labels)) : 1;
        if (found) perm.dims[perm.rank++] = found - t->labels;
    }
    return sl_onnx_reshape(c, sl_onnx_transpose(c, t->value, &perm), &shape);
}

/* The labels of a term by their role in a product. */
typedef struct {
    uint32_t batch, left, right, shared;
    unsigned char labels[4][SL_MAX_RANK + 1];
} parting;

static bool part_labels(sl_onnx_call *c, const term *a, const term *b, const bool *needed,
                        parting *p) {
    *p = (parting){0};
    for (uint32_t i = 0; i < a->rank; i++) {
        const unsigned char label = a->labels[i];
        if (!has_label(b, label))
            p->labels[1][p->left++] = label;
        else if (needed[label])
            p->labels[0][p->batch++] = label;
        else
            p->labels[3][p->shared++] = label;
    }
    for (uint32_t i = 0; i < b->rank; i++)
        if (!has_label(a, b->labels[i])) p->labels[2][p->right++] = b->labels[i];
    if (p->batch + p->left + p->right <= SL_MAX_RANK) return true;
    sl_onnx_refuse(c, "more than %d dims are not supported", SL_MAX_RANK);
    return false;
}

/* Expands dims of size 1 whose label is larger in the other term. */
static void widen(sl_onnx_call *c, term *t, const term *other) {
    sl_dims shape = sl_onnx_type(c, t->value).shape;
    for (uint32_t i = 0; i < t->rank; i++) {
        const unsigned char *found = memchr(other->labels, t->labels[i], other->rank);
        if (found && shape.dims[i] == 1)
            shape.dims[i] = dim_of(c, other, (uint32_t)(found - other->labels));
    }
    t->value = sl_onnx_expand(c, t->value, &shape);
}

static int64_t product_of(const sl_dims *dims, uint32_t from, uint32_t count) {
    int64_t product = 1;
    for (uint32_t i = from; i < from + count; i++) product *= dims->dims[i];
    return product;
}

static term multiply(sl_onnx_call *c, term a, term b, const bool *needed) {
    parting p;
    term out = {0};
    if (!part_labels(c, &a, &b, needed, &p)) return out;
    widen(c, &a, &b);
    widen(c, &b, &a);
    unsigned char left[SL_MAX_RANK + 1] = {0}, right[SL_MAX_RANK + 1] = {0};
    memcpy(left, p.labels[0], p.batch);
    memcpy(left + p.batch, p.labels[1], p.left);
    memcpy(left + p.batch + p.left, p.labels[3], p.shared);
    memcpy(right, p.labels[0], p.batch);
    memcpy(right + p.batch, p.labels[3], p.shared);
    memcpy(right + p.batch + p.shared, p.labels[2], p.right);
    const sl_value x = arranged(c, &a, left, a.rank), y = arranged(c, &b, right, b.rank);
    const sl_dims xs = sl_onnx_type(c, x).shape, ys = sl_onnx_type(c, y).shape;
    const int64_t batch = product_of(&xs, 0, p.batch), shared = product_of(&ys, p.batch, p.shared);
    const sl_dims m = {3, {batch, product_of(&xs, p.batch, p.left), shared}};
    const sl_dims n = {3, {batch, shared, product_of(&ys, p.batch + p.shared, p.right)}};
    out.value = sl_onnx_op2(c, "matmul", sl_onnx_reshape(c, x, &m), sl_onnx_reshape(c, y, &n));
    sl_dims shape = {.rank = p.batch + p.left + p.right};
    out.rank = shape.rank;
    memcpy(out.labels, left, p.batch + p.left);
    memcpy(out.labels + p.batch + p.left, p.labels[2], p.right);
    for (uint32_t i = 0; i < p.batch + p.left; i++) shape.dims[i] = xs.dims[i];
    for (uint32_t i = 0; i < p.right; i++)
        shape.dims[p.batch + p.left + i] = ys.dims[p.batch + p.shared + i];
    out.value = sl_onnx_reshape(c, out.value, &shape);
    return out;
}

/* Without an arrow the result has an ellipsis, then the labels that appear once, in order. */
static void implied_result(const term *terms, uint32_t count, uint32_t dots, term *out) {
    uint32_t seen[256] = {0};
    for (uint32_t t = 0; t < count; t++)
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
        for (uint32_t i = 0; i < terms[t].rank && i < SL_MAX_RANK; i++) seen[terms[t].labels[i]]++;
    out->rank = 0;
    for (uint32_t i = 0; i < dots; i++)
        out->labels[out->rank++] = (unsigned char)(FIRST_ELLIPSIS + dots - 1 - i);
    for (unsigned label = 'A'; label <= 'z' && out->rank < SL_MAX_RANK; label++)
        if (seen[label] == 1) out->labels[out->rank++] = (unsigned char)label;
}

/* Reads the equation; false after an error. */
static bool read_equation(sl_onnx_call *c, term *terms, term *result) {
    const char *at = sl_onnx_text(c, "equation", "");
    uint32_t dots = 0;
    if (c->in_count == 0 || c->in_count > MAX_TERMS) {
        sl_onnx_refuse(c, "%u operands, at most %d are supported", c->in_count, MAX_TERMS);
        return false;
    }
    for (uint32_t i = 0; i < c->in_count && !sl_onnx_failed(c); i++) {
        bool ellipsis;
        const uint32_t rank = sl_onnx_in_type(c, i).shape.rank;
        const uint32_t letters = count_letters(at, &ellipsis);
        const uint32_t mine = ellipsis && rank >= letters ? rank - letters : 0;
        if (mine > dots) dots = mine;
        at = read_term(c, at, mine, &terms[i]);
        if (terms[i].rank != rank)
            sl_onnx_wrong(c, "operand %u has %u dims, which do not fit the equation", i, rank);
        if (i + 1 < c->in_count && *at++ != ',') sl_onnx_wrong(c, "the equation has too few terms");
    }
    if (sl_onnx_failed(c)) return false;
    if (strncmp(at, "->", 2) == 0)
        (void)read_term(c, at + 2, dots, result);
    else
        implied_result(terms, c->in_count, dots, result);
    return !sl_onnx_failed(c);
}

void sl_onnx_einsum(sl_onnx_call *c) {
    term terms[MAX_TERMS], result;
    if (!read_equation(c, terms, &result)) return;
    for (uint32_t i = 0; i < c->in_count; i++) {
        terms[i].value = sl_onnx_in(c, i);
        drop_repeated(c, &terms[i]);
    }
    term all = {0};
    for (uint32_t i = 0; i < c->in_count && !sl_onnx_failed(c); i++) {
        bool needed[256] = {false}, here[256];
        for (uint32_t l = 0; l < result.rank; l++) needed[result.labels[l]] = true;
        for (uint32_t t = i + 1; t < c->in_count; t++)
            for (uint32_t l = 0; l < terms[t].rank; l++) needed[terms[t].labels[l]] = true;
        memcpy(here, needed, sizeof here);
        for (uint32_t l = 0; l < all.rank; l++) here[all.labels[l]] = true;
        sum_unneeded(c, &terms[i], here);
        all = i ? multiply(c, all, terms[i], needed) : terms[0];
    }
    for (uint32_t i = 0; i < result.rank; i++)
        if (!has_label(&all, result.labels[i]))
            sl_onnx_wrong(c, "the result has a label that no operand has");
    if (!sl_onnx_failed(c)) sl_onnx_set(c, 0, arranged(c, &all, result.labels, result.rank));
}
