/* elementwise_int.c - Strip functions of all integer types and of bool. */
#include "core/ops.h"

#include "runtime/cpu/kernels/elementwise_strips.h"

#define IF_TYPE(TYPES) SL_IF_INTS_##TYPES
#define INTEGER        int8_t
#define UNSIGNED       uint8_t
#define WIDE           uint32_t
#define IS_SIGNED      1
#define NAMED(NAME)    i8_##NAME
#define TABLE          SL_KERNEL(sl_strips_i8)
#include "runtime/cpu/kernels/elementwise_int.h" /* NOLINT: one type at a time */
#define INTEGER     uint8_t
#define UNSIGNED    uint8_t
#define WIDE        uint32_t
#define IS_SIGNED   0
#define NAMED(NAME) u8_##NAME
#define TABLE       SL_KERNEL(sl_strips_u8)
#include "runtime/cpu/kernels/elementwise_int.h" /* NOLINT: one type at a time */
#define INTEGER     int16_t
#define UNSIGNED    uint16_t
#define WIDE        uint32_t
#define IS_SIGNED   1
#define NAMED(NAME) i16_##NAME
#define TABLE       SL_KERNEL(sl_strips_i16)
#include "runtime/cpu/kernels/elementwise_int.h" /* NOLINT: one type at a time */
#define INTEGER     uint16_t
#define UNSIGNED    uint16_t
#define WIDE        uint32_t
#define IS_SIGNED   0
#define NAMED(NAME) u16_##NAME
#define TABLE       SL_KERNEL(sl_strips_u16)
#include "runtime/cpu/kernels/elementwise_int.h" /* NOLINT: one type at a time */
#define INTEGER     int32_t
#define UNSIGNED    uint32_t
#define WIDE        uint32_t
#define IS_SIGNED   1
#define NAMED(NAME) i32_##NAME
#define TABLE       SL_KERNEL(sl_strips_i32)
#include "runtime/cpu/kernels/elementwise_int.h" /* NOLINT: one type at a time */
#define INTEGER     uint32_t
#define UNSIGNED    uint32_t
#define WIDE        uint32_t
#define IS_SIGNED   0
#define NAMED(NAME) u32_##NAME
#define TABLE       SL_KERNEL(sl_strips_u32)
#include "runtime/cpu/kernels/elementwise_int.h" /* NOLINT: one type at a time */
#define INTEGER     int64_t
#define UNSIGNED    uint64_t
#define WIDE        uint64_t
#define IS_SIGNED   1
#define NAMED(NAME) i64_##NAME
#define TABLE       SL_KERNEL(sl_strips_i64)
#include "runtime/cpu/kernels/elementwise_int.h" /* NOLINT: one type at a time */
#define INTEGER     uint64_t
#define UNSIGNED    uint64_t
#define WIDE        uint64_t
#define IS_SIGNED   0
#define NAMED(NAME) u64_##NAME
#define TABLE       SL_KERNEL(sl_strips_u64)
#include "runtime/cpu/kernels/elementwise_int.h" /* NOLINT: one type at a time */
#undef IF_TYPE

#define IF_TYPE(TYPES) SL_IF_BOOLS_##TYPES
#define INTEGER        uint8_t
#define UNSIGNED       uint8_t
#define WIDE           uint32_t
#define IS_SIGNED      0
#define NAMED(NAME)    bool_##NAME
#define TABLE          SL_KERNEL(sl_strips_bool)
#include "runtime/cpu/kernels/elementwise_int.h" /* NOLINT: one type at a time */
