/* described.h - What a model or a session says of itself, as a value; zeros if it fails. */
#ifndef SL_TESTS_SUPPORT_DESCRIBED_H
#define SL_TESTS_SUPPORT_DESCRIBED_H
#include "sluice/inspect.h"

static inline sl_model_info test_model_info(const sl_model *model) {
    sl_model_info info = {.struct_size = sizeof info};
    if (sl_model_describe(model, &info, NULL) != SL_OK) info = (sl_model_info){0};
    return info;
}

static inline sl_stats test_session_stats(const sl_session *session) {
    sl_stats stats = {.struct_size = sizeof stats};
    if (sl_session_stats(session, &stats, NULL) != SL_OK) stats = (sl_stats){0};
    return stats;
}

static inline sl_token_cost test_token_cost(const sl_model *model) {
    sl_token_cost cost = {.struct_size = sizeof cost};
    if (sl_model_token_cost(model, &cost, NULL) != SL_OK) cost = (sl_token_cost){0};
    return cost;
}
#endif
