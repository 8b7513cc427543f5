#!/bin/bash
# Changes of the public headers that callers would notice are reported (tools/check_abi.py,
# tools/check_headers.py, tools/check_symbols.py), and the headers as they are pass.
set -u
for need in abidiff python3; do
    command -v $need >/dev/null || { echo "skipped: $need is not installed (abigail-tools)"; exit 0; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# reports CHECK WHAT EXPECTED FILE SED...: the check of a copy with one edit fails and says EXPECTED.
reports() {
    local check=$1 what=$2 expected=$3 file=$4 output
    shift 4
    rm -rf "$folder/sluice" && cp -r include/sluice "$folder"
    sed -i "$@" "$folder/sluice/$file"
    if cmp -s "include/sluice/$file" "$folder/sluice/$file"; then
        echo "$what: the edit changes nothing"
    elif output=$(SLUICE_HEADERS=$folder/sluice python3 tools/check_$check.py 2>&1); then
        echo "$what: not reported"
    elif ! grep -q -e "$expected" <<<"$output"; then
        printf '%s: the report has no "%s":\n%s\n' "$what" "$expected" "$output"
    else
        return
    fi
    failed=1
}

python3 tools/check_abi.py || failed=1
reports abi "a function that is gone" "Removed function" graph.h '/^SL_API .*sl_graph_set_scope/d'
reports abi "a parameter of another type" "name changed from uint32_t to int64_t" graph.h \
    's/sl_dtype_name_at(uint32_t index)/sl_dtype_name_at(int64_t index)/'
reports abi "a member in another place" "offset changed" sluice.h \
    '/^    uint32_t chunk_tokens; .*maximum/,/^    uint32_t checkpoints/{s/chunk_tokens;/X;/;s/checkpoints; /chunk_tokens;/;s/X;/checkpoints;/}'
reports abi "a member of another type" "top_k" sluice.h 's/uint32_t top_k; /uint64_t top_k; /'
reports abi "a status of another number" "SL_DEVICE" status.h 's/SL_DEVICE = 6/SL_DEVICE = 9/'
reports abi "a function that is new" "Added function" tensors.h \
    's/^SL_API uint32_t sl_tensors_count.*/&\nSL_API int sl_tensors_new(void);/'
reports headers "a function that is not exported" "sl_tensors_count is not exported" tensors.h \
    's/^SL_API uint32_t sl_tensors_count/uint32_t sl_tensors_count/'
reports headers "a status that may be ignored" "sl_tensors_open: SL_CHECKED" tensors.h \
    's/^SL_API SL_CHECKED sl_status sl_tensors_open/SL_API sl_status sl_tensors_open/'
reports headers "a struct that can neither grow nor is closed" "sl_tensor_item begins without" tensors.h \
    's|} sl_tensor_item; /\* closed \*/|} sl_tensor_item;|'
reports headers "a struct by value" "sl_tensors_new returns sl_tensor_item by value" tensors.h \
    's/^SL_API uint32_t sl_tensors_count.*/&\nSL_API sl_tensor_item sl_tensors_new(void);/'
reports headers "a size without a test" "sl_new_options has a struct_size but no row" tensors.h \
    's/^typedef struct sl_tensors sl_tensors;/typedef struct {\n    size_t struct_size;\n} sl_new_options;\n&/'
reports headers "a name of the user's" "the name OPEN begins with neither" tensors.h \
    's/^#define SLUICE_TENSORS_H/&\n#define OPEN 1/'
reports headers "what is no C++" "std=c++11" tensors.h \
    's/^SL_API uint32_t sl_tensors_count.*/&\nSL_API int sl_tensors_new(int class);/'

# Libraries of a few symbols: one without the prefix, one that no header has, and all others missing.
gcc -x c -c -o "$folder/loose.o" - <<<'int loose; int sl_kept;' && ar rc "$folder/libsluice.a" "$folder/loose.o"
gcc -x c -shared -fPIC -o "$folder/libsluice.so" - <<<'int sl_new(void); int sl_new(void) { return 0; }'
said=$(python3 tools/check_symbols.py "$folder" 2>&1) && { echo "symbols: not reported"; failed=1; }
for expected in "the global symbol loose does not begin" "exports sl_new, which no header declares" \
    "does not export sl_graph_create, which"; do
    grep -q "$expected" <<<"$said" || { printf 'symbols: no "%s":\n%s\n' "$expected" "$said"; failed=1; }
done
if grep -q sl_kept <<<"$said"; then echo "symbols: sl_kept is fine"; failed=1; fi
exit $failed
