/* access_truth_test.c - Do kernels access what their steps declare, and nothing else?
 *
 * Every op has cases, on every instruction set of this machine and on the emulated CUDA device:
 * those written here, whose sizes fill vectors and leave tails, and graphs that are drawn as
 * tests/support/vocabulary.def says.  What a device rewrites is checked as the steps that it
 * becomes. */
#include "compiler/compile.h"
#include "tests/support/access_truth.h"
#include "tests/support/draw.h"
#include "tests/support/rounds.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const weight_types[] = {
    "f32",
    "f16",
    "bf16",
#define PANEL(NAME, ...) #NAME,
#include "core/panels.def"
};
enum {
    WEIGHT_TYPES = sizeof weight_types / sizeof weight_types[0],
    EXPERTS = 6,
    WIDTH = 21,
    HIDDEN = 45
};

/* ---- the cases: graphs of one node, with $ for the type of weights ---- */

#define SLOTS  "input %slots : i32[7] input %positions : i32[7] "
#define ROWS   "input %x : f32[7,45] "
#define NORM   "{eps = 1e-6, offset = 1}"
#define TABLE  "input %cos : f32[7,1,6] input %sin : f32[7,1,6] "
#define CACHES "state %keys : f32[2,3,1,20,16] state %values : f32[2,3,16,20] "
#define HALVES "state %keys : f16[2,3,1,20,16] state %values : f16[2,3,16,20] "
#define DELTA                                                                                      \
    "input %q : f32[7,2,16] input %k : f32[7,2,16] input %v : f32[7,6,17] "                        \
    "input %decay : f32[7,6] input %beta : f32[7,6] " SLOTS "state %memory : f32[2,6,16,17] "

static const char *const cases[] = {
    "input %a : f32[2,1,17,33] input %b : f32[3,33,21] %o = matmul(%a, %b)",
    "input %x : f32[5,7,93] %o = reduce_sum(%x) {axes = [2], keep = 1}",
    "input %x : f32[5,7,93] %o = reduce_mean(%x) {axes = [0, 2], keep = 0}",
    "input %x : f32[5,7,93] %o = reduce_max(%x) {axes = [1], keep = 0}",
    "input %x : f32[3,5,133] %o = softmax(%x)",
    "input %x : f32[5,133] %o = argmax(%x)",
    "input %x : f32[5,6,7] %o = transpose(%x) {perm = [2, 0, 1]}",
    "input %x : u8[5,6,7] %o = transpose(%x) {perm = [1, 0, 2]}",
    "input %x : f32[5,6,7] %o = slice(%x) {axis = 1, start = 2, length = 3}",
    "input %x : bf16[5,6,7] %o = slice(%x) {axis = 2, start = 1, length = 4}",
    "input %a : f32[5,6,7] input %b : f32[5,2,7] %o = concat(%a, %b) {axis = 1}",
    "input %a : u8[5,6,7] input %b : u8[5,6,3] %o = concat(%a, %b) {axis = 2}",
    "input %x : f32[5,6,7] input %indices : i32[2,4] %o = gather(%x, %indices) {axis = 1}",
    "input %x : f64[5,6,7] %o = strided_slice(%x) {starts = [0, 5, 1], ends = [5, -9, 7], "
    "steps = [2, -1, 3]}",
    "input %x : f32[5,6,7] %o = reverse(%x) {axes = [1]}",
    "input %x : f32[5,1,7] %o = expand(%x) {shape = [2, 5, 6, 7]}",
    "input %x : f32[5,6,7] input %v : f32[1] "
    "%o = pad(%x, %v) {before = [1, -1, 2], after = [0, 2, 1], mode = 0}",
    "input %x : f32[5,6,7] %o, %p = split(%x) {axis = 1, sizes = [2, 4]}",
    "input %x : f32[5,6,7] %o = trilu(%x) {upper = 1, k = 1}",
    "input %x : f32[5,6,7] input %i : i32[4,2] %o = gather_nd(%x, %i)",
    "input %x : f32[5,6,7] input %i : i32[4,6,7] %o = take_along(%x, %i) {axis = 0}",
    "input %x : f32[5,6,7] input %i : i32[5,3,7] input %u : f32[5,3,7] "
    "%o = scatter(%x, %i, %u) {axis = 1, combine = 1}",
    "input %x : f32[5,6,7] input %i : i32[4,1] input %u : f32[4,6,7] "
    "%o = scatter_nd(%x, %i, %u) {combine = 0}",
    "input %i : i32[9] input %u : f32[9,7] %o = scatter_add(%i, %u) {rows = 6}",
    "input %i : i32[9] input %d : f32[3,9,7] %o = gather_backward(%i, %d) {axis = 1, size = 6}",
    "input %x : f32[5,6,7] input %s : i32[3] %o = dynamic_slice(%x, %s) {sizes = [2, 3, 4]}",
    "input %x : f32[5,6,7] input %u : f32[2,3,4] input %s : i32[3] "
    "%o = dynamic_update_slice(%x, %u, %s)",
    "%o = iota() {shape = [5, 6, 70], axis = 1, dtype = f32}",
    "input %i : i32[5,6] input %v : f32[2] %o = one_hot(%i, %v) {axis = 1, depth = 4}",
    "input %x : f32[5,7,93] %o = reduce_min(%x) {axes = [0, 1], keep = 0}",
    "input %x : f32[5,7,93] %o = reduce_prod(%x) {axes = [2], keep = 0}",
    "input %x : f32[5,7,9] input %y : f32[5,9] input %d : f32[5,9] "
    "%o = reduce_max_backward(%x, %y, %d) {axes = [1], keep = 0}",
    "input %x : f32[3,5,33] %o = softmax(%x) {axis = 1}",
    "input %x : f32[3,5,33] %o = log_softmax(%x) {axis = 2}",
    "input %y : f32[3,5,33] input %d : f32[3,5,33] %o = softmax_backward(%y, %d)",
    "input %y : f32[3,5,33] input %d : f32[3,5,33] %o = log_softmax_backward(%y, %d)",
    "input %x : f32[5,33,70] %o = argmin(%x) {axis = 1}",
    "input %x : f32[5,33,70] %o = cumsum(%x) {axis = 1}",
    "input %x : f32[5,333] %o = cumprod(%x) {axis = 1}",
    "input %x : f32[5,333] %o = cumsum_backward(%x) {axis = 1}",
    "input %x : f32[5,33] %o, %p = topk(%x) {k = 5, axis = 1, largest = 1}",
    "input %x : f32[33,5] %o = sort(%x) {axis = 0}",
    "input %x : f32[33,5] %o = argsort(%x) {axis = 0}",
    "weight %table : $[50,77] input %ids : i32[9] %o = embed(%table, %ids)",
    ROWS "weight %w : $[50,45] %o = linear(%x, %w)",
    "input %x : f32[7,3,45] weight %w : $[3,20,45] %o = linear_heads(%x, %w)",
    "input %x : f32[1,300] weight %w : $[33,300] %o = linear(%x, %w)",
    "input %x : f32[3,5,67] weight %g : f32[67] %o = rms_norm(%x, %g) " NORM,
    "input %x : f32[3,5,67] input %z : f32[3,5,67] weight %g : f32[67] "
    "%o = gated_rms_norm(%x, %z, %g) {eps = 1e-6}",
    "input %x : f32[3,5,67] %o = l2_norm(%x) {eps = 1e-6, scale = 0.5}",
    "input %x : f32[3,5,22] %o, %p = split(%x) {axis = 2, sizes = [11, 11]}",
    "input %positions : i32[7] %o, %p = rope_table(%positions) {rotary = 12, theta = 10000}",
    "input %x : f32[7,3,20] " TABLE "%o = rope_apply(%x, %cos, %sin)",
    "input %k : f32[7,3,20] input %v : f32[7,3,20] " SLOTS CACHES
    "%o, %p = kv_append(%k, %v, %slots, %positions, %keys, %values)",
    "input %k : f32[7,3,20] input %v : f32[7,3,20] " SLOTS HALVES
    "%o, %p = kv_append(%k, %v, %slots, %positions, %keys, %values)",
    "input %q : f32[7,6,20] " SLOTS HALVES
    "%o = sdpa(%q, %keys, %values, %slots, %positions) {scale = 0.5}",
    "input %q : f32[7,6,20] " SLOTS CACHES
    "%o = sdpa(%q, %keys, %values, %slots, %positions) {scale = 0.5}",
    "input %q : f32[7,6,20] " SLOTS CACHES
    "%o, %p = sdpa_parts(%q, %keys, %values, %slots, %positions) {scale = 0.5}",
    "input %m : f32[7,6,3,20] input %w : f32[7,6,3,2] %o = sdpa_merge(%m, %w)",
    "input %m : f32[7,6,3,20] input %w : f32[7,6,3,2] weight %s : f32[6] "
    "%o = sdpa_merge_sinks(%m, %w, %s)",
    "input %q : f32[7,6,20] weight %s : f32[6] " SLOTS CACHES
    "%o = sdpa_sinks(%q, %keys, %values, %slots, %positions, %s) {scale = 0.5, window = 3}",
    "input %x : f32[7,3,20] " TABLE "%o = rope_apply(%x, %cos, %sin) {interleaved = 1}",
    "input %positions : i32[7] %o, %p = rope_table(%positions) {rotary = 16, theta = 10000, "
    "scaling = 3, factor = 4, original = 512, low = 1, high = 32, truncate = 1}",
    "input %k : f32[7,3,20] input %v : f32[7,3,9] " SLOTS
    "state %keys : f16[2,3,1,20,16] state %values : f16[2,3,16,9] "
    "%o, %p = kv_append(%k, %v, %slots, %positions, %keys, %values)",
    "input %x : f32[7,131] weight %w : f32[131,4] " SLOTS "state %window : f32[2,3,131] "
    "%o, %p = causal_conv(%x, %w, %slots, %positions, %window)",
    "input %a : f32[9,5] input %b : f32[9,5] weight %l : f32[5] weight %d : f32[5] "
    "%o, %p = decay_beta(%a, %b, %l, %d)",
    DELTA "%o, %p = delta_step(%q, %k, %v, %decay, %beta, %slots, %positions, %memory)",
    DELTA
    "%o, %p = delta_chunk(%q, %k, %v, %decay, %beta, %slots, %positions, %memory) {chunk = 4}",
    "input %x : f32[7,37] %o, %p = route(%x) {k = 3, normalise = 1}",
    "input %x : f32[7,36] weight %b : f32[36] %o, %p = route_groups(%x, %b) "
    "{k = 3, normalise = 1, groups = 4, groups_kept = 2, scale = 2.5}",
    "input %tokens : i32[7] input %slots : i32[7] state %chosen : i32[2] "
    "%o = resume(%tokens, %slots, %chosen)",
    "input %logits : f32[7,131] input %how : f64[7,5] input %slots : i32[7] state %chosen : i32[2] "
    "%o, %p = choose(%logits, %how, %slots, %chosen)",
    "input %chosen : i32[9,2] experts %e : $[6,21,45] %o, %p = moe_group(%chosen, %e) {layer = 3}",
    ROWS "input %order : i32[14] input %starts : i32[7] experts %e : $[6,21,45] "
         "%o = moe_ffn(%x, %order, %starts, %e) {layer = 3, k = 2}",
    ROWS "input %order : i32[14] input %starts : i32[7] weight %gb : f32[6,21] "
         "weight %ub : f32[6,21] weight %db : f32[6,45] experts %e : $[6,21,45] "
         "%o = moe_ffn_biased(%x, %order, %starts, %gb, %ub, %db, %e) "
         "{layer = 3, k = 2, limit = 7, alpha = 1.702}",
    "input %y : f32[7,4,83] input %weights : f32[7,4] %o = moe_combine(%y, %weights)",
    "input %r : f32[7,83] input %s : f32[7,83] input %g : f32[7,1] %o = shared_combine(%r, %s, %g)",
    "input %a : f32[7,67] input %b : f32[7,67] weight %g : f32[67] "
    "%o, %p = add_rms_norm(%a, %b, %g) " NORM,
    "input %x : f32[7,67] weight %g : f32[67] input %y : f32[7,67] "
    "%o = rms_norm_mul(%x, %g, %y) " NORM,
    ROWS "weight %g : $[50,45] weight %u : $[50,45] %o = linear_swiglu(%x, %g, %u)",
    ROWS "weight %g : $[50,45] weight %u : $[50,45] %o = linear_swiglu_quantise(%x, %g, %u)",
    "input %x : f32[3,2,77] %o = quantise(%x)",
    "input %x : f32[3,77] weight %g : f32[77] %o, %p = rms_norm_quantise(%x, %g) {eps = 1e-6}",
    "input %x : f32[3,77] input %y : f32[3,77] weight %g : f32[77] "
    "%o, %p, %r = add_rms_norm_quantise(%x, %y, %g) {eps = 1e-6}",
    "input %x : f32[3,77] input %y : f32[3,77] weight %g : f32[77] "
    "%o = gated_rms_norm_quantise(%x, %y, %g) {eps = 1e-6}",
    "input %x : f32[3,77] input %y : f32[3,77] %o = sigmoid_gate_quantise(%x, %y)",
    "input %x : a8[11,77] weight %w : q4[50,77] %o = linear(%x, %w)",
    "input %x : a8[11,77] weight %w : q8[50,77] %o = linear(%x, %w)",
    ROWS "weight %a : $[50,45] weight %b : $[21,45] %o, %p = linear_pair(%x, %a, %b)",
    ROWS "weight %a : $[50,45] weight %b : $[21,45] weight %c : $[5,45] "
         "%o, %p, %r = linear_triple(%x, %a, %b, %c)",
    ROWS "weight %w : $[50,45] weight %b : f32[50] %o = linear_bias_act(%x, %w, %b) {act = 2}",
    "input %x : f32[7,3,20] weight %g : f32[20] " TABLE "%o = norm_rope(%x, %g, %cos, %sin) " NORM,
    "input %k : f32[7,3,20] weight %g : f32[20] input %v : f32[7,3,20] " TABLE SLOTS CACHES
    "%o, %p = norm_rope_append(%k, %g, %cos, %sin, %v, %slots, %positions, %keys, %values) " NORM,
    "input %y : f32[7,4,83] input %weights : f32[7,4] input %s : f32[7,83] input %g : f32[7,1] "
    "input %r : f32[7,83] %o = moe_join(%y, %weights, %s, %g, %r)",
    "input %y : f32[7,4,83] input %weights : f32[7,4] input %r : f32[7,83] "
    "%o = moe_add(%y, %weights, %r)",
    "input %y : f32[7,4,83] input %weights : f32[7,4] input %s : f32[7,83] input %r : f32[7,83] "
    "%o = moe_add_shared(%y, %weights, %s, %r)",
    "input %a : f32[5,67] input %b : f32[5,67] input %c : f32[5,67] input %d : f32[5,67] "
    "%o = elementwise_region(%a, %b, %c, %d) {code = [3, 0, 1, 0, 0, 39, 4, 0, 0, 0, 1, 5, 2, 0, "
    "0]}",
    "input %a : f32[5,67] input %b : f32[5,67] input %c : f32[5,67] %o = add3(%a, %b, %c)",
    "input %a : f32[3,131] %o = cast(%a) {to = f16}",
    "input %a : i32[3,131] %o = cast(%a) {to = f32}",
    "input %a : i32[3,131] %o = bitcast(%a) {to = f32}",
    "input %c : bool[3,1] input %a : f32[3,131] input %b : f32[3,131] %o = where(%c, %a, %b)",
    "input %a : f32[3,131] input %b : f32[3,131] "
    "%o = activation_backward(%a, %b) {kind = \"gelu\"}",
    "input %a : c64[3,131] input %b : f32[3,131] %o = complex_norm_sq_backward(%a, %b)",
    "input %a : f32[3,6,10] %o = transform_region(%a) {steps = [1, 1]}",
    "input %a : f32[3,131] input %b : f32[131] input %c : f32[] "
    "%o = elementwise_region(%a, %b, %c) {code = [3, 0, 1, 0, 0, 39, 3, 0, 0, 0, 1, 4, 2, 0, 0]}",
    "input %a : f32[1,3,4] input %b : f32[1,3,4] "
    "%o = batch_elementwise_region(%a, %b) {code = [39, 0, 0, 0, 0], prologue = 1}",
    "input %a : f32[3,1,67] input %b : f32[1,41,1] %o = add(%a, %b)",
    "input %a : i32[5,1] input %b : i32[1,333] %o = mul(%a, %b)",
    "input %p : i32[5] input %f : f32[19] %o, %s = rope_tables(%p, %f)",
    "input %x : f32[3,5,21] input %c : f32[5,9] input %s : f32[5,9] %o = rope_apply(%x, %c, %s)",
    "input %x : f32[3,5,21] input %c : f32[5,9] input %s : f32[5,9] "
    "%o = rope_apply_backward(%x, %c, %s)",
    "input %x : f32[3,5,21] input %c : f32[2,5,9] input %s : f32[2,5,9] "
    "%o = mrope(%x, %c, %s) {sections = [4, 5]}",
    "input %x : f32[3,5,21] input %c : f32[2,5,9] input %s : f32[2,5,9] "
    "%o = mrope_backward(%x, %c, %s) {sections = [4, 5]}",
    "input %x : f32[3,12,20] %o = axial_rope2d(%x) {width = 3, height = 4, theta = 100}",
    "input %x : f32[3,12,20] %o = axial_rope2d_backward(%x) {width = 3, height = 4, theta = 100}",
    "input %x : f32[3,70] %o = fused_swiglu(%x)",
    "input %a : f32[2,1,17,33] input %b : f32[3,33,21] input %c : f32[21] "
    "%o = fused_matmul_bias_act(%a, %b, %c) {act = 3}",
    "input %x : f32[2,6,9,19] input %w : f32[9,6,3,3] input %b : f32[9] "
    "%o = fused_conv_bias_act(%x, %w, %b) {act = relu, pads_before = [1, 1], pads_after = [1, 1]}",
    "input %x : f32[2,6,9,19] input %w : f32[6,1,3,3] input %b : f32[6] "
    "%o = fused_conv_bias_act(%x, %w, %b) {act = gelu, groups = 6, strides = [2, 2]}",
    "input %x : f32[2,6,9,19] input %w : f32[6,1,2,3] "
    "%o = fused_conv_bias_act(%x, %w) {act = gelu_approx, groups = 6}",
    "input %k : u32[2] input %c : u32[4] %o = rng_uniform(%k, %c) {shape = [2999], to = f32}",
    "input %k : u32[2] input %c : u32[4] %o = rng_normal(%k, %c) {shape = [2999], to = f32}",
    "input %l : f32[5,37] input %k : u32[2] input %c : u32[2] "
    "%o = sample(%l, %k, %c) {temperature = 1, top_k = 9, top_p = 0.7}",
    "input %h : f32[37] input %w : f32[37] input %x : f32[300,37] "
    "%o, %p = scan(%h, %w, %x) {carries = 1, consts = 1, body = graph \"b\" {input %h : f32[37] "
    "input %w : f32[37] input %x : f32[37] %1 = sub(%w, %h) %2 = mul(%1, %x) output \"h\" = %2 "
    "output \"y\" = %1}}",
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* Of these, constants leave out parts of an operand. */
#define CONSTANT_SLOTS                                                                             \
    "constant %slots : i32[3] = {1, 1, 1} constant %positions : i32[3] = {17, 18, 19} "
#define LONG_CACHES   "state %keys : f32[3,2,4,20,16] state %values : f32[3,2,64,20] "
#define NARROW_CACHES "state %keys : k16[3,2,4,20,16] state %values : v16[3,2,64,20] "
static const char *const narrowed[] = {
    "input %x : f32[4,9] input %v : f32[1] "
    "%o = pad(%x, %v) {before = [-1, 2], after = [-1, 0], mode = constant}",
    "state %x : f32[4,9] input %v : f32[1] "
    "%o = pad(%x, %v) {before = [1, -2], after = [0, -3], mode = constant}",
    "input %x : f32[5,6,7] "
    "%o = strided_slice(%x) {starts = [1, -1, 0], ends = [4, -9, 7], steps = [2, -2, 1]}",
    "input %x : f32[5,6,7] constant %s : i32[3] = {1, 9, -2} "
    "%o = dynamic_slice(%x, %s) {sizes = [2, 3, 7]}",
    "state %x : f32[5,6,7] constant %s : i32[3] = {1, 0, 0} "
    "%o = dynamic_slice(%x, %s) {sizes = [2, 6, 7]}",
    "weight %t : f32[50,77] constant %i : i32[3] = {7, 9, 8} %o = embed(%t, %i)",
    "input %x : f32[5,6,7] constant %i : i64[3] = {2, -2, 3} %o = gather(%x, %i) {axis = 1}",
    "input %x : f32[5,6,7] constant %i : i32[2,2] = {1, 5, -3, 4} %o = gather_nd(%x, %i)",
    "input %x : f32[5,6,7] constant %i : i32[2,1,1] = {1, 3} %o = take_along(%x, %i) {axis = 0}",
    "input %k : f32[3,2,20] input %v : f32[3,2,20] " CONSTANT_SLOTS LONG_CACHES
    "%o, %p = kv_append(%k, %v, %slots, %positions, %keys, %values)",
    "input %k : f32[3,2,20] input %v : f32[3,2,20] " CONSTANT_SLOTS NARROW_CACHES
    "%o, %p = kv_append(%k, %v, %slots, %positions, %keys, %values)",
    "input %k : f32[3,2,20] weight %g : f32[20] input %cos : f32[3,1,6] input %sin : f32[3,1,6] "
    "input %v : f32[3,2,20] " CONSTANT_SLOTS LONG_CACHES
    "%o, %p = norm_rope_append(%k, %g, %cos, %sin, %v, %slots, %positions, %keys, %values) " NORM,
    "input %q : f32[3,4,20] " CONSTANT_SLOTS LONG_CACHES
    "%o = sdpa(%q, %keys, %values, %slots, %positions) {scale = 0.5}",
    "input %q : f32[3,4,20] " CONSTANT_SLOTS NARROW_CACHES
    "%o = sdpa(%q, %keys, %values, %slots, %positions) {scale = 0.5}",
    "input %q : f32[3,4,20] weight %s : f32[4] " CONSTANT_SLOTS LONG_CACHES
    "%o = sdpa_sinks(%q, %keys, %values, %slots, %positions, %s) {scale = 0.5, window = 3}",
    "input %q : f32[3,4,20] " CONSTANT_SLOTS LONG_CACHES
    "%o, %p = sdpa_parts(%q, %keys, %values, %slots, %positions) {scale = 0.5}",
    "input %x : f32[3,131] weight %w : f32[131,4] " CONSTANT_SLOTS "state %window : f32[3,3,131] "
    "%o, %p = causal_conv(%x, %w, %slots, %positions, %window)",
    "input %q : f32[3,2,16] input %k : f32[3,2,16] input %v : f32[3,6,17] "
    "input %decay : f32[3,6] input %beta : f32[3,6] " CONSTANT_SLOTS
    "state %memory : f32[3,6,16,17] "
    "%o, %p = delta_step(%q, %k, %v, %decay, %beta, %slots, %positions, %memory)",
    "input %q : f32[3,2,16] input %k : f32[3,2,16] input %v : f32[3,6,17] "
    "input %decay : f32[3,6] input %beta : f32[3,6] " CONSTANT_SLOTS
    "state %memory : f32[3,6,16,17] "
    "%o, %p = delta_chunk(%q, %k, %v, %decay, %beta, %slots, %positions, %memory) {chunk = 2}",
    "input %tokens : i32[2] constant %slots : i32[2] = {2, 2} state %chosen : i32[4] "
    "%o = resume(%tokens, %slots, %chosen)",
    "input %logits : f32[1,131] input %how : f64[1,5] constant %slots : i32[1] = {2} "
    "state %chosen : i32[4] %o, %p = choose(%logits, %how, %slots, %chosen)",
};
enum { NARROWED = sizeof narrowed / sizeof narrowed[0] };

/* ---- experts in memory ---- */

typedef struct {
    sl_expert_source base;
    sl_type types[3];
    void *matrices[3]; /* all experts have the same */
    int32_t wanted[EXPERTS];
    uint32_t left;
} memory_source;

static sl_status request(sl_expert_source *base, sl_layer_id layer, const int32_t *experts,
                         uint32_t count, sl_error *err) {
    memory_source *s = (memory_source *)base;
    (void)layer, (void)err;
    memcpy(s->wanted, experts, count * sizeof *experts);
    s->left = count;
    return SL_OK;
}
static sl_status take(sl_expert_source *base, sl_layer_id layer, sl_expert_lease *out,
                      sl_error *err) {
    memory_source *s = (memory_source *)base;
    (void)layer, (void)err;
    *out = (sl_expert_lease){.expert = -1};
    if (s->left)
        *out = (sl_expert_lease){.expert = s->wanted[--s->left],
                                 .gate = {s->matrices[0], s->types[0]},
                                 .up = {s->matrices[1], s->types[1]},
                                 .down = {s->matrices[2], s->types[2]}};
    return SL_OK;
}
static void release(sl_expert_source *base, const sl_expert_lease *lease) {
    (void)base, (void)lease;
}

/* ---- data ---- */

static int32_t integer_of(const char *name, int64_t i, int64_t count) {
    if (strcmp(name, "slots") == 0) return i < 4; /* rows 0 to 3: slot 1; then slot 0 */
    if (strcmp(name, "positions") == 0) return (int32_t)(i < 4 ? 3 + i : i - 4);
    if (strcmp(name, "order") == 0) return (int32_t)((i * 5 + 3) % count);
    if (strcmp(name, "starts") == 0) return (int32_t)(i == EXPERTS ? 14 : i * 2);
    return (int32_t)(i % 5);
}

/* Bytes of panels and halves are kept low, so that no number is infinite. */
static void fill(const char *name, const sl_type *type, test_random *random, void *data) {
    const int64_t count = sl_type_elements(type);
    if (type->dtype == SL_DTYPE_i32) {
        for (int64_t i = 0; i < count; i++) ((int32_t *)data)[i] = integer_of(name, i, count);
    } else if (type->dtype == SL_DTYPE_f32) {
        for (int64_t i = 0; i < count; i++)
            ((float *)data)[i] = (float)test_draw(random, 2000) / 1000 - 0.999f;
    } else {
        for (uint64_t i = 0; i < sl_type_bytes(type); i++)
            ((uint8_t *)data)[i] = (uint8_t)(1 + test_draw(random, 0x3b));
    }
}

static void source_init(memory_source *s, const sl_type *experts) {
    test_random random = test_random_of(17);
    *s = (memory_source){.base = {.request = request, .take = take, .release = release}};
    for (int i = 0; i < 3; i++) {
        const int64_t rows = i == 2 ? HIDDEN : WIDTH, columns = i == 2 ? WIDTH : HIDDEN;
        s->types[i] = sl_type_make(experts->dtype, 2, rows, columns);
        assert_int_equal(posix_memalign(&s->matrices[i], 64, sl_type_bytes(&s->types[i])), 0);
        fill("", &s->types[i], &random, s->matrices[i]);
    }
}

/* ---- checks of programs ---- */

static truth_device devices[TRUTH_MOST_DEVICES];
static uint32_t device_count;

/* By device: of which ops steps and nodes were checked, and which kernels. */
enum { MOST_KERNELS = 1024 };
typedef struct {
    bool steps[SL_OP_COUNT], nodes[SL_OP_COUNT], kernels[MOST_KERNELS];
    uint32_t checked;
} coverage;
static coverage covered[TRUTH_MOST_DEVICES];

/* For one device; NULL where it refuses the graph.  Nothing is fused or folded. */
static sl_program *compiled(const sl_graph *graph, const truth_device *on) {
    sl_compiler_options options = sl_compiler_options_for(on->target);
    options.no_simplify = options.no_fusion = true;
    sl_error err = {0};
    sl_graph *copy = NULL;
    sl_program *program = NULL;
    if (sl_graph_copy(graph, NULL, &copy, &err)) fail_msg("%s", err.message);
    const sl_status status = sl_compile_graph(copy, &options, NULL, &program, &err);
    if (status != SL_OK && status != SL_UNSUPPORTED) fail_msg("%s", err.message);
    sl_graph_destroy(copy);
    return program;
}

static void check_on(uint32_t d, const sl_graph *graph, const truth_contents *contents) {
    sl_program *program = compiled(graph, &devices[d]);
    char why[TRUTH_WHY];
    if (!program) return;
    truth_check(&devices[d], program, contents, why);
    if (why[0]) fail_msg("%s", why);
    for (uint32_t s = 0; s < program->step_count; s++) {
        const uint32_t kernel = truth_kernel_of(&devices[d], &program->steps[s]);
        assert_true(kernel <= MOST_KERNELS);
        covered[d].steps[program->steps[s].op] = true;
        if (kernel) covered[d].kernels[kernel - 1] = true;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) covered[d].nodes[graph->nodes[n].op] = true;
    covered[d].checked += program->step_count;
    sl_program_destroy(program);
}

/* ---- written cases ---- */

typedef struct {
    truth_contents contents;
    memory_source source;
} written;

static void fill_written(const truth_contents *contents, const sl_buffer *buffer, void *data) {
    test_random random = test_random_of(buffer->bytes);
    (void)contents;
    fill(buffer->name, &buffer->type, &random, data);
}

static sl_graph *parsed(const char *text) {
    char whole[1024];
    sl_graph *graph = NULL;
    sl_error err = {0};
    const int bytes =
        snprintf(whole, sizeof whole, "graph \"case\" { %s output \"o\" = %%o }", text);
    assert_true(bytes > 0 && (size_t)bytes < sizeof whole);
    if (sl_graph_parse(whole, (size_t)bytes, NULL, &graph, &err))
        fail_msg("%s: %s", whole, err.message);
    return graph;
}

static void written_init(written *w, const sl_graph *graph) {
    const sl_type plain = sl_type_make(SL_DTYPE_f32, 1, (int64_t)1);
    const sl_type *experts = &plain;
    for (uint32_t v = 1; v <= graph->value_count; v++)
        if (graph->values[v].kind == SL_VALUE_EXPERTS) experts = &graph->values[v].type;
    source_init(&w->source, experts);
    w->contents = (truth_contents){fill_written, &w->source.base, EXPERTS};
}
static void written_deinit(written *w) {
    for (int i = 0; i < 3; i++) free(w->source.matrices[i]);
}

static void check_text(const char *text) {
    sl_graph *graph = parsed(text);
    written w;
    written_init(&w, graph);
    for (uint32_t d = 0; d < device_count; d++) check_on(d, graph, &w.contents);
    written_deinit(&w);
    sl_graph_destroy(graph);
}

/* The text with $ replaced. */
static void check_case(const char *text, const char *type) {
    char with_type[900];
    size_t length = 0;
    for (; *text; text++) {
        const int put = *text == '$'
                            ? snprintf(with_type + length, sizeof with_type - length, "%s", type)
                            : snprintf(with_type + length, sizeof with_type - length, "%c", *text);
        length += (size_t)put;
        assert_true(length < sizeof with_type);
    }
    check_text(with_type);
}

static void test_written_cases(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++)
        for (int w = 0; w < (strchr(cases[i], '$') ? WEIGHT_TYPES : 1); w++)
            check_case(cases[i], weight_types[w]);
}

static uint64_t bytes_of(const sl_access *accesses, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) bytes += accesses[i].bytes * accesses[i].count;
    return bytes;
}

static void test_narrowed_cases(void **state) {
    (void)state;
    for (int i = 0; i < NARROWED; i++) {
        sl_graph *graph = parsed(narrowed[i]);
        sl_program *program = NULL;
        sl_error err = {0};
        uint64_t bytes = 0;
        if (sl_lower(graph, NULL, &program, &err)) fail_msg("%s", err.message);
        assert_int_equal(program->step_count, 1);
        const sl_step *step = &program->steps[0];
        for (uint32_t o = 0; o < step->input_count; o++)
            bytes += sl_type_bytes(&step->operands[o].type);
        if (bytes_of(step->reads, step->read_count) >= bytes)
            fail_msg("all is read: %s", narrowed[i]);
        sl_program_destroy(program);
        sl_graph_destroy(graph);
        check_text(narrowed[i]);
    }
}

/* Whether the op takes operands of the type, without attributes. */
static bool takes(const char *text) {
    char whole[300];
    sl_graph *graph = NULL;
    sl_error err;
    const int bytes = snprintf(whole, sizeof whole, "graph \"case\" { %s }", text);
    const bool fits = sl_graph_parse(whole, (size_t)bytes, NULL, &graph, &err) == SL_OK;
    sl_graph_destroy(graph);
    return fits;
}

/* Elementwise ops of operands alike, which fill vectors. */
static void test_pointwise_ops(void **state) {
    static const char *const types[] = {"f32", "bf16", "i32", "i64", "u8", "bool", "c64"};
    static const char *const operands[] = {"", "%a", "%a, %b", "%a, %b, %c"};
    (void)state;
    for (int op = 0; op < SL_OP_COUNT; op++) {
        const sl_op_info *info = sl_op_info_of((sl_op)op);
        char text[256];
        if (!(info->traits & SL_OP_POINTWISE) || info->list_name || info->input_count > 3) continue;
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            (void)snprintf(text, sizeof text,
                           "input %%a : %s[3,131] input %%b : %s[3,131] input %%c : %s[3,131] "
                           "%%o = %s(%s)",
                           types[i], types[i], types[i], info->name, operands[info->input_count]);
            if (takes(text)) check_text(text);
        }
    }
}

/* ---- drawn cases ---- */

typedef struct {
    truth_contents contents;
    const drawn_graph *drawn;
} drawn_contents;

static void fill_drawn(const truth_contents *contents, const sl_buffer *buffer, void *data) {
    const drawn_graph *drawn = ((const drawn_contents *)contents)->drawn;
    for (uint32_t v = 1; v <= drawn->graph->value_count; v++)
        if (drawn->bytes[v] && strcmp(drawn->graph->values[v].name, buffer->name) == 0)
            memcpy(data, drawn->bytes[v], buffer->bytes);
}

static void test_drawn_cases(void **state) {
    const uint64_t rounds = is_long_run() ? 40 : 4;
    (void)state;
    for (int op = 0; op < SL_OP_COUNT; op++)
        for (uint64_t seed = 0; seed < rounds; seed++) {
            drawn_graph *drawn = draw_graph_of((sl_op)op, seed + 1);
            if (!drawn) continue;
            const drawn_contents contents = {{.fill = fill_drawn}, drawn};
            for (uint32_t d = 0; d < device_count; d++)
                check_on(d, drawn->graph, &contents.contents);
            drawn_destroy(drawn);
        }
}

/* ---- custom ops ---- */

static sl_status twice_shape(void *ctx, const sl_custom_call *call, sl_tensor_type *outputs,
                             sl_error *err) {
    (void)ctx, (void)err;
    outputs[0] = call->inputs[0];
    return SL_OK;
}
static sl_status twice_kernel(void *ctx, const sl_custom_call *call, const void *const *inputs,
                              void *const *outputs, sl_error *err) {
    const float *x = inputs[0];
    float *y = outputs[0];
    (void)ctx, (void)err;
    for (int64_t i = 0; i < call->inputs[0].dims[0]; i++) y[i] = 2 * x[i];
    return SL_OK;
}

static void test_custom_op(void **state) {
    (void)state;
    static const char text[] = "graph \"case\" { input %x : f32[33] "
                               "%o = custom(%x) {name = \"twice\"} output \"o\" = %o }";
    const sl_custom_op twice = {
        .struct_size = sizeof twice, .name = "twice", .shape = twice_shape, .kernel = twice_kernel};
    sl_custom_ops *ops = NULL;
    sl_graph *graph = NULL;
    sl_error err = {0};
    const truth_contents contents = {.fill = fill_written};
    if (sl_custom_ops_create(&ops, &err) || sl_custom_ops_add(ops, &twice, &err) ||
        sl_graph_parse_using(text, strlen(text), ops, NULL, &graph, &err))
        fail_msg("%s", err.message);
    for (uint32_t d = 0; d < device_count; d++) check_on(d, graph, &contents);
    sl_graph_destroy(graph);
    sl_custom_ops_destroy(ops);
}

/* ---- every op, and every kernel ---- */

static bool has_kernel(const truth_device *on, sl_op op) {
    const sl_target_kernel *row = on->target->kernels;
    while (row->types && row->op != op) row++;
    return row->types;
}

/* An op without a kernel is rewritten, so it is no step; the steps that it became were checked. */
static void test_every_op_has_a_case(void **state) {
    (void)state;
    uint32_t missing = 0;
    for (uint32_t d = 0; d < device_count; d++) {
        for (int op = 0; op < SL_OP_COUNT; op++) {
            const sl_op_info *info = sl_op_info_of((sl_op)op);
            const bool *seen =
                has_kernel(&devices[d], (sl_op)op) ? covered[d].steps : covered[d].nodes;
            if (seen[op] || (info->traits & SL_OP_VIEW)) continue;
            print_message("%s has no case on %s\n", info->name, devices[d].name);
            missing++;
        }
        print_message("%s: %u steps access what they declare\n", devices[d].name,
                      covered[d].checked);
    }
    assert_int_equal(missing, 0);
}

static void test_every_kernel_has_a_case(void **state) {
    (void)state;
    uint32_t missing = 0;
    for (uint32_t d = 0; d < device_count; d++) {
        const truth_device *on = &devices[d];
        for (uint32_t k = 0; k < truth_kernel_count(on); k++) {
            if (covered[d].kernels[k]) continue;
            print_message("%s %s has no case on %s\n", sl_op_info_of(truth_kernel_op(on, k))->name,
                          truth_kernel_name(on, k), on->name);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

/* Steps that declare a little less than they do are found out, and so are those that declare to
 * write more. */
static void test_lies(void **state) {
    (void)state;
    for (uint32_t d = 0; d < device_count; d++)
        for (int lie = 0; lie < 4; lie++) {
            sl_graph *graph = parsed("input %x : f32[5,133] %o = softmax(%x)");
            sl_program *program = compiled(graph, &devices[d]);
            const truth_contents contents = {.fill = fill_written};
            const sl_step *step = &program->steps[0];
            char why[TRUTH_WHY];
            sl_access *access = (sl_access *)(uintptr_t)(lie < 2 ? step->writes : step->reads);
            access->bytes -= 4;
            access->begin += lie % 2 ? 0 : 4;
            truth_check(&devices[d], program, &contents, why);
            if (!strstr(why, lie < 2 ? "is written" : "depends on")) fail_msg("'%s'", why);
            sl_program_destroy(program);
            sl_graph_destroy(graph);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_cases),
        cmocka_unit_test(test_narrowed_cases),
        cmocka_unit_test(test_pointwise_ops),
        cmocka_unit_test(test_drawn_cases),
        cmocka_unit_test(test_custom_op),
        cmocka_unit_test(test_every_op_has_a_case),
        cmocka_unit_test(test_every_kernel_has_a_case),
        cmocka_unit_test(test_lies),
    };
    device_count = truth_devices(devices);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
