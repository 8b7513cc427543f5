#!/usr/bin/env bash
# The server on plain sockets: framing, malformed requests, who may ask, limits, clients that vanish, the end;
# and what coding agents send.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u
if "${SLUICE_PROGRAM:?}" serve --port 0 -m /nowhere 2>&1 | grep -q 'built without a server'; then
    echo "skipped - the program was built without libmicrohttpd"
    exit 0
fi
failed=0
for cases in framing http agent; do
    python3 tests/server/${cases}_cases.py || failed=1
done
exit $failed
