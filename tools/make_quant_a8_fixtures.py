#!/usr/bin/env python3
"""Writes tests/data/ops/quant_a8.json: ops that end in rows of 8 bits, by formula, in float64.

Same form as fixtures.json (make_op_fixtures.py); nothing but Python is needed.
usage: make_quant_a8_fixtures.py OUTPUT
"""
import json
import math
import random
import struct
import sys

random.seed(5)
cases = []
GROUP, TOP = 32, 127.0


def f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def rnd(*dims, spread=2.0):
    return {"dtype": "f32", "dims": list(dims), "data": [random.gauss(0, spread) for _ in range(math.prod(dims))]}


def weight(*dims):
    """Coded as f32: what it holds is rounded."""
    x = rnd(*dims)
    return {**x, "data": [f32(v) for v in x["data"]], "coded": True}


def rows(x):
    width = x["dims"][-1]
    return [x["data"][at : at + width] for at in range(0, len(x["data"]), width)]


def like(x, data, dtype="f32"):
    return {"dtype": dtype, "dims": x["dims"], "data": data}


def quantised_group(x):
    x = [f32(v) for v in x]
    most = max(abs(v) for v in x)
    if most == 0:
        return x
    inverse, scale = f32(TOP / most), f32(most / TOP)
    return [f32(scale * round(f32(v * inverse))) for v in x]


def quantised(x):
    out = []
    for row in rows(x):
        for at in range(0, len(row), GROUP):
            out += quantised_group(row[at : at + GROUP])
    return like(x, out, "a8")


def silu(x):
    return x / (1 + math.exp(-x))


def normed(x, gain, eps, offset):
    out = []
    for row in rows(x):
        root = math.sqrt(sum(v * v for v in row) / len(row) + f32(eps))
        out += [v / root * (f32(offset) + g) for v, g in zip(row, gain["data"])]
    return like(x, out)


def zipped(x, y, what):
    return like(x, [what(a, b) for a, b in zip(x["data"], y["data"])])


def product(x, w):
    data = [sum(a * b for a, b in zip(row, other)) for row in rows(x) for other in rows(w)]
    return {"dtype": "f32", "dims": [x["dims"][0], w["dims"][0]], "data": data}


def case(op, inputs, outputs, **attrs):
    text = ", ".join(f"{k} = {v!r}" for k, v in attrs.items())
    cases.append({"op": op, "attrs": text, "in": inputs, "out": outputs})


for dims in ((3, 32), (2, 2, 40), (1, 97), (2, 5)):
    x = rnd(*dims)
    case("quantise", [x], [quantised(x)])
zeros = like(rnd(2, 33), [0.0] * 66)
case("quantise", [zeros], [quantised(zeros)])

for dims, offset in (((3, 64), 1.0), ((2, 3, 37), 0.0)):
    x, y, z, gain = rnd(*dims), rnd(*dims), rnd(*dims), rnd(dims[-1])
    out = normed(x, gain, 1e-6, offset)
    case("rms_norm_quantise", [x, gain], [out, quantised(out)], eps=1e-6, offset=offset)
    both = zipped(x, y, lambda a, b: a + b)
    out = normed(both, gain, 1e-5, offset)
    case("add_rms_norm_quantise", [x, y, gain], [both, out, quantised(out)], eps=1e-5, offset=offset)
    out = zipped(normed(x, gain, 1e-6, 0.0), z, lambda a, b: a * silu(b))
    case("gated_rms_norm_quantise", [x, z, gain], [quantised(out)], eps=1e-6)
    out = zipped(x, z, lambda a, b: a / (1 + math.exp(-b)))
    case("sigmoid_gate_quantise", [x, z], [quantised(out)])

for tokens, cols, outputs in ((2, 7, 35), (1, 33, 64)):
    x, gate, up = rnd(tokens, cols), weight(outputs, cols), weight(outputs, cols)
    out = zipped(product(x, gate), product(x, up), lambda a, b: silu(a) * b)
    case("linear_swiglu_quantise", [x, gate, up], [quantised(out)])

with open(sys.argv[1], "w") as file:
    json.dump(cases, file, separators=(",", ":"))
    file.write("\n")
