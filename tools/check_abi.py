#!/usr/bin/env python3
"""check_abi.py [--update] - The stable headers against the reference of their ABI (tests/abi/reference.xml).

A library that has nothing but the functions of these headers, each with an empty body, is compiled
with debug information; abidiff (Debian's abigail-tools) compares it with the reference.  Every
difference is a failure: one that is meant is recorded with --update (`make abi`), and one that
breaks callers of the last release needs a new version number as well.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

from public_headers import FOLDER, STABLE, functions

REFERENCE = Path("tests/abi/reference.xml")
WRITE = ["abidw", "--no-show-locs", "--no-comp-dir-path", "--no-corpus-path", "--no-architecture",
         "--no-parameter-names", "--type-id-style", "hash", "--drop-undefined-syms", "--no-elf-needed"]
INCOMPATIBLE, CHANGED = 8, 4  # bits of abidiff's exit status


def make_library(folder):
    lines = [f'#include "{FOLDER.resolve()}/{header}"' for header in STABLE]
    for header in STABLE:
        for _, line in functions(header):
            lines.append(line.replace("SL_API ", "").replace("SL_CHECKED ", "") + " { __builtin_trap(); }")
    Path(folder, "api.c").write_text("\n".join(lines) + "\n")
    subprocess.run(["gcc", "-std=c11", "-g", "-gno-record-gcc-switches", "-fPIC", "-shared", "-Wl,-soname,libsluice.so",
                    f"-I{FOLDER.resolve().parent}", "api.c", "-o", "libsluice.so"], check=True, cwd=folder)
    return f"{folder}/libsluice.so"


def update(library):
    written = subprocess.run([*WRITE, library], capture_output=True, text=True, check=True).stdout
    REFERENCE.write_text(written)


def compare(library):
    run = subprocess.run(["abidiff", "--no-architecture", "--show-bytes",
                          str(REFERENCE), library], capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return 0
    print(run.stdout + run.stderr, file=sys.stderr)
    if run.returncode & INCOMPATIBLE:
        print("check_abi: callers that were compiled before would break", file=sys.stderr)
    if run.returncode & CHANGED:
        print("check_abi: the ABI has changed; if it is meant, `make abi` records it", file=sys.stderr)
    return 1


def main():
    with tempfile.TemporaryDirectory() as folder:
        library = make_library(folder)
        if "--update" in sys.argv[1:]:
            update(library)
            return 0
        return compare(library)


if __name__ == "__main__":
    sys.exit(main())
