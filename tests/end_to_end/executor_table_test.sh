#!/bin/bash
# executor_table_test.sh - The table in docs/executor.md is what the program prints.
# Wants $SLUICE_PROGRAM; run from the root of the repository.
set -eu
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 0; }
python3 tools/executor_table.py "$SLUICE_PROGRAM"
