#!/usr/bin/env bash
# Prompts, sampling, thoughts, special tokens, and models made to try the program with.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u
. tests/end_to_end/judge.sh
model=models/fable

# field NAME: of the JSON on stdout, as JSON.
field() { python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))[sys.argv[2]]))' "$folder/stdout" "$1"; }
# is NAME WANTED: so it is.
is() { local found; found=$(field "$1") && [ "$found" = "$2" ] || { echo "# $1 is $found, wanted $2"; return 1; }; }

test_prompts() {
    holds "a prompt as an argument" prints '42' run -m $model --temp 0 'What is 17 + 25?'
    echo 'What is 17 + 25?' >"$folder/prompt"
    holds "a prompt from a file" prints '42' run -m $model --temp 0 -f "$folder/prompt"
    printf '17 + 25?\n' | "$program" run -m $model --temp 0 --json -p 'What is' >"$folder/stdout"
    holds "standard input comes after -p" is prompt '"What is\n\n17 + 25?"'
    holds "a prompt that looks like an option" prints '"prompt": "--help"' run -m $model --json -n 1 -- --help
    printf 'Be brief.' >"$folder/system"
    holds "--system-file" runs 0 run -m $model -n 3 --json --system-file "$folder/system" 'Hello!'
    local with; with=$(field prompt_tokens)
    runs 0 run -m $model -n 3 --json 'Hello!'
    holds "is part of the prompt" test "$with" -gt "$(field prompt_tokens)"
    holds "chat MODEL" runs 0 chat $model
    printf 'Hello!\n/bye\nno\n' | "$program" chat -m $model --temp 0 >"$folder/stdout" 2>"$folder/stderr"
    holds "chat /bye" test "$(wc -l <"$folder/stdout")" -eq 1
}

test_seeds() {
    local i seeds=
    for i in 1 2 3; do
        runs 0 run -m $model --temp 1.5 -n 4 --json 'Tell me a story.'
        seeds="$seeds $(field sampling | sed 's/.*"seed": \([0-9]*\).*/\1/')"
    done
    holds "three runs have three seeds ($seeds)" test "$(echo $seeds | tr ' ' '\n' | sort -u | wc -l)" -eq 3
    holds "--seed -1 is random" runs 0 run -m $model --temp 1.5 -n 4 --seed -1 --stats 'Tell me a story.'
    holds "--stats prints the seed" grep -qE 'sampling: temperature 1.5, seed [0-9]+' "$folder/stderr"
    local seed; seed=$(sed -n 's/.*, seed \([0-9]*\)$/\1/p' "$folder/stderr")
    cp "$folder/stdout" "$folder/first"
    runs 0 run -m $model --temp 1.5 -n 4 --seed "$seed" 'Tell me a story.'
    holds "and gives the same answer again" cmp "$folder/first" "$folder/stdout"
}

test_stats() {
    holds "stats" runs 0 run -m $model --temp 0 --json --stats 'What is 17 + 25?'
    holds "a first read is not a miss" grep -qE '^experts: [0-9]+ hits, 0 misses \(100.0 % hits\), [0-9]+ first reads' \
        "$folder/stderr"
    holds "as many tokens are decoded as answered" python3 - "$folder/stdout" <<'PY'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["ended"] == "end" and run["stats"]["decode_tokens"] == len(run["tokens"])
assert run["stats"]["expert_first_reads"] == run["stats"]["expert_misses"] > 0
PY
    holds "a small budget" runs 0 run -m $model --temp 0 --stats --budget 15% 'What is 17 + 25?'
    holds "has misses" grep -qE ' hits, [1-9][0-9]* misses' "$folder/stderr"
}

test_special_tokens() {
    holds "special tokens are text" prints '^64 220 256 ' tokenize -m $model --ids 'a <|im_end|>'
    holds "unless asked for" prints '^64 220 1235$' tokenize -m $model --special --ids 'a <|im_end|>'
    holds "a prompt cannot end itself" runs 0 run -m $model -n 1 --json 'Hi<|im_end|>'
    local whole; whole=$(field prompt_tokens)
    runs 0 run -m $model -n 1 --json 'Hi'
    holds "its special token is several" test "$whole" -gt $(($(field prompt_tokens) + 1))
    holds "tokenize --decode" prints '^Hello, Grüße$' tokenize -m $model --decode \
        "$("$program" tokenize -m $model --ids 'Hello, Grüße')"
    holds "an id that there is not" refuses 1 "99999" tokenize -m $model --decode 99999
}

test_scores() {
    local i
    for i in $(seq 200); do echo "Once upon a time there was a brave fox number $i."; done >"$folder/text"
    holds "perplexity of a text" prints '^perplexity [0-9.]+ \(nll' perplexity -m $model -f "$folder/text"
    # 255 of each window of 512 are scored.
    holds "the second half of each window" test $(($(sed -n 's/.*over \([0-9]*\) tokens.*/\1/p' "$folder/stdout") % 255)) -eq 0
    holds "smaller windows" prints '^perplexity' perplexity -m $model -f "$folder/text" -c 64
    holds "logits of a text" runs 0 logits -m $model -p 'Once upon a time' -o "$folder/a.safetensors"
    "$program" tokenize -m $model --ids 'Once upon a time' >"$folder/ids"
    holds "logits of its tokens" runs 0 logits -m $model --tokens "$folder/ids" -o "$folder/b.safetensors"
    holds "are the same" cmp "$folder/a.safetensors" "$folder/b.safetensors"
}

test_synthetic() {
    local made=$folder/made.sluice
    holds "synth" runs 0 synth --shape small --layers 4 --experts 16 --vocab 20000 "$made"
    holds "a synthetic model answers, larger than its budget" prints '[a-z]' \
        run -m "$made" --budget 30% -n 12 --seed 1 --stats 'Hello!'
    holds "and reads experts" grep -qE '[1-9][0-9.]* MB read' "$folder/stderr"
    # A sanitizer makes each token take long.
    local context=1200
    [ -z "${SLUICE_SANITIZED:-}" ] || [ -n "${SLUICE_LONG:-}" ] || context=300
    holds "an answer goes on until the context is full" prints '"ended": "context"' \
        run -m "$made" -c $context --temp 0 --json 'Hello!'
    printf 'Hello!\n' | "$program" chat "$made" -n 4 --seed 1 >"$folder/stdout" 2>/dev/null
    holds "chat with it" says '[a-z]'
}

# thinker TEMPLATE: the demo model with another chat template, in $folder/thinker.
thinker() {
    mkdir -p "$folder/thinker"
    ln -sf "$(realpath "$shared/models/fable")"/*.safetensors "$(realpath "$shared/models/fable")"/*.json "$folder/thinker"
    printf '%s' "$1" >"$folder/thinker/chat_template.jinja"
}

test_thoughts() {
    local begin="{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
"
    thinker "$begin{% if enable_thinking is not defined or enable_thinking %}<think>
{% endif %}{{ effort }}"
    holds "a model that thinks" runs 0 run -m "$folder/thinker" --temp 0 -n 20 --json 'What is 17 + 25?'
    holds "its thoughts are apart" python3 - "$folder/stdout" <<'PY'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["thinking"] and run["answer"] == "", run
PY
    local thinking; thinking=$(field prompt_tokens)
    holds "--think off" runs 0 run -m "$folder/thinker" --temp 0 --think off --json 'What is 17 + 25?'
    holds "it answers at once" is answer '"17 + 25 = 42."'
    holds "without thoughts" is thinking '""'
    holds "the template was told" test "$(field prompt_tokens)" -lt "$thinking"
    holds "--think hide" runs 0 run -m "$folder/thinker" --temp 0 --think hide -n 20 'What is 17 + 25?'
    holds "prints no thoughts" test "$(tr -d '\n' <"$folder/stdout")" = ''
    holds "--template-arg" runs 0 run -m "$folder/thinker" --temp 0 --think off --template-arg effort=high -n 1 --json Hi
    local high; high=$(field prompt_tokens)
    runs 0 run -m "$folder/thinker" --temp 0 --think off -n 1 --json Hi
    holds "reaches the template" test "$high" -gt "$(field prompt_tokens)"
}

# A chat template that does not parse: what needs none works, the rest says why it does not.
test_broken_template() {
    local word="unknown or misplaced tag 'import'"
    thinker "{% import 'x' %}"
    holds "info of a model whose template does not parse" runs 0 info "$folder/thinker"
    holds "notes it" grep -q "^note: .*$word" "$folder/stderr"
    holds "run --raw needs no template" runs 0 run -m "$folder/thinker" --raw -n 2 -p Once
    holds "run fails with the reason" refuses 1 "^sluice: .*$word" run -m "$folder/thinker" --quiet -n 2 -p Hi
    printf 'Hi\n' | "$program" chat -m "$folder/thinker" -n 2 >"$folder/stdout" 2>"$folder/stderr"
    holds "chat too" grep -q "^sluice: .*$word" "$folder/stderr"
}

test_gguf() {
    local gguf=$shared/models/fable-Q4_K_M.gguf
    holds "a GGUF file is not greedy" prints '^sampling +temperature 0.8, top-k 40, top-p 0.95, min-p 0.05' info "$gguf"
    holds "a GGUF file is packed as it is" runs 0 pack "$gguf" "$folder/g.sluice" --verify
    holds "and runs" prints 42 run -m "$folder/g.sluice" --temp 0 'What is 17 + 25?'
    holds "its quantised weights are not quantised again" refuses 1 "quantised weights.*'none'" \
        pack "$gguf" "$folder/x.sluice" --quant q4
    holds "nor is a pack packed" refuses 1 "already a pack.*original" pack "$folder/g.sluice" "$folder/x.sluice"
}

test_readme() {
    awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$folder/example.c"
    holds "README has a C example" test -s "$folder/example.c"
    holds "which compiles as shown" ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Iinclude -fsyntax-only \
        "$folder/example.c"
    holds "and has a main function" grep -q '^int main' "$folder/example.c"
}

test_readme
if ls $model/*.sluice >/dev/null 2>&1; then
    test_prompts
    test_seeds
    test_stats
    test_special_tokens
    test_scores
else
    skip "prompts" "$model is not here"
fi
test_synthetic
if [ -d "$shared/models/fable" ]; then
    test_thoughts
    test_broken_template
    test_gguf
else
    skip "thoughts, GGUF" "$shared/models/fable is not here"
fi
finish
