#!/usr/bin/env bash
# The program from outside: help, mistakes, broken files, and every command once.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u

. tests/end_to_end/judge.sh

# ---- Without a model ----

test_help() {
    local command
    holds "sluice --help lists the commands" prints '^  perplexity' --help
    holds "sluice --version" prints '^sluice [0-9]' --version
    for command in run chat serve logits perplexity tokenize info list pack synth bench inspect ir; do
        holds "$command --help" prints "^usage: sluice $command" "$command" --help
        holds "$command refuses unknown options" refuses 2 "unknown option '--no-such'" "$command" --no-such
    done
}

test_mistakes() {
    holds "no command" runs 2
    holds "an unknown command" refuses 2 "no command 'walk'; sluice --help" walk
    holds "a misspelt command" refuses 2 "no command 'lsit'; did you mean list\?" lsit
    holds "a misspelt option" refuses 2 "unknown option '--modle=x'; did you mean --model\?" run --modle=x
    holds "a longer name of an option" refuses 2 "unknown option '--temperature'; did you mean --temp\?" run --temperature 1
    holds "an option of other programs" refuses 2 "'--max-tokens'; did you mean --predict\?" run --max-tokens 5
    holds "an option of another command" refuses 2 "unknown option '--max-tokens' \(see" list --max-tokens
    holds "a number that is none" refuses 2 "--predict: expected a whole number, got 'x'" run -n x
    holds "a missing value" refuses 2 "needs a value" run -p
    holds "an argument too many" refuses 2 "unexpected argument 'b'" run a b
    holds "a prompt given twice" refuses 2 "the prompt is given twice" run -p a b
    holds "a missing argument" refuses 2 "missing" pack only-one
    holds "logits without an output" refuses 2 "-o FILE is required" logits --tokens -
    holds "logits of nothing" refuses 2 "one of -p TEXT" logits -o "$folder/x"
    holds "a missing model" refuses 1 "$folder/none" run -m "$folder/none" -p hi
}

test_unknown_architecture() {
    mkdir "$folder/alien"
    echo '{"model_type": "alien", "architectures": ["AlienForCausalLM"]}' >"$folder/alien/config.json"
    printf '\x08\0\0\0\0\0\0\0{}      ' >"$folder/alien/model.safetensors"
    holds "an unknown architecture" refuses 1 "alien" run -m "$folder/alien" -p hi
}

test_tokenizer() {
    local only=tests/data/tokenizer
    holds "tokenize a folder that holds only a tokenizer" prints '^[0-9]+( [0-9]+)*$' \
        tokenize -m $only --ids 'Hello, world'
    holds "tokenize prints ids and quoted text" prints '^[0-9]+'$'\t''".*"$' tokenize -m $only Hello
    holds "tokenize --json" prints '"pieces"' tokenize -m $only --json Hello
    "$program" tokenize -m $only --ids 'Hello, world' >"$folder/a"
    printf 'Hello, world' | "$program" tokenize -m $only --ids - >"$folder/b"
    holds "tokenize reads standard input" cmp "$folder/a" "$folder/b"
}

test_ir() {
    local source=$folder/norm.ir schedule
    cat >"$source" <<'IR'
graph "norm" { input %x : f32[2,4]
  weight %gain : f32[4]
  %y = rms_norm(%x, %gain) {eps = 1e-06} : f32[2,4]
  output "y" = %y }
IR
    "$program" ir fmt "$source" >"$folder/once.ir"
    "$program" ir fmt "$folder/once.ir" >"$folder/twice.ir"
    holds "ir fmt prints a program" test -s "$folder/once.ir"
    holds "ir fmt is its own fixed point" cmp "$folder/once.ir" "$folder/twice.ir"
    holds "ir check" prints '^ok: 1 ops, 1 inputs, 1 weights, 0 states, 1 outputs' ir check "$source"
    holds "ir check tells what a device makes of it" prints '^cpu: 1 native, 0 rewritten, 0 unsupported' ir check "$source"
    echo 'graph "g" { input %x : f32[2,4] weight %g : f32[4] %y = layer_norm(%x, %g, %g) {axis = 1, eps = 1e-6}
        output "y" = %y }' >"$folder/layer.ir"
    holds "ir check needs no GPU" runs 0 ir check "$folder/layer.ir" --device cuda
    holds "ir check --json" prints '"status": "(native|rewritten)"' ir check "$folder/layer.ir" --device cuda --json
    echo 'graph "g" { input %x : f32[3000,0] input %b : f32[0,3000] scope "here" %y = matmul(%x, %b) output "y" = %y }' \
        >"$folder/nothing.ir"
    holds "ir check fails where a device lacks an op" runs 1 ir check "$folder/nothing.ir" --device cuda
    holds "ir check names it" says '^unsupported here matmul: .*cuda'
    holds "ir run on the cpu" prints '^y : f32\[2,4\] = ' ir run "$source"
    holds "ir run invents what is missing and says so" grep -q 'x, gain' "$folder/stderr"
    echo 'graph "g" { input %x : f32[2,64] weight %w : q4[16,64] %y = linear(%x, %w) output "y" = %y }' >"$folder/q4.ir"
    holds "ir run quantises what it invents" prints '^y : f32\[2,16\] = -?[1-9]?[0-9]*\.[0-9]*[1-9]' ir run "$folder/q4.ir"
    sed s/q4/q4_m/ "$folder/q4.ir" >"$folder/q4_m.ir"
    holds "ir run does not invent weights of MLX" refuses 1 "weight 'w' is q4_m, of which there are no random values" \
        ir run "$folder/q4_m.ir"
    printf 'graph "c" { input %%x : c64[4] %%y = fft(%%x) output "y" = %%y }' >"$folder/fft.ir"
    holds "complex values are invented and shown" prints '^y : c64\[4\] = -?[0-9.]*[1-9]' ir run "$folder/fft.ir"
    printf 'graph "c" { input %%x : c64[4] %%y = conjugate(%%x) output "y" = %%y }' >"$folder/other.ir"
    holds "and compared" runs 1 ir diff "$folder/fft.ir" "$folder/other.ir"
    "$program" ir run "$source" --device cpu --json >"$folder/cpu.json" 2>/dev/null
    "$program" ir run "$source" --device ref --json >"$folder/ref.json" 2>/dev/null
    holds "cpu and ref agree" python3 - "$folder/cpu.json" "$folder/ref.json" <<'PY'
import json, sys
a, b = (json.load(open(p))["outputs"][0]["values"] for p in sys.argv[1:])
sys.exit(not (len(a) == 8 and all(abs(x - y) < 1e-5 for x, y in zip(a, b))))
PY
    holds "ir run -o" runs 0 ir run "$source" -o "$folder/y.safetensors"
    holds "ir ops" prints '^softmax ' ir ops
    holds "ir ops NAME describes an op" prints '^text form +%out = softmax\(%x\) \{axis = -1\}$' ir ops softmax
    holds "... with its devices" says '^cuda +f32'
    holds "ir ops NAME --json" prints '"attributes": "axis:i64' ir ops softmax --json
    holds "ir ops --json has all details" prints '"fused_from": "[^"]*rms_norm' ir ops --json
    holds "ir ops of an unknown name" refuses 1 "unknown op 'softmux'" ir ops softmux
    holds "ir ops --markdown" prints '^\| softmax \| x \| out \|' ir ops --markdown
    "$program" ir ops --markdown >"$folder/ops.md"
    holds "no cell of the table is empty" test "$(grep -cE '\|  *\|' "$folder/ops.md")" = 0
    holds "ir bench counts microseconds of a small program" \
        prints '^median [0-9.]*[1-9][0-9.]* us, minimum' ir bench "$source" -r 3
    holds "ir run on null says that nothing is computed" runs 0 ir run "$source" --device null
    holds "... before the zeros" grep -q 'null computes nothing' "$folder/stderr"
    echo 'graph "m" { input %m : bool[64] %y = cast(%m) {to = f32} output "y" = %y }' >"$folder/mask.ir"
    holds "invented masks are true and false" prints 'min 0, max 1,' ir run "$folder/mask.ir"
    holds "ir bench --profile" prints '^rms_norm +1 .* 100.0 %' ir bench "$source" -r 3 --profile --device cpu
    holds "ir diff of the cpu and double precision" prints 'same$' ir diff "$source" --device cpu
    holds "ir diff of two programs" prints 'same$' ir diff "$source" "$folder/once.ir"
    cat >"$folder/two.ir" <<'IR'
graph "two" { input %x : f32[4,8] input %z : f32[4,8] weight %g : f32[8]
  %a = rms_norm(%x, %g) {eps = 1e-06}
  %b = mul(%a, %z)
  %c = rms_norm(%z, %g) {eps = 1e-06}
  %d = mul(%c, %x)
  output "b" = %b output "c" = %c output "d" = %d }
IR
    holds "ir inspect" prints '^steps +3 +from 4 nodes, 1 of them fused' ir inspect "$folder/two.ir"
    holds "ir inspect has the steps of an average group" says ' steps; 1\.50 on average$'
    holds "ir inspect without groups" runs 0 ir inspect "$folder/two.ir" --two-submits
    holds "... says what has no effect" \
        grep -q 'two-submits has an effect with --schedule groups only' "$folder/stderr"
    holds "ir inspect --no-fusion" prints '^steps +4 ' ir inspect "$folder/two.ir" --no-fusion
    holds "ir inspect --fusion says why not" \
        prints '^not fused: rms_norm_mul at mul: .* is an output' ir inspect "$folder/two.ir" --fusion
    cat > "$folder/conv.ir" <<'EOF'
graph "conv" { input %x : f32[1,3,8,8] weight %w : f32[4,3,3,3] weight %b : f32[1,4,1,1]
%1 = conv(%x, %w) %2 = add(%1, %b) %3 = relu(%2) output "y" = %3 }
EOF
    holds "ir inspect --fusion of a convolution, an added bias and a relu" \
        prints '^fused: conv_bias_relu at ' ir inspect "$folder/conv.ir" --fusion
    holds "ir inspect --barriers says why" \
        prints ' rms_norm -> 2 mul: RAW of rms_norm, 128 bytes' ir inspect "$folder/two.ir" --barriers
    for schedule in levels groups edges; do
        holds "ir inspect --schedule $schedule --verify" prints '^verified ' \
            ir inspect "$folder/two.ir" --schedule $schedule --lookahead 2 --no-reorder --no-sharing --verify
    done
    holds "ir inspect --steps --json" prints '"op": "rms_norm_mul"' ir inspect "$folder/two.ir" --steps --json
    holds "ir inspect draws" runs 0 ir inspect "$folder/two.ir" --trace "$folder/g.json" --memory "$folder/g.svg" \
        --dot "$folder/g.dot"
    holds "... a trace" grep -q '"ph":"X"' "$folder/g.json"
    holds "... memory" grep -q '</svg>' "$folder/g.svg"
    holds "... and a graph" grep -q -e '->' "$folder/g.dot"
    holds "ir inspect --json" prints '"early_steps": 0' ir inspect "$folder/two.ir" --json --fusion --barriers
    holds "ir inspect needs no GPU" prints 'schedule: edges' ir inspect "$folder/two.ir" --device cuda
    holds "ir inspect of ref is refused" refuses 1 "without compiling" ir inspect "$folder/two.ir" --device ref
    local model=tests/data/fuzz/frontend_onnx_import_fuzz/gemm_all_attributes.onnx
    holds "ir import -o" runs 0 ir import "$model" -o "$folder/gemm.ir"
    holds "an imported program is a program" prints '^ok: ' ir check "$folder/gemm.ir"
    holds "ir import -o of the binary form" runs 0 ir import "$model" -o "$folder/gemm.slir"
    holds "the binary form is a program" prints '^ok: ' ir check "$folder/gemm.slir"
    holds "both forms are alike" prints 'same$' ir diff "$folder/gemm.ir" "$folder/gemm.slir"
    holds "an ONNX model runs as it is" prints '^y : f32\[3,5\] = ' ir run "$model"
    holds "ir import names what is no model" refuses 1 'ONNX' ir import "$source"
    echo 'graph "bad" { %y = no_such_op() }' >"$folder/bad.ir"
    holds "ir check names what is wrong" refuses 1 'no_such_op' ir check "$folder/bad.ir"
    echo 'graph "g" { input %y : f32[3] output "o" = %y }' >"$folder/shape.ir"
    holds "ir run refuses data of another shape" refuses 1 'f32\[3\].*f32\[2,4\]' \
        ir run "$folder/shape.ir" --data "$folder/y.safetensors"
}

# test_bench MODEL
test_bench() {
    holds "bench shows limits" prints '^  memory read +[0-9.]+ \( *[0-9.]+\)' bench -m "$1" -p 4 -n 2 -r 1 -t 1
    holds "bench splits the bytes of a token" says '^  decode .*weights [0-9.]+ \+ recurrent state [0-9.]+ \+ KV'
    holds "bench --threads --profile --depth --json" runs 0 \
        bench -m "$1" -p 4 -n 2 -r 1 -t 1,2 --profile --depth 100 --budget 50% --json
    holds "bench --json has all of it" python3 - "$folder/stdout" <<'PY'
import json, sys
b = json.load(open(sys.argv[1]))
token, machine = b["token"], b["machine"]
assert token["weight_bytes"] > 0 and token["recurrent_bytes"] > 0 and token["mean_depth"] == 101
assert abs(token["kv_bytes"] - 101 * token["kv_bytes_per_position"]) < 1
for rate in "read_bytes", "int8_operations", "f32_operations":
    limit = machine[rate + "_per_second"]
    assert all(0 < m <= f for m, f in zip(limit["median"], limit["best"]))
assert machine["disk"]["best_bytes_per_second"] > 0
assert [r["threads"] for r in b["runs"]] == [1, 2]
for r in b["runs"]:
    for phase in r["prefill"], r["decode"]:
        assert phase["limit_tokens_per_second"] > 0 and phase["limit_share"] > 0
        assert abs(sum(o["share"] for o in phase["profile"]["ops"]) - 1) < 0.02
    assert r["decode"]["expert_misses"] == 0 or r["decode"]["disk_share"] > 0
PY
    holds "bench --profile lists every label" prints '^  layer 1 experts moe_ffn ' \
        bench -m "$1" -p 4 -n 2 -r 1 -t 1 --profile --trace "$folder/bench.json"
    holds "bench --trace is of the real steps" python3 - "$folder/bench.json" <<'PY'
import json, sys
names = [e["name"] for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"]
assert sum(n.startswith("prefill ") for n in names) == 1
assert sum(n.startswith("decode ") for n in names) == 2
assert "layer 1 experts moe_ffn" in names
PY
    holds "bench --trace of two ways" refuses 2 "--trace of 2 ways" \
        bench -m "$1" -p 4 -n 2 -r 1 -t 1,2 --trace "$folder/bench.json"
    holds "bench of threads that are none" refuses 2 "--threads: expected .* got '1,x'" bench -m "$1" -t 1,x
    holds "bench deeper than the context" refuses 1 "context" bench -m "$1" --depth 100000000
    holds "bench --batch" prints '^ +4 +[0-9.]+ +[0-9.]+ +[0-9.]+ ' bench -m "$1" -p 4 -n 2 -r 2 -t 1 --batch 1,4
    holds "bench --batch --json" runs 0 bench -m "$1" -p 4 -n 2 -r 2 -t 1 --batch 1,3 --budget 50% --json
    holds "bench --batch --json has all of it" python3 - "$folder/stdout" <<'PY'
import json, sys
found = json.load(open(sys.argv[1]))
assert [row["sequences"] for row in found["batch"]] == [1, 3]
for row in found["batch"]:
    assert row["tokens_per_second"] >= row["median_tokens_per_second"] > 0
    assert row["experts_per_pass"] > 0 and row["limit_tokens_per_second"] > 0
PY
    holds "bench --batch of none" refuses 2 "--batch: expected .* got '0'" bench -m "$1" --batch 0
    holds "bench --batch --compare" refuses 2 "--batch with --compare" bench -m "$1" --batch 2 --compare
    holds "bench --compare" prints '^no-fusion +[0-9]+' bench -m "$1" -p 4 -n 2 -r 1 --compare
}

test_synth() {
    local to=$folder/synth shape="--shape small --layers 4 --experts 8 --vocab 256"
    mkdir "$to"
    holds "synth" runs 0 synth $shape "$to/a.sluice"
    holds "synth reports its size" grep -qE 'a.sluice: [0-9.]+ MB' "$folder/stderr"
    holds "synth makes the shape that was asked for" prints '"layers": 4' info "$to/a.sluice" --json
    test_bench "$to/a.sluice"
    holds "synth again" runs 0 synth $shape "$to/b.sluice"
    holds "the same seed gives the same bytes" cmp "$to/a.sluice" "$to/b.sluice"
    holds "synth with a seed" runs 0 synth $shape "$to/c.sluice" --seed 1
    holds "another seed gives others" test "$(cmp -s "$to/a.sluice" "$to/c.sluice"; echo $?)" -eq 1
    rm -f "$to"/*
    holds "synth of true dimensions" runs 0 synth --shape qwen3.5-35b-a3b --layers 2 --experts 8 \
        --vocab 4096 "$to/d.sluice"
    holds "synth has the dimensions of the shape" prints '"hidden": 2048' info "$to/d.sluice" --json
    holds "a synthetic model of true dimensions runs" runs 0 bench -m "$to/d.sluice" -p 4 -n 2 -r 1
    rm -f "$to"/*
    holds "synth without a shape" refuses 2 "--shape" synth "$to/x.sluice"
    holds "synth of an unknown shape" refuses 1 "nothing.*medium" synth --shape nothing "$to/x.sluice"
    holds "synth of too few experts" refuses 1 "num_experts" synth --shape small --experts 2 "$to/x.sluice"
    holds "synth in an unknown quantisation" refuses 2 "--quant: expected q4.* got 'q5'" synth --shape small --quant q5 "$to/x.sluice"
    holds "nothing is left of what failed" is_empty "$to"
}

# ---- With the golden model ----

test_logits() {
    local out=$folder/logits.safetensors
    echo 1 2 3 4 5 >"$folder/ids"
    holds "logits" runs 0 logits -m "$golden" --tokens "$folder/ids" -o "$out" --hidden
    holds "logits are f32 [tokens, vocabulary]" python3 - "$golden" "$out" <<'PY'
import json, struct, sys
config = json.load(open(sys.argv[1] + "/config.json"))
config = config.get("text_config", config)
data = open(sys.argv[2], "rb").read()
header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
wanted = {"logits": [5, config["vocab_size"]], "hidden": [5, config["hidden_size"]]}
found = {k: v["shape"] for k, v in header.items() if k != "__metadata__"}
types = {v["dtype"] for k, v in header.items() if k != "__metadata__"}
sys.exit(not (found == wanted and types == {"F32"}))
PY
    holds "logits in chunks" runs 0 logits -m "$golden" --tokens "$folder/ids" \
        -o "$folder/chunks.safetensors" --hidden --chunk 2
    holds "logits in chunks are the same" python3 - "$out" "$folder/chunks.safetensors" <<'PY'
import array, struct, sys
def floats(path):
    data = open(path, "rb").read()
    return array.array("f", data[8 + struct.unpack("<Q", data[:8])[0]:])
a, b = map(floats, sys.argv[1:])
sys.exit(not (len(a) == len(b) and all(abs(x - y) <= 1e-4 for x, y in zip(a, b))))
PY
    holds "logits --layers" runs 0 logits -m "$golden" --tokens "$folder/ids" --chunk 2 \
        --layers "$folder/layers.safetensors"
    holds "logits --layers has all layers" python3 - "$folder/layers.safetensors" <<'PY'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
header.pop("__metadata__", None)
parts = {"input": "F32", "after_attention": "F32", "output": "F32", "experts": "I32", "expert_weights": "F32"}
wanted = {f"layers.{layer}.{name}": dtype for layer in range(4) for name, dtype in parts.items()}
sys.exit(not ({k: v["dtype"] for k, v in header.items()} == wanted and all(v["shape"][0] == 5 for v in header.values())))
PY
    holds "--hidden without its file" refuses 2 "-o FILE" logits -m "$golden" \
        --tokens "$folder/ids" --layers "$folder/layers.safetensors" --hidden
    rm -f "$out"
    echo 1 two 3 >"$folder/words"
    holds "a word that is no token" refuses 1 "word 2 .*'two'" logits -m "$golden" \
        --tokens "$folder/words" -o "$out"
    : >"$folder/nothing"
    holds "no tokens" refuses 1 "no token" logits -m "$golden" --tokens "$folder/nothing" -o "$out"
    echo 1 999999 >"$folder/large"
    holds "a token beyond the vocabulary" refuses 1 "999999" logits -m "$golden" \
        --tokens "$folder/large" -o "$out"
    holds "a context that is too small" refuses 1 "context" logits -m "$golden" \
        --tokens "$folder/ids" -o "$out" -c 2
    holds "a folder that is not there" refuses 1 "nowhere" logits -m "$golden" \
        --tokens "$folder/ids" -o "$folder/nowhere/x.safetensors"
    holds "no file is left of a failure" test ! -e "$out"
    holds "keys and values of no such type" refuses 2 "--kv: expected i16.* got 'q8'" info "$golden" --kv q8
    holds "a budget that is none" refuses 2 "--budget: expected a size .* got 'lots'" info "$golden" --budget lots
    holds "a budget that is too small" refuses 1 "budget" info "$golden" --budget 1
    holds "an unknown device" refuses 2 "--device: expected auto.* got 'gpu'" info "$golden" --device gpu
    holds "info" prints ' attention, ' info "$golden"
    holds "info --json" prints '"expert_bytes"' info "$golden" --json
    holds "bench --json" prints '"median_tokens_per_second"' bench -m "$golden" -p 8 -n 4 --json
    holds "perplexity" prints '^perplexity [0-9.]+ \(nll' perplexity -m "$golden" \
        --tokens "$golden/reference.safetensors:tokens"
    holds "perplexity of a tensor that is not there" refuses 1 "no tensor 'none'" perplexity \
        -m "$golden" --tokens "$golden/reference.safetensors:none"
}

# spoil KIND: a copy of the golden model with one thing wrong.
spoil() {
    local to=$folder/$1
    mkdir "$to"
    cp "$golden"/*.json "$to"
    python3 - "$1" "$golden/model.safetensors" "$to/model.safetensors" <<'PY'
import json, struct, sys
kind, source, to = sys.argv[1:]
data = open(source, "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8:8 + size]), data[8 + size:]
name = sorted(n for n in header if n.endswith("norm.weight"))[0]
if kind == "truncated":
    body = body[:len(body) // 2]
elif kind == "dtype":
    count = header[name]["shape"][0]
    header[name].update(dtype="I32", data_offsets=[len(body), len(body) + 4 * count])
    body += bytes(4 * count)
elif kind == "missing":
    del header[name]
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(to, "wb").write(struct.pack("<Q", len(text)) + text + body)
PY
}

# check_broken KIND PATTERN: running and packing both say so in one line, and leave nothing.
check_broken() {
    spoil "$1"
    mkdir "$folder/$1.out"
    holds "$1: running says so" refuses 1 "$2" \
        logits -m "$folder/$1" --tokens "$folder/ids" -o "$folder/$1.out/x.safetensors"
    holds "$1: packing says so" refuses 1 "$2" pack "$folder/$1" "$folder/$1.out/x.sluice"
    holds "$1: nothing is left" is_empty "$folder/$1.out"
}

test_broken_models() {
    check_broken truncated "model.safetensors: truncated"
    check_broken dtype "norm.weight' is i32"
    check_broken missing "norm.weight' is missing"
}

test_pack() {
    local pack=$folder/golden.sluice
    holds "pack" runs 0 pack "$golden" "$pack" --quant q8 --json
    holds "pack --json" says '"bits_per_weight": [1-9]'
    holds "... with the size of the file" says "\"file_bytes\": $(stat -c %s "$pack"),"
    holds "pack reports its size" grep -q 'bits per weight' "$folder/stderr"
    holds "a pack is verified" runs 0 pack --verify "$pack"
    holds "a pack runs" runs 0 logits -m "$pack" --tokens "$folder/ids" -o "$folder/packed.safetensors"
    holds "an unknown quantisation" refuses 2 "--quant.*q5" pack "$golden" "$folder/q5.sluice" --quant q5
    # The manifest stands at the end; what lies at half the file are experts.
    python3 - "$pack" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    data = bytearray(f.read())
    for i in range(len(data) * 4 // 10, len(data) * 6 // 10, 997):
        data[i] ^= 0x55
    f.seek(0)
    f.write(data)
PY
    holds "a damaged pack is found" refuses 1 "layer [0-9]+ expert [0-9]+.*checksum" pack --verify "$pack"
    holds "a corrupted block of a pack" refuses 1 "layer [0-9]+ expert [0-9]+.*checksum" \
        logits -m "$pack" --tokens "$folder/ids" -o "$folder/corrupt.safetensors"
    holds "a corrupted pack leaves no file" test ! -e "$folder/corrupt.safetensors"
}

test_full_disk() {
    local disk=$folder/disk
    mkdir "$disk"
    if [ "$(id -u)" -ne 0 ] || ! mount -t tmpfs -o size=64k none "$disk" 2>/dev/null; then
        skip "a full disk while packing" "a small tmpfs cannot be mounted here"
        return
    fi
    mounted=$disk
    holds "a full disk while packing" refuses 1 "No space" pack "$golden" "$disk/x.sluice"
    holds "a full disk is left empty" is_empty "$disk"
    holds "a full disk while synthesising" refuses 1 "No space" synth --shape small --layers 4 "$disk/x.sluice"
    holds "a full disk is left empty again" is_empty "$disk"
    if [ -c /dev/full ]; then
        "$program" ir ops >/dev/full 2>"$folder/stderr"
        holds "a full standard output is an error" grep -q 'standard output' "$folder/stderr"
    fi
}

# ---- With the bundled demo model ----

test_fable() {
    local model=models/fable
    holds "run" prints '[0-9a-zA-Z]' run -m $model -p 'What is 17 + 25?' --temp 0
    holds "run knows 17 + 25" says '42'
    holds "run --json" prints '"answer": ".*42' run -m $model -p 'What is 17 + 25?' --temp 0 --json
    holds "run --profile --trace" runs 0 run -m $model -p 'What is 17 + 25?' --temp 0 --profile \
        --trace "$folder/run.json" --budget 25%
    holds "run --profile keeps stdout clean" test "$(cat "$folder/stdout")" = "17 + 25 = 42."
    holds "run --profile lists every label" \
        test "$(grep -cE '^layer [0-7] experts moe_ffn ' "$folder/stderr")" -eq 16
    holds "run --trace has prefill, decode and reads" python3 - "$folder/run.json" <<'PY'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
kinds = {e.get("cat") for e in events}
assert {"prefill", "decode", "level", "read", "moe_ffn"} <= kinds, kinds
PY
    holds "run --profile --json has a window" runs 0 run -m $model -p 'What is 17 + 25?' --temp 0 --json \
        --profile --profile-labels 'layer 3 *' --trace-steps 2:4
    holds "only that window" python3 - "$folder/stdout" <<'PY'
import json, sys
p = json.load(open(sys.argv[1]))["profile"]
assert p["prefill"]["passes"] == 0 and p["decode"]["passes"] == 2 and p["passes"] > 4
assert p["decode"]["labels"] and all(r["name"].startswith("layer 3 ") for r in p["decode"]["labels"])
PY
    holds "a window without a profile" refuses 2 "with --profile or --trace only" \
        run -m $model -p hi --trace-steps 1:2
    holds "a window that is none" refuses 2 "--trace-steps: expected two whole numbers" \
        run -m $model -p hi --profile --trace-steps 2:2
    printf 'Hello!\nHello!\n' | "$program" chat -m $model --temp 0 --profile >"$folder/stdout" 2>"$folder/stderr"
    holds "chat --profile is of all answers" grep -q '^prefill  *2 forward passes' "$folder/stderr"
    holds "run --stats keeps stdout clean" runs 0 run -m $model -p 'Hello!' --stats
    holds "run --stats reports on stderr" grep -q 'tok/s' "$folder/stderr"
    holds "run -n" prints '"ended": "limit"' run -m $model -p 'Tell me a story.' -n 3 --json
    holds "run stops at the context" prints '"ended": "context"' run -m $model -c 24 --json \
        -p 'Tell me a story about a brave fox.'
    holds "a prompt that does not fit" refuses 1 "context holds 4" run -m $model -c 4 -p 'Hello!'
    printf 'What is 17 + 25?\n' | "$program" run -m $model --temp 0 >"$folder/stdout"
    holds "run reads standard input" says '42'
    printf 'Hello!\n/help\n"""\nWhat is\n17 + 25?\n"""\nWhat is \\\n17 + 25?\n/reset\n/exit\nno\n' |
        "$program" chat -m $model --temp 0 >"$folder/stdout" 2>"$folder/stderr"
    holds "chat answers three messages" test "$(wc -l <"$folder/stdout")" -eq 3
    holds "chat /help goes to stderr" grep -q '/reset' "$folder/stderr"
    printf '[{"type": "function", "function": {"name": "f"}}]' >"$folder/tools.json"
    printf '{}' >"$folder/wrong.json"
    holds "run --tools" runs 0 run -m $model -p 'Hello!' --tools "$folder/tools.json"
    holds "tools that are no list" refuses 1 "a JSON list of tools" run -m $model -p 'Hello!' --tools "$folder/wrong.json"
    holds "tools that are not there" refuses 1 "unable to open" run -m $model -p 'Hello!' --tools "$folder/none.json"
}

test_inspect() {
    local model=models/fable schedule
    for schedule in levels groups edges; do
        holds "inspect --schedule $schedule proves its program" prints 'verified +order' inspect -m $model \
            --tokens 9 --schedule $schedule --verify
    done
    holds "inspect without a model" prints '^steps +[0-9]+' inspect --shape qwen3.5-35b-a3b --tokens 64
    "$program" inspect --shape tests/data/inspect/config.json --steps >"$folder/steps.txt"
    holds "inspect --steps lists the program as in tests/data/inspect" \
        diff -u tests/data/inspect/steps.txt "$folder/steps.txt"
    "$program" inspect -m $model --steps --json --device cpu >"$folder/steps.json"
    holds "each step of fable has a label of its own" python3 - "$folder/steps.json" <<'PY'
import json, sys
steps = json.load(open(sys.argv[1]))
labels = [step["label"] for step in steps]
assert len(steps) > 100 and len(set(labels)) == len(labels)
assert "layer 3 attention q_proj+k_proj+v_proj" in labels
assert all(step["operands"] and step["index"] == i for i, step in enumerate(steps))
PY
    holds "inspect --json" prints '"barriers"' inspect -m $model --json
    holds "inspect draws" runs 0 inspect -m $model --trace "$folder/t.json" --memory "$folder/m.svg" \
        --dot "$folder/p.dot"
    holds "the trace has events" grep -q '"ph":"X"' "$folder/t.json"
    holds "the picture is closed" grep -q '</svg>' "$folder/m.svg"
    holds "the graph has edges" grep -q -e '->' "$folder/p.dot"
    holds "an unknown shape" refuses 1 "qwen3.5-35b-a3b" inspect --shape nothing
    holds "an unknown schedule" refuses 2 "levels" inspect -m $model --schedule nothing
    holds "a trace nowhere" refuses 1 "no/such" inspect -m $model --trace "$folder/no/such/t.json"
}

# shows NAME WANTED ARGUMENTS...: an example ends well and prints a line like that.
shows() {
    local example=$1 wanted=$2; shift 2
    "$examples/$example" "$@" >"$folder/stdout" 2>"$folder/stderr" && grep -qE "$wanted" "$folder/stdout"
}

test_examples() {
    local examples picture
    examples=$(dirname "$program")/examples
    holds "example: an MLP" shows graph_mlp '^0\.[0-9]+ 0\.[0-9]+ 0\.[0-9]+'
    holds "example: a convolutional net" shows conv_net '^0\.[0-9]+ '
    holds "example: a transformer block" shows transformer 'cpu and double precision are alike'
    holds "example: a solver" shows newton 'the cube root of 27 is 3$'
    holds "example: experts from a function" shows moe_experts '^2 slots, 6 reads'
    holds "example: training" shows train_mlp '^step 200: loss 0\.00'
    holds "example: several texts" shows together '^1[6-9] steps for [0-9]+ tokens$'
    holds "example: two graphs" shows two_graphs '^prefill with decode and one full pass agree$'
    holds "example: a tool call" shows tool_call "^arguments  *\"b\": 25\}$"
    if [ -n "${SLUICE_CUDA_EMULATOR:-}" ]; then
        LD_LIBRARY_PATH=${SLUICE_CUDA_EMULATOR%/*} \
            holds "example: two graphs on a GPU" shows two_graphs ' full pass agree$' cuda
        LD_LIBRARY_PATH=${SLUICE_CUDA_EMULATOR%/*} \
            holds "example: experts on a GPU" shows moe_experts '^2 slots, 8 reads' cuda
        LD_LIBRARY_PATH=${SLUICE_CUDA_EMULATOR%/*} \
            holds "example: training on a GPU" shows train_mlp '^step 200: loss 0\.00' cuda
    else
        skip "example: two graphs on a GPU" "no emulated driver was built"
    fi
    for picture in splat log_mel; do
        if [ -x "$examples/$picture" ]; then
            holds "example: $picture" shows $picture "^$folder/p.png: [0-9]+ x [0-9]+" "$folder/p.png"
            holds "$picture is a PNG file" test "$(head -c 4 "$folder/p.png" | tail -c 3)" = PNG
        else
            skip "example: $picture" "libpng was not found"
        fi
    done
}

test_help
test_examples
test_mistakes
test_unknown_architecture
test_tokenizer
test_ir
test_synth
if [ -d "$golden" ]; then
    test_logits
    test_broken_models
    test_pack
    test_full_disk
else
    skip "logits, broken models, packing" "$golden is not here"
fi
if ls models/fable/*.sluice >/dev/null 2>&1; then
    test_fable
    test_inspect
else
    skip "run and chat" "models/fable is not here"
fi
finish
