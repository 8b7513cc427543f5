#!/usr/bin/env python3
"""Random output under the masks of real schemas, judged by jsonschema.

  check_grammar_output.py GRAMMAR_BENCH TOKENIZER SCHEMAS.jsonl

GRAMMAR_BENCH, the built engine/choose/grammar/grammar_bench.c, prints three texts of random allowed tokens for each
schema that compiles.  Python's \\s lacks U+FEFF, which that of ECMAScript has: such a difference is reported as wrong.
"""
import json
import subprocess
import sys

import jsonschema


def main():
    program, tokenizer, schemas = sys.argv[1:4]
    rows = [json.loads(line) for line in open(schemas, encoding="utf-8")]
    by_name = {row["name"]: row["schema"] for row in rows}
    run = subprocess.run([program, tokenizer, schemas, "sample"], stdout=subprocess.PIPE, check=False)
    valid = wrong = unfinished = unjudged = 0
    for line in run.stdout.decode("utf-8", "replace").splitlines():
        if not line.startswith("sample\t"):
            continue
        _, name, finished, text = line.split("\t", 3)
        text = bytes.fromhex(text).decode("utf-8", "replace")
        if finished != "1":
            unfinished += 1
            continue
        schema = by_name[name]
        try:
            kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
            good = kind(schema).is_valid(json.loads(text))
        except json.JSONDecodeError:
            good = False
        except Exception:  # a schema that jsonschema itself cannot judge: a bad pattern or reference
            unjudged += 1
            continue
        valid += good
        wrong += not good
        if not good:
            print(f"{name}: {text[:300]}")
    print(f"{valid} valid, {wrong} wrong, {unfinished} not finished, {unjudged} not judged")
    sys.exit(wrong != 0 or valid == 0)


if __name__ == "__main__":
    main()
