# judge.sh - What the end-to-end tests share: running the program and judging what it did.
# Wants $SLUICE_PROGRAM; run from the root of the repository.  A test ends with `finish`.
unset SLUICE_MODEL SLUICE_BUDGET NO_COLOR
export SLUICE_CONFIG=

program=${SLUICE_PROGRAM:?the path of the program to test}
shared=${SLUICE_SHARED:-../shared}
golden=$shared/models/golden/qwen3_5_moe_a
folder=$(mktemp -d)
mounted=
passed=0 failed=0

clean_up() {
    if [ -n "$mounted" ]; then umount "$mounted"; fi
    rm -rf "$folder"
}
trap clean_up EXIT

# ---- Judging ----

ok() { passed=$((passed + 1)); echo "ok - $1"; }
not_ok() { failed=$((failed + 1)); echo "not ok - $1"; }
skip() { echo "skipped - $1: $2"; }

# holds NAME COMMAND...: the command succeeds.
holds() {
    local name=$1; shift
    if "$@"; then ok "$name"; else not_ok "$name"; fi
}

# runs WANTED ARGUMENTS...: the program ends with this exit code; stdout and stderr are kept.
runs() {
    local wanted=$1 code=0; shift
    "$program" "$@" >"$folder/stdout" 2>"$folder/stderr" </dev/null || code=$?
    [ "$code" -eq "$wanted" ] && return
    echo "# exit code $code, wanted $wanted: sluice $*"
    sed 's/^/# /' "$folder/stderr"
    return 1
}

# refuses CODE PATTERN ARGUMENTS...: exactly one line on stderr, which matches, nothing on stdout.
refuses() {
    local code=$1 pattern=$2; shift 2
    runs "$code" "$@" || return 1
    if [ "$(wc -l <"$folder/stderr")" -eq 1 ] && grep -qE -- "$pattern" "$folder/stderr" &&
        [ ! -s "$folder/stdout" ]; then return; fi
    echo "# wanted one line that matches '$pattern', found:"
    sed 's/^/# /' "$folder/stderr"
    return 1
}

says() { grep -qE -- "$1" "$folder/stdout" || { sed 's/^/# /' "$folder/stdout"; return 1; }; }
prints() { local pattern=$1; shift; runs 0 "$@" && says "$pattern"; }
is_empty() { [ -z "$(ls -A "$1")" ]; }

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
