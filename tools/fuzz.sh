#!/bin/bash
# fuzz.sh SECONDS [REGEX] - Run each fuzzer of build-fuzz, from the seeds in tests/data/fuzz/NAME if
# there are any, and from the cases of all ops where graphs are read as text.  What it learns stays
# in build-fuzz/corpus; a crash is kept in build-fuzz/crashes.
set -u
seconds=$1 only=${2:-}
found=0
for fuzzer in build-fuzz/fuzzers/*_fuzz; do
    name=$(basename "$fuzzer")
    [[ -x $fuzzer && $name =~ $only ]] || continue
    found=1
    corpus=build-fuzz/corpus/$name seeds=tests/data/fuzz/$name
    mkdir -p "$corpus" build-fuzz/crashes
    case $name in
        api_run_fuzz | compiler_parse_fuzz) python3 tools/make_graph_texts.py "$corpus" ;;
        engine_text_template_fuzz) python3 tools/make_template_texts.py "$corpus" ;;
    esac
    echo "== $name, $seconds s"
    "$fuzzer" -max_total_time="$seconds" -max_len=16384 -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="build-fuzz/crashes/$name-" "$corpus" $([ -d "$seeds" ] && echo "$seeds") \
        2>"build-fuzz/$name.log"
    status=$?
    grep -E '^stat::(number_of_executed_units|peak_rss_mb)|ERROR|SUMMARY|runtime error' "build-fuzz/$name.log"
    if [ $status != 0 ]; then
        tail -n 40 "build-fuzz/$name.log"
        echo "$name: failed; see build-fuzz/$name.log and build-fuzz/crashes" >&2
        exit 1
    fi
done
[ $found = 1 ] || { echo "no fuzzer matches '$only'" >&2; exit 1; }
