/* join_attention.c - Attention of one row in two launches: the preparation of queries, key and
 * value together with the splits, and the sum over the splits together with what follows it. */
#include "runtime/cuda/joining.h"
#include "runtime/cuda/kernels/quant_a8.h"
#include "runtime/cuda/kernels/sdpa_step.h"

/* Operands: sdpa_parts is q cache_k cache_v slots positions mixes weights; sdpa begins like it, its
 * result is last; split is x and its parts; sdpa_merge begins with mixes weights, its result
 * is last, like that of rope_apply and norm_rope, which begin with x; sigmoid_gate_quantise is x
 * gate codes. */
enum { PARTS_Q, PARTS_KEYS, PARTS_VALUES, PARTS_SLOTS, PARTS_POSITIONS, PARTS_MIXES };
enum { SPLIT_X, SPLIT_FIRST, SPLIT_SECOND };
enum { GATE_X, GATE_GATE };

typedef struct {
    uint32_t append, rope, split, merge, gate; /* merge: possibly the step itself */
    bool second; /* queries are the second half of the split, gates the first */
} attention_steps;

static const sl_operand *last_operand(const sl_step *step) {
    return &step->operands[step->operand_count - 1];
}

/* The step of either op whose first operand this is, if it is the only user. */
static uint32_t user_of(const sl_joining *j, const sl_operand *operand, const sl_op ops[2],
                        sl_cuda_fn function) {
    if (sl_joining_uses(j, operand) != 2) return UINT32_MAX;
    for (uint32_t s = j->segment->first; s < j->segment->end; s++)
        if ((step_at(j, s)->op == ops[0] || step_at(j, s)->op == ops[1]) &&
            sl_joining_is(j, s, function) &&
            sl_joining_is_same(&step_at(j, s)->operands[0], operand))
            return s;
    return UINT32_MAX;
}

/* The step that appends to the cache, if it is the only other user. */
static uint32_t append_of(const sl_joining *j, const sl_step *parts) {
    enum { LAST = 4 }; /* slots, positions, cache_k, cache_v */
    static const uint32_t own[LAST] = {PARTS_SLOTS, PARTS_POSITIONS, PARTS_KEYS, PARTS_VALUES};
    if (!sl_joining_is_input(j, &parts->operands[PARTS_SLOTS]) ||
        !sl_joining_is_input(j, &parts->operands[PARTS_POSITIONS]) ||
        sl_joining_uses(j, &parts->operands[PARTS_KEYS]) != 2 ||
        sl_joining_uses(j, &parts->operands[PARTS_VALUES]) != 2)
        return UINT32_MAX;
    for (uint32_t s = j->segment->first; s < j->segment->end; s++) {
        const sl_step *append = step_at(j, s);
        if ((append->op != SL_OP_norm_rope_append && append->op != SL_OP_kv_append) ||
            !sl_joining_is(j, s, SL_FN_sl_kv_append))
            continue;
        uint32_t same = 0;
        for (uint32_t i = 0; i < LAST; i++)
            same += sl_joining_is_same(&append->operands[append->operand_count - LAST + i],
                                       &parts->operands[own[i]]);
        if (same == LAST) return s;
    }
    return UINT32_MAX;
}

/* The step that applies RoPE to the queries. */
static uint32_t rope_of(const sl_joining *j, const sl_operand *q) {
    enum { NORM_ROPE_OUT = 4, ROPE_OUT = 3 };
    uint32_t rope = sl_joining_producer(j, q, SL_OP_norm_rope, NORM_ROPE_OUT);
    if (rope == UINT32_MAX) rope = sl_joining_producer(j, q, SL_OP_rope_apply, ROPE_OUT);
    if (rope == UINT32_MAX || !sl_joining_is(j, rope, SL_FN_sl_rope) ||
        !sl_joining_is_same(last_operand(step_at(j, rope)), q))
        return UINT32_MAX;
    return rope;
}

/* Whether a split gives two parts of `width` columns each. */
static bool is_in_halves(const sl_step *split, int64_t width) {
    const sl_dims *x = &split->operands[SPLIT_X].type.shape;
    const sl_dims *part = &split->operands[SPLIT_FIRST].type.shape;
    return split->operand_count == SPLIT_SECOND + 1 && x->dims[x->rank - 1] == 2 * width &&
           part->dims[part->rank - 1] == width;
}

/* The step that splits each head into its query and its gate. */
static uint32_t split_of(const sl_joining *j, attention_steps *f, int32_t width) {
    if (f->rope == UINT32_MAX || f->gate == UINT32_MAX) return UINT32_MAX;
    const sl_operand *x = &step_at(j, f->rope)->operands[0];
    const sl_operand *gate = &step_at(j, f->gate)->operands[GATE_GATE];
    for (uint32_t half = SPLIT_FIRST; half <= SPLIT_SECOND; half++) {
        const uint32_t other = SPLIT_FIRST + SPLIT_SECOND - half;
        const uint32_t split = sl_joining_producer(j, x, SL_OP_split, half);
        if (split == UINT32_MAX || sl_joining_producer(j, gate, SL_OP_split, other) != split)
            continue;
        f->second = half == SPLIT_SECOND;
        if (is_in_halves(step_at(j, split), width)) return split;
    }
    return UINT32_MAX;
}

static attention_steps find_steps(const sl_joining *j, uint32_t step, int32_t width) {
    static const sl_op merges[] = {SL_OP_sdpa_merge, SL_OP_sdpa_merge_sinks};
    static const sl_op gates[] = {SL_OP_sigmoid_gate_quantise, SL_OP_sigmoid_gate_quantise};
    const sl_step *parts = step_at(j, step);
    attention_steps f = {.gate = UINT32_MAX};
    f.append = append_of(j, parts);
    f.rope = rope_of(j, &parts->operands[PARTS_Q]);
    f.merge = parts->op == SL_OP_sdpa_parts
                  ? user_of(j, &parts->operands[PARTS_MIXES], merges, SL_FN_sl_sdpa_join_any)
                  : step;
    if (f.merge != UINT32_MAX)
        f.gate = user_of(j, last_operand(step_at(j, f.merge)), gates, SL_FN_sl_gate_quantise_fours);
    f.split = split_of(j, &f, width);
    return f;
}

/* ---- the launches ---- */

static sl_sdpa_step step_of(const sl_joining *j, const sl_sdpa_splits *splits,
                            const attention_steps *f) {
    sl_sdpa_step a = {.splits = *splits,
                      .query = {.heads = splits->heads * splits->ratio, .width = splits->width},
                      .query_step = splits->width,
                      .append = *SL_CUDA_ARGS(launch_of(j, f->append, 0), sl_kv_append)};
    if (f->rope != UINT32_MAX) {
        const sl_rope_heads *rope = SL_CUDA_ARGS(launch_of(j, f->rope, 0), sl_rope);
        a.query = rope->change;
        a.splits.q = rope->x;
    }
    if (f->split != UINT32_MAX) {
        const sl_split_args *split = args_of(j, f->split);
        a.splits.q = (const float *)split->x.data + (f->second ? splits->width : 0);
        a.query_step = 2 * splits->width;
    }
    return a;
}

static sl_sdpa_merge_step merge_of(const sl_joining *j, const sl_sdpa_splits *splits,
                                   const attention_steps *f) {
    const uint32_t last = launches_of(j, f->merge) - 1;
    sl_sdpa_merge_step a = {.joined = *SL_CUDA_ARGS(launch_of(j, f->merge, last), sl_sdpa_join),
                            .positions = splits->positions,
                            .gate_step = splits->width,
                            .window = splits->window};
    a.joined.mixes = splits->mixes;
    a.joined.weights = splits->weights;
    a.joined.splits = a.joined.group = splits->splits;
    if (f->gate != UINT32_MAX) {
        const sl_quantise_groups *gate =
            SL_CUDA_ARGS(launch_of(j, f->gate, 0), sl_gate_quantise_fours);
        a.gate = gate->gate;
        a.codes = gate->codes;
    }
    if (f->split != UINT32_MAX) {
        const sl_split_args *split = args_of(j, f->split);
        a.gate = (const float *)split->x.data + (f->second ? 0 : splits->width);
        a.gate_step = 2 * splits->width;
    }
    return a;
}

static sl_sdpa_step_fn function_for(int32_t width) {
    switch (width) {
    case 64:
        return SL_CUDA_FN(sl_sdpa_step_64);
    case 128:
        return SL_CUDA_FN(sl_sdpa_step_128);
    case 256:
        return SL_CUDA_FN(sl_sdpa_step_256);
    default:
        return (sl_sdpa_step_fn){SL_FN_none};
    }
}

static sl_status set_launches(const sl_joining *j, uint32_t step, const attention_steps *f,
                              sl_error *err) {
    const sl_sdpa_splits *splits = SL_CUDA_ARGS(launch_of(j, step, 0), sl_sdpa_few);
    const sl_sdpa_step first = step_of(j, splits, f);
    const sl_sdpa_merge_step second = merge_of(j, splits, f);
    sl_cuda_joined *joined = NULL;
    SL_TRY(sl_joining_own(j, step, &joined, err));
    SL_JOINING_SET(j, joined, 0, function_for(splits->width), first);
    SL_JOINING_SET(j, joined, 1, SL_CUDA_FN(sl_sdpa_merge_row), second);
    sl_gpu_launch *merge = &joined[1].launch;
    merge->grid[0] = (uint32_t)(splits->heads * splits->ratio);
    merge->grid[1] = (uint32_t)(splits->width / SL_CUDA_MERGE_COLUMNS);
    merge->threads = SL_CUDA_MERGE_THREADS;
    merge->shared_bytes = (uint32_t)splits->splits * (uint32_t)sizeof(float);
    return SL_OK;
}

/* The attention of one row is two launches: queries, cache and splits; their sum and its gate. */
sl_status sl_join_attention(const sl_joining *j, uint32_t step, sl_error *err) {
    enum { MOST_SPLITS = 8192 }; /* the weights of its splits fit in shared memory */
    const sl_op op = step_at(j, step)->op;
    if (op != SL_OP_sdpa_parts && op != SL_OP_sdpa && op != SL_OP_sdpa_sinks) return SL_OK;
    const sl_sdpa_splits *splits = SL_CUDA_ARGS(launch_of(j, step, 0), sl_sdpa_few);
    if (splits->rows != 1 || splits->splits > MOST_SPLITS || !function_for(splits->width).id)
        return SL_OK;
    const attention_steps f = find_steps(j, step, splits->width);
    if (f.append == UINT32_MAX || f.merge == UINT32_MAX) return SL_OK;
    const uint32_t found[] = {f.append, f.rope, f.split, f.merge, f.gate};
    uint32_t members[5], count = 0;
    bool late[5];
    for (uint32_t i = 0; i < 5; i++)
        if (found[i] != UINT32_MAX && found[i] != step) {
            members[count] = found[i];
            late[count++] = i >= 3;
        }
    if (!sl_joining_add(j, step, members, count, late)) return SL_OK;
    return set_launches(j, step, &f, err);
}
