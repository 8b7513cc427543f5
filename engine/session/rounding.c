#include "engine/session/rounding.h"

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

bool sl_rounding_is_due(const sl_forward_options *options) {
    return options->device && !options->device->ops->resize && options->most_wanted > 0 &&
           options->chunk_rows > 1;
}

/* Steps of a quarter of a power of two, above FINE rows of an eighth. */
uint32_t sl_rounding_size(uint32_t rows) {
    enum { FINE = 64, COARSE = 4 };
    uint32_t power = 1;
    while (power <= rows / 2) power *= 2;
    const uint32_t step = power / (rows > FINE ? 2 * COARSE : COARSE);
    return step > 1 ? (rows + step - 1) / step * step : rows;
}

sl_rounded_pass sl_rounding_pass(const sl_forward_options *options, const sl_forward_rows *rows) {
    const uint32_t chunk = options->chunk_rows;
    const uint32_t most = rows->count > chunk ? SL_MAX_FORWARD_ROWS : chunk;
    sl_rounded_pass pass = {.rows = least(sl_rounding_size(rows->count), most)};
    if (pass.rows - rows->count > options->shape.capacity) pass.rows = rows->count;
    if (rows->wanted == rows->count) {
        pass.wanted = pass.rows;
        return pass;
    }
    while (pass.wanted < rows->wanted) pass.wanted = pass.wanted ? 2 * pass.wanted : 1;
    pass.wanted = least(pass.wanted, pass.rows);
    pass.gathers = pass.wanted == pass.rows;
    return pass;
}
