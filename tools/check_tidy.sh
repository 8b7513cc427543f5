#!/bin/bash
# check_tidy.sh DATABASE FILE - clang-tidy on one file, silent when there is nothing to say.
database=$1 file=$2
options=(-p "$database" --quiet)
case $file in
base/error.c | base/memory.c) ;; # define what analysis.h redefines
apps/* | examples/*) ;;          # see include/ only
*) options+=(--extra-arg=-include --extra-arg="$PWD/tools/analysis.h") ;;
esac
case $file in
*_test.c) # small numbers and lanes, not sizes from outside
    options+=(--checks=-bugprone-implicit-widening-of-multiplication-result) ;;
esac
case $file in
runtime/cpu/kernels/*) # their operands were checked by infer_ and their scratch by split: the analyser sees neither
    options+=(--checks=-bugprone-implicit-widening-of-multiplication-result,-clang-analyzer-core.NullDereference,-clang-analyzer-core.NonNullParamChecker,-clang-analyzer-core.DivideZero,-clang-analyzer-core.uninitialized.Assign,-bugprone-signed-char-misuse) ;;
esac
output=$(clang-tidy "${options[@]}" "$file" 2>/dev/null) && exit 0
echo "$output" >&2
exit 1
