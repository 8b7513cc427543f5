#!/bin/bash
# python_test.sh - The tests of the Python package, on the library that was built already.
# Wants $SLUICE_PROGRAM; run from the root of the repository.  Makes a virtual environment beside the
# program, for which it needs PyPI once.
set -eu
build=$(cd "$(dirname "$SLUICE_PROGRAM")" && pwd)
wanted=python/tests/requirements.txt venv=$build/python-venv
skip() {
    echo "skipped: $1"
    exit 0
}
[ -e "$build/libsluice.so" ] && [ -e "$build/python/sluice/_declarations.py" ] ||
    skip "the shared library or the package is not built"
if ! cmp -s "$wanted" "$venv/installed.txt"; then
    python3 -m venv "$venv" 2>/dev/null || skip "python3 cannot make a virtual environment (apt: python3-venv)"
    "$venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 20 -r "$wanted" ||
        skip "the packages that the tests need cannot be installed"
    cp "$wanted" "$venv/installed.txt"
fi
export SLUICE_LIBRARY=$build/libsluice.so PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider python/tests
