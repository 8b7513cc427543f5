#!/usr/bin/env bash
# Completion scripts and the manual page, which the program writes from its tables.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u

. tests/end_to_end/judge.sh

program=$(realpath "$program")

# ---- bash ----

holds "sluice completion bash" runs 0 completion bash
cp "$folder/stdout" "$folder/sluice.bash"
holds "... is bash" bash -n "$folder/sluice.bash"
compopt() { :; }
sluice() { "$program" "$@"; }
. "$folder/sluice.bash"

# completes LINE WANTED...: the words that complete the last of the line are these; a line that ends
# in a space is completed with a new word.
completes() {
    local line=$1 name; shift
    read -ra COMP_WORDS <<<"${line//=/ = }"
    [[ $line == *' ' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _sluice
    for name; do
        [[ " ${COMPREPLY[*]} " == *" $name "* ]] || { echo "# $line: ${COMPREPLY[*]}, wanted $name"; return 1; }
    done
}
only() { completes "$@" && [ ${#COMPREPLY[@]} -eq $(($# - 1)) ] || { echo "# $1: ${COMPREPLY[*]}"; return 1; }; }

holds "bash: the script is registered" bash -c '. "$1" && complete -p sluice' _ "$folder/sluice.bash" >/dev/null
holds "bash: commands" only "sluice per" perplexity
holds "bash: all commands" completes "sluice " run chat info list help
holds "bash: options" only "sluice run --top-" --top-k --top-p --top-n-sigma
holds "bash: options of that command only" only "sluice info --top-"
holds "bash: words" only "sluice run --kv " i16 f16 f32 auto
holds "bash: words that begin alike" only "sluice run --kv f" f16 f32
holds "bash: words after =" only "sluice run --kv=f" f16 f32
holds "bash: all words after =" only "sluice run --think=" on off hide
holds "bash: devices" completes "sluice bench --device " auto cpu
holds "bash: files" only "sluice run -f tests/end_to_end/comp" tests/end_to_end/completion_test.sh
holds "bash: models, by path" only "$program run -m models/fa" models/fable
holds "bash: models, by name" completes "$program info fab" fable
holds "bash: a number is not completed" only "sluice run --temp "
holds "bash: verbs of ir" only "sluice ir in" inspect
holds "bash: help" only "sluice help conf" config
holds "bash: shells" only "sluice completion " bash zsh fish
# Names of Ollama have a colon, at which bash divides words.
ollama() { echo qwen3:30b qwen3:8b; }
colon() {
    COMP_WORDS=(ollama "$@") COMP_CWORD=$#
    _sluice
}
divided() {
    colon run -m qwen3 : 3 && [ "${COMPREPLY[*]}" = 30b ] &&
        colon run -m qwen3 : && [ "${COMPREPLY[*]}" = "30b 8b" ] &&
        colon run --model = qwen3 : 8 && [ "${COMPREPLY[*]}" = 8b ] &&
        colon info qw && [ "${COMPREPLY[*]}" = "qwen3:30b qwen3:8b" ] || { echo "# ${COMPREPLY[*]}"; return 1; }
}
holds "bash: names with a colon" divided

# ---- Other shells ----

for shell in zsh fish; do
    holds "sluice completion $shell" runs 0 completion $shell
    cp "$folder/stdout" "$folder/sluice.$shell"
    if command -v $shell >/dev/null; then
        holds "... is $shell" $shell -n "$folder/sluice.$shell"
    else
        skip "... is $shell" "$shell is not installed"
    fi
done
if command -v fish >/dev/null; then
    fish_completes() { fish -c "source $folder/sluice.fish; complete -C '$1'" | cut -f 1 | tr '\n' ' '; }
    holds "fish: words" test "$(fish_completes 'sluice run --kv f')" = "f16 f32 "
    holds "fish: commands" test "$(fish_completes 'sluice perp')" = "perplexity "
    holds "fish: verbs of ir are not commands" test -z "$(fish_completes 'sluice ir run --top-')"
    holds "fish: help" test "$(fish_completes 'sluice help conf')" = "config "
    holds "fish: words and no files" test "$(fish_completes 'sluice completion ')" = "bash fish zsh "
    holds "fish: verbs and no files" test "$(fish_completes 'sluice ir inspect')" = "inspect "
fi
holds "an unknown shell" refuses 2 "expected bash, zsh or fish, got 'tcsh'" completion tcsh

# ---- The manual page ----

holds "sluice man" runs 0 man
cp "$folder/stdout" "$folder/sluice.1"
if command -v groff >/dev/null; then
    groff -man -ww -Tutf8 -P-c "$folder/sluice.1" >"$folder/page" 2>"$folder/warnings"
    holds "... is read by groff without a warning" test ! -s "$folder/warnings"
    head -3 "$folder/warnings"
    MANWIDTH=100 col -b <"$folder/page" >"$folder/text" 2>/dev/null || cp "$folder/page" "$folder/text"
    for command in $("$program" --help | sed -n 's/^  \([a-z]*\) .*/\1/p' | grep -vE '^(help|version)$'); do
        holds "... has $command" grep -qE "^ +sluice $command" "$folder/text"
    done
    holds "... has an option" grep -qE '^ +-m, --model PATH$' "$folder/text"
    holds "... has the commands that have it" grep -q '\[all commands\]' "$folder/text"
    holds "... has the configuration file" grep -q '\[chat\]' "$folder/text"
else
    skip "... is read by groff" "groff is not installed"
fi
finish
