#!/usr/bin/env python3
"""Prints docs/ops.md, the table of all ops, from what `sluice ir ops --markdown` says.

Usage: op_table.py PROGRAM           compare with docs/ops.md, fail if it differs
       op_table.py PROGRAM --write   rewrite it
"""
import difflib
import pathlib
import subprocess
import sys

DOCUMENT = pathlib.Path(__file__).parent.parent / "docs" / "ops.md"
HEADER = """\
# Ops

All ops of graphs, as `sluice ir ops --markdown` prints them; `sluice ir ops NAME` describes one. In lists of operands,
`x..` stands for any number of tensors. The columns of devices name the element types of their kernels; other element
types of an op are rewritten or converted. [docs/ops](ops) has a page for each family, with formulas, edge cases and
examples.

"""


def main():
    program, write = sys.argv[1], sys.argv[2:] == ["--write"]
    table = subprocess.run([program, "ir", "ops", "--markdown"], check=True, capture_output=True, text=True).stdout
    text, found = HEADER + table, DOCUMENT.read_text() if DOCUMENT.exists() else ""
    if write:
        DOCUMENT.write_text(text)
    elif found != text:
        sys.stdout.writelines(difflib.unified_diff(found.splitlines(True), text.splitlines(True), "written", "printed"))
        sys.exit(f"op_table: {DOCUMENT.name} is stale; `tools/op_table.py PROGRAM --write` rewrites it")
    else:
        print(f"op_table: {table.count(chr(10)) - 2} ops as in {DOCUMENT.name}")


main()
