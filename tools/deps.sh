#!/bin/bash
# deps.sh [--check] GROUP... - See to it that what sluice needs is installed.
#
# Looks first and does nothing when all is there.  Missing Debian packages are named with their
# purpose and installed when we are root; otherwise, or with --check, they are only named.  Fails
# only if a package is missing that is required.
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
test | python3-venv ? | python3 -c "import ensurepip" | tests of the Python package
test | libonnx-testdata ? | [ -e /usr/share/libonnx-testdata/data/node ] | ONNX conformance tests
page | chromium ? | command -v chromium | tests of the page of the server
page | chromium-driver ? | command -v chromedriver | driving the browser
page | python3-selenium ? | /usr/bin/python3 -c "import selenium" | driving the browser
page | nodejs ? | command -v node | tests of the modules of the page
check | clang | command -v clang | second compiler
check | libclang-rt-'${rt:-14}'-dev | has_sanitizers | its sanitizers
check | clang-format | command -v clang-format | layout of sources
check | clang-tidy | command -v clang-tidy | static analysis
check | cppcheck | command -v cppcheck | static analysis
check | abigail-tools | command -v abidiff | the ABI of the public headers
check | python3 | command -v python3 | layer and size checks
cross | gcc-aarch64-linux-gnu | command -v aarch64-linux-gnu-gcc | C compiler for 64-bit ARM
cross | libc6-dev-arm64-cross | [ -e /usr/aarch64-linux-gnu/lib/libc.so ] | its C library
cross | qemu-user | command -v qemu-aarch64 | running what it makes
fuzz | clang | command -v clang | fuzzers
fuzz | libclang-rt-'${rt:-14}'-dev | has_fuzzer | run-time of sanitizers and libFuzzer
fuzz | llvm ? | command -v llvm-cov | coverage of the fuzzers
'

has_sanitizers() { [ -e "$(clang -print-file-name="libclang_rt.asan-$(uname -m).a" 2>/dev/null)" ]; }
has_fuzzer() { [ -e "$(clang -print-file-name="libclang_rt.fuzzer-$(uname -m).a" 2>/dev/null)" ]; }

install_now=yes
if [ "${1:-}" = --check ]; then
    install_now=no
    shift
fi
groups=" $* "

required=() optional=()
while IFS='|' read -r group package test purpose; do
    group=${group// /} package=${package// /} note=
    [[ $package == *\? ]] && package=${package%\?} note=' (optional)'
    [[ $groups == *" $group "* && " ${required[*]} ${optional[*]} " != *" $package "* ]] || continue
    eval "$test" >/dev/null 2>&1 && continue
    if [ "$note" ]; then optional+=("$package"); else required+=("$package"); fi
    printf 'deps: missing %-18s %s%s\n' "$package" "${purpose# }" "$note" >&2
done < <(grep '|' <<<"$needs")
all=("${required[@]}" "${optional[@]}")
[ ${#all[@]} -gt 0 ] || exit 0

# What a build does without must not stop people who cannot install it.
give_up() {
    echo "deps: $1" >&2
    [ ${#required[@]} = 0 ] || exit 1
    echo "deps: continuing without what is optional" >&2
    exit 0
}
[ $install_now = yes ] || give_up "\`make deps\` installs: ${all[*]}"
command -v apt-get >/dev/null || give_up "there is no apt-get here; install the equivalents of: ${all[*]}"
[ "$(id -u)" = 0 ] || give_up "as root, run: apt-get install ${all[*]}"

export DEBIAN_FRONTEND=noninteractive
install_once() { apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
install() { install_once "$@" || { apt-get update -qq && install_once "$@"; }; }
echo "deps: installing ${all[*]}"
apt-cache show "${all[@]}" >/dev/null 2>&1 || apt-get update -qq
[ ${#required[@]} = 0 ] || install "${required[@]}" || exit 1
[ ${#optional[@]} = 0 ] || install "${optional[@]}" ||
    echo "deps: continuing without ${optional[*]}, which is optional" >&2
exit 0
