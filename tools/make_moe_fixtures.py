#!/usr/bin/env python3
"""Writes tests/data/ops/moe.json: routing by groups, experts with biases, and sums of experts, in float64.

Same form as fixtures.json (make_op_fixtures.py), by the formulas of the models' reference code; nothing but Python is needed.
usage: make_moe_fixtures.py OUTPUT
"""
import json
import math
import random
import struct
import sys

random.seed(23)
cases = []


def f32(value):
    """An attribute or a weight as the op sees it."""
    return struct.unpack("f", struct.pack("f", value))[0]


def rnd(*dims, low=-2.0, high=2.0):
    return {"dtype": "f32", "dims": list(dims), "data": [random.uniform(low, high) for _ in range(math.prod(dims))]}


def rows(x):
    """The last axis as lists."""
    n = x["dims"][-1]
    return [x["data"][i:i + n] for i in range(0, len(x["data"]), n)]


def tensor(dtype, dims, data):
    return {"dtype": dtype, "dims": list(dims), "data": list(data)}


def case(op, inputs, outputs, **attrs):
    text = ", ".join(f"{k} = {v!r}" for k, v in attrs.items())
    cases.append({"op": op, "attrs": text, "in": inputs, "out": outputs})


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def descending(values):
    """Indices, the lower of equals first."""
    return sorted(range(len(values)), key=lambda i: (-values[i], i))


def choose(logits, bias, k, groups, kept):
    """DeepSeek-V3's way: groups by the sum of their two best, then the best of what is left."""
    scores = [sigmoid(x) for x in logits]
    biased = [s + b for s, b in zip(scores, bias)]
    size = len(logits) // groups
    sums = [sum(sorted(biased[g * size:(g + 1) * size])[-2:]) for g in range(groups)]
    in_kept = set(descending(sums)[:kept])
    order = [e for e in descending(biased) if e // size in in_kept]
    return order[:k], [scores[e] for e in order[:k]]


def routing():
    for t, e, k, groups, kept, scale, normalise in ((3, 16, 4, 4, 2, 2.5, 1), (2, 12, 3, 1, 1, 1.0, 1),
                                                    (4, 18, 5, 6, 3, 1.5, 0), (2, 7, 2, 7, 3, 0.5, 1)):
        logits, bias = rnd(t, e, low=-4, high=4), rnd(e, low=-0.5, high=0.5)
        if t == 3:  # equals, within a group and between groups
            logits["data"][:e] = [1.0, 0.5, 1.0, -1.0] * 4
            bias["data"] = [0.25] * e
        chosen, weights = [], []
        for row in rows(logits):
            picked, shares = choose(row, bias["data"], k, groups, kept)
            total = sum(shares) + 1e-20 if normalise else 1
            chosen += picked
            weights += [s / total * scale for s in shares]
        case("route_groups", [logits, bias], [tensor("i32", (t, k), chosen), tensor("f32", (t, k), weights)],
             k=k, normalise=normalise, groups=groups, groups_kept=kept, scale=scale)


def matrix_of(flat, e, n, m):
    return [flat[(e * n + i) * m:(e * n + i + 1) * m] for i in range(n)]


def times(matrix, x):
    return [math.fsum(a * b for a, b in zip(row, x)) for row in matrix]


def one_expert(x, weights, biases, limit, alpha):
    gate, up = ([y + b for y, b in zip(times(w, x), bias)] for w, bias in zip(weights[:2], biases[:2]))
    gate = [min(g, limit) for g in gate]
    up = [max(min(u, limit), -limit) for u in up]
    inner = [(u + 1) * (g * sigmoid(alpha * g)) for g, u in zip(gate, up)]
    return [y + b for y, b in zip(times(weights[2], inner), biases[2])]


def experts():
    for t, e, k, h, i, limit, alpha in ((4, 6, 3, 5, 3, 1.5, 1.702), (1, 5, 5, 2, 7, 7.0, 1.702), (3, 2, 1, 4, 4, 0.75, 1.0)):
        x = rnd(t, h)
        shapes = ((i, h), (i, h), (h, i))
        flat = [[f32(random.uniform(-2, 2)) for _ in range(e * n * m)] for n, m in shapes]
        biases = [rnd(e, n) for n, _ in shapes]
        chosen = [random.sample(range(e), k) for _ in range(t)]
        pairs = sorted((c, p) for p, c in enumerate(c for row in chosen for c in row))
        order = tensor("i32", (t * k,), [p for _, p in pairs])
        starts = tensor("i32", (e + 1,), [sum(c < b for c, _ in pairs) for b in range(e + 1)])
        out = []
        for token, row in zip(rows(x), chosen):
            for c in row:
                weights = [matrix_of(f, c, n, m) for f, (n, m) in zip(flat, shapes)]
                out += one_expert(token, weights, [rows(b)[c] for b in biases], limit, f32(alpha))
        source = {"dtype": "f32", "dims": [e, i, h], "gate": flat[0], "up": flat[1], "down": flat[2]}
        case("moe_ffn_biased", [x, order, starts, *biases, source], [tensor("f32", (t, k, h), out)],
             layer=3, k=k, limit=limit, alpha=alpha)


def sums():
    for t, k, h in ((3, 2, 5), (1, 4, 3)):
        y, weights, shared, residual = rnd(t, k, h), rnd(t, k), rnd(t, h), rnd(t, h)
        routed = [math.fsum(weights["data"][r * k + j] * y["data"][(r * k + j) * h + c] for j in range(k))
                  for r in range(t) for c in range(h)]
        one = [a + b for a, b in zip(residual["data"], routed)]
        both = [a + b for a, b in zip(one, shared["data"])]
        case("moe_add", [y, weights, residual], [tensor("f32", (t, h), one)])
        case("moe_add_shared", [y, weights, shared, residual], [tensor("f32", (t, h), both)])


for make in (routing, experts, sums):
    make()
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(f"{len(cases)} cases of {len({c['op'] for c in cases})} ops")
