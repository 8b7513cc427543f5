#!/bin/bash
# tools/deps.sh as an ordinary user: what is optional stops nobody, what is required does.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# without PACKAGE GROUP...: as if pkg-config did not know the package, and we were not root.
without() {
    local package=$1; shift
    printf '#!/bin/sh\n[ "$1" != %s ]\n' "$package" >"$folder/pkg-config"
    printf '#!/bin/sh\necho 1000\n' >"$folder/id"
    chmod +x "$folder/pkg-config" "$folder/id"
    PATH="$folder:$PATH" tools/deps.sh "$@" >"$folder/said" 2>&1
}
# expect NAME STATUS WANTED PATTERN
expect() {
    if [ "$2" -eq "$3" ] && grep -q "$4" "$folder/said"; then
        echo "ok - $1"
    else
        failed=$((failed + 1))
        echo "not ok - $1: status $2, wanted $3"
        sed 's/^/# /' "$folder/said"
    fi
}

without liburing build
expect "an optional package that is missing is named, and the build goes on" $? 0 'missing liburing-dev .*optional'
without jansson build
expect "a required one is not passed over" $? 1 'missing libjansson-dev'
expect "and the message says what to do" 1 1 'apt-get install'
[ $failed = 0 ]
