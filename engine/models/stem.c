/* stem.c - The start and the end of a forward pass, and of the two halves of a layer. */
#include "core/choose.h"
#include "engine/models/blocks.h"

static sl_rope_table_attrs rope_attrs(const sl_rope_config *rope) {
    return (sl_rope_table_attrs){.rotary = rope->dims,
                                 .theta = rope->theta,
                                 .scaling = rope->scaling,
                                 .factor = rope->factor,
                                 .original = rope->original,
                                 .low = rope->low,
                                 .high = rope->high,
                                 .truncate = rope->truncate,
                                 .magnitude = rope->magnitude};
}

static sl_type ids_of(const sl_builder *b) {
    return sl_type_make(SL_DTYPE_i32, 1, (int64_t)b->shape->rows);
}

void sl_block_rows(sl_builder *b) {
    b->rows.slots = sl_input_slots(b, ids_of(b));
    b->rows.positions = sl_input_positions(b, ids_of(b));
}

sl_hidden_value sl_block_stem(sl_builder *b) {
    sl_graph *g = b->graph;
    sl_tokens_value tokens = sl_input_tokens(b, ids_of(b));
    sl_block_rows(b);
    b->rows.pages = sl_input_pages(b, sl_type_make(SL_DTYPE_i32, 2, (int64_t)b->shape->rows,
                                                   sl_kv_page_count(b->shape->capacity)));
    sl_graph_scope(g, "embedding");
    if (b->shape->chooses) {
        b->chosen = sl_state_chosen(b);
        tokens = sl_wire_resume(g, tokens, b->rows.slots, b->chosen);
    }
    const sl_embed_out_value embedded = sl_wire_embed(g, sl_param_embed_weight(b), tokens);
    b->rope = sl_wire_rope_table(g, b->rows, rope_attrs(&b->config->rope));
    return sl_wire_first(embedded);
}

/* For every row: a step that chooses wants them all. */
static void choose(sl_builder *b, sl_logits_value logits) {
    const sl_choice_value sampling = sl_input_choice(
        b, sl_type_make(SL_DTYPE_f64, 2, (int64_t)b->shape->rows, (int64_t)SL_CHOOSE_COLUMNS));
    sl_output_tokens(b, sl_wire_choose(b->graph, logits, sampling, b->rows.slots, b->chosen));
}

void sl_block_head(sl_builder *b, sl_hidden_value hidden) {
    sl_graph *g = b->graph;
    const sl_forward_shape *s = b->shape;
    sl_graph_scope(g, "head");
    const sl_final_norm_gain_value gain = sl_param_final_norm_gain(b);
    const sl_head_weight_value weight = sl_param_head_weight(b);
    if (s->wanted == 0) return;
    if (s->wanted < s->rows || s->gathers)
        hidden = sl_wire_wanted(
            g, hidden, sl_input_wanted_rows(b, sl_type_make(SL_DTYPE_i32, 1, (int64_t)s->wanted)));
    const sl_final_hidden_value normed = sl_wire_final_norm(g, hidden, gain, sl_builder_norm(b));
    const sl_logits_value logits = sl_wire_lm_head(g, normed, weight);
    sl_output_logits(b, logits);
    sl_output_final_hidden(b, normed);
    if (s->chooses) choose(b, logits);
}

sl_attn_input_value sl_block_attn_norm(sl_builder *b, sl_hidden_value hidden) {
    const bool linear = b->config->layer[b->layer].linear;
    const sl_attn_norm_gain_value gain = sl_param_attn_norm_gain(b, b->config->hidden);
    sl_graph_scope(b->graph, "layer %u %s", b->layer, linear ? "delta net" : "attention");
    return sl_wire_attn_norm(b->graph, hidden, gain, sl_builder_norm(b));
}

sl_moe_input_value sl_block_ffn_norm(sl_builder *b, sl_residual_value residual) {
    const bool sparse = b->config->layer[b->layer].sparse;
    sl_reveal_mixed(b, residual);
    sl_graph_scope(b->graph, "layer %u %s", b->layer, sparse ? "experts" : "feed forward");
    const sl_moe_norm_gain_value gain = sl_param_moe_norm_gain(b, b->config->hidden);
    return sl_wire_moe_norm(b->graph, residual, gain, sl_builder_norm(b));
}
