#!/usr/bin/env python3
"""check_op_pages.py - Every op family has a page in docs/ops, and every op an example there.

--examples FOLDER writes each example to a file of its own, PAGE-NUMBER.ir.
"""
import argparse
import re
import sys
from pathlib import Path

FAMILIES, PAGES = Path("core/ops"), Path("docs/ops")
ROW = re.compile(r"^(?:OP|ELEMENTWISE_\w+)\((?:\d+,\s*)?(\w+)", re.M)
EXAMPLE = re.compile(r"^```\n(graph .*?)^```$", re.M | re.S)
# Ops without an example that runs by itself, and why.
WITHOUT = {"custom": "its meaning is the caller's"}


def examples():
    for page in sorted(PAGES.glob("*.md")):
        for number, text in enumerate(EXAMPLE.findall(page.read_text()), 1):
            yield f"{page.stem}-{number}", text


def findings():
    pages = "\n".join(page.read_text() for page in PAGES.glob("*.md"))
    used = set(re.findall(r"= (\w+)\(", "\n".join(text for _, text in examples())))
    for family in sorted(FAMILIES.glob("*.def")):
        if f"`core/ops/{family.name}`" not in pages:
            yield f"{family}: no page of docs/ops has this family"
        rows = family.read_text()
        if family.name == "elementwise.def":
            rows += Path("core/elementwise.def").read_text()
        for op in ROW.findall(rows):
            if op not in used and op not in WITHOUT:
                yield f"{family}: {op} is in no example of docs/ops"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if options.examples:
        for name, text in examples():
            (options.examples / f"{name}.ir").write_text(text)
        return 0
    found = list(findings())
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


sys.exit(main())
