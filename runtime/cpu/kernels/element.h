/* element.h - Single elements of any plain type, for loops that are not worth writing once per
 * type.  Floats are computed as doubles, integers modulo 2^64; results are rounded or truncated
 * once, when they are stored. */
#ifndef SL_RUNTIME_CPU_ELEMENT_H
#define SL_RUNTIME_CPU_ELEMENT_H
#include "core/codec.h"
#include <stdbool.h>

static inline bool is_real(sl_dtype dtype) {
    return sl_dtype_infos[dtype].kind == SL_KIND_FLOAT;
}

/* Element i of a float type. */
static inline double real_at(sl_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case SL_DTYPE_f64:
        return ((const double *)data)[i];
    case SL_DTYPE_f16:
        return (double)sl_f32_from_f16(((const uint16_t *)data)[i]);
    case SL_DTYPE_bf16:
        return (double)sl_f32_from_bf16(((const uint16_t *)data)[i]);
    default:
        return (double)((const float *)data)[i];
    }
}
static inline void put_real(sl_dtype dtype, void *data, int64_t i, double value) {
    switch (dtype) {
    case SL_DTYPE_f64:
        ((double *)data)[i] = value;
        break;
    case SL_DTYPE_f16:
        ((uint16_t *)data)[i] = sl_f16_from_f32((float)value);
        break;
    case SL_DTYPE_bf16:
        ((uint16_t *)data)[i] = sl_bf16_from_f32((float)value);
        break;
    default:
        ((float *)data)[i] = (float)value;
    }
}

/* Element i of an integer type; u64 keeps its bits. */
static inline int64_t whole_at(sl_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case SL_DTYPE_i8:
        return ((const int8_t *)data)[i];
    case SL_DTYPE_i16:
        return ((const int16_t *)data)[i];
    case SL_DTYPE_u16:
        return ((const uint16_t *)data)[i];
    case SL_DTYPE_i32:
        return ((const int32_t *)data)[i];
    case SL_DTYPE_u32:
        return ((const uint32_t *)data)[i];
    case SL_DTYPE_i64:
    case SL_DTYPE_u64:
        return ((const int64_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}
static inline void put_whole(sl_dtype dtype, void *data, int64_t i, int64_t value) {
    switch (sl_dtype_infos[dtype].bytes) {
    case 1:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    case 2:
        ((uint16_t *)data)[i] = (uint16_t)value;
        break;
    case 4:
        ((uint32_t *)data)[i] = (uint32_t)value;
        break;
    default:
        ((int64_t *)data)[i] = value;
    }
}
#endif
