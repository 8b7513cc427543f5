#!/bin/bash
# check.sh JOBS [--all] - Every check that reads the sources without running them; all of them run, any may
# fail.  Uses build-asan/compile_commands.json.  clang's path-sensitive analyzer takes ten times as long as
# clang-tidy's other checks: it looks at the files that changed since the last release tag and at those that
# read untrusted bytes (tools/analyzed.txt), with --all at every file.
# check.sh --format - Rewrite the layout instead.
set -u
sources() { sed -n 's/^\([a-z][a-z]*\).*:.*/\1/p' LAYERS | sort -u | xargs -I{} find {} -name '*.[ch]' | sort; }
if [ "$1" = --format ]; then
    sources | xargs clang-format -i
    exit
fi
jobs=$1 all=${2:-} database=build-asan
failed=()

# step NAME COMMAND...: runs it and tells how it went.
step() {
    local name=$1 start=$SECONDS result=ok
    shift
    "$@" || { result=FAILED; failed+=("$name"); }
    printf 'check: %-10s %s (%d s)\n' "$name" "$result" $((SECONDS - start))
}

format() { sources | xargs clang-format --dry-run -Werror; }

# Each C file of the compile commands once, but those that the build made.
compiled() {
    sed -n 's|^ *"file": "'"$PWD"'/\(.*\.c\)".*|\1|p' $database/compile_commands.json | grep -v "^build" | sort -u
}

analyzed() {
    local release
    if [ "$all" = --all ]; then
        compiled
        return
    fi
    release=$(git describe --tags --abbrev=0 2>/dev/null) && git diff --name-only "$release" -- '*.c'
    grep -v '^#' tools/analyzed.txt | xargs git ls-files -- | grep '\.c$'
}

tidy() { compiled | xargs -P "$jobs" -n 4 tools/check_tidy.sh $database fast; }
analyze() { analyzed | sort -u | comm -12 - <(compiled) | xargs -P "$jobs" -n 2 tools/check_tidy.sh $database paths; }

# Kernels are compiled once per instruction set, but cppcheck sees no difference.  What the build
# generates is left out: it need not be there yet.
each_file_once() {
    python3 -c 'import json, sys
entries = {entry["file"]: entry for entry in json.load(sys.stdin)
           if not entry["file"].startswith(entry["directory"] + "/")}
json.dump(list(entries.values()), sys.stdout)' <$database/compile_commands.json
}

# Suppressed: tables are made of macros that cppcheck cannot follow (unknownMacro), a pointer parameter
# may walk (uselessAssignmentPtrArg), a format may be NULL (varFuncNullUB), scratch serves several element
# types (invalidPointerCast), shifts of negative numbers are those of every compiler we build with
# (shiftTooManyBitsSigned), and its preprocessor loses a brace where rows of elementwise.def become rows of
# ops.def (syntaxError).
cppcheck_all() {
    mkdir -p $database/cppcheck
    each_file_once >$database/cppcheck.json
    cppcheck -q -j "$jobs" --cppcheck-build-dir=$database/cppcheck --error-exitcode=1 \
        --project=$database/cppcheck.json '--file-filter=*.c' --enable=warning,performance,portability \
        --inline-suppr --suppress=unknownMacro --suppress=uselessAssignmentPtrArg \
        --suppress=varFuncNullUB --suppress=invalidPointerCast --suppress=shiftTooManyBitsSigned \
        "--suppress=syntaxError:*core/elementwise.def"
}

step format format
step layers python3 tools/check_layers.py
step words python3 tools/check_words.py
step sizes python3 tools/check_sizes.py
step rooms python3 tools/check_rooms.py
step roles python3 tools/check_roles.py
step pages python3 tools/check_op_pages.py
step nocompile tools/check_nocompile.sh
step headers python3 tools/check_headers.py
step abi python3 tools/check_abi.py
step symbols python3 tools/check_symbols.py "${SLUICE_LIBRARIES:-build}"
step cppcheck cppcheck_all
step tidy tidy
step analyze analyze
[ ${#failed[@]} = 0 ] || { echo "check: failed: ${failed[*]}" >&2; exit 1; }
