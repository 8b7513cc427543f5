#!/bin/bash
# deps.sh [--check] GROUP... - See to it that what sluice needs is installed.
#
# Looks first and does nothing when all is there.  Missing Debian packages are named with their
# purpose and installed when we are root; otherwise, or with --check, they are only named.
set -u

# group | package, ? where a build does without it | how to see that it is there | what for
rt=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
needs='
build | build-essential | command -v gcc | C compiler
build | cmake | command -v cmake | build system
build | ninja-build ? | command -v ninja | fast builds
build | pkg-config | command -v pkg-config | finding libraries
build | libjansson-dev | pkg-config jansson | JSON: configurations, tokenizers, headers
build | libpcre2-dev | pkg-config libpcre2-8 | regular expressions of tokenizers
build | libxxhash-dev | pkg-config libxxhash | checksums of packs
build | liburing-dev ? | pkg-config liburing | asynchronous reads
build | libedit-dev ? | pkg-config libedit | line editing in sluice chat
test | libpng-dev ? | pkg-config libpng | examples that write pictures
test | libcmocka-dev | pkg-config cmocka | unit tests
test | libonnx-testdata ? | [ -e /usr/share/libonnx-testdata/data/node ] | ONNX conformance tests
check | clang | command -v clang | second compiler
check | libclang-rt-'${rt:-14}'-dev | has_sanitizers | its sanitizers
check | clang-format | command -v clang-format | layout of sources
check | clang-tidy | command -v clang-tidy | static analysis
check | cppcheck | command -v cppcheck | static analysis
check | python3 | command -v python3 | layer and size checks
cross | gcc-aarch64-linux-gnu | command -v aarch64-linux-gnu-gcc | C compiler for 64-bit ARM
cross | libc6-dev-arm64-cross | [ -e /usr/aarch64-linux-gnu/lib/libc.so ] | its C library
cross | qemu-user | command -v qemu-aarch64 | running what it makes
fuzz | clang | command -v clang | fuzzers
fuzz | libclang-rt-'${rt:-14}'-dev | has_fuzzer | run-time of sanitizers and libFuzzer
'

has_sanitizers() { [ -e "$(clang -print-file-name="libclang_rt.asan-$(uname -m).a" 2>/dev/null)" ]; }
has_fuzzer() { [ -e "$(clang -print-file-name="libclang_rt.fuzzer-$(uname -m).a" 2>/dev/null)" ]; }

install_now=yes
if [ "${1:-}" = --check ]; then
    install_now=no
    shift
fi
groups=" $* "

missing=() stop=no
while IFS='|' read -r group package test purpose; do
    group=${group// /} package=${package// /} optional=no
    [[ $package == *\? ]] && package=${package%\?} optional=yes
    [[ $groups == *" $group "* && " ${missing[*]} " != *" $package "* ]] || continue
    eval "$test" >/dev/null 2>&1 && continue
    missing+=("$package")
    [ $optional = yes ] || stop=yes
    printf 'deps: missing %-18s %s\n' "$package" "${purpose# }" >&2
done < <(grep '|' <<<"$needs")
[ ${#missing[@]} -gt 0 ] || exit 0

if [ $install_now = no ]; then
    echo "deps: \`make deps\` installs them" >&2
    [ $stop = no ]
    exit
fi
# What a build does without must not stop people who cannot install it.
give_up() {
    echo "deps: $1 ${missing[*]}" >&2
    [ $stop = no ]
    exit
}
command -v apt-get >/dev/null || give_up "there is no apt-get here; install the equivalents of:"
[ "$(id -u)" = 0 ] || give_up "run as root: apt-get install"

export DEBIAN_FRONTEND=noninteractive
echo "deps: installing ${missing[*]}"
apt-cache show "${missing[@]}" >/dev/null 2>&1 || apt-get update -qq || exit 1
install=(apt-get install -y -qq --no-install-recommends "${missing[@]}")
"${install[@]}" >/dev/null || { apt-get update -qq && "${install[@]}" >/dev/null; }
