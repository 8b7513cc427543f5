#!/usr/bin/env python3
"""check_rooms.py [-v] - Check that the files of an op are found by the name of its family.

A family F has its rows in core/ops/F.def, or in several files F_*.def.  The row of an op, its sl_infer_ and sl_eval_
(compiler/ops), its CPU kernels (runtime/cpu/kernels) and its CUDA launch plans (runtime/cuda/ops) should all be in
files named F.ext or F_*.ext.
Definitions are looked for in preprocessed sources, so those that macros and tables generate are found too.  Prints how
many ops are in files of 1, 2, .. families; -v names those of more than one.  Fails if an op has no definition, if
fewer than ONE_FAMILY ops have all their files in one family, or if a CUDA kernel file belongs to no family.
"""
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ONE_FAMILY = 250
# CUDA kernel files that serve several families.
SHARED_KERNELS = {"gemm", "gemm_half", "loops", "row"}
CC = [os.environ.get("CC", "cc"), "-E", "-P", "-w", "-D_GNU_SOURCE", "-I.", "-Iinclude"]
DEFINITION = re.compile(
    r"\b(?:sl_(?:infer|eval)_(?P<op>\w+)|sl_(?:split|run|prepare)_(?P<cpu>\w+)_baseline|sl_cuda_plan_(?P<cuda>\w+))"
    r"\((?:[^(){}]|\(\([^()]*\)\))*\)\s*\{"
)


def preprocessed(path, text=None):
    """A file, or a text, after the preprocessor."""
    done = subprocess.run([*CC, *(["-xc", "-"] if text else [path])], input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{path}: cannot be preprocessed\n{done.stderr}")
    return done.stdout


def definitions(path):
    """What a C file defines: (kind, name) pairs, kind one of op, cpu and cuda."""
    return path, {(m.lastgroup, m[m.lastgroup]) for m in DEFINITION.finditer(preprocessed(path))}


def ops_of(table):
    """The ops that a file of core/ops has rows for."""
    text = f'#define OP(NAME, ...) @op NAME@\n#define SL_FAMILY "{table}"\n#include "core/ops.def"\n'
    return re.findall(r"@op (\w+)@", preprocessed(table, text))


def kernels_of(table):
    """op -> names of the kernel functions that a table lists for it."""
    found = collections.defaultdict(set)
    text = f'#define KERNEL(OP, WEIGHT, FN) @kernel OP FN@\n#include "{table}"\n'
    for op, fn in re.findall(r"@kernel (\w+) (\w+)@", preprocessed(table, text)):
        found[op].add(fn)
    return found


class Rooms:
    def __init__(self):
        tables = sorted(pathlib.Path("core/ops").glob("*.def"))
        self.families = {table.stem for table in tables}
        self.rows = {op: table for table in tables for op in ops_of(table)}
        self.cpu, self.cuda = kernels_of("runtime/cpu/kernels.def"), kernels_of("runtime/cuda/kernels.def")
        self.files = collections.defaultdict(set)  # (kind, name) -> files
        sources = [
            path
            for folder in ("compiler/ops", "runtime/cpu/kernels", "runtime/cuda/ops")
            for path in sorted(pathlib.Path(folder).glob("*.c"))
            if not path.stem.endswith("_test")
        ]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for path, found in pool.map(definitions, sources):
                for definition in found:
                    self.files[definition].add(path)

    def stem(self, path):
        """The family that a file's name begins with; its whole name if there is none."""
        words = path.stem.split("_")
        names = ("_".join(words[:count]) for count in range(1, len(words)))
        return next((name for name in names if name in self.families), path.stem)

    def files_of(self, op):
        """The files that define an op, its row first, and what is not defined anywhere."""
        wanted = [("op", op)] + [("cpu", fn) for fn in self.cpu[op]] + [("cuda", fn) for fn in self.cuda[op]]
        missing = [name for name in wanted if name not in self.files]
        return [self.rows[op], *sorted({path for name in wanted for path in self.files[name]})], missing


def main():
    rooms, counts, failed = Rooms(), collections.Counter(), False
    for op in rooms.rows:
        files, missing = rooms.files_of(op)
        stems = {rooms.stem(path) for path in files}
        counts[len(stems)] += 1
        if len(stems) > 1 and "-v" in sys.argv[1:]:
            print(f"{op}:", *files)
        for kind, name in missing:
            print(f"op '{op}': no definition of its {kind} function '{name}'", file=sys.stderr)
            failed = True
    for path in sorted(pathlib.Path("runtime/cuda/kernels").glob("*.cu")):
        if rooms.stem(path) not in rooms.families | SHARED_KERNELS:
            print(f"{path}: named after no family of core/ops", file=sys.stderr)
            failed = True
    table = ", ".join(f"{n}: {counts[n]}" for n in sorted(counts))
    print(f"{len(rooms.rows)} ops, by the number of families among their files: {table}")
    if counts[1] < ONE_FAMILY:
        print(f"{counts[1]} ops have all their files in one family, wanted {ONE_FAMILY}", file=sys.stderr)
        failed = True
    return 1 if failed else 0


sys.exit(main())
