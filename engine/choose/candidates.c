#include "engine/choose/candidates.h"
#include "engine/choose/share.h"
#include <stdbool.h>

static bool is_better(const sl_kept_token *a, const sl_kept_token *b) {
    return a->key != b->key ? a->key < b->key : a->token < b->token;
}

static void swap(sl_kept_token *a, sl_kept_token *b) {
    const sl_kept_token held = *a;
    *a = *b;
    *b = held;
}

/* Moves one of items[low, high) to its rank and the better ones before it; returns the rank.  It is
 * chosen at random, so that no order of tokens makes selection slow. */
static uint32_t partition(sl_kept_token *items, uint32_t low, uint32_t high) {
    const uint64_t random = sl_share_mix((uint64_t)low << 32 | high);
    swap(&items[low], &items[low + (uint32_t)(random % (high - low))]);
    const sl_kept_token pivot = items[low];
    uint32_t split = low;
    for (uint32_t i = low + 1; i < high; i++)
        if (is_better(&items[i], &pivot)) swap(&items[++split], &items[i]);
    swap(&items[low], &items[split]);
    return split;
}

void sl_candidates_select(sl_kept_token *items, uint32_t count, uint32_t keep) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        const uint32_t split = partition(items, low, high);
        if (split == keep || split + 1 == keep) return;
        if (split > keep)
            high = split;
        else
            low = split + 1;
    }
}

double sl_candidates_mass(const sl_kept_token *items, uint32_t count) {
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += (double)items[i].weight;
    return sum;
}

uint32_t sl_candidates_select_mass(sl_kept_token *items, uint32_t count, double mass) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        const uint32_t split = partition(items, low, high);
        const double better = sl_candidates_mass(items + low, split - low);
        if (split > low && better >= mass) {
            high = split;
            continue;
        }
        mass -= better + (double)items[split].weight;
        if (mass <= 0) return split + 1;
        low = split + 1;
    }
    return high;
}
