#!/bin/bash
# check_tidy.sh DATABASE FILE - clang-tidy on one file, silent when there is nothing to say.
database=$1 file=$2
options=(-p "$database" --quiet)
case $file in
base/error.c | base/memory.c) ;; # define what analysis.h redefines
apps/* | examples/*) ;;          # see include/ only
*) options+=(--extra-arg=-include --extra-arg="$PWD/tools/analysis.h") ;;
esac
# Left out of some files: --checks may be given once only, so they are gathered.
without=
case $file in
*_test.c) without+=,-bugprone-implicit-widening-of-multiplication-result ;; # small numbers, not sizes from outside
esac
case $file in
runtime/cpu/kernels/*) # their operands were checked by infer_ and their scratch by split: the analyser sees neither
    without+=,-bugprone-implicit-widening-of-multiplication-result,-clang-analyzer-core.NullDereference
    without+=,-clang-analyzer-core.NonNullParamChecker,-clang-analyzer-core.DivideZero
    without+=,-clang-analyzer-core.uninitialized.Assign,-bugprone-signed-char-misuse ;;
esac
[ -z "$without" ] || options+=(--checks="${without#,}")
# Its stderr counts warnings in other people's headers, or says why clang-tidy itself failed.
log=$(mktemp) && trap 'rm -f "$log"' EXIT
clang-tidy "${options[@]}" "$file" >"$log" 2>&1 && exit 0
echo "check: tidy: $file:" >&2
cat "$log" >&2
exit 1
