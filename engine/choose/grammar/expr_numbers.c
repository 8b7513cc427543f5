/* expr_numbers.c - Decimal numbers compared with a bound, and multiples, as expressions.
 *
 * A comparison reads the integer digits without knowing how many there will be: the order so far is
 * that of the leading digits, and the number of digits decides at the end. */
#include "engine/choose/grammar/expr_nodes.h"
#include <string.h>

enum { ORDER_SAME, ORDER_LESS, ORDER_MORE };
enum { BOUND = 1, INTEGER_DIGITS, FRACTION_DIGITS, COMPARISON, PHASE, READ, ORDER, COMPARED_WORDS };
enum { DIVISOR = 1, SHIFT, REMAINDER, MULTIPLE_PHASE, LEFT, MULTIPLE_WORDS };

sl_expr sl_expr_compared(sl_expr_pool *pool, sl_comparison comparison, const char *bound) {
    const uint32_t start = (uint32_t)pool->bytes.count;
    const size_t integer = strcspn(bound, "."), length = strlen(bound);
    const size_t fraction = length > integer ? length - integer - 1 : 0;
    for (size_t i = 0; i < length; i++)
        if (bound[i] != '.' &&
            !sl_word_list_add(pool->allocator, &pool->bytes, (unsigned char)bound[i]))
            return sl_expr_fail(pool, SL_NO_MEMORY);
    const uint32_t words[COMPARED_WORDS] = {
        KIND_COMPARED, start, (uint32_t)integer, (uint32_t)fraction, (uint32_t)comparison, 0, 0,
        ORDER_SAME};
    return sl_expr_put(pool, words, COMPARED_WORDS);
}

static uint32_t integer_order(const uint32_t *w) {
    if (w[READ] < w[INTEGER_DIGITS]) return ORDER_LESS;
    return w[READ] > w[INTEGER_DIGITS] ? ORDER_MORE : w[ORDER];
}

static bool compared_nullable(const uint32_t *w) {
    uint32_t order = w[PHASE] ? w[ORDER] : integer_order(w);
    if (order == ORDER_SAME && (w[PHASE] ? w[READ] : 0) < w[FRACTION_DIGITS]) order = ORDER_LESS;
    switch ((sl_comparison)w[COMPARISON]) {
    case SL_BELOW:
        return order == ORDER_LESS;
    case SL_AT_MOST:
        return order != ORDER_MORE;
    case SL_ABOVE:
        return order == ORDER_MORE;
    case SL_AT_LEAST:
        return order != ORDER_LESS;
    }
    return false;
}

static sl_expr derive_compared(sl_expr_pool *pool, const uint32_t *given, unsigned byte) {
    uint32_t w[COMPARED_WORDS];
    memcpy(w, given, sizeof w);
    if (byte == '.' && !w[PHASE]) {
        w[ORDER] = integer_order(w);
        w[PHASE] = 1;
        w[READ] = 0;
        return sl_expr_put(pool, w, COMPARED_WORDS);
    }
    if (byte < '0' || byte > '9') return SL_EXPR_NONE;
    const uint32_t digits = w[PHASE] ? w[FRACTION_DIGITS] : w[INTEGER_DIGITS];
    const uint32_t offset = w[BOUND] + (w[PHASE] ? w[INTEGER_DIGITS] : 0) + w[READ];
    const unsigned other = w[READ] < digits ? pool->bytes.words[offset] : '0';
    if (w[ORDER] == ORDER_SAME && byte != other && (w[PHASE] || w[READ] < digits))
        w[ORDER] = byte < other ? ORDER_LESS : ORDER_MORE;
    if (w[READ] < digits + !w[PHASE]) w[READ]++;
    if (!w[PHASE] && w[READ] > digits) w[ORDER] = ORDER_MORE;
    if (w[PHASE] && w[ORDER] != ORDER_SAME) w[READ] = digits;
    const bool lost = w[ORDER] == ORDER_MORE && (w[PHASE] || w[READ] > digits);
    if (lost && w[COMPARISON] <= SL_AT_MOST) return SL_EXPR_NONE;
    return sl_expr_put(pool, w, COMPARED_WORDS);
}

sl_expr sl_expr_multiple(sl_expr_pool *pool, uint32_t divisor, uint32_t shift) {
    const uint32_t words[MULTIPLE_WORDS] = {KIND_MULTIPLE, divisor, shift, 0, 0, shift};
    return sl_expr_put(pool, words, MULTIPLE_WORDS);
}

static bool multiple_nullable(const uint32_t *w) {
    uint64_t remainder = w[REMAINDER];
    for (uint32_t i = 0; i < w[LEFT]; i++) remainder = remainder * 10 % w[DIVISOR];
    return remainder == 0;
}

static sl_expr derive_multiple(sl_expr_pool *pool, const uint32_t *given, unsigned byte) {
    uint32_t w[MULTIPLE_WORDS];
    memcpy(w, given, sizeof w);
    if (byte == '.' && !w[MULTIPLE_PHASE]) {
        w[MULTIPLE_PHASE] = 1;
        return sl_expr_put(pool, w, MULTIPLE_WORDS);
    }
    if (byte < '0' || byte > '9') return SL_EXPR_NONE;
    if (w[MULTIPLE_PHASE] && !w[LEFT])
        return byte == '0' ? sl_expr_put(pool, w, MULTIPLE_WORDS) : SL_EXPR_NONE;
    w[REMAINDER] = (uint32_t)(((uint64_t)w[REMAINDER] * 10 + (byte - '0')) % w[DIVISOR]);
    if (w[MULTIPLE_PHASE]) w[LEFT]--;
    return sl_expr_put(pool, w, MULTIPLE_WORDS);
}

bool sl_leaf_nullable(const uint32_t *words) {
    return words[0] == KIND_COMPARED ? compared_nullable(words) : multiple_nullable(words);
}

sl_expr sl_leaf_derive(sl_expr_pool *pool, const uint32_t *words, unsigned byte) {
    return words[0] == KIND_COMPARED ? derive_compared(pool, words, byte)
                                     : derive_multiple(pool, words, byte);
}
