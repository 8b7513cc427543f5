#!/usr/bin/env python3
"""Writes tests/data/ops/sdpa.json: scaled and interleaved rotary positions, attention with windows, sinks and
values of another width than keys, and products by head, in float64.

Same form as fixtures.json (make_op_fixtures.py), by the formulas of the models' reference code; nothing but Python is needed.
usage: make_sdpa_fixtures.py OUTPUT
"""
import json
import math
import random
import struct
import sys

random.seed(31)
cases = []


def f32(value):
    """An attribute or a weight as the op sees it."""
    return struct.unpack("f", struct.pack("f", value))[0]


def rnd(*dims, low=-2.0, high=2.0):
    data = [round(random.uniform(low, high), 2) for _ in range(math.prod(dims))]
    return {"dtype": "f32", "dims": list(dims), "data": data}


def tensor(dims, data):
    return {"dtype": "f32", "dims": list(dims), "data": list(data)}


def ints(values):
    return {"dtype": "i32", "dims": [len(values)], "data": list(values)}


def case(op, inputs, outputs, **attrs):
    text = ", ".join(f"{k} = {v!r}" for k, v in attrs.items())
    cases.append({"op": op, "attrs": text, "in": inputs, "out": outputs})


# ---- rotary positions: modeling_rope_utils of transformers ----

def plain(rotary, theta):
    return [1.0 / theta ** (2 * j / rotary) for j in range(rotary // 2)]


def linear(rotary, theta, factor):
    return [x / factor for x in plain(rotary, theta)]


def llama3(rotary, theta, factor, original, low, high):
    out = []
    for x in plain(rotary, theta):
        wavelength = 2 * math.pi / x
        if wavelength > original / low:
            out.append(x / factor)
        elif wavelength < original / high:
            out.append(x)
        else:
            smooth = (original / wavelength - low) / (high - low)
            out.append((1 - smooth) * x / factor + smooth * x)
    return out


def yarn(rotary, theta, factor, original, low, high, truncate=0):
    def dim_of(rotations):
        return rotary * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))
    first, last = dim_of(high), dim_of(low)
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, rotary - 1)
    if first == last:
        last += 0.001
    out = []
    for j, x in enumerate(plain(rotary, theta)):
        ramp = min(max((j - first) / (last - first), 0), 1)
        out.append(x / factor * ramp + x * (1 - ramp))
    return out


def rope_tables():
    positions = [0, 1, 77, 5000, 131071]
    kinds = [(0, plain, {}),
             (1, linear, {"factor": 4.0}),
             (2, llama3, {"factor": 8.0, "original": 8192.0, "low": 1.0, "high": 4.0}),
             (3, yarn, {"factor": 40.0, "original": 4096.0, "low": 1.0, "high": 32.0, "truncate": 1}),
             (3, yarn, {"factor": 32.0, "original": 4096.0, "low": 1.0, "high": 32.0}),
             (3, yarn, {"factor": 2.0, "original": 16.0, "low": 1.0, "high": 32.0, "truncate": 1})]
    for scaling, fn, how in kinds:
        for rotary, theta, magnitude in ((16, 10000.0, 0.0), (12, 150000.0, 1.25)):
            frequencies = fn(rotary, f32(theta), **how)
            angles = [[p * x for x in frequencies] for p in positions]
            scale = magnitude or 1.0
            tables = [tensor([len(positions), 1, rotary // 2], [scale * turn(x) for row in angles for x in row])
                      for turn in (math.cos, math.sin)]
            case("rope_table", [ints(positions)], tables, rotary=rotary,
                 theta=theta, scaling=scaling, magnitude=magnitude, **how)


def interleaved():
    for t, heads, d, rotary in ((3, 2, 8, 6), (1, 1, 4, 4)):
        x, table = rnd(t, heads, d), rnd(t, rotary, low=-1, high=1)
        out, half = list(x["data"]), rotary // 2
        for i in range(t * heads):
            angles = table["data"][i // heads * rotary:]
            for j in range(half):
                turned = complex(*out[i * d + 2 * j:i * d + 2 * j + 2]) * complex(angles[j], angles[half + j])
                out[i * d + 2 * j:i * d + 2 * j + 2] = turned.real, turned.imag
        columns = [[table["data"][i * rotary + at + j] for i in range(t) for j in range(half)] for at in (0, half)]
        case("rope_apply", [x, *(tensor([t, 1, half], data) for data in columns)], [tensor(x["dims"], out)], interleaved=1)


# ---- attention ----

def key_at(dims, slot, head, position, d):
    _, heads, blocks, dim, _ = dims
    return (((slot * heads + head) * blocks + position // 16) * dim + d) * 16 + position % 16


def value_at(dims, slot, head, position, d):
    _, heads, capacity, dim = dims
    return ((slot * heads + head) * capacity + position) * dim + d


def append():
    for slots, positions, heads, dims in (([1, 1, 0], [15, 16, 0], 2, (3, 5)), ([0], [2], 1, (4, 2))):
        t = len(slots)
        rows = [rnd(t, heads, d) for d in dims]
        before = [rnd(max(slots) + 1, heads, 2, dims[0], 16), rnd(max(slots) + 1, heads, 32, dims[1])]
        after = [list(x["data"]) for x in before]
        for which, at in enumerate((key_at, value_at)):
            for i, x in enumerate(rows[which]["data"]):
                d, head, row = i % dims[which], i // dims[which] % heads, i // dims[which] // heads
                after[which][at(before[which]["dims"], slots[row], head, positions[row], d)] = x
        case("kv_append", [*rows, ints(slots), ints(positions), *before],
             [tensor(x["dims"], data) for x, data in zip(before, after)])


def weighted(scores, values, sink=None):
    """The softmax of scores, and of a sink, times values."""
    largest = max([*scores, *([] if sink is None else [sink])])
    factors = [math.exp(s - largest) for s in scores]
    total = math.fsum(factors) + (0 if sink is None else math.exp(sink - largest))
    return [math.fsum(f * v for f, v in zip(factors, column)) / total for column in zip(*values)]


def sdpa(slots, positions, heads, ratio, dims, blocks, window):
    scale, t = 0.25, len(slots)
    q = rnd(t, heads * ratio, dims[0])
    count = max(slots) + 1
    keys, values = rnd(count, heads, blocks, dims[0], 16), rnd(count, heads, blocks * 16, dims[1])
    sinks = rnd(heads * ratio, low=-1, high=3)
    starts = range(0, blocks * 16, 1024)
    without, with_sinks, mixes, weights = [], [], [], []
    for i in range(t * heads * ratio):
        row, head = i // (heads * ratio), i % (heads * ratio) // ratio
        slot, end = slots[row], positions[row] + 1
        first = max(0, end - window) if window else 0
        query = q["data"][i * dims[0]:(i + 1) * dims[0]]
        scores = {p: scale * math.fsum(x * keys["data"][key_at(keys["dims"], slot, head, p, d)]
                                       for d, x in enumerate(query)) for p in range(first, end)}
        rows = {p: [values["data"][value_at(values["dims"], slot, head, p, d)] for d in range(dims[1])]
                for p in range(first, end)}
        without += weighted(scores.values(), rows.values())
        with_sinks += weighted(scores.values(), rows.values(), sinks["data"][i % (heads * ratio)])
        for start in starts:
            part = [p for p in range(first, end) if start <= p < start + 1024]
            largest = max((scores[p] for p in part), default=0.0)
            factors = [math.exp(scores[p] - largest) for p in part]
            weights += [largest, math.fsum(factors)]
            mixes += [math.fsum(f * rows[p][d] for f, p in zip(factors, part)) for d in range(dims[1])]
    inputs = [q, keys, values, ints(slots), ints(positions)]
    out = [t, heads * ratio, dims[1]]
    attrs = {"scale": scale, "window": window}
    case("sdpa", inputs, [tensor(out, without)], **attrs)
    case("sdpa_sinks", [*inputs, sinks], [tensor(out, with_sinks)], **attrs)
    parts = [tensor([*out[:2], len(starts), n], data) for n, data in ((dims[1], mixes), (2, weights))]
    case("sdpa_parts", inputs, parts, **attrs)
    case("sdpa_merge", parts, [tensor(out, without)])
    case("sdpa_merge_sinks", [*parts, sinks], [tensor(out, with_sinks)])


def attention():
    sdpa([1, 1, 0], [18, 19, 3], 2, 2, (3, 5), 2, 0)
    sdpa([0, 1], [30, 4], 1, 3, (4, 2), 2, 7)
    sdpa([1], [2], 1, 1, (2, 2), 1, 1)
    sdpa([0, 0], [1030, 1031], 1, 2, (2, 1), 65, 10)  # the window across a part's end


def products():
    for t, heads, k, n in ((3, 2, 5, 4), (1, 3, 4, 2)):
        x, w = rnd(t, heads, k), rnd(heads, n, k)
        w["data"] = [f32(v) for v in w["data"]]
        out = [math.fsum(x["data"][(i * heads + h) * k + c] * w["data"][(h * n + j) * k + c] for c in range(k))
               for i in range(t) for h in range(heads) for j in range(n)]
        for coded in ({}, {"coded": True}):
            case("linear_heads", [x, {**w, **coded}], [tensor([t, heads, n], out)])


for make in (rope_tables, interleaved, append, attention, products):
    make()
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(f"{len(cases)} cases of {len({c['op'] for c in cases})} ops")
