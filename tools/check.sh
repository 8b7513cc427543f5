#!/bin/bash
# check.sh JOBS - Every check that reads the sources without running them; all of them run, any may
# fail.  Uses build-clang/compile_commands.json.   check.sh --format - Rewrite the layout instead.
set -u
sources() { find base io core compiler runtime engine apps examples include tests -name '*.[ch]' | sort; }
if [ "$1" = --format ]; then
    sources | xargs clang-format -i
    exit
fi
jobs=$1 database=build-clang
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
tidy() {
    sed -n 's|^ *"file": "'"$PWD"'/\(.*\.c\)".*|\1|p' $database/compile_commands.json | grep -v "^build" | sort -u |
        xargs -P "$jobs" -n 1 tools/check_tidy.sh $database
}

# Suppressed: tables are made of macros that cppcheck cannot follow (unknownMacro), a pointer parameter
# may walk (uselessAssignmentPtrArg), a format may be NULL (varFuncNullUB), scratch serves several element
# types (invalidPointerCast), and shifts of negative numbers are those of every compiler we build with
# (shiftTooManyBitsSigned).
cppcheck_all() {
    mkdir -p $database/cppcheck
    cppcheck -q -j "$jobs" --cppcheck-build-dir=$database/cppcheck --error-exitcode=1 \
        --project=$database/compile_commands.json '--file-filter=*.c' --enable=warning,performance,portability \
        --inline-suppr --suppress=unknownMacro --suppress=uselessAssignmentPtrArg \
        --suppress=varFuncNullUB --suppress=invalidPointerCast --suppress=shiftTooManyBitsSigned
}

step format format
step layers python3 tools/check_layers.py
step sizes python3 tools/check_sizes.py
step nocompile tools/check_nocompile.sh
step cppcheck cppcheck_all
step tidy tidy
[ ${#failed[@]} = 0 ] || { echo "check: failed: ${failed[*]}" >&2; exit 1; }
