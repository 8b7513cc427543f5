#!/usr/bin/env python3
"""Writes tests/data/ops/choose.json: tokens chosen from logits by the filters of transformers, in float64.

Same form as fixtures.json (make_op_fixtures.py).  Needs torch and transformers.
usage: make_choose_fixtures.py OUTPUT
"""
import json
import random
import struct
import sys

import torch
from transformers.generation.logits_process import (MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper,
                                                    TopPLogitsWarper)

random.seed(31)
cases = []


def f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def tensor(dtype, dims, data):
    return {"dtype": dtype, "dims": list(dims), "data": list(data)}


def case(op, inputs, outputs):
    cases.append({"op": op, "attrs": "", "in": inputs, "out": outputs})


def chosen_of(logits, temperature, top_k, top_p, min_p, share):
    if temperature < 0:
        return -1
    scores = torch.tensor([logits], dtype=torch.float64)
    if temperature == 0:
        return int(torch.argmax(scores))
    warpers = [TemperatureLogitsWarper(float(temperature))]
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p:
        warpers.append(TopPLogitsWarper(top_p))
    if min_p:
        warpers.append(MinPLogitsWarper(min_p))
    for warper in warpers:
        scores = warper(None, scores)
    weights = torch.softmax(scores, -1)[0].tolist()
    order = range(len(weights)) if len(warpers) == 1 else sorted(range(len(weights)), key=lambda i: -weights[i])
    total = 0.0
    for token in order:
        total += weights[token]
        if total > share:
            return token
    raise ValueError("shares do not sum to 1")


def choosing():
    hows = [(0, 0, 0, 0), (1, 0, 0, 0), (0.7, 0, 0, 0), (1, 4, 0, 0), (1.5, 0, 0.75, 0), (1, 0, 0, 0.125), (0.8, 5, 0.9, 0),
            (0.8, 6, 0, 0.25), (2, 0, 0.9, 0.0625), (1, 8, 0.9, 0.125), (-1, 2, 0, 0)]
    for vocab in (1, 9, 40, 257):
        rows = len(hows)
        logits = [[f32(random.uniform(-4, 4)) for _ in range(vocab)] for _ in hows]
        shares = [random.random() for _ in hows]
        slots = random.sample(range(rows + 2), rows)
        before = [random.randrange(50) for _ in range(rows + 2)]
        tokens = [chosen_of(row, *how, share) for row, how, share in zip(logits, hows, shares)]
        after = list(before)
        for slot, token in zip(slots, tokens):
            after[slot] = token if token >= 0 else after[slot]
        state = tensor("i32", (rows + 2,), after)
        case("choose", [tensor("f32", (rows, vocab), sum(logits, [])),
                        tensor("f64", (rows, 5), sum(([*how, share] for how, share in zip(hows, shares)), [])),
                        tensor("i32", (rows,), slots), tensor("i32", (rows + 2,), before)],
             [tensor("i32", (rows,), tokens), state])


def resuming():
    for rows, slots in ((1, 1), (7, 3)):
        tokens = [random.choice((-1, random.randrange(99))) for _ in range(rows)]
        places = [random.randrange(slots) for _ in range(rows)]
        chosen = [random.randrange(99) for _ in range(slots)]
        out = [chosen[s] if t == -1 else t for t, s in zip(tokens, places)]
        case("resume", [tensor("i32", (rows,), tokens), tensor("i32", (rows,), places), tensor("i32", (slots,), chosen)],
             [tensor("i32", (rows,), out)])


choosing()
resuming()
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(f"{len(cases)} cases of {len({c['op'] for c in cases})} ops")
