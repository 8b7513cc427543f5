#!/usr/bin/env bash
# Answers that follow a grammar: --json-schema, --grammar, --regex, --choice.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u
. tests/end_to_end/judge.sh
model=models/fable
schema='{"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer","minimum":0,"maximum":120}},"required":["name","age"],"additionalProperties":false}'

# satisfies ARGUMENTS...: the answer is JSON with exactly these properties, in this order if it is to keep one.
satisfies() {
    runs 0 "$@" && python3 - "$folder/stdout" "$@" <<'PYTHON'
import json, sys
value = json.load(open(sys.argv[1]))
names = list(value) if "--json-ordered" in sys.argv else sorted(value, reverse=True)
assert names == ["name", "age"] and len(value["name"]) <= 20 and 0 <= value["age"] <= 120, value
PYTHON
}
# whole PATTERN ARGUMENTS...: the answer is one line that matches as a whole.
whole() {
    local pattern=$1; shift
    runs 0 "$@" && [ "$(grep -cE -- "^($pattern)$" "$folder/stdout")" -eq 1 ] && [ "$(wc -l <"$folder/stdout")" -le 1 ] ||
        { sed 's/^/# /' "$folder/stdout"; return 1; }
}

test_answers() {
    local seed
    printf '%s' "$schema" >"$folder/schema.json"
    printf 'root ::= word (" " word){2} "."\nword ::= [a-z]{1,9}\n' >"$folder/words.gbnf"
    holds "a schema as an argument" satisfies run -m $model --temp 0 --json-schema "$schema" 'Tell me about a fox.'
    for seed in 1 2 3; do
        holds "a schema from a file, seed $seed" satisfies run -m $model --temp 1 --seed $seed \
            --json-schema "$folder/schema.json" 'Tell me about a fox.'
        holds "properties in order, seed $seed" satisfies run -m $model --temp 1 --seed $seed --json-ordered \
            --json-schema "$schema" 'Tell me about a fox.'
        holds "a grammar, seed $seed" whole '[a-z]{1,9}( [a-z]{1,9}){2}\.' run -m $model --temp 1 --seed $seed \
            --grammar "$folder/words.gbnf" 'Hello'
        holds "a regular expression, seed $seed" whole '[A-Z][a-z]+ [0-9]{3}' run -m $model --temp 1 --seed $seed \
            --regex '[A-Z][a-z]{1,12} [0-9]{3}' 'Hello'
        holds "choices, seed $seed" whole 'yes|no|not yet' run -m $model --temp 1 --seed $seed \
            --choice 'yes,no,not yet' 'Is it so?'
    done
    holds "an answer is cut after -n tokens" prints '"ended": "limit"' run -m $model --json -n 3 --regex '[a-z]{90}' 'Hello'
}

test_refusals() {
    holds "an unsupported keyword is named" refuses 1 '#/items/uniqueItems' run -m $model \
        --json-schema '{"items":{"uniqueItems":true}}' 'Hello'
    holds "one grammar only" refuses 2 'only one of them' run -m $model --regex a --choice b 'Hello'
    holds "an order of nothing" refuses 2 'only with --json-schema' run -m $model --json-ordered --regex a 'Hello'
    holds "a file that is not there" refuses 1 'nothing.json' run -m $model --json-schema "$folder/nothing.json" 'Hello'
    holds "a malformed regular expression" refuses 1 "'\)' is missing" run -m $model --regex '(a' 'Hello'
}

test_answers
test_refusals
finish
