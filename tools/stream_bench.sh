#!/usr/bin/env bash
# stream_bench.sh - A model larger than memory, under a hard limit that the page cache counts towards: tokens per second, hit
# rate, bytes per token, and how close that comes to what the disk alone would allow.
#
#   tools/stream_bench.sh [-l LIMIT_BYTES] [-r REPEATS] [-t THREADS] [-n DECODE] [-p PREFILL] [MODEL]
#
# Without a model the medium synthetic one is written to a temporary folder (5 GB) and removed at the end.  Needs a memory
# control group (as root, or delegated) and the benches (cmake --build build --target benches).
set -u
program=${SLUICE_PROGRAM:-build/sluice} reader_bench=${SLUICE_READER_BENCH:-build/benches/io_reader_bench}
limit=2147483648 repeats=3 threads=2 decode=64 prefill=512
while getopts l:r:t:n:p: option; do
    case $option in
    l) limit=$OPTARG ;;
    r) repeats=$OPTARG ;;
    t) threads=$OPTARG ;;
    n) decode=$OPTARG ;;
    p) prefill=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
model=${1:-}
group=
work=$(mktemp -d)
trap 'rm -rf "$work"; [ -n "$group" ] && rmdir "$group" 2>/dev/null' EXIT

if [ -w /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    name=/sys/fs/cgroup/memory/sluice-bench-$$ limit_file=memory.limit_in_bytes peak=memory.max_usage_in_bytes
elif [ -w /sys/fs/cgroup/cgroup.subtree_control ] && grep -qw memory /sys/fs/cgroup/cgroup.subtree_control; then
    name=/sys/fs/cgroup/sluice-bench-$$ limit_file=memory.max peak=memory.peak
else
    name=
fi
if [ -z "$name" ] || ! mkdir "$name" 2>/dev/null; then
    echo "skipped: no memory group can be made here"
    exit 0
fi
group=$name
echo "$limit" >"$group/$limit_file"
if [ -z "$model" ]; then
    model=$work/medium.sluice
    "$program" synth --shape medium "$model" || exit 1
fi

# number NAME FILE: the first field of that name, one field per line.
number() { sed -n 's/.*"'"$1"'": \([0-9.]*\).*/\1/p' "$2" | head -1; }
inside() { (echo $BASHPID >"$group/cgroup.procs" && exec "$@"); }

# Everything but the experts: weights that stay, state, workspace of a prefill step, the program; the rest is for experts.
"$program" info -m "$model" --json >"$work/info" || exit 1
budget=$((limit - $(number resident_bytes "$work/info") - $(number state_bytes "$work/info") - limit / 16))
slot=$(number slot_bytes "$work/info")
[ "$budget" -gt "$((slot * 16))" ] || { echo "a limit of $limit bytes is too small for this model"; exit 1; }
sync
echo 3 2>/dev/null >/proc/sys/vm/drop_caches # so that pages of the model are charged to the group

# measure PREFILL DECODE: one process per repeat, so that no repeat finds the experts of the one before.
measure() {
    for ((i = 0; i < repeats; i++)); do
        inside "$program" bench -m "$model" --budget "$budget" -t "$threads" -c 4096 -r 1 -p "$1" -n "$2" --json >"$work/run$i" ||
            { echo "failed under the limit"; return 1; }
        best=best_tokens_per_second
        [ "$1" = 0 ] && what=decode tokens=$2 || what=prefill tokens=$1
        sed -n '/"'$what'": {/,/}/p' "$work/run$i" >"$work/phase"
        rate=$(inside "$reader_bench" "$model" "$slot" 0.3 | awk '/io_uring|threads/ && $4 > r { r = $4 } END { print r }')
        awk -v what=$what -v speed="$(number $best "$work/phase")" -v hits="$(number expert_hits "$work/phase")" \
            -v misses="$(number expert_misses "$work/phase")" -v read="$(number bytes_read "$work/phase")" -v tokens="$tokens" \
            -v rate="$rate" 'BEGIN {
                floor = read > 0 ? rate * 1e9 * tokens / read : 0
                printf "%-8s %8.1f tok/s  %4.0f %% hits  %6.1f MB per token  disk %.1f GB/s allows %.1f tok/s: %.0f %% of it\n",
                    what, speed, 100 * hits / (hits + misses), read / tokens / 1e6, rate, floor, floor ? 100 * speed / floor : 0 }'
    done
}
echo "limit $limit bytes, $budget of them for experts, $threads threads, load $(cut -d' ' -f1 /proc/loadavg)"
measure 0 "$decode" && measure "$prefill" 1 || exit 1
echo "peak $(cat "$group/$peak") bytes, page cache included"
