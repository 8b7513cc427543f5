#!/bin/bash
# The memory that `sluice info` promises is kept: in a control group whose limit is exactly that, page cache
# included, nothing is killed.  Formats: pack, Hugging Face, MLX, GGUF; a real tokenizer; prompts of 512 tokens.
# Where all parts are in use, the promise is also tight: the peak is less than 5 % below it.
# SLUICE_LONG=1 runs all scenarios, otherwise every third.
set -u
program=${SLUICE_PROGRAM:-build/sluice}
shared=${SLUICE_SHARED:-../shared}
tokenizer=$shared/tokenizers/qwen3/tokenizer.json
skip() { echo "skipped: $1"; exit 0; }
[ -z "${SLUICE_SANITIZED:-}" ] || skip "a sanitizer takes memory that no one promised"
[ -f "$tokenizer" ] || skip "no $tokenizer"
if [ -w /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    parent=/sys/fs/cgroup/memory limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
elif [ -w /sys/fs/cgroup/cgroup.subtree_control ] && grep -qw memory /sys/fs/cgroup/cgroup.subtree_control; then
    parent=/sys/fs/cgroup limit=memory.max peak=memory.peak
else
    skip "control groups cannot be made here"
fi
work=$(mktemp -d) || exit 1
group=$parent/sluice-memory-$$
trap 'rm -rf "$work"; rmdir "$group" 2>/dev/null' EXIT
passed=0 failed=0 number=0
step=3; [ -z "${SLUICE_LONG:-}" ] || step=1

# within BYTES COMMAND...: in a new group of that limit; sets `used` to its peak.
within() {
    local status
    mkdir "$group" && echo "$1" >"$group/$limit" || return 1
    shift
    (echo $BASHPID >"$group/cgroup.procs" && exec "$@") >"$work/out" 2>"$work/err"
    status=$?
    used=$(cat "$group/$peak")
    [ ! -w "$group/memory.force_empty" ] || echo 0 >"$group/memory.force_empty"
    rmdir "$group"
    return $status
}

promise() { "$program" info --json "$@" | sed -n 's/.*"promised_bytes": \([0-9]*\).*/\1/p'; }

# scenario NAME PROMISE COMMAND...: alive, and below the promise; `least` is what it must reach, in per cent.
least=0
scenario() {
    local name=$1 bytes=$2 result=ok
    shift 2
    number=$((number + 1))
    [ $((number % step)) = 0 ] || return 0
    if [ -z "$bytes" ] || ! within "$bytes" "$@" || [ "$used" -gt "$bytes" ] ||
        [ "$used" -lt $((bytes / 100 * least)) ]; then
        result="not ok"
        failed=$((failed + 1))
        head -c 400 "$work/err"
    else
        passed=$((passed + 1))
    fi
    printf '%s - %-32s promise %10s  peak %10s  %3d %%\n' "$result" "$name" "$bytes" "${used:-0}" \
        $((${used:-0} * 100 / ${bytes:-1}))
}

python3 tests/end_to_end/make_models.py "$work" "$tokenizer" || exit 1
"$program" synth --shape medium --layers 4 --experts 16 "$work/medium.sluice" 2>"$work/err" || exit 1
"$program" pack "$work/hf" "$work/packed.sluice" 2>"$work/err" || exit 1
# About 512 tokens.
for ((i = 0; i < 64; i++)); do printf 'The quick brown fox jumps over %d lazy dogs. ' "$i"; done >"$work/prompt"
prompt=$(cat "$work/prompt")
head -c 990 "$work/prompt" >"$work/letters" # the tokenizer of synthetic models makes a token of each

for model in packed.sluice hf mlx model.gguf; do
    m=$work/$model
    for budget in 25% 60%; do
        bytes=$(promise "$m" --budget $budget -c 1024)
        scenario "$model: prefill and decode, $budget" "$bytes" \
            "$program" run -m "$m" --raw -p "$prompt" -n 40 --budget $budget -c 1024
    done
    bytes=$(promise "$m" --budget 30%)
    scenario "$model: decode, 30%" "$bytes" "$program" run -m "$m" --raw -p "Once" -n 60 --budget 30%
    scenario "$model: no budget" "$bytes" "$program" run -m "$m" --raw -p "$prompt" -n 20
    scenario "$model: bench" "$bytes" "$program" bench -m "$m" -p 300 -n 8 --budget 30%
done
for model in hf mlx model.gguf; do
    scenario "$model: pack" "$(promise "$work/$model" --budget 25%)" \
        "$program" pack "$work/$model" "$work/again.sluice" --quant none
    rm -f "$work/again.sluice"
done
m=$work/medium.sluice
scenario "medium: bench, smallest budget" "$(promise "$m" --budget 15MB)" \
    "$program" bench -m "$m" -p 512 -n 8 --budget 15MB
# All parts in use: every slot, every checkpoint, a full context, two shapes of prefill.  The pages of the program are
# charged to the group too: those of a copy, which nobody else runs.
cp "$program" "$work/sluice"
program=$work/sluice
charge_program() { sync "$program" && dd if="$program" iflag=nocache count=0 2>/dev/null; }
least=95
for budget in 40MB 60%; do
    bytes=$(promise "$m" --budget $budget -c 1024)
    charge_program
    scenario "medium: full context, $budget" "$bytes" \
        "$program" run -m "$m" --raw -f "$work/letters" -n 30 --budget $budget -c 1024
done
bytes=$(promise "$m" --budget 40MB -c 1024)
charge_program
scenario "medium: bench, full context" "$bytes" \
    "$program" bench -m "$m" -p 990 -n 20 -r 1 --budget 40MB -c 1024
least=0
# Where the default context has no room it is lowered, with a note.
bytes=$(promise "$m" --budget 15MB -c 512)
scenario "medium: a context that is lowered" "$bytes" "$program" run -m "$m" --raw -p "Once" -n 8
if [ $((number % step)) = 0 ] && ! grep -q "because memory is short" "$work/err"; then
    echo "not ok - no note of the lowered context"
    failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
