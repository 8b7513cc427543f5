#!/usr/bin/env python3
"""Writes tests/data/ops/fused.json: fused ops by the formulas of their parts, in float64.

Same form as fixtures.json (make_op_fixtures.py); nothing but Python is needed.
usage: make_fused_fixtures.py OUTPUT
"""
import json
import math
import random
import struct
import sys

random.seed(11)
cases = []


def f32(value):
    """An attribute as the op sees it."""
    return struct.unpack("f", struct.pack("f", value))[0]


def count(dims):
    return math.prod(dims)


def rnd(*dims, low=-2.0, high=2.0):
    return {"dtype": "f32", "dims": list(dims), "data": [random.uniform(low, high) for _ in range(count(dims))]}


def weight(*dims):
    """Coded as f32: what it holds is rounded."""
    x = rnd(*dims)
    return {**x, "data": [f32(v) for v in x["data"]], "coded": True}


def ints(values):
    return {"dtype": "i32", "dims": [len(values)], "data": values}


def like(x, data):
    return {"dtype": "f32", "dims": x["dims"], "data": data}


def case(op, inputs, outputs, **attrs):
    text = ", ".join(f"{k} = {v!r}" for k, v in attrs.items())
    cases.append({"op": op, "attrs": text, "in": inputs, "out": outputs})


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def silu(x):
    return x * sigmoid(x)


def add(a, b):
    return like(a, [x + y for x, y in zip(a["data"], b["data"])])


def rms_norm(x, gain, eps, offset):
    d, out = gain["dims"][0], []
    for at in range(0, len(x["data"]), d):
        row = x["data"][at:at + d]
        root = math.sqrt(math.fsum(v * v for v in row) / d + f32(eps))
        out += [v / root * (offset + g) for v, g in zip(row, gain["data"])]
    return like(x, out)


def linear(x, w):
    (t, k), n = x["dims"], w["dims"][0]
    rows = [x["data"][i * k:(i + 1) * k] for i in range(t)]
    columns = [w["data"][i * k:(i + 1) * k] for i in range(n)]
    data = [math.fsum(a * b for a, b in zip(row, column)) for row in rows for column in columns]
    return {"dtype": "f32", "dims": [t, n], "data": data}


def rope(x, positions, rotary, theta):
    t, heads, d = x["dims"]
    half, out = rotary // 2, list(x["data"])
    for head in range(t * heads):
        for j in range(half):
            angle = positions["data"][head // heads] * f32(theta) ** (-2 * j / rotary)
            a, b = x["data"][head * d + j], x["data"][head * d + j + half]
            out[head * d + j] = a * math.cos(angle) - b * math.sin(angle)
            out[head * d + j + half] = b * math.cos(angle) + a * math.sin(angle)
    return like(x, out)


def norms():
    for dims, offset in (((3, 5), 1.0), ((2, 3, 8), 0.0)):
        a, b, gain = rnd(*dims), rnd(*dims), rnd(dims[-1])
        total = add(a, b)
        case("add_rms_norm", [a, b, gain], [total, rms_norm(total, gain, 1e-6, offset)], eps=1e-6, offset=offset)
        normed = rms_norm(a, gain, 1e-6, offset)
        case("rms_norm_mul", [a, gain, b], [like(a, [x * y for x, y in zip(normed["data"], b["data"])])],
             eps=1e-6, offset=offset)


def products():
    acts = [lambda x: x, lambda x: max(x, 0.0), silu, lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)), sigmoid, math.tanh]
    for t, k, rows in ((3, 5, (7, 2, 4)), (1, 9, (1, 6, 3))):
        x, weights = rnd(t, k), [weight(n, k) for n in rows]
        outs = [linear(x, w) for w in weights]
        case("linear_pair", [x, *weights[:2]], outs[:2])
        case("linear_triple", [x, *weights], outs)
        gate, up = weight(rows[0], k), weights[0]
        case("linear_swiglu", [x, gate, up],
             [like(outs[0], [silu(a) * b for a, b in zip(linear(x, gate)["data"], outs[0]["data"])])])
        bias, n = rnd(rows[0]), rows[0]
        for act, fn in enumerate(acts):
            data = [fn(v + bias["data"][i % n]) for i, v in enumerate(outs[0]["data"])]
            case("linear_bias_act", [x, up, bias], [like(outs[0], data)], act=act)


def attention():
    for slots, positions, heads, d, rotary, (s, capacity) in (([1, 1, 0], [3, 4, 0], 2, 6, 4, (2, 7)),
                                                             ([0], [2], 1, 4, 4, (1, 3))):
        k, v, gain = rnd(len(slots), heads, d), rnd(len(slots), heads, d), rnd(d)
        where = ints(positions)
        turned = rope(rms_norm(k, gain, 1e-6, 1.0), where, rotary, 1e6)
        attrs = {"eps": 1e-6, "offset": 1.0, "rotary": rotary, "theta": 1e6}
        case("norm_rope", [k, gain, where], [turned], **attrs)
        caches, after = [rnd(s, capacity, heads, d) for _ in range(2)], []
        for cache, rows in zip(caches, (turned, v)):
            data, n = list(cache["data"]), heads * d
            for t, (slot, position) in enumerate(zip(slots, positions)):
                at = (slot * capacity + position) * n
                data[at:at + n] = rows["data"][t * n:(t + 1) * n]
            after.append(like(cache, data))
        case("norm_rope_append", [k, gain, v, ints(slots), where, *caches], after, **attrs)


def sums():
    for t, k, h in ((3, 2, 5), (1, 4, 3)):
        y, weights, shared, gate, residual = rnd(t, k, h), rnd(t, k), rnd(t, h), rnd(t, 1), rnd(t, h)
        out = []
        for i in range(t * h):
            routed = sum(weights["data"][i // h * k + j] * y["data"][(i // h * k + j) * h + i % h] for j in range(k))
            out.append(residual["data"][i] + routed + sigmoid(gate["data"][i // h]) * shared["data"][i])
        case("moe_join", [y, weights, shared, gate, residual], [like(shared, out)])
        a, b, c = rnd(t, h), rnd(t, h), rnd(t, h)
        case("add3", [a, b, c], [add(add(a, b), c)])


def regions():
    for dims in ((3, 5), (7,)):
        a, b, c, d = (rnd(*dims, low=0.5) for _ in range(4))
        rows = list(zip(*(x["data"] for x in (a, b, c, d))))
        case("region", [a, b, c, d], [like(a, [silu(w * x) - y / z for w, x, y, z in rows])], code=[301, 1740, 423, 256])
        case("region", [a, b, a, a], [like(a, [math.exp(-math.sqrt(w) * x) for w, x, _, _ in rows])],
             code=[1400, 940, 351, 1260])
        case("region", [a, b, c, a], [like(a, [max(math.log(w), x) * sigmoid(y) for w, x, y, _ in rows])],
             code=[1300, 541, 752])


for make in (norms, products, attention, sums, regions):
    make()
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(f"{len(cases)} cases of {len({c['op'] for c in cases})} ops")
