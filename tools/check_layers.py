#!/usr/bin/env python3
"""Check every #include "..." against LAYERS: dependencies point one way only."""
import graphlib
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


def check_layers(allowed):
    """What is wrong with LAYERS itself: unknown folders, and cycles."""
    for folder, names in allowed.items():
        for name in sorted(names - allowed.keys() - {"*"}):
            yield f"LAYERS: {folder}: {name}/ is not a layer"
    try:
        graphlib.TopologicalSorter(
            {folder: names - {folder} for folder, names in allowed.items()}).prepare()
    except graphlib.CycleError as cycle:
        yield f"LAYERS: folders include each other: {' <- '.join(cycle.args[1])}"


def layer_of(allowed, path):
    """The longest listed folder that holds the path, or the path itself if it is listed; else None."""
    folders = [str(path)] + [str(folder) for folder in pathlib.PurePath(path).parents]
    return next((folder for folder in folders if folder in allowed), None)


GENERATED = {"runtime/cuda/stamp.h"}  # made by the build


def complaint(root, allowed, layer, name):
    """What is wrong with layer/ including "name", or None."""
    if "/" not in name:
        return f'"{name}": write the path from the root'
    path = f"include/{name}" if name.startswith("sluice/") else name
    if not (root / path).is_file() and name not in GENERATED:
        return f'"{name}": no such file'
    folder = layer_of(allowed, path)
    if folder is None:
        return f'"{name}": its folder is not a layer'
    if "*" not in allowed[layer] and folder not in allowed[layer]:
        return f"{layer}/ may not include {folder}/"
    return None


def check_file(root, allowed, path):
    """Complaints about the includes of one file."""
    inside = path.relative_to(root)
    layer = "tests" if BESIDE.search(path.name) else layer_of(allowed, inside)
    if layer is None:
        yield f"{inside}: its folder is not a layer"
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        found = match and complaint(root, allowed, layer, match[1])
        if found:
            yield f"{inside}:{number}: {found}"


def check(root):
    allowed = read_layers(root / "LAYERS")
    complaints = list(check_layers(allowed))
    for top in sorted({folder.split("/")[0] for folder in allowed}):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES:
                complaints += check_file(root, allowed, path)
    return complaints


def main():
    complaints = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    for line in complaints:
        print(line, file=sys.stderr)
    return 1 if complaints else 0


sys.exit(main())
