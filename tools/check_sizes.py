#!/usr/bin/env python3
"""Check the ceilings: 800 lines per file, 80 per function.

The layout is clang-format's, so a function is what opens with a `{` at the end of an unindented
line (or a lone one) and closes with a `}` in the first column.
"""
import pathlib
import sys

FOLDERS = sorted({line.split("/")[0].split(":")[0] for line in open("LAYERS") if line[0].isalpha()})
FILE_LINES, FUNCTION_LINES = 800, 80


def functions(lines):
    """(number of the first line, length) of every top-level block of code."""
    start = None
    for number, line in enumerate(lines, 1):
        if not line or line[0] in "#/ \t":
            # a signature that was broken over lines ends in an indented `) {`
            if not (start is None and line.startswith(" ") and line.endswith(") {")):
                continue
        if start is None and line.endswith(") {"):
            start = number
        elif start is not None and line.startswith("}"):
            yield start, number - start + 1
            start = None


def check(path):
    lines = path.read_text().splitlines()
    if len(lines) > FILE_LINES:
        yield f"{path}: {len(lines)} lines, at most {FILE_LINES}"
    for start, length in functions(lines):
        if length > FUNCTION_LINES:
            yield f"{path}:{start}: function of {length} lines, at most {FUNCTION_LINES}"


def main():
    paths = (p for f in FOLDERS for p in sorted(pathlib.Path(f).rglob("*.[ch]")))
    complaints = [line for path in paths for line in check(path)]
    for line in complaints:
        print(line, file=sys.stderr)
    return 1 if complaints else 0


sys.exit(main())
