#!/usr/bin/env bash
# The server with the clients of OpenAI and Anthropic, of which pip puts these versions into a virtual
# environment below build/.  Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u
clients='openai==3.51.0 anthropic==2.9.0'
folder=build/server-clients
if "${SLUICE_PROGRAM:?}" serve --port 0 -m /nowhere 2>&1 | grep -q 'built without a server'; then
    echo "skipped - the program was built without libmicrohttpd"
    exit 0
fi
mkdir -p build
if [ "$(cat $folder/installed 2>/dev/null)" != "$clients" ]; then
    # shellcheck disable=SC2086  # several packages
    if ! { python3 -m venv $folder && $folder/bin/pip install -q --retries 1 --timeout 10 $clients; } >&2; then
        echo "skipped - the clients cannot be installed by pip"
        exit 0
    fi
    echo "$clients" >$folder/installed
fi
exec $folder/bin/python tests/server/client_cases.py
