#!/usr/bin/env python3
"""check_headers.py - The public headers are what we can keep.

Every function is exported, and checked if it has a status; every struct begins with struct_size and
has a test, or is closed; nothing large is returned by value; every name begins with sl_ or SL_; each
header compiles by itself and all together, as C11 and as C++11 and C++17, without a warning.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from public_headers import EXPERIMENTAL, FOLDER, STABLE, declarations, functions, structs, text_of, without_comments

SIZES_TEST = Path("api/struct_sizes_test.c")
# The library fills it in for callbacks: no caller sets its size.
FILLED_BY_LIBRARY = {"sl_custom_call", "sl_layer_item"}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
LANGUAGES = [("c", "c11"), ("c++", "c++11"), ("c++", "c++17")]


def check_functions(header):
    for name, line in functions(header):
        if not line.startswith("SL_API "):
            yield f"{header}: {name} is not exported: SL_API is missing"
        if ("SL_CHECKED" in line) != bool(re.search(r"\bsl_status \w+\(", line)):
            yield f"{header}: {name}: SL_CHECKED belongs to functions that return sl_status"
        result = re.sub(r"SL_API|SL_CHECKED|const|\b" + name + r"\(.*", "", line).split()
        if result[0] in {struct for h in STABLE + EXPERIMENTAL for struct, _, _ in structs(h)} - {"sl_value"} \
                and "*" not in line[:line.index(name)]:
            yield f"{header}: {name} returns {result[0]} by value"


def check_structs(header, tests):
    for name, body, after in structs(header):
        sized = re.match(r"\s*(/\*.*?\*/\s*)*size_t struct_size;", body, re.S)
        if sized and name not in FILLED_BY_LIBRARY and f"sizeof({name})" not in tests:
            yield f"{header}: {name} has a struct_size but no row in {SIZES_TEST}"
        if not sized and "closed" not in after:
            yield f"{header}: {name} begins without struct_size and is not /* closed */"


def check_names(header):
    text = without_comments(text_of(header))
    names = re.findall(r"^#define (\w+)", text, re.M)
    for line in declarations(header):
        names += re.findall(r"^typedef .*?(\w+)$", line) if "(" not in line else []
        for body in re.findall(r"\benum \w*\s*\{(.*?)\}", line):
            names += re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip())
    names += [name for name, _ in functions(header)]
    for name in names:
        if not re.match(r"sl_|SL_|SLUICE_\w+_H$|SLUICE_H$", name):
            yield f"{header}: the name {name} begins with neither sl_ nor SL_"


def compiles(compiler, language, standard, path):
    command = [compiler, f"-x{language}", f"-std={standard}", *WARNINGS, f"-I{FOLDER.parent}", "-fsyntax-only", path]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.stderr.strip() if run.returncode else ""


def check_compilers():
    headers = STABLE + EXPERIMENTAL
    subjects = [[h] for h in headers] + [headers, headers[::-1]]
    compilers = [c for c in ("gcc", "clang") if shutil.which(c)]
    if not compilers:
        yield "no compiler is here, nothing tried"
    with tempfile.TemporaryDirectory() as folder:
        for subject in subjects:
            path = f"{folder}/includes"
            Path(path).write_text("".join(f"#include <sluice/{h}>\n" for h in subject) + "int main(void);\n")
            for compiler in compilers:
                for language, standard in LANGUAGES:
                    problem = compiles(compiler, language, standard, path)
                    if problem:
                        yield f"{'+'.join(subject)} with {compiler} -std={standard}: {problem}"


def main():
    problems = []
    tests = SIZES_TEST.read_text()
    listed = {path.name for path in FOLDER.glob("*.h")}
    if listed != set(STABLE + EXPERIMENTAL):
        problems.append(f"tools/public_headers.py does not list the headers of {FOLDER}: {listed}")
    for header in STABLE + EXPERIMENTAL:
        for check in (check_functions(header), check_structs(header, tests), check_names(header)):
            problems += check
    problems += check_compilers()
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
