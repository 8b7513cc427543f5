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
*_test.c | runtime/cpu/kernels/*) # small numbers and lanes, not sizes from outside
    options+=(--checks=-bugprone-implicit-widening-of-multiplication-result) ;;
esac
output=$(clang-tidy "${options[@]}" "$file" 2>/dev/null) && exit 0
echo "$output" >&2
exit 1
