#!/bin/bash
# compare_llama.sh [options] LLAMA_BENCH GGUF MODEL - llama.cpp and sluice in turn, and the ratios.
#
# MODEL is what sluice runs: the same GGUF where it reads it, or a pack of the same shape.  Every round
# runs both once, so that what disturbs one disturbs the other; best and median are over rounds.
#
#   -t N,...   threads (1,2)      -p N   tokens to prefill (512)    -n N   tokens to decode (64)
#   -d N       depth of decode (0)  -r N   rounds (5)               -s PATH   sluice (build/sluice)
set -eu
threads=1,2 prefill=512 decode=64 depth=0 rounds=5 sluice=build/sluice
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
while getopts t:p:n:d:r:s: option; do
    case $option in
    t) threads=$OPTARG ;; p) prefill=$OPTARG ;; n) decode=$OPTARG ;;
    d) depth=$OPTARG ;; r) rounds=$OPTARG ;; s) sluice=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 3 ] || usage
llama=$1 gguf=$2 model=$3
for file in "$llama" "$gguf" "$model" "$sluice"; do
    [ -e "$file" ] || { echo "compare_llama: $file: no such file" >&2; exit 1; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# run_llama OUT ARGUMENTS...: its progress is not ours to show, its failure is.
run_llama() {
    local out=$1; shift
    "$llama" -m "$gguf" -ngl 0 -t "$threads" -r 1 -o json "$@" >"$out" 2>"$folder/llama.err" && return
    tail -3 "$folder/llama.err" >&2
    echo "compare_llama: $llama failed" >&2
    exit 1
}

for round in $(seq "$rounds"); do
    echo "round $round of $rounds" >&2
    # Only decode starts at a depth; llama-bench would move prefill there too.
    run_llama "$folder/llama-prefill-$round.json" -p "$prefill" -n 0
    run_llama "$folder/llama-decode-$round.json" -p 0 -n "$decode" -d "$depth"
    "$sluice" bench -m "$model" -t "$threads" -p "$prefill" -n "$decode" --depth "$depth" -r 1 --json \
        >"$folder/sluice-$round.json"
done

python3 - "$folder" "$rounds" <<'PY'
import json, statistics, sys
folder, rounds = sys.argv[1], int(sys.argv[2])
rates = {}  # (phase, threads) -> {"llama": [...], "sluice": [...]}
floors = {}
def add(phase, threads, who, rate):
    rates.setdefault((phase, threads), {"llama": [], "sluice": []})[who].append(rate)
for r in range(1, rounds + 1):
    for phase in "prefill", "decode":
        for test in json.load(open(f"{folder}/llama-{phase}-{r}.json")):
            add(phase, test["n_threads"], "llama", test["avg_ts"])
    bench = json.load(open(f"{folder}/sluice-{r}.json"))
    for run in bench["runs"]:
        for phase in "prefill", "decode":
            if run[phase]:
                add(phase, run["threads"], "sluice", run[phase]["best_tokens_per_second"])
                floor = run[phase]["limit_tokens_per_second"]
                floors[phase, run["threads"]] = max(floor, floors.get((phase, run["threads"]), 0))
print(f"{'tok/s, best (median)':24} {'llama.cpp':>20} {'sluice':>20} {'ratio':>16} {'of the limit':>13}")
for (phase, threads), both in sorted(rates.items(), key=lambda i: (i[0][0] != "prefill", i[0][1])):
    a, b = both["llama"], both["sluice"]
    if not a or not b:
        continue
    ma, mb = statistics.median(a), statistics.median(b)
    print(f"{phase:8} {threads:3} thread{'s' if threads > 1 else ' '}     "
          f"{max(a):10.1f} ({ma:7.1f}) {max(b):10.1f} ({mb:7.1f}) {max(b)/max(a):8.2f} ({mb/ma:5.2f}) "
          f"{100 * max(b) / floors[phase, threads]:11.0f} %")
PY
