#!/usr/bin/env bash
# A live server and requests that were changed at random, for some seconds; fuzz_test.sh 600 for ten minutes.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u
if "${SLUICE_PROGRAM:?}" serve --port 0 -m /nowhere 2>&1 | grep -q 'built without a server'; then
    echo "skipped - the program was built without libmicrohttpd"
    exit 0
fi
exec python3 tests/server/socket_fuzz.py "$@"
