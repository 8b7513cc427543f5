#!/bin/bash
# check_cuda.sh [TOOL...] - The tests of CUDA on this machine's GPU, from the root of the repository.
#
# Without a tool they run as they are, and every golden family beside them; with tools (memcheck,
# racecheck, initcheck, synccheck) under each of compute-sanitizer's.  BUILD is the folder that they
# were built in, JOBS how many run at a time, LIMIT the seconds that each may take.  Side by side,
# initcheck takes results of kernels that run beside others for never written: let it run alone.
# memcheck leaves out what the driver returns, which tests look at: a function is looked for in one
# image after the other.
set -u
build=${BUILD:-build} jobs=${JOBS:-1} limit=${LIMIT:-900}
export SLUICE_CUDA=device SLUICE_PROGRAM=$build/sluice
suites=$(cd "$build/tests" && ls -d *_test_cuda engine_session_ahead_test runtime_cpu_control_test runtime_cuda_{join,plain,rows}_test)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# One line: how it ended, how long it took, and what the tool or the test said last.
run_one() {
    local tool=$1 name=$2 log=$folder/$1.$2 start=$SECONDS code said
    shift 2
    timeout "$limit" "$@" >"$log" 2>&1
    code=$?
    said=$(grep -aE 'SUMMARY|PASSED|skipped|relative' "$log" | tail -n 2 | tr -s '\n=' '  ')
    printf '%-9s %-34s %s, %d s: %s\n' "$tool" "$name" "$([ $code = 0 ] && echo ok || echo "FAILED ($code)")" $((SECONDS - start)) "$said"
    [ $code = 0 ] || { grep -aE 'Error|Race|hazard|ERROR|FAILED' "$log" | head -n 40; tail -n 5 "$log"; }
    return $code
}
export -f run_one
export folder limit

{
    if [ $# = 0 ]; then
        for suite in $suites; do echo "as-is $suite $build/tests/$suite"; done
        echo "as-is goldens bash tests/golden/cuda_test.sh"
        echo "as-is batches $build/tests/tests_golden_batch_test"
    fi
    for tool in "$@"; do
        for suite in $suites; do
            quiet=$([ "$tool" = memcheck ] && echo --report-api-errors no)
            echo "$tool $suite compute-sanitizer --tool $tool $quiet --error-exitcode 9 $build/tests/$suite"
        done
    done
} | xargs -P "$jobs" -L 1 bash -c 'run_one "$@"' check
