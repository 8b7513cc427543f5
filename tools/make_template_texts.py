#!/usr/bin/env python3
"""Writes the templates of tests/data/template, and those in expressions of its test, for the fuzzer of templates.

    make_template_texts.py FOLDER
"""
import json
import os
import re
import sys


def main(folder):
    texts = {case["template"] for case in json.load(open("tests/data/template/cases.json"))}
    # C strings of the test that hold a tag or an expression.
    source = open("engine/text/template_test.c").read()
    for quoted in re.findall(r'"(?:[^"\\\n]|\\.)*"', source):
        text = quoted[1:-1].encode().decode("unicode_escape", "replace")
        if "{%" in text or "{{" in text:
            texts.add(text)
    for number, text in enumerate(sorted(texts)):
        with open(os.path.join(folder, f"case-{number}"), "w", encoding="utf-8", errors="replace") as file:
            file.write(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
