#!/bin/bash
# A budget is a promise: with a quarter of the experts in memory the logits are the same to the last
# bit, no more is read than the misses require, and a memory group that leaves room for the budget,
# the fixed parts and the program is never exceeded, page cache included.
set -u
program=${SLUICE_PROGRAM:-build/sluice}
model=models/fable
work=$(mktemp -d)
group=
trap 'rm -rf "$work"; [ -n "$group" ] && rmdir "$group" 2>/dev/null' EXIT
passed=0 failed=0
report() { # report CONDITION-STATUS TEXT
    if [ "$1" = 0 ]; then passed=$((passed + 1)); echo "ok - $2"; else failed=$((failed + 1)); echo "not ok - $2"; fi
}

for ((i = 0; i < 300; i++)); do echo $((i * 7919 % 1200)); done >"$work/tokens"
logits() { "$program" logits -m $model --tokens "$work/tokens" --chunk 32 --stats "$@"; }
# number NAME: from JSON with one field per line.
number() { sed -n 's/.*"'"$1"'": \([0-9]*\).*/\1/p'; }
field() { "$program" info -m $model --budget 25% --json | number "$1"; }

logits -o "$work/all" 2>"$work/all.log" && logits -o "$work/quarter" --budget 25% 2>"$work/quarter.log"
report $? "logits with all experts and with a quarter of them"
cmp -s "$work/all" "$work/quarter"
report $? "they are identical"

misses=$(sed -n 's/.* \([0-9]*\) misses.*/\1/p' "$work/quarter.log")
"$program" run -m $model -p "Count from 3 to 9." --budget 25% --json >"$work/run.json"
[ "$(number bytes_read <"$work/run.json")" = $(($(number expert_misses <"$work/run.json") * $(field slot_bytes))) ]
report $? "what is read is the misses times an expert ($misses misses in the logits run)"

promise=$(field promised_bytes)
if [ -n "${SLUICE_SANITIZED:-}" ]; then
    echo "a sanitizer takes memory that no one promised"
elif [ -w /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    group=/sys/fs/cgroup/memory/sluice-test-$$ limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
elif [ -w /sys/fs/cgroup/cgroup.subtree_control ] && grep -qw memory /sys/fs/cgroup/cgroup.subtree_control; then
    group=/sys/fs/cgroup/sluice-test-$$ limit=memory.max peak=memory.peak
fi
if [ -n "$group" ] && mkdir "$group" 2>/dev/null; then
    echo "$promise" >"$group/$limit"
    sync
    echo 3 >/proc/sys/vm/drop_caches 2>/dev/null # so that the model's pages are charged to the group
    (echo $BASHPID >"$group/cgroup.procs" && exec "$program" run -m $model --budget 25% -n 60 \
        -p "Tell me a story about a brave fox." >"$work/story" 2>&1)
    report $? "a story under a memory limit of $promise bytes, what info promises"
    used=$(cat "$group/$peak")
    [ "$used" -le "$promise" ]
    report $? "its peak was $used bytes, page cache included"
else
    group=
    echo "skipped: a story under a memory limit needs a group of its own, and a plain build"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
