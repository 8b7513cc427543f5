#!/bin/bash
# wiring_test.sh - Wrong connections of a model do not compile, and roles cannot be given elsewhere.
set -u
failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

expect() { # expect STATUS LINE: what the checker says about a file with this line
    printf '#include "engine/models/blocks.h"\n%s\n' "$2" >"$folder/family.c"
    python3 tools/check_roles.py "$folder" 2>/dev/null
    [ $? = "$1" ] || { echo "check_roles.py does not return $1 for: $2" >&2; failed=1; }
}

tools/check_nocompile.sh || failed=1
python3 tools/check_roles.py || failed=1
expect 0 'x = sl_wire_q_proj(b->graph, x, sl_param_q_weight(b, 8, 8)); /* the .value of it */'
expect 1 'const sl_residual_value r = {hidden.value};'
expect 1 'sl_value raw;'
expect 1 'const sl_q_weight_value w = {sl_builder_matrix(b, "self_attn.k_proj.weight", 8, 8)};'
expect 1 'const sl_moe_input_value x = {sl_build_add(g, in, attrs).out};'
expect 1 'const sl_slots_value x = {sl_graph_find(g, "slots")};'
exit $failed
