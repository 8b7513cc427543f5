#!/usr/bin/env python3
"""Writes tests/data/ops/fused.json: fused ops by the formulas of their parts, and attention in parts, in float64.

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


def rope_table(positions, rotary, theta):
    angles = [p * theta ** (-2 * j / rotary) for p in positions for j in range(rotary // 2)]
    return [{"dtype": "f32", "dims": [len(positions), 1, rotary // 2], "data": [turn(a) for a in angles]}
            for turn in (math.cos, math.sin)]


def rope(x, cosines, sines):
    (t, heads, d), half = x["dims"], cosines["dims"][2]
    out = list(x["data"])
    for head in range(t * heads):
        for j in range(half):
            at = head // heads * half + j
            a, b = x["data"][head * d + j], x["data"][head * d + j + half]
            out[head * d + j] = a * cosines["data"][at] - b * sines["data"][at]
            out[head * d + j + half] = b * cosines["data"][at] + a * sines["data"][at]
    return like(x, out)


def cache_places(dims, slot, position):
    """Where a row [heads, D] goes in keys and in values of dims [S, heads, blocks, D, 16]."""
    _, heads, blocks, d, _ = dims
    start = slot * heads * blocks * d * 16
    keys = [start + ((h * blocks + position // 16) * d + j) * 16 + position % 16 for h in range(heads) for j in range(d)]
    values = [start + (h * blocks * 16 + position) * d + j for h in range(heads) for j in range(d)]
    return keys, values


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
    for slots, positions, heads, d, rotary, (s, blocks) in (([1, 1, 0], [15, 16, 0], 2, 6, 4, (2, 2)),
                                                           ([0], [2], 1, 4, 4, (1, 1))):
        k, v, gain = rnd(len(slots), heads, d), rnd(len(slots), heads, d), rnd(d)
        where = ints(positions)
        table = rope_table(positions, rotary, 1e6)
        turned = rope(rms_norm(k, gain, 1e-6, 1.0), *table)
        attrs = {"eps": 1e-6, "offset": 1.0}
        case("norm_rope", [k, gain, *table], [turned], **attrs)
        caches, after = [rnd(s, heads, blocks, d, 16), rnd(s, heads, blocks * 16, d)], []
        for which, (cache, rows) in enumerate(zip(caches, (turned, v))):
            data, n = list(cache["data"]), heads * d
            for t, (slot, position) in enumerate(zip(slots, positions)):
                for i, at in enumerate(cache_places(caches[0]["dims"], slot, position)[which]):
                    data[at] = rows["data"][t * n + i]
            after.append(like(cache, data))
        case("norm_rope_append", [k, gain, *table, v, ints(slots), where, *caches], after, **attrs)
    attention_in_parts([1030, 3], 66)
    attention_in_parts([15, 0], 1)


def attention_in_parts(rows, blocks):
    """Parts of 1024 positions, which rows reach or not."""
    heads, d, scale = 2, 2, 0.5
    starts = range(0, blocks * 16, 1024)
    q, cache_k, cache_v = rnd(2, heads, d), rnd(1, 1, blocks, d, 16), rnd(1, 1, blocks * 16, d)
    for x in (q, cache_k, cache_v):
        x["data"] = [round(v, 2) for v in x["data"]]
    mixes, weights, out = [], [], []
    for i in range(len(rows) * heads):
        query, most = q["data"][i * d:(i + 1) * d], rows[i // heads] + 1
        places = [cache_places(cache_k["dims"], 0, p) for p in range(most)]
        scores = [scale * sum(a * cache_k["data"][at] for a, at in zip(query, keys)) for keys, _ in places]
        values = [[cache_v["data"][at] for at in at_values] for _, at_values in places]
        for first in starts:
            part = list(zip(scores, values))[first:first + 1024]
            largest = max((s for s, _ in part), default=0.0)
            factors = [math.exp(s - largest) for s, _ in part]
            weights += [largest, math.fsum(factors)]
            mixes += [math.fsum(f * v[j] for f, (_, v) in zip(factors, part)) for j in range(d)]
        total = math.fsum(map(math.exp, scores))
        out += [math.fsum(math.exp(s) * v[j] for s, v in zip(scores, values)) / total for j in range(d)]
    parts = [{"dtype": "f32", "dims": [2, heads, len(starts), n], "data": data} for n, data in ((d, mixes), (2, weights))]
    case("sdpa_parts", [q, cache_k, cache_v, ints([0, 0]), ints(rows)], parts, scale=scale)
    case("sdpa_merge", parts, [like(q, out)])


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
        case("elementwise_region", [a, b, c, d], [like(a, [silu(w * x) - y / z for w, x, y, z in rows])], code=[3, 0, 1, 0, 0, 39, 4, 0, 0, 0, 4, 2, 3, 0, 0, 2, 5, 6, 0, 0])
        case("elementwise_region", [a, b, a, a], [like(a, [math.exp(-math.sqrt(w) * x) for w, x, _, _ in rows])],
             code=[35, 0, 0, 0, 0, 31, 4, 0, 0, 0, 3, 5, 1, 0, 0, 33, 6, 0, 0, 0])
        case("elementwise_region", [a, b, c, a], [like(a, [max(math.log(w), x) * sigmoid(y) for w, x, y, _ in rows])],
             code=[34, 0, 0, 0, 0, 5, 4, 1, 0, 0, 27, 5, 2, 0, 0])


for make in (norms, products, attention, sums, regions):
    make()
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(f"{len(cases)} cases of {len({c['op'] for c in cases})} ops")
