#!/usr/bin/env python3
"""Prints the table "Results" of docs/executor.md from what `sluice inspect` reports.

Usage: executor_table.py PROGRAM           compare with docs/executor.md, fail if it differs
       executor_table.py PROGRAM --write   rewrite the table there
"""
import difflib
import json
import pathlib
import subprocess
import sys

DOCUMENT = pathlib.Path(__file__).parent.parent / "docs" / "executor.md"
BEGIN, END = "<!-- printed by tools/executor_table.py -->\n", "<!-- end -->\n"
HEADER = """\
| | steps | fused away | barriers, naive → kept | edges, conflicting pairs → kept | arena, unshared → planned | × live |
|---|---|---|---|---|---|---|
"""
# (name, arguments of `sluice inspect`, schedules that give the same figures)
ROWS = [
    ("fable 1", ["--tokens", "1"], ("levels", "groups")),
    ("fable 512", ["--tokens", "512"], ("levels", "groups")),
    ("fable 1", ["--tokens", "1"], ("edges",)),
    ("fable 512", ["--tokens", "512"], ("edges",)),
    ("35B-A3B 1", ["--shape", "qwen3.5-35b-a3b", "--tokens", "1"], ("levels", "groups")),
    ("35B-A3B 512", ["--shape", "qwen3.5-35b-a3b", "--tokens", "512"], ("levels", "groups")),
    ("35B-A3B 512", ["--shape", "qwen3.5-35b-a3b", "--tokens", "512"], ("edges",)),
]


def number(value):
    return f"{value:,}".replace(",", " ")


def size(count):
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1000


def report(program, arguments, schedule):
    command = [program, "inspect", "-m", "models/fable", "--device", "cpu", "--isa", "baseline", "--threads", "2"]
    if "--shape" in arguments:
        command[2:4] = []
    output = subprocess.run(
        command + arguments + ["--schedule", schedule, "--json"], check=True, capture_output=True, text=True
    )
    return json.loads(output.stdout)


def row(program, name, arguments, schedules):
    cells = {cells_of(report(program, arguments, schedule), schedule) for schedule in schedules}
    if len(cells) != 1:
        sys.exit(f"executor_table: {name} differs between the schedules {' and '.join(schedules)}: give each a row")
    return f"| {name}, {' and '.join(schedules)} | {cells.pop()} |\n"


def cells_of(r, schedule):
    barriers = "–" if schedule == "edges" else f"{number(r['barriers_naive'])} → {number(r['barriers'])}"
    return " | ".join(
        [
            number(r["steps"]),
            number(r["fused"]),
            barriers,
            f"{number(r['edges_naive'])} → {number(r['edges'])}",
            f"{size(r['unshared_bytes'])} → {size(r['arena_bytes'])}",
            f"{r['arena_bytes'] / r['live_bytes']:.3f}",
        ]
    )


def main():
    program, write = sys.argv[1], sys.argv[2:] == ["--write"]
    table = HEADER + "".join(row(program, *r) for r in ROWS)
    text = DOCUMENT.read_text()
    before, rest = text.split(BEGIN)
    found, after = rest.split(END)
    if found == table:
        print(f"executor_table: {len(ROWS)} rows as in {DOCUMENT.name}")
        return
    if write:
        DOCUMENT.write_text(before + BEGIN + table + END + after)
        return
    sys.stdout.writelines(difflib.unified_diff(found.splitlines(True), table.splitlines(True), "written", "printed"))
    sys.exit(f"executor_table: {DOCUMENT.name} is stale; `tools/executor_table.py PROGRAM --write` rewrites it")


main()
