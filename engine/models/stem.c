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

sl_residual_value sl_block_stem(sl_builder *b) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const sl_type ids = sl_type_make(SL_DTYPE_i32, 1, (int64_t)b->shape->rows);
    sl_tokens_value tokens = {sl_builder_input(b, SL_FORWARD_INPUT_TOKENS, ids)};
    b->rows.slots.value = sl_builder_input(b, SL_FORWARD_INPUT_SLOTS, ids);
    b->rows.positions.value = sl_builder_input(b, SL_FORWARD_INPUT_POSITIONS, ids);
    sl_graph_scope(g, "embedding");
    if (b->shape->chooses) {
        b->chosen.value = sl_graph_declare(g, SL_VALUE_STATE, SL_FORWARD_CHOSEN,
                                           sl_type_make(SL_DTYPE_i32, 1, (int64_t)b->shape->slots));
        tokens = sl_wire_resume(g, tokens, b->rows.slots, b->chosen);
    }
    const sl_embed_weight_value table = {sl_builder_weight(
        b, "embed_tokens.weight", SL_WEIGHT_MATRIX, (sl_dims){2, {c->vocab, c->hidden}}, NULL)};
    const sl_residual_value residual = sl_wire_embed(g, table, tokens);
    b->rope = sl_wire_rope_table(g, b->rows, rope_attrs(&c->rope));
    return residual;
}

/* For every row: a step that chooses wants them all. */
static void choose(sl_builder *b, sl_logits_value logits) {
    sl_graph *g = b->graph;
    const sl_choice_value sampling = {sl_builder_input(
        b, SL_FORWARD_INPUT_SAMPLING,
        sl_type_make(SL_DTYPE_f64, 2, (int64_t)b->shape->rows, (int64_t)SL_CHOOSE_COLUMNS))};
    sl_builder_output(b, SL_FORWARD_TOKEN,
                      sl_wire_choose(g, logits, sampling, b->rows.slots, b->chosen).value);
}

void sl_block_head(sl_builder *b, sl_residual_value residual) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const sl_forward_shape *s = b->shape;
    sl_graph_scope(g, "head");
    const sl_final_norm_gain_value gain = {
        sl_builder_weight(b, "norm.weight", SL_WEIGHT_VECTOR, (sl_dims){1, {c->hidden}}, NULL)};
    const sl_head_weight_value weight = {
        sl_builder_weight(b, c->tied_embeddings ? "embed_tokens.weight" : "lm_head.weight",
                          SL_WEIGHT_MATRIX, (sl_dims){2, {c->vocab, c->hidden}}, NULL)};
    if (s->wanted == 0) return;
    if (s->wanted < s->rows) {
        const sl_wanted_rows_value wanted = {sl_builder_input(
            b, SL_FORWARD_INPUT_WANTED, sl_type_make(SL_DTYPE_i32, 1, (int64_t)s->wanted))};
        residual = sl_wire_wanted(g, residual, wanted);
    }
    const sl_final_hidden_value hidden = sl_wire_final_norm(g, residual, gain, sl_builder_norm(b));
    const sl_logits_value logits = sl_wire_head(g, hidden, weight);
    sl_builder_output(b, SL_FORWARD_LOGITS, logits.value);
    sl_builder_output(b, SL_FORWARD_HIDDEN, hidden.value);
    if (s->chooses) choose(b, logits);
}

sl_attn_input_value sl_block_attn_norm(sl_builder *b, sl_residual_value residual) {
    const bool linear = b->config->layer[b->layer].linear;
    const sl_attn_norm_gain_value gain = {
        sl_builder_vector(b, "input_layernorm.weight", b->config->hidden)};
    sl_graph_scope(b->graph, "layer %u %s", b->layer, linear ? "delta net" : "attention");
    return sl_wire_attn_norm(b->graph, residual, gain, sl_builder_norm(b));
}

sl_moe_input_value sl_block_ffn_norm(sl_builder *b, sl_residual_value residual) {
    const bool sparse = b->config->layer[b->layer].sparse;
    sl_graph_scope(b->graph, "layer %u %s", b->layer, sparse ? "experts" : "feed forward");
    const sl_moe_norm_gain_value gain = {
        sl_builder_vector(b, "post_attention_layernorm.weight", b->config->hidden)};
    return sl_wire_moe_norm(b->graph, residual, gain, sl_builder_norm(b));
}

sl_residual_value sl_block_add(sl_builder *b, sl_residual_value residual,
                               sl_residual_update update) {
    return sl_wire_residual_add(b->graph, residual, update);
}
