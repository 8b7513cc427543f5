#include "core/rnn.h"
#include <string.h>

static const struct {
    const char *name;
    sl_activation activation;
} functions[] = {
#define FUNCTION(NAME, ALPHA, BETA, ...) {#NAME, {SL_CELL_##NAME, ALPHA, BETA}},
    SL_CELL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static bool find_function(const char *name, size_t bytes, sl_activation *out) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strlen(functions[i].name) == bytes && memcmp(functions[i].name, name, bytes) == 0) {
            *out = functions[i].activation;
            return true;
        }
    return false;
}

uint32_t sl_directions(const char *text, bool *reverse) {
    *reverse = strcmp(text, "reverse") == 0;
    if (*reverse || text[0] == 0 || strcmp(text, "forward") == 0) return 1;
    return strcmp(text, "bidirectional") == 0 ? 2 : 0;
}

/* Word `index` of the comma-separated list; false if there are fewer. */
static bool word_at(const char *text, uint32_t index, const char **at, size_t *bytes) {
    for (; index > 0; index--) {
        text = strchr(text, ',');
        if (!text) return false;
        text++;
    }
    *at = text;
    *bytes = strcspn(text, ",");
    return true;
}

static uint32_t words_in(const char *text) {
    uint32_t count = text[0] != 0;
    for (; *text; text++) count += *text == ',';
    return count;
}

static uint32_t functions_of(uint32_t gates) {
    return gates == SL_LSTM_GATES ? 3 : gates == SL_GRU_GATES ? 2 : 1;
}

static bool is_list_of(const sl_reals *list, uint32_t count) {
    return list->count == 0 || list->count == count;
}

bool sl_cell_make(const sl_recurrent_attrs *attrs, uint32_t gates, int64_t hidden,
                  uint32_t direction, sl_cell *out) {
    static const char *const usual[] = {"", "tanh", "", "sigmoid,tanh", "sigmoid,tanh,tanh"};
    bool reverse;
    const uint32_t each = functions_of(gates), words = words_in(attrs->activations);
    const uint32_t all = each * sl_directions(attrs->direction, &reverse);
    if (words && words != all) return false;
    if (!is_list_of(&attrs->alphas, all) || !is_list_of(&attrs->betas, all)) return false;
    sl_activation found[3] = {0};
    for (uint32_t i = 0; i < each; i++) {
        const uint32_t index = direction * each + i;
        const char *at;
        size_t bytes;
        if (!word_at(words ? attrs->activations : usual[gates], words ? index : i, &at, &bytes) ||
            !find_function(at, bytes, &found[i]))
            return false;
        if (attrs->alphas.count) found[i].alpha = attrs->alphas.items[index];
        if (attrs->betas.count) found[i].beta = attrs->betas.items[index];
    }
    *out =
        (sl_cell){gates, hidden, found[0], found[1], found[2], (double)attrs->clip, attrs->variant};
    return true;
}

void sl_rnn_step(const sl_cell *cell, const double *sums, double *hidden) {
    for (int64_t i = 0; i < cell->hidden; i++) hidden[i] = sl_cell_gate(cell, sums[i]);
}

void sl_lstm_step(const sl_cell *cell, const double *sums, const double *peepholes, double *hidden,
                  double *content) {
    const int64_t n = cell->hidden;
    for (int64_t i = 0; i < n; i++) {
        const double own[] = {sums[i], sums[n + i], sums[2 * n + i], sums[3 * n + i]};
        double holes[3] = {0};
        for (int64_t p = 0; p < 3 && peepholes; p++) holes[p] = peepholes[p * n + i];
        hidden[i] = sl_lstm_unit(cell, own, peepholes ? holes : NULL, &content[i]);
    }
}

void sl_gru_gates(const sl_cell *cell, double *sums) {
    for (int64_t i = 0; i < 2 * cell->hidden; i++) sums[i] = sl_cell_gate(cell, sums[i]);
}

void sl_gru_step(const sl_cell *cell, const double *gates, const double *candidates,
                 double *hidden) {
    for (int64_t i = 0; i < cell->hidden; i++)
        hidden[i] = sl_gru_unit(cell, gates[i], candidates[i], hidden[i]);
}
