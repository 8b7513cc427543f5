#!/bin/bash
# check_tidy.sh DATABASE fast|paths FILE... - clang-tidy on some files, silent when there is nothing to say.
# fast: all checks but clang's path-sensitive analyzer; paths: the analyzer alone.
database=$1 mode=$2
shift 2
failed=0
log=$(mktemp) && trap 'rm -f "$log"' EXIT

# The options for one file, in `options`.
options_for() {
    local file=$1 checks
    options=(-p "$database" --quiet)
    case $file in
    base/error.c | base/memory.c) ;; # define what analysis.h redefines
    apps/* | examples/*) ;;          # see include/ only
    *) options+=(--extra-arg=-include --extra-arg="$PWD/tools/analysis.h") ;;
    esac
    # --checks may be given once only, so what is left out of some files is gathered.
    case $mode in
    fast) checks='-clang-analyzer-*' ;;
    paths) checks='-bugprone-*,-misc-*,-readability-*' ;;
    esac
    case $file in
    *_test.c) checks+=,-bugprone-implicit-widening-of-multiplication-result ;; # small numbers, not sizes from outside
    esac
    case $file in
    runtime/cpu/kernels/*) # operands were checked by sl_infer_ and scratch by split: the analyzer sees neither
        checks+=,-bugprone-implicit-widening-of-multiplication-result,-clang-analyzer-core.NullDereference
        checks+=,-clang-analyzer-core.NonNullParamChecker,-clang-analyzer-core.DivideZero
        checks+=,-clang-analyzer-core.uninitialized.Assign,-bugprone-signed-char-misuse ;;
    esac
    case $file in
    compiler/ops/elementwise.c) checks+=,-bugprone-branch-clone ;; # rows of a table may be alike
    esac
    options+=(--checks="$checks")
}

for file; do
    options_for "$file"
    # Its stderr counts warnings in other people's headers, or says why clang-tidy itself failed.
    clang-tidy "${options[@]}" "$file" >"$log" 2>&1 && continue
    echo "check: tidy: $file:" >&2
    cat "$log" >&2
    failed=1
done
exit $failed
