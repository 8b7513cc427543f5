#!/usr/bin/env bash
# The configuration file: what it sets, what is stronger, and mistakes in it.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u

. tests/end_to_end/judge.sh

fable=$PWD/models/fable
export SLUICE_CONFIG=$folder/config
config() { cat >"$SLUICE_CONFIG"; }
context_is() { local context=$1; shift; prints "\"context_tokens\": $context," info --json "$@"; }
mistaken() { config; refuses "$@" info; }
# ---- Order ----

printf '# comment\n\n  context =  128 \r\nmodel = %s\n[info]\ncontext=256\n[run]\ncontext = 512\nstats = on\n' "$fable" | config
holds "the section of a command is stronger than what stands above" context_is 256
holds "the command line is stronger than the file" context_is 64 -c 64
holds "--no-config leaves the file unread" context_is 4096 --no-config
holds "options of other commands are passed over" runs 0 run -n 1 hi
holds "... and those of this one are not" grep -q '^prefill' "$folder/stderr"
holds "--verbose names the file" prints . info -v
holds "... which it read" grep -q "settings of $SLUICE_CONFIG" "$folder/stderr"
(cd "$folder" && "$program" info >"$folder/stdout" 2>"$folder/stderr")
config <<<'model = /none'
holds "a model in the file" refuses 1 "/none: No such file" info
holds "... is a default only, which --shape may replace" runs 0 info --shape small
SLUICE_MODEL=$fable holds "the environment is stronger than the file" runs 0 info
config <<<$'[info]\nbudget = 20%\n'
SLUICE_BUDGET=40% "$program" info --json >"$folder/forty"
"$program" info --json --budget 40% --no-config >"$folder/wanted"
holds "... for a budget, too" cmp <(grep slot_count "$folder/forty") <(grep slot_count "$folder/wanted")
"$program" info --json >"$folder/twenty"
holds "a budget in the file is used" test "$(grep slot_count "$folder/twenty")" != "$(grep slot_count "$folder/forty")"
config <<<$'stats = on\n[run]\nstats = off'
runs 0 run -n 1 hi
holds "a section turns off what stands above" test -z "$(grep '^prefill' "$folder/stderr")"

# ---- Values ----

config <<<$'[run]\npredict = 4'
holds "numbers" prints . run "Tell me a story."
holds "... are used" grep -q 'cut after 4 tokens' "$folder/stderr"
config <<<$'model = ~/fable'
ln -s "$fable" "$folder/fable"
HOME=$folder holds "~ is the home folder" runs 0 info
config <<<$'[run]\nlogit-bias = 5=-1\nlogit-bias = 6=-1\nstop = " a # b"\nstop = c'
holds "options that may be repeated, quotes, and # in values" runs 0 run -n 1 hi

# ---- Mistakes ----

holds "an unknown option" mistaken 2 "config:2: no command has the option 'contxt'" <<<$'\ncontxt = 5'
holds "an option of another command" mistaken 2 "config:2: info has no option 'temp'" <<<$'[info]\ntemp = 5'
holds "an unknown command" mistaken 2 "config:1: there is no command 'walk'" <<<'[walk]'
holds "no value" mistaken 2 "config:1: 'context': expected option = value" <<<'context'
holds "a wrong value" mistaken 2 "config:3: context: expected a whole number, got 'x'" <<<$'#\n[info]\ncontext = x'
holds "a switch" mistaken 2 "config:1: json: expected on or off, got '1'" <<<'json = 1'
holds "twice" mistaken 2 "config:2: context is given twice" <<<$'context = 1\ncontext = 2'
holds "an open section" mistaken 2 "config:1: '\[info': a \] is missing" <<<'[info'
rm "$SLUICE_CONFIG"
holds "a file that is named but not there" refuses 2 "config: No such file" info

# ---- Places ----

unset SLUICE_CONFIG
export XDG_CONFIG_HOME=$folder/xdg HOME=$folder
mkdir -p "$folder/xdg/sluice" "$folder/.config/sluice"
holds "no file at all" context_is 4096
echo 'context = 32' >"$folder/.config/sluice/config"
holds "~/.config/sluice/config" context_is 32
echo 'context = 48' >"$folder/xdg/sluice/config"
holds "\$XDG_CONFIG_HOME/sluice/config comes first" context_is 48
export SLUICE_CONFIG=
holds "an empty \$SLUICE_CONFIG means none" context_is 4096
holds "help config" prints '^~/.config/sluice/config' help config

# ---- How much is said ----

says_why() { grep -qE -- "^note: $1" "$folder/stderr"; }
holds "--verbose" runs 0 run -v -n 1 --budget 50% -c 256 -t 1 hi
holds "... the model" says_why "model: .*fable .bundled.: qwen3_5_moe"
holds "... threads, and why" says_why "threads: 1 .--threads"
holds "... the budget, and why" says_why "budget: [0-9.]* MB, 12[0-9] of 256 experts in memory .--budget"
holds "... the context, and why" says_why "context: 256 tokens of at most 4096 .--context"
holds "... sampling" says_why "sampling: greedy"
holds "--quiet" runs 0 run --quiet -n 1 hi
holds "... prints nothing but the answer" test ! -s "$folder/stderr"
holds "--quiet of synth" runs 0 synth --quiet --json --shape small --layers 4 --experts 8 --vocab 256 "$folder/small.sluice"
holds "... prints nothing" test ! -s "$folder/stderr"
holds "... but what --json prints" says "\"file_bytes\": $(stat -c %s "$folder/small.sluice")$"
holds "--quiet still prints errors" refuses 1 "No such file" info --quiet /none
finish
