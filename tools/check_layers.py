#!/usr/bin/env python3
"""Check every #include "..." against LAYERS: dependencies point one way only."""
import pathlib
import re
import sys

SUFFIXES = {".c", ".h", ".def", ".cu", ".cuh"}
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
BESIDE = re.compile(r"_(test|bench|fuzz)\.c$")


def read_layers(path):
    """folder -> the folders it may include, itself among them."""
    allowed = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            folder, names = line.split(":")
            allowed[folder.strip()] = {folder.strip(), *names.split()}
    return allowed


GENERATED = {"runtime/cuda/stamp.h"}  # made by the build


def complaint(root, allowed, layer, name):
    """What is wrong with layer/ including "name", or None."""
    if "/" not in name:
        return f'"{name}": write the path from the root'
    top = name.split("/")[0]
    folder = "include" if top == "sluice" else top
    where = root / "include" / name if folder == "include" else root / name
    if not where.is_file() and name not in GENERATED:
        return f'"{name}": no such file'
    if folder not in allowed:
        return f'"{name}": {folder}/ is not a layer'
    if "*" not in allowed[layer] and folder not in allowed[layer]:
        return f"{layer}/ may not include {folder}/"
    return None


def check(root):
    allowed = read_layers(root / "LAYERS")
    complaints = []
    for folder in allowed:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            layer = "tests" if BESIDE.search(path.name) else folder
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                found = match and complaint(root, allowed, layer, match[1])
                if found:
                    complaints.append(f"{path.relative_to(root)}:{number}: {found}")
    return complaints


def main():
    complaints = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    for line in complaints:
        print(line, file=sys.stderr)
    return 1 if complaints else 0


sys.exit(main())
