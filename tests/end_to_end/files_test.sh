#!/usr/bin/env bash
# What the program leaves behind, replaces and refuses: signals, limits, pipes and links.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u

program=${SLUICE_PROGRAM:?the path of the program to test}
folder=$(mktemp -d)
failed=0
trap 'rm -rf "$folder"' EXIT

ok() { echo "ok - $1"; }
not_ok() { failed=$((failed + 1)); echo "not ok - $1"; sed 's/^/# /' "$folder/stderr"; }
holds() {
    local name=$1; shift
    if "$@"; then ok "$name"; else not_ok "$name"; fi
}
# runs WANTED COMMAND...: within ten seconds, with this exit code.
runs() {
    local wanted=$1 code=0; shift
    timeout -k 1 10 "$@" >"$folder/stdout" 2>"$folder/stderr" </dev/null || code=$?
    [ "$code" -eq "$wanted" ] || { echo "# exit code $code, wanted $wanted" >>"$folder/stderr"; return 1; }
}
refuses() { local pattern=$1; shift; runs 1 "$@" && grep -qE -- "$pattern" "$folder/stderr"; }
only() { [ "$(cd "$folder/out" && ls -A | tr '\n' ' ')" = "$1" ]; }

large="synth --shape medium --layers 8 --experts 64"
small="synth --shape small --layers 4 --experts 8 --vocab 256"
mkdir "$folder/out"

# ---- Signals and limits ----

for signal in INT TERM HUP; do
    "$program" $large "$folder/out/x.sluice" >/dev/null 2>"$folder/stderr" &
    for _ in $(seq 50); do only "" || break; sleep 0.1; done
    kill -$signal $!
    wait $!
    holds "SIG$signal leaves nothing behind" only ""
done

"$program" $large "$folder/out/x.sluice" >/dev/null 2>"$folder/stderr" &
for _ in $(seq 50); do only "" || break; sleep 0.1; done
kill -KILL $!
wait $! 2>/dev/null
holds "a killed writer leaves its temporary file" test -n "$(ls -A "$folder/out")"
holds "the next writer removes it" runs 0 "$program" $small "$folder/out/x.sluice"
holds "and leaves only its own file" only "x.sluice "

limited=(bash -c 'ulimit -f 200; exec "$@"' _ "$program")
holds "a file that may not grow is an error" refuses "File too large" "${limited[@]}" $small "$folder/out/y.sluice"
holds "which leaves nothing behind" only "x.sluice "

# ---- Destinations ----

holds "an existing file is not replaced" refuses "exists.*option force" "$program" $small "$folder/out/x.sluice"
holds "but with --force" runs 0 "$program" $small "$folder/out/x.sluice" --force
ln -s x.sluice "$folder/out/link"
holds "a link can be written to" runs 0 "$program" $small "$folder/out/link" --force
holds "and stays a link" test -L "$folder/out/link"
rm "$folder/out/link"
holds "a folder is refused" refuses "is a folder" "$program" $small "$folder/out" --force
holds "a device is refused" refuses "regular file" "$program" $small /dev/null --force

# ---- Pipes in place of models ----

mkfifo "$folder/pipe" "$folder/out/pipe.gguf"
rm "$folder/out/x.sluice"
holds "a pipe is no model" refuses "not a regular file" "$program" info "$folder/pipe"
holds "a pipe in a folder is no model" refuses "not a regular file" "$program" info "$folder/out"
holds "a pipe cannot be packed" refuses "not a regular file" "$program" pack "$folder/pipe" "$folder/out/y.sluice"

# ---- Models of many files ----

# A shard takes three descriptors while the model is opened.
mkdir "$folder/shards"
if python3 tests/end_to_end/make_shards.py "${SLUICE_SHARED:-../shared}/models/golden/qwen3_moe" 60 "$folder/shards"; then
    echo 1 2 3 >"$folder/tokens"
    holds "60 shards are opened with 200 descriptors" runs 0 bash -c 'ulimit -n 200; exec "$@"' _ \
        "$program" logits -m "$folder/shards" --tokens "$folder/tokens" -o "$folder/logits"
fi

[ "$failed" -eq 0 ]
