#!/usr/bin/env bash
# The program on a terminal: typing, pasting, Ctrl-C, Ctrl-D, colours.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -u
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 0; }
ls models/fable/*.sluice >/dev/null 2>&1 || { echo "skipped: models/fable is not here"; exit 0; }
exec python3 tests/end_to_end/terminal.py "${SLUICE_PROGRAM:?the path of the program to test}"
