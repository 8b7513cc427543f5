#!/usr/bin/env bash
# The n-th allocation or read of a command fails: it then ends with status 1 and one message, or with
# the right result; it never crashes, frees all memory, and leaves no file behind.  A few n of each
# command; all of them with SLUICE_LONG=1, or about SLUICE_FAULTS_EACH.  SLUICE_FAULTS_OF="pack malloc"
# chooses one command and kind, and SLUICE_FAULTS_RANGE="1 5000" the first and last n, so that several
# can run beside each other.  Wants $SLUICE_PROGRAM and $SLUICE_FAULTS, the library of faults.c; run
# from the root of the repository.
set -u

program=${SLUICE_PROGRAM:?the path of the program to test}
faults=${SLUICE_FAULTS:-}
golden=${SLUICE_SHARED:-../shared}/models/golden
few=${SLUICE_FAULTS_EACH:-8}
most_live=0 # blocks that remain without a fault
folder=$(mktemp -d)
failed=0
trap 'rm -rf "$folder"' EXIT

if [ -z "$faults" ] || [ -n "${SLUICE_SANITIZED:-}" ]; then
    echo "skipped: allocations of a sanitizer cannot be replaced"
    exit 0
fi

# run KIND AT COMMAND...: stdout, stderr and the exit code are kept.
run() {
    local kind=$1 at=$2; shift 2
    rm -rf "$folder/out"
    mkdir "$folder/out"
    code=0
    rm -f "$folder/count"
    timeout -k 1 60 env FAULT_KIND="$kind" FAULT_AT="$at" FAULT_COUNT="$folder/count" \
        LD_PRELOAD="$faults" "$program" "$@" >"$folder/stdout" 2>"$folder/stderr" </dev/null || code=$?
    sed -i '/"reader":/d' "$folder/stdout" # without memory for io_uring, threads read
}
complain() {
    failed=$((failed + 1))
    echo "not ok - $1"
    sed 's/^/# /' "$folder/stderr" | head -n 5
}

# What one run came to: the right result, or one message and nothing left behind.
judge() {
    local what=$1 calls=0 live=0
    [ ! -e "$folder/count" ] || read -r calls live <"$folder/count"
    [ "$live" -le "$most_live" ] || complain "$what: $live blocks are not freed, wanted at most $most_live"
    if [ "$code" -eq 0 ]; then
        cmp -s "$folder/stdout" "$folder/wanted" || complain "$what: another output with success"
        diff -rq "$folder/out" "$folder/wanted_out" >/dev/null || complain "$what: other files with success"
    elif [ "$code" -eq 1 ]; then
        [ "$(grep -c '^sluice: ' "$folder/stderr")" -eq 1 ] || complain "$what: not one message"
        [ -z "$(ls -A "$folder/out")" ] || diff -rq "$folder/out" "$folder/wanted_out" >/dev/null ||
            complain "$what: files left behind"
    else
        complain "$what: exit code $code"
    fi
}

# try NAME KIND COMMAND...
try() {
    local name=$1 kind=$2 count step at first last; shift 2
    read -r first last <<<"${SLUICE_FAULTS_RANGE:-1 999999999}"
    case " $name $kind " in *" ${SLUICE_FAULTS_OF:-$name $kind} "*) ;; *) return ;; esac
    run "$kind" 0 "$@"
    if [ "$code" -ne 0 ]; then complain "$name without a fault"; return; fi
    cp "$folder/stdout" "$folder/wanted"
    rm -rf "$folder/wanted_out"
    cp -r "$folder/out" "$folder/wanted_out"
    read -r count most_live <"$folder/count"
    step=$((count / few + 1))
    if [ -n "${SLUICE_LONG:-}" ]; then step=1; fi
    for ((at = first; at <= count && at <= last; at += step)); do
        run "$kind" "$at" "$@"
        judge "$name, $kind $at of $count"
    done
    [ "$last" -le "$count" ] || last=$count
    echo "done - $name, $kind: every ${step}th of $count, from $first to $last, $most_live blocks remain without a fault"
}

# A folder of prefixes that has the prompt of "kept".
long="Tell me a story about a fox. Let it be about the winter and the forest, and about a good end that everybody likes, and about a bear that is afraid of the old mill."
"$program" run -m models/fable -p "$long" -n 40 --temp 0 -t 1 --device cpu --kv-disk "$folder/kv" >/dev/null 2>&1 </dev/null ||
    complain "a folder of prefixes"

for kind in malloc read; do
    try tokenize $kind tokenize -m models/fable "hello world"
    try info $kind info models/fable --json -t 1 --device cpu
    try run $kind run -m models/fable -p "Count from 3 to 5." -n 4 --temp 0 -t 1 --device cpu --reader threads --budget 50%
    try save $kind run -m models/fable -p "Count from 3 to 5." -n 4 --temp 0 -t 1 --device cpu --reader threads --session "$folder/out/talk.kv"
    try kept $kind run -m models/fable -p "$long" -n 4 --temp 0 -t 1 --device cpu --reader threads --kv-disk "$folder/kv"
    if [ -d "$golden/qwen3" ]; then
        try pack $kind pack "$golden/qwen3" "$folder/out/x.sluice" -t 1
    fi
done
[ "$failed" -eq 0 ]
