#!/bin/bash
# executor_table_test.sh - The tables in docs/executor.md and docs/ops.md are what the program prints.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -eu
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 0; }
python3 tools/executor_table.py "$SLUICE_PROGRAM"
python3 tools/op_table.py "$SLUICE_PROGRAM"
