#!/usr/bin/env bash
# sluice list: models in the folders of other programs, their names, and -m NAME.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u

. tests/end_to_end/judge.sh

fable=$PWD/models/fable
pack=$(ls "$fable"/*.sluice)
home=$folder/home
hub=$home/.cache/huggingface/hub
commit=0123456789abcdef0123456789abcdef01234567

# list ARGUMENTS...: in a home of its own, outside of the repository; stdout and stderr are kept.
list() {
    (cd "$folder/elsewhere" && env -i HOME="$home" PATH="$PATH" "${variables[@]}" "$program" "$@" \
        >"$folder/stdout" 2>"$folder/stderr" </dev/null)
}
lists() { local pattern=$1; shift; list list "$@" && says "$pattern"; }
lists_not() { list list && ! says "$1" >/dev/null; }
variables=(SLUICE_CONFIG=/dev/null)
program=$(realpath "$program")
mkdir -p "$home" "$folder/elsewhere"

# ---- Nothing there ----

holds "the bundled model alone" lists "^fable +pack +qwen3_5_moe +9.97 MB +[0-9.]+ MB +bundled$"
holds "... is one line below the heading" test "$(wc -l <"$folder/stdout")" = 2
holds "... without a note" test ! -s "$folder/stderr"

# ---- Places ----

mkdir -p "$hub/models--org--folder-model/snapshots/$commit" "$hub/models--org--folder-model/refs" \
    "$hub/models--org--files/snapshots/$commit/q8" "$home/.lmstudio/models/maker/repo" \
    "$home/.ollama/models/manifests/registry.ollama.ai/library/tale" "$home/.ollama/models/blobs" \
    "$home/.ollama/models/manifests/hf.co/maker/tale" "$home/.cache/llama.cpp" "$hub/models--org--other/snapshots/$commit"
printf '%s' $commit >"$hub/models--org--folder-model/refs/main"
echo '{"model_type": "bert"}' >"$hub/models--org--folder-model/snapshots/$commit/config.json"
printf '\x08\0\0\0\0\0\0\0{}      ' >"$hub/models--org--folder-model/snapshots/$commit/model.safetensors"
cp "$pack" "$hub/models--org--files/snapshots/$commit/q8/tale.sluice"
ln -s ../../blobs/none "$hub/models--org--files/snapshots/$commit/broken.gguf"
echo '{}' >"$hub/models--org--other/snapshots/$commit/config.json"
cp "$pack" "$home/.lmstudio/models/maker/repo/studio.sluice"
ln -s "$home/.lmstudio" "$home/.cache/lm-studio"
cp "$pack" "$home/.ollama/models/blobs/sha256-00ff"
echo '{"layers": [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:aa"},
    {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:00ff"}]}' \
    >"$home/.ollama/models/manifests/registry.ollama.ai/library/tale/4b"
sed s/00ff/00fe/ "$home/.ollama/models/manifests/registry.ollama.ai/library/tale/4b" \
    >"$home/.ollama/models/manifests/hf.co/maker/tale/latest"
echo '{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x"}]}' \
    >"$home/.ollama/models/manifests/registry.ollama.ai/library/tale/bad"
cp "$pack" "$home/.cache/llama.cpp/cached.sluice"
printf 'GGUF????' >"$home/.cache/llama.cpp/split-00001-of-00002.gguf"
cp "$home/.cache/llama.cpp/split-00001-of-00002.gguf" "$home/.cache/llama.cpp/split-00002-of-00002.gguf"
cp "$home/.cache/llama.cpp/split-00001-of-00002.gguf" "$home/.cache/llama.cpp/mmproj-x.gguf"
cp "$pack" "$folder/elsewhere/here.sluice"
mkdir "$folder/elsewhere/locked"
chmod 0 "$folder/elsewhere/locked"

holds "a folder in the Hugging Face cache" lists '^org/folder-model +safetensors +bert .* Hugging Face$'
holds "... and why it cannot be run" says "^  not supported: .*'bert'"
holds "a file in the Hugging Face cache" says '^org/files/q8/tale +pack +qwen3_5_moe .* Hugging Face$'
holds "a broken link" says '^org/files/broken +- .* Hugging Face$'
holds "... and why" says '^  not supported: No such file'
holds "a config without weights is no model" lists_not '^org/other'
holds "LM Studio" lists '^maker/repo/studio +pack .* LM Studio$'
holds "... once, also where links lead to it" test "$(grep -c 'studio' "$folder/stdout")" = 1
holds "Ollama" says '^tale:4b +pack .* Ollama$'
holds "Ollama, from another host" says '^hf.co/maker/tale:latest +- .* Ollama$'
holds "a manifest with a path for a digest is passed over" lists_not '^tale:bad'
holds "llama.cpp" lists '^cached +pack .* llama.cpp$'
holds "parts of a model are one model" test "$(grep -c '^split ' "$folder/stdout")" = 1
holds "a vision projector is no model" lists_not mmproj
holds "the current folder" lists '^here +pack .* current folder$'
holds "what cannot be read is passed over silently" test ! -s "$folder/stderr"

variables+=(HF_HUB_CACHE="$hub" OLLAMA_MODELS="$home/.ollama/models" LLAMA_CACHE="$home/none")
list list --names
sort "$folder/stdout" >"$folder/names"
holds "places named twice are listed once" test -z "$(uniq -d "$folder/names")"
holds "there are ten" test "$(wc -l <"$folder/names")" = 10
list list --json
holds "--json" python3 - "$folder/stdout" "$folder/names" <<'PY'
import json, os, sys
rows = {row["name"]: row for row in json.load(open(sys.argv[1]))}
assert sorted(rows) == sorted(open(sys.argv[2]).read().split()), sorted(rows)
tale, bert = rows["tale:4b"], rows["org/folder-model"]
assert tale["supported"] and not bert["supported"] and "bert" in bert["problem"]
assert tale["file_bytes"] == os.path.getsize(tale["path"]) and tale["experts"] == 32
assert 0 < tale["least_bytes"] < tale["resident_bytes"] + tale["expert_bytes"]
PY
holds "a folder alone" lists '^maker/repo/studio +pack' "$home/.lmstudio/models"
holds "... is one model" test "$(wc -l <"$folder/stdout")" = 2
holds "a folder that is not there" refuses 1 "none: No such file or directory" list "$folder/none"
holds "a file is no folder" refuses 1 "Not a directory" list "$pack"

# ---- Names ----

opens() { list info --json -m "$1" && says '"format": "pack"'; }
fails() { local pattern=$1; shift; ! list "$@" && grep -qE -- "$pattern" "$folder/stderr"; }
holds "a whole name" opens tale:4b
holds "the last part of a name" opens studio
holds "the name of a file" opens studio.sluice
holds "... is taken by info as its argument, too" list info maker/repo/studio
holds "... and by tokenize" list tokenize -m studio --ids hello
cp "$pack" "$home/.cache/llama.cpp/studio.sluice"
cp "$pack" "$home/.lmstudio/models/maker/twice.sluice"
cp "$pack" "$home/.lmstudio/models/maker/repo/twice.sluice"
holds "a whole name is preferred to a part of another" list run -m studio -n 1 hello
holds "several models of one name" fails "'twice' is the name of several models: maker/repo/twice, maker/twice" \
    info twice
holds "a name that is none" fails "none: there is no such file" info none
chmod 700 "$folder/elsewhere/locked"
finish
