#!/usr/bin/env bash
# The server on plain sockets: malformed requests, who may ask, limits, clients that vanish, the end.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u
if "${SLUICE_PROGRAM:?}" serve --port 0 -m /nowhere 2>&1 | grep -q 'built without a server'; then
    echo "skipped - the program was built without libmicrohttpd"
    exit 0
fi
python3 tests/server/framing_cases.py && python3 tests/server/http_cases.py
