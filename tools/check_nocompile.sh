#!/bin/bash
# Wrong wiring must not compile.  Each tests/nocompile/*.c compiles as it stands and, with -DWRONG,
# fails with the message on its first line (`// expect: REGEX`), with every compiler that is here.
set -u
flags=(-std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I. -Iinclude -c -o /dev/null)
failed=0 tried=0

# gcc reports unused results only when it generates code, so no -fsyntax-only.
check() {
    local cc=$1 file=$2 expect errors
    expect=$(sed -n '1s|^// expect: ||p' "$file")
    if [ -z "$expect" ]; then
        echo "$file: the first line is not \`// expect: REGEX\`"
    elif ! "$cc" "${flags[@]}" "$file"; then
        echo "$file: the right form does not compile with $cc"
    elif errors=$("$cc" "${flags[@]}" -DWRONG "$file" 2>&1); then
        echo "$file: the wrong form compiles with $cc"
    elif ! grep -Eq "error: .*($expect)" <<<"$errors"; then
        echo "$file: $cc refuses the wrong form for another reason than '$expect':"
        echo "$errors"
    else
        return 0
    fi >&2
    return 1
}

for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    for file in tests/nocompile/*.c; do
        check $cc "$file" || failed=1
        tried=$((tried + 1))
    done
done
[ $tried -gt 0 ] || { echo "check_nocompile: no compiler, nothing tried" >&2; exit 1; }
exit $failed
