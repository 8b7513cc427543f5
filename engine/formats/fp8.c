/* fp8.c - 8-bit and 4-bit floats of Hugging Face folders.
 *
 *   fp8      X F8_E4M3 [.., N, K] and X_scale_inv [.., ceil(N/b), ceil(K/c)], with [b, c] the
 *            weight_block_size of config.json; one scale for the whole matrix if it has none.
 *   mxfp4    X_blocks U8 [.., N, K/32, 16], two columns per byte, low nibble first, and
 *            X_scales U8 [.., N, K/32], exponents of powers of two. */
#include "engine/formats/hf.h"
#include <string.h>

/* Sets both to 0 if the whole matrix is one block. */
static sl_status read_block(const sl_hf_folder *folder, uint32_t *rows, uint32_t *cols) {
    const json_t *size = json_object_get(folder->method, "weight_block_size");
    *rows = *cols = 0;
    if (!size || json_is_null(size)) return SL_OK;
    const json_int_t r = json_integer_value(json_array_get(size, 0));
    const json_int_t c = json_integer_value(json_array_get(size, 1));
    if (json_array_size(size) != 2 || r < 1 || c < 1 || r > 65536 || c > 65536)
        return sl_fail(folder->err, SL_FORMAT,
                       "config.json: 'weight_block_size' is not two numbers from 1 to 65536");
    *rows = (uint32_t)r;
    *cols = (uint32_t)c;
    return SL_OK;
}

static sl_status check_scales(const sl_hf_folder *folder, const sl_hf_tensor *weight,
                              const sl_hf_tensor *scales, const sl_hf_code *code) {
    const sl_dims *w = &weight->type.shape, *s = &scales->type.shape;
    bool fits = !scales->why && sl_dtype_infos[scales->type.dtype].kind == SL_KIND_FLOAT;
    if (code->block_rows && fits) {
        sl_dims want = *w;
        int64_t *cols = &want.dims[want.rank - 1], *rows = cols - 1;
        *cols = (*cols + code->group - 1) / code->group;
        *rows = (*rows + code->block_rows - 1) / code->block_rows;
        fits = sl_dims_equal(&want, s);
    } else if (fits) {
        fits = sl_type_elements(&scales->type) == sl_dims_tail(w, 0) / sl_dims_tail(w, w->rank - 2);
    }
    if (fits) return SL_OK;
    return sl_fail(folder->err, SL_FORMAT,
                   "tensor '%s' is %s, wanted floats, one for each block of %u x %u of %s",
                   scales->name, sl_hf_text(scales), code->block_rows, code->group,
                   sl_hf_text(weight));
}

sl_status sl_hf_fp8(sl_hf_folder *folder, const sl_hf_tensor *tensor, sl_hf_claim *claim,
                    sl_hf_stored *out) {
    const sl_hf_tensor *whole = sl_hf_beside(folder, tensor->name, "_scale_inv", "");
    if (whole && sl_hf_is(whole, "F8_E4M3")) *claim = SL_HF_PART;
    whole = sl_hf_beside(folder, tensor->name, ".input_scale", ".weight");
    /* Scales of activations are not used. */
    if (whole && sl_hf_is(whole, "F8_E4M3")) *claim = SL_HF_PART;
    if (!sl_hf_is(tensor, "F8_E4M3")) return SL_OK;
    const sl_hf_tensor *scales = sl_hf_beside(folder, tensor->name, "", "_scale_inv");
    if (!scales || tensor->type.shape.rank < 2) return SL_OK; /* skipped, with the reason */
    sl_hf_code code = {.coding = SL_HF_FP8, .dtype = scales->type.dtype, .bits = 8};
    SL_TRY(read_block(folder, &code.block_rows, &code.group));
    SL_TRY(check_scales(folder, tensor, scales, &code));
    SL_TRY(sl_hf_check_bytes(folder, tensor, 1));
    const sl_dims *shape = &tensor->type.shape;
    if (!code.block_rows) { /* the whole matrix is one block */
        code.block_rows = (uint32_t)shape->dims[shape->rank - 2];
        code.group = (uint32_t)shape->dims[shape->rank - 1];
    }
    *out = (sl_hf_stored){tensor->name, code, *shape, {tensor->at, scales->at}};
    *claim = SL_HF_STORED;
    return SL_OK;
}

sl_status sl_hf_mxfp4(sl_hf_folder *folder, const sl_hf_tensor *tensor, sl_hf_claim *claim,
                      sl_hf_stored *out) {
    if (sl_hf_beside(folder, tensor->name, "_scales", "_blocks")) *claim = SL_HF_PART;
    const sl_hf_tensor *scales = sl_hf_beside(folder, tensor->name, "_blocks", "_scales");
    if (!scales) return SL_OK;
    const sl_dims *b = &tensor->type.shape;
    sl_dims shape = *b;
    shape.rank--; /* dims of the scales so far */
    if (!sl_hf_is(tensor, "U8") || !sl_hf_is(scales, "U8") || b->rank < 3 ||
        b->dims[b->rank - 1] != 16 || !sl_dims_equal(&shape, &scales->type.shape))
        return sl_fail(folder->err, SL_FORMAT,
                       "tensor '%s' is %s with scales %s, wanted U8 [.., rows, columns/32, 16] and "
                       "U8 [.., rows, columns/32]",
                       tensor->name, sl_hf_text(tensor), sl_hf_text(scales));
    shape.dims[shape.rank - 1] *= 32;
    const size_t length = strlen(tensor->name) - strlen("_blocks");
    const char *name = sl_arena_copy_text(&folder->source->arena, tensor->name, length);
    if (!name) return sl_no_memory(folder->err, tensor->name, length);
    const sl_hf_code code = {.coding = SL_HF_MXFP4, .dtype = SL_DTYPE_u8, .bits = 4, .group = 32};
    *out = (sl_hf_stored){name, code, shape, {tensor->at, scales->at}};
    *claim = SL_HF_STORED;
    return SL_OK;
}
