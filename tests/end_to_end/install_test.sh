#!/usr/bin/env bash
# make install and make deb: what they install is complete, and runs in a root that has nothing else.
# Wants $SLUICE_PROGRAM in the folder where it was built; run from the root of the repository.
set -u

. tests/end_to_end/judge.sh

build=$(realpath "$(dirname "$program")")
if [ -n "${SLUICE_SANITIZED:-}" ]; then skip "installation" "programs with sanitizers are not installed"; finish; exit; fi

# bare ROOT: gives a root the libraries that the program in it is linked with, and no more.
bare() {
    ldd "$1/usr/bin/sluice" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$1$(dirname "$library")" && cp -L "$library" "$1$library"
    done
    mkdir -p "$1/home"
}
# inside ROOT ARGUMENTS...: runs the program of a bare root there.
inside() { local root=$1; shift; env -i HOME=/home "$(PATH=$PATH:/usr/sbin command -v chroot)" "$root" /usr/bin/sluice "$@" </dev/null; }
answers() { [ "$(inside "$1" run "What is 17 + 25?" 2>"$folder/stderr")" = "17 + 25 = 42." ] || { cat "$folder/stderr"; return 1; }; }
installed() {
    local root=$1 file; shift
    for file; do compgen -G "$root/usr/$file" >/dev/null || { echo "# $file is not there"; return 1; }; done
}

# ---- make install ----

root=$folder/root
silent() { "$@" >"$folder/log" 2>&1 || { sed 's/^/# /' "$folder/log"; return 1; }; }
holds "cmake --install with DESTDIR" silent env DESTDIR="$root" cmake --install "$build" --prefix /usr
holds "everything is in it" installed "$root" bin/sluice include/sluice/sluice.h 'lib*/libsluice.a' 'lib*/libsluice.so' \
    'lib*/pkgconfig/sluice.pc' share/sluice/models/fable share/man/man1/sluice.1 share/doc/sluice/copyright \
    share/doc/sluice/docs/server.md share/doc/sluice/docs/pictures/page.png \
    share/bash-completion/completions/sluice share/zsh/site-functions/_sluice share/fish/vendor_completions.d/sluice.fish
holds "nothing is outside of it" test "$(ls "$root")" = usr
holds "no file names the build folder" test -z "$(grep -rl -e "$build" "$root")"
holds "the manual page is that of the program" cmp "$root/usr/share/man/man1/sluice.1" <("$program" man)
if [ "$(id -u)" = 0 ]; then
    bare "$root"
    holds "it answers in a bare root, without /proc" answers "$root"
else
    skip "it answers in a bare root" "needs root"
fi
cat >"$folder/version.c" <<'EOC'
#include <sluice/sluice.h>
#include <stdio.h>
int main(void) { return puts(sl_version()) < 0; }
EOC
flags=$(PKG_CONFIG_PATH=$(echo "$root"/usr/lib*/pkgconfig) pkg-config --cflags --libs sluice)
holds "a program is built with pkg-config" cc "$folder/version.c" -o "$folder/version" $flags
library=$(echo "$root"/usr/lib*/libsluice.so)
holds "... and runs" test "sluice $(LD_LIBRARY_PATH=$(dirname "$library") "$folder/version")" = "$("$program" --version)"

# ---- make deb ----

if command -v cpack dpkg-deb dpkg-shlibdeps >/dev/null; then
    holds "cpack makes a package" silent cpack --config "$build/cpack.cmake" -B "$folder/deb" \
        -D CPACK_DEBIAN_COMPRESSION_TYPE=none
    package=$(echo "$folder"/deb/*.deb)
    field() { dpkg-deb -f "$package" "$1"; }
    holds "its version" test "sluice $(field Version)" = "$("$program" --version)"
    for library in $(ldd "$program" | grep -oE 'lib(jansson|pcre2-8|xxhash|uring|edit|microhttpd)\.so' | sed 's/\.so//' | sort -u); do
        holds "it depends on $library" grep -q "$library" <<<"$(field Depends)"
    done
    holds "its library becomes known when it is installed" grep -qx "activate-noawait ldconfig" <<<"$(dpkg-deb -I "$package" triggers)"
    mkdir "$folder/unpacked"
    holds "it can be unpacked" dpkg-deb -x "$package" "$folder/unpacked"
    holds "it has what Debian wants" installed "$folder/unpacked" share/man/man1/sluice.1.gz \
        share/doc/sluice/copyright share/doc/sluice/changelog.gz share/zsh/vendor-completions/_sluice
    holds "nothing in it can be written by others" test -z "$(find "$folder/unpacked/usr" ! -type l -perm /022)"
    if [ "$(id -u)" = 0 ]; then
        bare "$folder/unpacked"
        holds "it answers in a bare root" answers "$folder/unpacked"
    fi
else
    skip "the package" "cpack or the tools of dpkg are not installed"
fi
finish
