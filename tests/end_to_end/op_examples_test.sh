#!/usr/bin/env bash
# Every example of docs/ops is a program that is right and runs.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u

. tests/end_to_end/judge.sh

mkdir "$folder/examples"
holds "the examples can be read" python3 tools/check_op_pages.py --examples "$folder/examples"
for example in "$folder"/examples/*.ir; do
    name=$(basename "$example" .ir)
    holds "$name is right" prints '^ok: ' ir check "$example"
    # Experts and quantised weights are those of models.
    grep -qE '^ *experts |: q8\[' "$example" ||
        holds "$name runs" runs 0 ir run --random "$example"
done
holds "there are examples" test "$(ls "$folder/examples" | wc -l)" -gt 30
holds "ir ops NAME shows one" prints '%y = linear\(%x, %w1\)' ir ops linear
holds "an op is described with the page of its example" says '^example +docs/ops/linear.md$'
"$program" ir ops sort | sed -n '/^graph/,$p' >"$folder/sort.ir"
holds "what is shown is a program" prints '^ok: ' ir check "$folder/sort.ir"
finish
