#!/usr/bin/env bash
# Every family on the emulated GPU, or with SLUICE_CUDA=device on the machine's: its logits against
# those that transformers computed, and the proof that what the driver was given orders its steps.
# Wants $SLUICE_PROGRAM and $SLUICE_CUDA_EMULATOR; run from the root of the repository.
set -u
program=${SLUICE_PROGRAM:?the path of the program to test}
goldens=${SLUICE_SHARED:-../shared}/models/golden
device=${SLUICE_CUDA:-emulated}
[ "$device" = device ] || [ -n "${SLUICE_CUDA_EMULATOR:-}" ] || { echo "skipped: no emulated driver was built"; exit 0; }
[ -d "$goldens" ] || { echo "skipped: there is no $goldens"; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The driver is looked for by its name.
[ "$device" = device ] || export LD_LIBRARY_PATH=${SLUICE_CUDA_EMULATOR%/*}

compare() {
    python3 - "$folder/logits" "$1/reference.safetensors" <<'PY'
import array, json, struct, sys

def tensor(path, name):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8:8 + size])[name]["data_offsets"]
    return array.array("f", data[8 + size + begin:8 + size + end])

found, wanted = tensor(sys.argv[1], "logits"), tensor(sys.argv[2], "logits")
wanted = wanted[:len(found)]
squares = sum((a - b) ** 2 for a, b in zip(found, wanted)) / sum(b * b for b in wanted)
print("  relative error %.3g" % squares ** 0.5)
sys.exit(not squares ** 0.5 <= 2e-5)
PY
}

# tokens GOLDEN COUNT: the first tokens of the reference, as text.
tokens() {
    python3 - "$1/reference.safetensors" "$2" <<'PY'
import array, json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
begin = json.loads(data[8:8 + size])["tokens"]["data_offsets"][0]
print(*array.array("i", data[8 + size + begin:8 + size + begin + 4 * int(sys.argv[2])]))
PY
}

failed=0
for golden in "$goldens"/*/; do
    golden=${golden%/}
    for chunk in 1 9; do
        # One at a time, a few show what all do; in chunks, three of two lengths.
        tokens "$golden" $([ $chunk = 1 ] && [ -z "${SLUICE_LONG:-}" ] && echo 8 || echo 24) >"$folder/tokens"
        echo "${golden##*/}, chunk $chunk"
        "$program" logits --device cuda --chunk $chunk -m "$golden" --tokens "$folder/tokens" -o "$folder/logits" &&
            compare "$golden" || { echo "  FAILED"; failed=1; }
        "$program" inspect --device cuda --verify --tokens $chunk -m "$golden" | grep '^proved ' ||
            { echo "  FAILED: not proved"; failed=1; }
    done
done
exit $failed
