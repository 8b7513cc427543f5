/* hf_views.c - Maps the tensors of a folder to the names that models use.  Most keep their names;
 * tensors that combine several matrices, or that a conversion has changed, get views:
 *
 * gpt_oss      mlp.experts.gate_up_proj has gate and up interleaved: as rows of [E, 2I, H] if
 *              quantised, else as columns of [E, H, 2I], with down_proj [E, I, H] transposed too;
 *              gate_up_proj_bias [E, 2I] is interleaved too.  MLX has separate gate_proj.bias etc.
 * fp8          experts.gate_up_proj [E, 2I, H] is split in halves, which need not be whole blocks.
 * qwen3_next,  sanitised by mlx-lm: norm gains have one added to them. */
#include "engine/formats/hf.h"
#include <string.h>

/* The name with its suffix replaced. */
static sl_status rename_to(const sl_hf_folder *folder, const char *name, const char *ending,
                           const char *other, const char **out) {
    const size_t kept = strlen(name) - strlen(ending);
    *out = sl_arena_format(&folder->source->arena, "%.*s%s", (int)kept, name, other);
    return *out ? SL_OK : sl_no_memory(folder->err, name, kept);
}

/* Two views of one tensor under two names. */
static sl_status halves(sl_hf_folder *folder, const sl_hf_stored *stored, const char *ending,
                        const char *const names[2], const sl_hf_view views[2],
                        sl_tensor_entry *out) {
    for (int i = 0; i < 2; i++) {
        SL_TRY(sl_hf_entry(folder, stored, &views[i], &out[i]));
        SL_TRY(rename_to(folder, stored->name, ending, names[i], &out[i].name));
    }
    return SL_OK;
}

static const char *const projections[] = {".gate_proj", ".up_proj"};
static const char *const projection_biases[] = {".gate_proj_bias", ".up_proj_bias"};

static sl_status gpt_oss(sl_hf_folder *folder, const sl_hf_stored *stored,
                         sl_tensor_entry out[SL_HF_MOST_VIEWS], uint32_t *count) {
    static const sl_hf_view rows[] = {{.first_row = 0, .row_step = 2, .col_step = 1},
                                      {.first_row = 1, .row_step = 2, .col_step = 1}};
    static const sl_hf_view turned[] = {
        {.row_step = 1, .col_step = 2, .transposed = true},
        {.row_step = 1, .first_col = 1, .col_step = 2, .transposed = true}};
    static const sl_hf_view columns[] = {{.row_step = 1, .col_step = 2},
                                         {.row_step = 1, .first_col = 1, .col_step = 2}};
    static const sl_hf_view whole = {.row_step = 1, .col_step = 1, .transposed = true};
    const char *name = stored->name;
    const bool coded = stored->code.coding != SL_HF_PLAIN;
    *count = 2;
    if (sl_hf_ends_with(name, ".gate_up_proj") && stored->shape.rank == 3)
        return halves(folder, stored, ".gate_up_proj", projections, coded ? rows : turned, out);
    if (sl_hf_ends_with(name, ".gate_up_proj_bias") && stored->shape.rank == 2)
        return halves(folder, stored, ".gate_up_proj_bias", projection_biases, columns, out);
    *count = 1;
    if (sl_hf_ends_with(name, ".down_proj") && stored->shape.rank == 3 && !coded)
        return sl_hf_entry(folder, stored, &whole, out);
    SL_TRY(sl_hf_entry(folder, stored, &sl_hf_as_stored, out));
    if (!sl_hf_ends_with(name, "_proj.bias")) return SL_OK;
    return rename_to(folder, name, ".bias", "_bias", &out->name);
}

static bool is_raised_gain(const sl_hf_folder *folder, const sl_hf_stored *stored) {
    static const char *const endings[] = {".input_layernorm.weight",
                                          ".post_attention_layernorm.weight", "model.norm.weight",
                                          ".q_norm.weight", ".k_norm.weight"};
    if (!folder->sanitised || stored->shape.rank != 1 || stored->code.coding != SL_HF_PLAIN)
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (sl_hf_ends_with(stored->name, endings[i])) return true;
    return false;
}

sl_status sl_hf_views(sl_hf_folder *folder, const sl_hf_stored *stored,
                      sl_tensor_entry out[SL_HF_MOST_VIEWS], uint32_t *count) {
    static const sl_hf_view gain = {.row_step = 1, .col_step = 1, .less_one = true};
    static const char ending[] = ".gate_up_proj";
    if (strcmp(folder->model_type, "gpt_oss") == 0 && strstr(stored->name, ".mlp.experts."))
        return gpt_oss(folder, stored, out, count);
    if (stored->code.coding == SL_HF_FP8 && stored->shape.rank == 3 &&
        sl_hf_ends_with(stored->name, ending) && stored->shape.dims[1] % 2 == 0) {
        const int64_t half = stored->shape.dims[1] / 2;
        const sl_hf_view views[] = {
            {.row_step = 1, .col_step = 1, .row_count = half},
            {.first_row = half, .row_step = 1, .col_step = 1, .row_count = half}};
        *count = 2;
        return halves(folder, stored, ending, projections, views, out);
    }
    *count = 1;
    return sl_hf_entry(folder, stored, is_raised_gain(folder, stored) ? &gain : &sl_hf_as_stored,
                       out);
}
