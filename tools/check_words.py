#!/usr/bin/env python3
"""Rejects phrases that readers from outside the project did not understand, and long lines in docs.

Usage: check_words.py [FILE...]     (default: all tracked text files)

Each rule is a regular expression and the words to use instead.  docs/glossary.md has the terms that are
specific to sluice.
"""
import pathlib
import re
import subprocess
import sys

# (regular expression, better words).  Written in lower case; case does not matter.
PHRASES = [
    (r"ops? of others", "custom ops"),
    (r"another's op", "a custom op"),
    (r"sizes with names", "symbolic sizes"),
    (r"rows that meet panels", "activations that multiply quantised weights"),
    (r"rows meet panels", "activations multiply quantised weights"),
    (r"of tensors without elements nothing", "nothing is computed for tensors without elements"),
    (r"through the house", "through the code"),
    (r"\bmended\b", "fixed"),
    (r"(?:model|fable) that comes along", "bundled demo model"),
    (r"is dear\b", "is expensive"),
    (r"what steers", "values that control decisions"),
    (r"what are no numbers", "NaN"),
    (r"is no option of", "is not an option of"),
    (r"is no (?:value|tensor|node) of", "is not a ... of"),
    (r"is no way to compile", "is not a compile option"),
    (r"one argument too many", "unexpected argument"),
    (r"what to work on", "missing argument"),
    (r"print for machines", "print JSON"),
    (r"(?:id|list|object|text|number) is wanted", "expected ..."),
    (r"none that there is", "not a known value"),
    (r"that there are, as many as", "one known ... per ..."),
    (r"some prime\b", "a placeholder size"),
    (r"like no other", "a placeholder size"),
    (r"past the page cache", "with direct I/O, bypassing the page cache"),
    (r"became of", "happened to, or was compiled to"),
    (r"imagined (?:context|weight)", "simulated context"),
    (r"slow and right", "reference in double precision, slow"),
    (r"others work (?:here|on this machine)", "other processes are busy"),
    (r"what windows see", "im2col, input patches"),
    (r"is no (?:string|array|matrix|bool|finite|character|input|proper)", "is not a ..."),
    (r"which is none\b", "which is invalid or unknown"),
    (r"is there (?:already|twice)", "is already defined, is defined twice"),
    (r"(?:floats|numbers) alike", "of one float type, of one number type"),
    (r"of one's choice", "given"),
    (r"as kernels want", "in the layout of the kernels"),
    (r"inferred anew", "inferred again"),
    (r"the very weights", "exactly the weights"),
    (r"made anew\b", "created again, recomputed"),
]

SUFFIXES = {".c", ".h", ".def", ".md", ".sh", ".py", ".cu", ".cuh", ".txt"}
SKIPPED = ("tests/data/", "tools/check_words.py", "models/", "runtime/cuda/kernels/")
MOST_COLUMNS = 200  # of a line of prose in a *.md file


def tracked():
    names = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    return names.splitlines()


def phrase_faults(name, text):
    lower = text.lower()
    for anchor, pattern, better in RULES:
        if anchor not in lower:
            continue
        for match in pattern.finditer(lower):
            line = text.count("\n", 0, match.start()) + 1
            found = " ".join(re.sub('[*"]', " ", match.group()).split())
            yield f"{name}:{line}: '{found}': write '{better}'"


def length_faults(name, text):
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            code = not code
        if not code and not line.startswith("|") and len(line) > MOST_COLUMNS:
            yield f"{name}:{number}: {len(line)} characters, at most {MOST_COLUMNS} outside tables"


def faults(name):
    path = pathlib.Path(name)
    if name.startswith(SKIPPED) or path.suffix not in SUFFIXES or not path.is_file():
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    yield from phrase_faults(name, text)
    if path.suffix == ".md":
        yield from length_faults(name, text)


def rule(phrase, better):
    """A word to look for first, and the expression; a blank also matches a break of a comment or string."""
    anchor = max(re.findall(r"[a-z]+(?![a-z]*\?)", re.sub(r"\\b|\(.*?\)", " ", phrase)), key=len)
    return anchor, re.compile(phrase.replace(" ", r'[\s*"]+')), better


RULES = [rule(*row) for row in PHRASES]


def main():
    found = [fault for name in sys.argv[1:] or tracked() for fault in faults(name)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
