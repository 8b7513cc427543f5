#!/usr/bin/env python3
"""Writes the cases of tests/data/ops as graphs in text form, for the fuzzers that read or run them.

    make_graph_texts.py FOLDER

For each op the smallest case of every rank and element type, at most four.
"""
import glob
import json
import os
import re
import sys

MOST_EACH, MOST_ELEMENTS = 4, 2048


def elements(tensors):
    total = 0
    for t in tensors:
        count = 1
        for d in t["dims"]:
            count *= d
        total += count
    return total


def kinds_of_inputs():
    """IN, STATE, ... of the named inputs of each op."""
    kinds = {}
    for path in glob.glob("core/ops/*.def"):
        for op, operands in re.findall(r"^OP\((\w+),\s*((?:[A-Z]+\(\w+\)\s*)*)", open(path).read(), re.M):
            kinds[op] = re.findall(r"([A-Z]+)\(", operands)
    return kinds


KINDS = kinds_of_inputs()


def graph(case):
    kinds = KINDS.get(case["op"], [])
    lines = []
    for i, t in enumerate(case["in"]):
        word = "state" if kinds[i:i + 1] == ["STATE"] else "input"
        lines.append(f"  {word} %x{i} : {t['dtype']}[{','.join(map(str, t['dims']))}]")
    results = [f"%{100 + i}" for i in range(len(case["out"]))]
    operands = ", ".join(f"%x{i}" for i in range(len(case["in"])))
    attrs = f" {{{case['attrs']}}}" if case["attrs"] else ""
    lines.append(f"  {', '.join(results)} = {case['op']}({operands}){attrs}")
    lines += [f'  output "y{i}" = {name}' for i, name in enumerate(results)]
    return 'graph "g" {\n' + "\n".join(lines) + "\n}\n"


found = {}
for path in sorted(glob.glob("tests/data/ops/*.json")):
    for case in json.load(open(path)):
        if "in" not in case or "out" not in case or "EXPERTS" in KINDS.get(case["op"], []):
            continue
        size, op = elements(case["in"] + case["out"]), case["op"]
        kind = tuple((t["dtype"], len(t["dims"])) for t in case["in"])
        old = found.setdefault(op, {}).get(kind)
        if size <= MOST_ELEMENTS and (old is None or size < old[0]):
            found[op][kind] = size, case
os.makedirs(sys.argv[1], exist_ok=True)
for op, kinds in found.items():
    for number, (_, case) in enumerate(sorted(kinds.values(), key=lambda pair: pair[0])[:MOST_EACH]):
        with open(os.path.join(sys.argv[1], f"{op}-{number}"), "w") as out:
            out.write(graph(case))
