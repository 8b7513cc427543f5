/* embed.c - Embedding lookup. */
#include "compiler/ops/check.h"

sl_status sl_infer_embed(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "table weight[V,H], ids i32[T] -> f32[T,H]", err);
}

sl_status sl_eval_embed(const sl_eval_args *a, sl_error *err) {
    const int64_t vocab = sl_eval_dim(a, 0, 0), width = sl_eval_dim(a, 0, 1);
    const int64_t rows = sl_eval_dim(a, 1, 0);
    const sl_eval_args only_ids = {.label = a->label, .in = &a->in[1], .scratch = a->scratch};
    const double *ids;
    SL_TRY(sl_eval_inputs(&only_ids, 1, &ids, err));
    SL_TRY(sl_eval_bounds(a, "ids", ids, rows, vocab, err));
    for (int64_t t = 0; t < rows; t++)
        sl_eval_row(&a->in[0], (int64_t)ids[t], a->out[0].data + t * width);
    return SL_OK;
}
