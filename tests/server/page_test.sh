#!/usr/bin/env bash
# The page of the server: its modules in node, and the whole in a browser.  Skips what is not installed.
set -u
failed=0
if [ -n "${SLUICE_SANITIZED:-}${SLUICE_EMULATED:-}" ]; then
    echo "page_test: skipped: the page is not compiled"
    exit 0
fi
if command -v node >/dev/null; then
    node --test tests/server/page_modules_test.mjs || failed=1
else
    echo "page_test: skipped in node: no node"
fi
/usr/bin/python3 tests/server/page_test.py "$@" || failed=1
exit $failed
