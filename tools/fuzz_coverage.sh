#!/bin/bash
# fuzz_coverage.sh [REGEX] - How many lines of the files that each fuzzer is for are reached by its seeds
# and by what `make fuzz` has learned (build-fuzz/corpus).  Builds the fuzzers in build-coverage.  What each
# line was reached with is kept in build-coverage/NAME.profdata, for llvm-cov show.
set -u
only=${1:-}
here=build-coverage
library=$here/libsluice-inside.so
cmake --preset coverage >/dev/null && cmake --build --preset coverage --parallel "$(nproc)" --target fuzzers >/dev/null || exit 1

# The files that a fuzzer is for, as patterns; its own mutator and what it calls besides do not count.
files_of() {
    case $1 in
        api_run_fuzz) echo compiler/ops/*.c compiler/parse.c compiler/passes/*.c ;;
        compiler_binary_fuzz) echo compiler/binary_read.c compiler/binary.c compiler/verify.c ;;
        compiler_parse_fuzz) echo compiler/parse.c compiler/cursor.c compiler/print.c compiler/verify.c ;;
        engine_config_config_fuzz) echo engine/config/config*.c ;;
        engine_formats_gguf_fuzz) echo engine/formats/gguf*.c ;;
        engine_formats_mlx_fuzz) echo engine/formats/mlx*.c engine/formats/hf_*.c engine/formats/huggingface.c ;;
        engine_formats_pack_fuzz) echo engine/formats/pack_read.c ;;
        engine_formats_safetensors_fuzz) echo engine/formats/safetensors.c ;;
        engine_text_template_fuzz) echo engine/text/jinja/*.c engine/text/template.c ;;
        engine_text_tokenizer_fuzz) echo engine/text/{added,bpe,normalise,normaliser,pattern,split}.c \
            engine/text/{token_table,tokenizer,tokenizer_json,json_scan,decoder}.c ;;
        frontend_onnx_import_fuzz) echo frontend/onnx/*.c ;;
        *) echo "$1: tools/fuzz_coverage.sh does not know which files it is for" >&2; return 1 ;;
    esac
}

for fuzzer in "$here"/fuzzers/*_fuzz; do
    name=$(basename "$fuzzer")
    [[ -x $fuzzer && $name =~ $only ]] || continue
    files=$(files_of "$name") || exit 1
    files=$(printf '%s\n' $files | grep -vE '_(test|bench|fuzz)\.c$')
    corpora=
    for folder in "build-fuzz/corpus/$name" "tests/data/fuzz/$name"; do
        [ ! -d "$folder" ] || corpora="$corpora $folder"
    done
    rm -f "$here/$name"*.prof*
    LLVM_PROFILE_FILE="$here/$name-%m.profraw" "$fuzzer" -runs=0 -timeout=60 -rss_limit_mb=4096 $corpora \
        2>"$here/$name.log" || { tail -n 20 "$here/$name.log" >&2; exit 1; }
    llvm-profdata merge -sparse -o "$here/$name.profdata" "$here/$name"-*.profraw || exit 1
    rm -f "$here/$name"-*.profraw
    llvm-cov report "$library" -instr-profile="$here/$name.profdata" |
        awk -v name="$name" -v files="$files" '
            BEGIN { count = split(files, wanted, "\n"); for (i = 1; i <= count; i++) is_wanted[wanted[i]] = 1 }
            # Names are absolute, or begin with ../ where ccache makes them relative.
            { path = $1; sub(ENVIRON["PWD"] "/", "", path); sub(/^(\.\.\/)+/, "", path) }
            path in is_wanted { functions += $5; no_functions += $6; lines += $8; no_lines += $9
                                branches += $11; no_branches += $12 }
            function share(all, missed) { return all ? 100 * (all - missed) / all : 0 }
            END { printf "%-34s %6d of %6d lines, %4.1f %%; %4.1f %% of functions, %4.1f %% of branches\n", name,
                  lines - no_lines, lines, share(lines, no_lines), share(functions, no_functions),
                  share(branches, no_branches) }'
done
