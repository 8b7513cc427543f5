/* movement.c - Ops that move elements without looking at them; any plain type. */
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include <string.h>

static size_t element_bytes(const sl_type *type) {
    return sl_dtype_infos[type->dtype].bytes;
}

/* How many stretches of dims[axis..] there are, and the bytes of one. */
static int64_t stretches(const sl_type *type, uint32_t axis) {
    return sl_type_elements(type) / sl_dims_tail(&type->shape, axis);
}
static size_t stretch_bytes(const sl_type *type, uint32_t axis) {
    return (size_t)sl_dims_tail(&type->shape, axis) * element_bytes(type);
}

/* ---- transpose: an item is a row of the output ---- */

SPLIT(transpose) {
    const sl_transpose_args *a = args;
    return (sl_split){rows_of(&a->out.type), grain_of(last_dim(&a->out.type) * 2), 0};
}

#define COPY_STRIDED(TYPE)                                                                         \
    for (int64_t i = 0; i < n; i++) ((TYPE *)to)[i] = ((const TYPE *)from)[i * stride]
static void copy_strided(void *to, const void *from, int64_t n, int64_t stride, size_t bytes) {
    if (bytes == 4)
        COPY_STRIDED(uint32_t);
    else if (bytes == 2)
        COPY_STRIDED(uint16_t);
    else
        COPY_STRIDED(uint8_t);
}

RUN(transpose) {
    const sl_transpose_args *a = args;
    const sl_dims *x = &a->x.type.shape, *out = &a->out.type.shape, *perm = &a->attrs.perm;
    const size_t bytes = element_bytes(&a->x.type);
    const int64_t n = last_dim(&a->out.type);
    int64_t strides[SL_MAX_RANK] = {0};
    for (uint32_t i = 0; i < out->rank; i++)
        strides[i] = sl_dims_tail(x, (uint32_t)perm->dims[i] + 1);
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, offset = 0;
        for (uint32_t i = out->rank ? out->rank - 1 : 0; i-- > 0; rest /= out->dims[i])
            offset += rest % out->dims[i] * strides[i];
        copy_strided((char *)a->out.data + (size_t)(row * n) * bytes,
                     (const char *)a->x.data + (size_t)offset * bytes, n,
                     out->rank ? strides[out->rank - 1] : 1, bytes);
    }
    return SL_OK;
}

/* ---- slice, concat, gather: an item is a stretch of bytes ---- */

SPLIT(slice) {
    const sl_slice_args *a = args;
    return (sl_split){stretches(&a->out.type, a->attrs.axis),
                      grain_of((int64_t)stretch_bytes(&a->out.type, a->attrs.axis) / 4), 0};
}
RUN(slice) {
    const sl_slice_args *a = args;
    const size_t from = stretch_bytes(&a->x.type, a->attrs.axis);
    const size_t to = stretch_bytes(&a->out.type, a->attrs.axis);
    const size_t skip = a->attrs.start * stretch_bytes(&a->x.type, a->attrs.axis + 1);
    for (int64_t i = begin; i < end; i++)
        memcpy((char *)a->out.data + (size_t)i * to,
               (const char *)a->x.data + (size_t)i * from + skip, to);
    return SL_OK;
}

SPLIT(concat) {
    const sl_concat_args *a = args;
    return (sl_split){stretches(&a->out.type, a->attrs.axis),
                      grain_of((int64_t)stretch_bytes(&a->out.type, a->attrs.axis) / 4), 0};
}
RUN(concat) {
    const sl_concat_args *c = args;
    const size_t first = stretch_bytes(&c->a.type, c->attrs.axis);
    const size_t second = stretch_bytes(&c->b.type, c->attrs.axis);
    for (int64_t i = begin; i < end; i++) {
        char *to = (char *)c->out.data + (size_t)i * (first + second);
        memcpy(to, (const char *)c->a.data + (size_t)i * first, first);
        memcpy(to + first, (const char *)c->b.data + (size_t)i * second, second);
    }
    return SL_OK;
}

SPLIT(gather) {
    const sl_gather_args *a = args;
    return (sl_split){stretches(&a->x.type, a->attrs.axis) * sl_type_elements(&a->indices.type),
                      grain_of((int64_t)stretch_bytes(&a->x.type, a->attrs.axis + 1) / 4), 0};
}
RUN(gather) {
    const sl_gather_args *a = args;
    const int32_t *indices = a->indices.data;
    const int64_t count = sl_type_elements(&a->indices.type);
    const int64_t extent = dim(&a->x.type, a->attrs.axis);
    const size_t bytes = stretch_bytes(&a->x.type, a->attrs.axis + 1);
    for (int64_t i = begin; i < end; i++) {
        const int64_t outer = i / count, index = indices[i % count];
        SL_TRY(check_index(index, extent, "gather: index", i % count, worker->err));
        memcpy((char *)a->out.data + (size_t)i * bytes,
               (const char *)a->x.data + (size_t)(outer * extent + index) * bytes, bytes);
    }
    return SL_OK;
}

SPLIT(split_halves) {
    const sl_split_halves_args *a = args;
    return (sl_split){rows_of(&a->x.type), grain_of(last_dim(&a->x.type)), 0};
}
RUN(split_halves) {
    const sl_split_halves_args *a = args;
    const size_t half = stretch_bytes(&a->x.type, a->x.type.shape.rank - 1) / 2;
    for (int64_t row = begin; row < end; row++) {
        const char *from = (const char *)a->x.data + (size_t)row * 2 * half;
        memcpy((char *)a->first.data + (size_t)row * half, from, half);
        memcpy((char *)a->second.data + (size_t)row * half, from + half, half);
    }
    return SL_OK;
}
