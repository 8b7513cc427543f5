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
    printf '/retry\nWhat is 17 + 25?\n/retry\nWhat is 2 + 3?\n/undo\n/undo\n/undo\n' |
        "$program" chat -m $model --temp 0 >"$folder/talk" 2>"$folder/stderr"
    holds "chat /retry answers again" test "$(cat "$folder/talk")" = $'17 + 25 = 42.\n17 + 25 = 42.\n2 + 3 = 5.'
    holds "chat /undo takes back" test "$(grep -c 'its answer are taken back' "$folder/stderr")" -eq 2
    holds "... until nothing is left" grep -q 'no message to take back' "$folder/stderr"
    holds "chat /retry of nothing" grep -q 'no message to answer' "$folder/stderr"
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

test_samplers() {
    local story='Tell me a story.'
    runs 0 run -m $model --temp 0 -n 30 "$story"
    cp "$folder/stdout" "$folder/first"
    holds "a penalty of 1 changes nothing" runs 0 run -m $model --temp 0 -n 30 --repeat-penalty 1 --top-n-sigma 0 "$story"
    holds "and gives the same answer" cmp "$folder/first" "$folder/stdout"
    holds "--stop ends an answer before the text" runs 0 run -m $model --temp 0 --json --stop ' lived' --stop zzz "$story"
    holds "and is told" is ended '"stop"'
    holds "which comes to there" is answer "$(python3 -c 'import json, sys; print(json.dumps(open(sys.argv[1]).read().split(" lived")[0]))' "$folder/first")"
    holds "a ban" runs 0 run -m $model --temp 0 -n 30 --logit-bias ' lived=-inf' "$story"
    holds "is obeyed" sh -c '! grep -q " lived" "$1"' - "$folder/stdout"
    holds "--ignore-eos goes on" runs 0 run -m $model --temp 0 -n 40 --ignore-eos --json 'What is 17 + 25?'
    holds "until -n" is ended '"limit"'
    holds "--min-tokens too" runs 0 run -m $model --temp 0 -n 40 --min-tokens 20 --json 'What is 17 + 25?'
    holds "for so long" python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))["tokens"]) >= 20' "$folder/stdout"
    holds "all samplers" runs 0 run -m $model --temp 1.2 --seed 3 -n 30 --stats --repeat-penalty 1.1 --repeat-last-n -1 \
        --presence-penalty 0.2 --frequency-penalty 0.1 --penalty-prompt --dry-multiplier 0.8 --dry-base 1.5 \
        --dry-allowed-length 3 --dry-penalty-last-n -1 --dry-sequence-breaker . --typical 0.9 --top-n-sigma 2 \
        --xtc-probability 0.5 --xtc-threshold 0.2 --dynatemp-range 0.3 --dynatemp-exp 1.2 \
        --samplers 'penalties;dry;top_k;typ_p;xtc;temperature' "$story"
    holds "are told" grep -qE '^sampling: .*repeat-penalty 1.1.*xtc-threshold 0.2.*chosen by the host \(repeat_penalty\)' "$folder/stderr"
    cp "$folder/stdout" "$folder/first"
    holds "mirostat" runs 0 run -m $model --temp 1.2 --seed 3 -n 30 --mirostat 2 --mirostat-ent 3 --mirostat-lr 0.2 "$story"
    holds "log-probabilities" runs 0 run -m $model --temp 1 --seed 3 -n 12 --json --logprobs 3 "$story"
    holds "are of the tokens" python3 - "$folder/stdout" <<'PY'
import json, math, sys
run = json.load(open(sys.argv[1]))
assert [item["id"] for item in run["logprobs"]] == run["tokens"]
for item in run["logprobs"]:
    top = item["top_logprobs"]
    assert len(top) == 3 and -9999 <= item["logprob"] <= 0 and bytes(item["bytes"]).decode() == item["token"]
    assert sum(math.exp(t["logprob"]) for t in top) < 1 + 1e-9 and top[0]["logprob"] >= top[1]["logprob"]
PY
    holds "of the prompt" runs 0 run -m $model --temp 0 -n 2 --json --prompt-logprobs 2 "$story"
    holds "are of its tokens" python3 - "$folder/stdout" <<'PY'
import json, math, sys
run = json.load(open(sys.argv[1]))
items = run["prompt_logprobs"]
assert len(items) == run["prompt_tokens"] - 1
for item in items:
    top = item["top_logprobs"]
    assert len(top) == 2 and top[0]["logprob"] >= top[1]["logprob"] and top[0]["logprob"] >= item["logprob"]
assert math.exp(-sum(item["logprob"] for item in items) / len(items)) < 1280
PY
    holds "a limit for thoughts" runs 0 run -m $model --temp 0 -n 12 --raw --json --think-budget 2 'snail.<think>'
    holds "ends them" python3 - "$folder/stdout" $("$program" tokenize -m $model --ids '</think>') <<'PY'
import json, sys
end = [int(id) for id in sys.argv[2:]]
tokens = json.load(open(sys.argv[1]))["tokens"]
assert len(end) > 1 and tokens[2:2 + len(end)] == end and tokens[:1] != end[:1], tokens
PY
    holds "a wrong value" refuses 2 "wanted a number from 0.01 to 100" run -m $model --repeat-penalty 0 hi
    holds "an unknown sampler" refuses 2 "sampler 'foo' is unknown" run -m $model --samplers 'top_k;foo' hi
    holds "an empty stop text" refuses 1 'stop text 0 is empty' run -m $model --stop '' hi
    holds "a token that is none" refuses 1 'logit_bias of token 99999999' run -m $model --logit-bias 99999999=1 hi
    holds "--logprobs alone" refuses 2 '--logprobs needs --json' run -m $model --logprobs 2 hi
    holds "and of the prompt" refuses 2 '--prompt-logprobs needs --json' run -m $model --prompt-logprobs 2 hi
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
    holds "--think-budget" runs 0 run -m "$folder/thinker" --temp 0 --think-budget 3 -n 20 --json 'What is 17 + 25?'
    holds "ends a thought that the template began" python3 - "$folder/stdout" \
        $("$program" tokenize -m "$folder/thinker" --ids '</think>') <<'PY'
import json, sys
end = [int(id) for id in sys.argv[2:]]
tokens = json.load(open(sys.argv[1]))["tokens"]
assert tokens[3:3 + len(end)] == end, tokens
PY
    holds "--stop is not for thoughts" runs 0 run -m "$folder/thinker" --temp 0 -n 20 --json --stop e --stop 4 'What is 17 + 25?'
    holds "which go on" sh -c 'grep -q "\"thinking\": \".*e.*e" "$1" && ! grep -q "\"ended\": \"stop\"" "$1"' - "$folder/stdout"
    holds "--template-arg" runs 0 run -m "$folder/thinker" --temp 0 --think off --template-arg effort=high -n 1 --json Hi
    local high; high=$(field prompt_tokens)
    runs 0 run -m "$folder/thinker" --temp 0 --think off -n 1 --json Hi
    holds "reaches the template" test "$high" -gt "$(field prompt_tokens)"
}

# The demo model with a token that is spelled as a call of a tool: " =", which it says in a sum.
make_caller() {
    mkdir -p "$folder/caller"
    ln -sf "$(realpath "$shared/models/fable")"/*.safetensors "$(realpath "$shared/models/fable")"/*.json "$folder/caller"
    rm "$folder/caller/tokenizer.json"
    cat >"$folder/caller/chat_template.jinja" <<'JINJA'
{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content }}
{%- for c in m.tool_calls or [] %}{{- '<tool_call>' + c.function.name + '</tool_call>' }}{% endfor %}
{{- '<|im_end|>\n' }}{% endfor %}{{- '<|im_start|>assistant\n' }}
JINJA
    python3 - "$shared/models/fable/tokenizer.json" "$folder/caller/tokenizer.json" <<'PY'
import json, sys
tokenizer = json.load(open(sys.argv[1]))
model, added = tokenizer["model"], tokenizer["added_tokens"]
name = "\u0120="
pieces = lambda merge: merge.split(" ") if isinstance(merge, str) else merge
added.append({**added[-1], "id": model["vocab"].pop(name), "special": False,
              "content": '<tool_call>{"name": "add", "arguments": {"a": 17}}</tool_call>'})
model["merges"] = [m for m in model["merges"] if name not in pieces(m) and "".join(pieces(m)) != name]
json.dump(tokenizer, open(sys.argv[2], "w"))
PY
}

test_tools() {
    local question='What is 17 + 25?'
    make_caller
    echo '[{"type": "function", "function": {"name": "add"}}]' >"$folder/tools.json"
    holds "a call is a line" runs 0 run -m "$folder/caller" --temp 0 --tools "$folder/tools.json" "$question"
    holds "apart from the answer" test "$(cat "$folder/stdout")" = '17 + 25
call 1: add {"a": 17}
 42.'
    holds "without --tools it is text" prints '25<tool_call>.*</tool_call> 42' run -m "$folder/caller" --temp 0 "$question"
    holds "tool_calls in JSON" runs 0 run -m "$folder/caller" --temp 0 --json --tools "$folder/tools.json" "$question"
    holds "have id, name and arguments" python3 - "$folder/stdout" <<'PY'
import json, sys
run = json.load(open(sys.argv[1]))
call, = run["tool_calls"]
assert run["answer"] == "17 + 25 42." and call["id"].startswith("call_") and call["type"] == "function", run
assert call["function"]["name"] == "add" and json.loads(call["function"]["arguments"]) == {"a": 17}, run
PY
    echo 42 >"$folder/result"
    printf '%s\n' "$question" '/tool 2 x' '/tool one x' "/tool 1 @$folder/result" '/tool 1 x' "$question" 'Hello!' |
        "$program" chat "$folder/caller" --temp 0 --tools "$folder/tools.json" >"$folder/stdout" 2>"$folder/stderr"
    holds "chat takes results" test $? -eq 0
    holds "and goes on" test "$(grep -c Hello "$folder/stdout")" -ge 1
    holds "chat says how" grep -q '/tool 1 RESULT' "$folder/stderr"
    holds "a call that is none" test "$(grep -c 'expected /tool N' "$folder/stderr")" -eq 2
    holds "a result too many" grep -q 'no call waits' "$folder/stderr"
    runs 0 run -m $model -n 1 --tools "$folder/tools.json" Hi
    holds "a template without calls is noted" grep -q 'no known form of tool calls' "$folder/stderr"
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
    test_samplers
    test_special_tokens
    test_scores
else
    skip "prompts" "$model is not here"
fi
test_synthetic
if [ -d "$shared/models/fable" ]; then
    test_thoughts
    test_tools
    test_broken_template
    test_gguf
else
    skip "thoughts, GGUF" "$shared/models/fable is not here"
fi
finish
