#!/usr/bin/env python3
"""The JSON-Schema-Test-Suite (draft 7 and 2020-12) under grammars; refused schemas are counted.

  check_schema_suite.py GRAMMAR_BENCH TOKENIZER SUITE

GRAMMAR_BENCH is the built engine/choose/grammar/grammar_bench.c.  Rejections that docs/grammar.md explains are listed
here: formats are checked and not only noted, the order of properties, numbers with an exponent.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

EXPLAINED = re.compile(r"/format\.json: .* test 6,|const with object |64-bit representation limits |"
                       r"dependenc|single dependency |multiple dependents required |no validation vocabulary ")


def rows(suite):
    for draft in ("draft7", "draft2020-12"):
        for path in sorted(glob.glob(f"{suite}/tests/{draft}/*.json")):
            for group in json.load(open(path, encoding="utf-8")):
                schema = group["schema"]
                if draft == "draft7" and isinstance(schema, dict):
                    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
                name = f"{draft}/{os.path.basename(path)}: {group['description']}"
                yield {"name": name, "schema": schema, "tests": group["tests"]}


def main():
    program, tokenizer, suite = sys.argv[1:4]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for row in rows(suite):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        file.flush()
        run = subprocess.run([program, tokenizer, file.name], stdout=subprocess.PIPE, check=False)
    lines = run.stdout.decode("utf-8", "replace").splitlines()
    bad = [line for line in lines if re.search(r" (wrongly accepts|wrongly rejects|failed), test", line)]
    unexplained = [line for line in bad if "wrongly rejects" not in line or not EXPLAINED.search(line)]
    print("\n".join([line for line in lines if line.startswith(("schemas:", "instances:"))] + unexplained))
    print(f"{len(bad) - len(unexplained)} explained rejections, {len(unexplained)} others")
    sys.exit(bool(unexplained) or not any(line.startswith("schemas:") for line in lines))


if __name__ == "__main__":
    main()
