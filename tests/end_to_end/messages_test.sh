#!/usr/bin/env bash
# What the program says: help, exit codes, messages, and that nothing given is ignored in silence.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u
. tests/end_to_end/judge.sh
model=models/fable

# narrow ARGUMENTS...: no line is longer than 100 columns.
narrow() {
    runs 0 "$@" || return 1
    awk 'length($0) > 100 { print "# " length($0) " columns: " $0; bad = 1 } END { exit bad }' "$folder/stdout"
}
# fed TEXT ARGUMENTS...: with this on standard input.
fed() {
    local text=$1; shift
    printf "$text" | "$program" "$@" >"$folder/stdout" 2>"$folder/stderr"
}
# notes PATTERN ARGUMENTS...: succeeds, and says so on stderr.
notes() {
    local pattern=$1; shift
    runs 0 "$@" && grep -qE -- "$pattern" "$folder/stderr" || { sed 's/^/# /' "$folder/stderr"; return 1; }
}

test_help() {
    local command
    for command in run chat serve logits perplexity tokenize info pack synth bench inspect ir; do
        holds "help of $command fits 100 columns" narrow "$command" --help
        holds "help of $command has an example" says "^example: sluice $command"
        holds "help of $command has groups" says '^Output:$'
    done
    holds "help has notes of its own command only" runs 0 run --help
    holds "help of run does not speak of bench or ir" test "$(grep -cE 'bench|\bir\b' "$folder/stdout")" -eq 0
    holds "help names the default of sampling" says "temperature.*default"
    holds "ir --help explains its verbs" prints '^  diff FILE +compare' ir --help
    holds "help of an unknown command fails" refuses 2 "no command 'foo'" help foo
    for command in -V version --version; do holds "sluice $command" prints '^sluice [0-9]' $command; done
}

test_values() {
    local wrong
    for wrong in "--temp -1" "--temp abc" "--top-p 2" "--min-p x" "--top-k -3" "--kv q8" "--device metal" \
        "--budget 2zib" "--isa z80" "--reader x" "--seed -2" "--think maybe" "--template-arg x"; do
        set -- $wrong
        # A model that does not exist: the value is looked at first.
        holds "run $wrong is refused, and blamed" refuses 2 "^sluice: $1: expected .*, got '$2'" \
            run -m "$folder/none" -p hi $wrong
    done
    holds "the message says what is expected" refuses 2 "--temp: expected a number.*, got 'abc'" run --temp abc
    for wrong in 8mb 8MB 8m 8MiB 8mib 8000000 '25%' '8 mb'; do
        holds "--budget '$wrong'" runs 0 info $model --budget "$wrong"
    done
    holds "an option twice" refuses 2 "--prompt is given twice" run -p a -p b
    holds "a model twice" refuses 2 "the model is given twice" info -m $model $model
    holds "what comes after -- is an argument" refuses 2 "unexpected argument '--temp'" run -m $model hi -- --temp
}

test_ignored() {
    holds "--raw with --system" refuses 2 "--system" run -m $model --raw --system x -p hi
    holds "--raw with --think" refuses 2 "--think" run -m $model --raw --think on -p hi
    holds "an empty prompt" refuses 2 "the prompt is empty" run -m $model -p ''
    holds "empty standard input" refuses 2 "the prompt is empty" run -m $model
    holds "a device budget without a GPU" notes "device budget has no effect" \
        run -m $model --device cpu --device-budget 1GiB -p 'Hello!'
    holds "--think where a template has no choice" notes "--think off has no effect" \
        run -m $model --think off -p 'Hello!'
    holds "--top-k without a temperature" notes "no effect with temperature 0" run -m $model --top-k 3 -p 'Hello!'
    holds "--quiet prints no notes" runs 0 run -m $model --quiet --think off --top-k 3 -n 3 -p 'Tell me a story.'
    holds "--quiet leaves stderr empty" test ! -s "$folder/stderr"
    holds "--verbose says what is opened" notes "$model .*: qwen3_5_moe" run -m $model --verbose -p 'Hello!'
    holds "an answer that is cut is noted" notes "cut after 3 tokens" run -m $model -n 3 -p 'Tell me a story.'
    fed 'What is 17 + 25?\r\n' run -m $model --temp 0
    holds "CRLF is a line's end" says '42'
}

test_arguments() {
    echo 'graph "g" { input %x : f32[2] output "z" = %x }' >"$folder/id.ir"
    holds "a model before the prompt" refuses 2 "unexpected argument 'hi' .give the model with -m" run $model hi
    holds "two prompts" refuses 2 "unexpected argument 'there' .put quotes" run hi there
    holds "ir run of two files" refuses 2 "unexpected argument 'b'" ir run "$folder/id.ir" b
    holds "ir ops of a file" refuses 1 "unknown op 'a'" ir ops a
    holds "ir ops of two names" refuses 2 "unexpected argument 'sub'" ir ops add sub
    holds "tokenize --decode --ids" refuses 2 "for encoding" tokenize --decode --ids 1
    holds "perplexity of a file without a name" refuses 2 "--tokens: expected FILE:NAME, got 'x'" perplexity --tokens x
}

test_environment() {
    SLUICE_MODEL=$folder/absent holds "SLUICE_MODEL is the model" refuses 1 "$folder/absent" run -p hi
    SLUICE_MODEL=$folder/absent holds "-m wins over it" runs 0 run -m $model -p 'Hello!'
    SLUICE_MODEL=$folder/absent holds "inspect --shape wants none" runs 0 inspect --shape small
    SLUICE_BUDGET=25% holds "SLUICE_BUDGET is the budget" prints '"slot_count": 63' info $model --json
    SLUICE_BUDGET=lots holds "SLUICE_BUDGET is blamed" refuses 2 "^sluice: SLUICE_BUDGET: expected" info $model
    mkdir "$folder/alone"
    cp "$program" "$folder/alone/sluice"
    (cd "$folder/alone" && ./sluice run -p hi >/dev/null 2>"$folder/stderr")
    holds "no model and no bundled one" grep -q "no model is given" "$folder/stderr"
}

test_ends() {
    local code
    "$program" ir ops --markdown 2>"$folder/stderr" | head -1 >/dev/null
    code=${PIPESTATUS[0]}
    holds "a closed pipe ends it without a word" test ! -s "$folder/stderr"
    holds "as SIGPIPE does, or well" test "$code" -eq 141 -o "$code" -eq 0
    python3 - "$program" "$folder/big.sluice" <<'PY'
import signal, subprocess, sys, time
p = subprocess.Popen([sys.argv[1], "synth", "--shape", "medium", sys.argv[2]], stderr=subprocess.DEVNULL)
time.sleep(0.5)
p.send_signal(signal.SIGINT)
sys.exit(p.wait() != 130)
PY
    holds "Ctrl-C in synth ends it with 130" test $? -eq 0
    holds "and leaves no file" test -z "$(ls "$folder" | grep big)"
    "$program" run -m $model --temp 0 -p 'What is 17 + 25?' --stats >"$folder/both" 2>&1
    holds "the answer comes before the statistics" test "$(sed -n 1p "$folder/both")" = "17 + 25 = 42."
}

test_models() {
    mkdir "$folder/clone"
    echo '{"model_type": "qwen3_moe"}' >"$folder/clone/config.json"
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n' >"$folder/clone/model.safetensors"
    holds "a git-lfs pointer" refuses 1 "git lfs pull" info "$folder/clone"
    holds "config.json is not a model" refuses 1 "give the folder" info "$folder/clone/config.json"
    holds "nor is a shard" refuses 1 "give the folder" info "$folder/clone/model.safetensors"
    printf garbage >"$folder/other"
    holds "a file is named with its folder" refuses 1 "$folder/other: not a sluice pack" info "$folder/other"
}

test_ir() {
    local source=$folder/add.ir
    echo 'graph "g" { input %x : f32[2] input %y : f32[2] %z = add(%x, %y) output "z" = %z }' >"$source"
    holds "ir ops --json" prints '"name": "softmax"' ir ops --json
    holds "it is JSON" python3 -m json.tool "$folder/stdout" /dev/null
    holds "ir fmt --json" prints '"text"' ir fmt --json "$source"
    holds "it is JSON" python3 -m json.tool "$folder/stdout" /dev/null
    holds "ir diff --json" prints '"same": true' ir diff --json "$source"
    holds "it is JSON" python3 -m json.tool "$folder/stdout" /dev/null
    python3 - "$folder/x.safetensors" <<'PY'
import struct, sys
header = b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
open(sys.argv[1], "wb").write(struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, 2))
PY
    holds "an input that the data lacks" refuses 1 "x.safetensors has no input 'y'" \
        ir run "$source" --data "$folder/x.safetensors"
    holds "--random invents it" notes "random values are used for y" \
        ir run "$source" --data "$folder/x.safetensors" --random
}

test_info_and_bench() {
    holds "info tells what is active" prints 'active per token, [0-9.]+ bits' info $model
    holds "info tells the sampling" says '^sampling +greedy'
    holds "info tells of tokenizer and template" says 'tokenizer: yes, chat template: yes'
    holds "info tells the free memory" says '^free memory +[0-9.]+ [MGT]B'
    holds "info --shape needs no model" prints '^parameters +34.7 G, 3.4[0-9] G active' \
        info --shape qwen3.5-35b-a3b
    holds "bench MODEL" narrow bench $model -p 4 -n 2 -r 1 --budget 25%
    holds "bench names the model" says "^$model: [0-9.]+ MB, 16.2 M parameters, sluice [0-9]"
    holds "bench speaks of limits" says ' limit +reached'
    holds "bench --csv" prints '^model,version,' bench $model -p 4 -n 2 -r 1 --csv
    holds "bench --csv has numbers" says "^$model,[0-9.]+,[0-9]+,[a-z]+,,decode,"
    holds "bench --markdown" prints '^\| models/fable \|' bench $model -p 4 -n 2 -r 1 --markdown
    holds "bench --json names the model" prints '"model": "models/fable"' bench $model -p 4 -n 2 -r 1 --json
    local start=$SECONDS
    holds "bench finds a missing model" refuses 1 "none" bench "$folder/none"
    holds "bench finds a context that is too long" refuses 1 "context" bench $model --depth 100000000
    holds "both before it measures" test $((SECONDS - start)) -lt 3
    holds "inspect MODEL" runs 0 inspect $model
}

test_help
test_values
test_arguments
test_models
test_ir
if ls $model/*.sluice >/dev/null 2>&1; then
    test_ignored
    test_environment
    test_ends
    test_info_and_bench
else
    skip "the rest" "$model is not here"
fi
finish
