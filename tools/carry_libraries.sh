#!/bin/bash
# carry_libraries.sh FOLDER - The headers and shared objects that building the program and its tests
# needs, as files in FOLDER, for a machine that has compilers but not these packages.
#
# FOLDER gets include/, lib/, and a pkg-config that knows nothing else.  There, with FOLDER below the
# root of the repository and N the GPU's compute capability:
#   PKG_CONFIG=$PWD/FOLDER/pkg-config cmake -B build -DSLUICE_CUDA=N -DSLUICE_ISA=native
set -eu
folder=${1:?where the files go}
mkdir -p "$folder/include" "$folder/lib"

for header in jansson.h jansson_config.h pcre2.h xxhash.h xxh3.h cmocka.h cmocka_pbc.h; do
    found=$(echo "#include <$header>" | gcc -E -M -xc -include stdarg.h -include stddef.h -include setjmp.h \
        -include stdint.h -DPCRE2_CODE_UNIT_WIDTH=8 - | tr -s ' \\' '\n' | grep "/$header\$" | head -n 1)
    cp -L "$found" "$folder/include/"
done
for name in jansson pcre2-8 xxhash cmocka; do
    path=$(gcc -print-file-name="lib$name.so")
    [ -e "$path" ] || { echo "carry_libraries.sh: there is no lib$name.so" >&2; exit 1; }
    soname=$(objdump -p "$path" | awk '$1 == "SONAME" { print $2 }')
    cp -L "$path" "$folder/lib/$soname"
    cp -L "$path" "$folder/lib/lib$name.so" # no link: not all that carries files keeps links
done

cat >"$folder/pkg-config" <<'SCRIPT'
#!/bin/bash
# The libraries beside this file, by the names of their packages.
here=$(cd "$(dirname "$0")" && pwd)
version=0 cflags= libs= known=yes
for word; do
    case $word in
    --version) echo 1.8.1; exit ;;
    --modversion) version=1 ;;
    --cflags* ) cflags="-I$here/include" ;;
    --libs*) libs="-L$here/lib" ;;
    -*) ;;
    jansson* | cmocka*) name=${word%%[ >=]*} ;;
    libpcre2-8* | libxxhash*) name=${word%%[ >=]*} name=${name#lib} ;;
    [0-9]*) ;;
    *) known= ;;
    esac
done
[ "$known" ] && [ "${name:-}" ] || exit 1
[ $version = 1 ] && { echo 1.0; exit; }
echo $cflags ${libs:+$libs -l$name}
SCRIPT
chmod +x "$folder/pkg-config"
