#!/usr/bin/env python3
"""check_roles.py - Check that values of model builders get their roles in wire.h and params.h only.

A role is a C struct around an sl_value (engine/models/roles.h).  C cannot make its member private, so this checks that
no other file of engine/models names an sl_value, reads the member, or calls a function that returns or takes one.
Without these, no value of a wrong role can be made.
"""
import pathlib
import re
import sys

# Where roles are given, and what these files are built on.
ALLOWED = {"roles.h", "wire.h", "params.h", "builder.h", "builder.c"}
FORBIDDEN = re.compile(
    r"\bsl_value\b|(?:\.|->)value\b|\bsl_build_\w+|\bsl_graph_(?!scope\b|label\b|check\b|create\b|destroy\b)\w+"
    r"|\bsl_builder_(?:weight|tensor|matrix|vector|state|input|output)\b|\bsl_wire_(?:view_heads|flat|slice)\b"
)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def findings(path):
    text = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), path.read_text())
    for number, line in enumerate(text.splitlines(), 1):
        for match in FORBIDDEN.finditer(line):
            yield f"{path}:{number}: {match[0]}: belongs in wire.h or params.h"


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "engine/models")
    files = [p for p in sorted(folder.glob("*.[ch]")) if p.name not in ALLOWED and not p.stem.endswith("_test")]
    found = [line for path in files for line in findings(path)]
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found or not files else 0


sys.exit(main())
