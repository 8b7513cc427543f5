#!/usr/bin/env bash
# Conversations in files and in folders: what a second run of the program reuses, and what it says of
# files and folders that it cannot use.  Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u
. tests/end_to_end/judge.sh
model=models/fable
ask="Tell me a story about a fox. Let it be about the winter and the forest, and about a good end that everybody likes, and about a bear that is afraid of the old mill behind the river, where nobody has been for a hundred years."

# answers ARGUMENTS...: a short greedy answer, kept in $folder/stdout.
answers() { runs 0 run -m $model --temp 0 -n 20 -v -p "$ask" "$@"; }
# reuses TOKENS SOURCE: at least so many tokens, as the notes of the last run say.
reuses() {
    local count
    count=$(sed -nE "s/^note: ([0-9]+) of [0-9]+ tokens are reused \($2\).*/\1/p" "$folder/stderr" | tail -n 1)
    [ -n "$count" ] && [ "$count" -ge "$1" ] && return
    sed 's/^/# /' "$folder/stderr"
    return 1
}
notes_once() { [ "$(grep -cE -- "^note: $1" "$folder/stderr")" -eq 1 ] || { sed 's/^/# /' "$folder/stderr"; return 1; }; }

test_session_files() {
    local file=$folder/talk.kv
    holds "a new session" answers --session "$file"
    cp "$folder/stdout" "$folder/first"
    holds "continues the session" runs 0 run -m $model --temp 0 -n 20 -v --session "$file" -p "And then?"
    holds "reuses all of it" reuses 60 session
    printf 'And then?\n/exit\n' | "$program" chat -m $model --temp 0 -n 10 --session "$file" >"$folder/stdout" 2>"$folder/stderr"
    holds "chat continues it too" test $? -eq 0
    head -c 3000 "$file" >"$folder/cut.kv"
    holds "a truncated session" refuses 1 'cut.kv: truncated or damaged' run -m $model -p x --session "$folder/cut.kv"
    holds "not a session" refuses 1 'README.md: not a saved session' run -m $model -p x --session README.md
    holds "a session of other keys and values" refuses 1 "i16 keys and values" run -m $model -p x --kv f32 --session "$file"
    holds "a session longer than the context" refuses 1 'do not fit the context of 30' run -m $model -c 30 -p x --session "$file"
    holds "a folder that does not exist" runs 1 run -m $model -n 2 -p x --session "$folder/none/talk.kv"
    if [ -d "$golden" ]; then
        holds "a session of another model" refuses 1 'saved with another model' run -m "$golden" --raw -p x --session "$file"
    fi
}

test_folder() {
    local kv=$folder/kv
    holds "an empty folder" answers --kv-disk "$kv"
    cp "$folder/stdout" "$folder/first"
    holds "another run" answers --kv-disk "$kv"
    holds "finds what the first has computed" reuses 60 disk
    holds "and says the same" cmp -s "$folder/first" "$folder/stdout"
    printf 'damaged' | dd of="$(ls "$kv"/*.kv | head -n 1)" bs=1 seek=200 conv=notrunc 2>/dev/null
    holds "a damaged entry costs time" answers --kv-disk "$kv"
    holds "and one line" notes_once '.*\.kv: the header is damaged'
    holds "but changes nothing" cmp -s "$folder/first" "$folder/stdout"
    holds "it is replaced" answers --kv-disk "$kv"
    holds "and found" reuses 60 disk
    holds "a small folder" answers --kv-disk "$folder/small" --kv-disk-size 1kB
    holds "takes no entry" notes_once '.*: an entry of [0-9]+ bytes is not written'
    holds "a share is no size of a folder" refuses 1 'wanted a size' run -m $model -p x --kv-disk "$kv" --kv-disk-size 5%
    holds "a file is no folder" refuses 1 'README.md: not a folder' run -m $model -p x --kv-disk README.md
    holds "a folder that cannot be made" refuses 1 'cannot make the folder' run -m $model -p x --kv-disk /proc/nothing
}

test_full_disk() {
    local disk=$folder/disk
    mkdir "$disk"
    if [ "$(id -u)" -ne 0 ] || ! mount -t tmpfs -o size=64k none "$disk" 2>/dev/null; then
        skip "a full disk" "a small tmpfs cannot be mounted here"
        return
    fi
    mounted=$disk
    holds "a full disk" answers --kv-disk "$disk/kv"
    holds "is one line" notes_once '.*No space left on device'
    holds "a session on a full disk" runs 1 run -m $model --temp 0 -n 5 -p "$ask" --session "$disk/talk.kv"
    holds "leaves no file" test "$(find "$disk" -name 'talk.kv*' | wc -l)" -eq 0
    mount -o remount,ro "$disk"
    holds "a read-only disk" answers --kv-disk "$disk/kv"
    holds "is one line too" notes_once '.*Read-only file system'
    umount "$disk"
    mounted=
}

# state ARGUMENTS...: bytes of the KV cache and recurrent state that info promises.
state() { "$program" info -m $model --json "$@" 2>/dev/null | sed -n 's/.*"state_bytes": \([0-9]*\).*/\1/p' | head -n 1; }

test_memory() {
    holds "memory for keys and values" answers --kv-memory 1GiB
    holds "changes nothing where there is enough" cmp -s "$folder/first" "$folder/stdout"
    holds "a default context is lowered to it" answers --kv-memory 1MB
    holds "with a note" notes_once 'the context is 896 tokens instead of 4096'
    holds "and the same answer" cmp -s "$folder/first" "$folder/stdout"
    holds "chat takes it" runs 0 chat -m $model --kv-memory 1MB
    holds "info promises less" test "$(state --kv-memory 1MB)" -lt "$(state)"
    holds "as much as with that context" test "$(state --kv-memory 1MB)" -eq "$(state -c 896)"
    holds "a context that was asked for stays" refuses 1 'hold 896 tokens, wanted at least the context of 1000 \(1.1 MB\)' run -m $model -c 1000 -p x --kv-memory 1MB
    holds "no context at all" refuses 1 'hold 0 tokens' run -m $model -p x --kv-memory 1kB
    holds "a share is no size of memory" refuses 1 'wanted a size' run -m $model -p x --kv-memory 5%
    holds "of a text, none is given" refuses 2 "unknown option '--kv-memory'" perplexity -m $model --kv-memory 1MB
    holds "sequences that find memory" runs 0 bench $model --batch 4 -p 64 -n 4 -r 1 --kv-memory 600kB
    holds "one that does not" refuses 1 'the KV cache is full: all 2 pages' bench $model --batch 4 -p 64 -n 4 -r 1 --kv-memory 150kB
}

# On the emulated GPU: the state goes through the device's copies.
test_gpu() {
    if [ -z "${SLUICE_CUDA_EMULATOR:-}" ]; then
        skip "sessions of a GPU" "no emulated driver was built"
        return
    fi
    local file=$folder/gpu.kv
    export LD_LIBRARY_PATH=${SLUICE_CUDA_EMULATOR%/*}
    holds "a session of a GPU" runs 0 run -m $model --device cuda --temp 0 -n 3 -p "$ask" --raw --session "$file"
    holds "continues there" runs 0 run -m $model --device cuda --temp 0 -n 3 -v -p "$ask Once upon a time" --raw --session "$file"
    holds "and is reused" reuses 40 session
    holds "but not on the CPU" refuses 1 "wanted 'numerics 1, cpu" run -m $model --device cpu -p x --raw --session "$file"
    unset LD_LIBRARY_PATH
}

test_session_files
test_folder
test_full_disk
test_memory
test_gpu
finish
