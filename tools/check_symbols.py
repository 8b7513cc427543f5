#!/usr/bin/env python3
"""check_symbols.py FOLDER - What the libraries that were built in FOLDER define for others.

Fails on a global symbol of libsluice.a that does not begin with sl_, on a symbol that libsluice.so
exports and no header declares, and on a function of a header that it does not export.
"""
import subprocess
import sys

from public_headers import EXPERIMENTAL, STABLE, functions


def symbols(*arguments):
    run = subprocess.run(["nm", "--defined-only", *arguments], capture_output=True, text=True, check=True)
    rows = [line.split() for line in run.stdout.splitlines()]
    return sorted({row[2].split("@")[0] for row in rows if len(row) == 3 and row[1] not in "A"})


def main():
    folder = sys.argv[1]
    static = symbols("--extern-only", f"{folder}/libsluice.a")
    exported = set(symbols("--dynamic", f"{folder}/libsluice.so"))
    declared = {name for header in STABLE + EXPERIMENTAL for name, _ in functions(header)}
    problems = [f"libsluice.a: the global symbol {name} does not begin with sl_" for name in static
                if not name.startswith("sl_")]
    problems += [f"libsluice.so exports {name}, which no header declares" for name in sorted(exported - declared)]
    problems += [f"libsluice.so does not export {name}, which a header declares" for name in sorted(declared - exported)]
    if not static or not exported:
        problems.append(f"{folder}: the libraries define nothing")
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
