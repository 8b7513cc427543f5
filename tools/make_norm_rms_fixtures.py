#!/usr/bin/env python3
"""Write tests/data/ops/norm_rms.json: rms_norm, rms_norm_mul and rms_norm_axes of every float type, in float64.

By the formula of torch.nn.functional.rms_norm (the mean of squares plus eps, square root, division, gain), over any
axes.  Operands are multiples of 1/64, which every float type holds.  Nothing but Python is needed.
usage: make_norm_rms_fixtures.py OUTPUT
"""
import itertools
import json
import math
import random
import struct
import sys

random.seed(17)
cases = []


def f32(value):
    """An attribute as the op sees it."""
    return struct.unpack("f", struct.pack("f", value))[0]


def rnd(dtype, *dims):
    data = [round(random.uniform(-2, 2) * 64) / 64 for _ in range(math.prod(dims))]
    return {"dtype": dtype, "dims": list(dims), "data": data}


def places(dims, axes):
    """For each element: which rms it belongs to, and its place along the axes."""
    for at in itertools.product(*map(range, dims)):
        outer = tuple(i for d, i in enumerate(at) if d not in axes)
        inner = 0
        for d in sorted(axes):
            inner = inner * dims[d] + at[d]
        yield outer, inner


def norm(x, axes, eps, gain, offset):
    dims, width = x["dims"], math.prod(x["dims"][d] for d in axes)
    squares = {}
    for value, (outer, _) in zip(x["data"], places(dims, axes)):
        squares.setdefault(outer, []).append(value * value)
    roots = {outer: math.sqrt(math.fsum(values) / width + eps) for outer, values in squares.items()}
    return [value / roots[outer] * (f32(offset) + gain["data"][inner] if gain else 1)
            for value, (outer, inner) in zip(x["data"], places(dims, axes))]


def case(op, inputs, data, **attrs):
    text = ", ".join(f"{k} = {v!r}" for k, v in attrs.items())
    out = {**inputs[0], "data": [float(f"{v:.15g}") for v in data]}
    cases.append({"op": op, "attrs": text, "in": inputs, "out": [out]})


for dtype, dims, offset, eps in (("f32", (3, 5), 0.0, 1e-6), ("f64", (2, 3, 17), 1.0, 1e-5), ("f16", (2, 6), 0.0, 1e-3),
                                 ("bf16", (9,), 0.5, 1e-6), ("f64", (4, 1), 0.0, 1e-6)):
    x, gain, y = rnd(dtype, *dims), rnd(dtype, dims[-1]), rnd(dtype, *dims)
    out = norm(x, {len(dims) - 1}, f32(eps), gain, offset)
    case("rms_norm", [x, gain], out, eps=eps, offset=offset)
    case("rms_norm_mul", [x, gain, y], [a * b for a, b in zip(out, y["data"])], eps=eps, offset=offset)
for dtype, dims, axes, offset, eps in (("f32", (2, 3, 4), [0, 2], 0.0, 1e-3), ("f16", (3, 4), [0], 1.0, 1e-5),
                                       ("bf16", (2, 2, 5), [-2], 0.0, 1e-6), ("f64", (3, 2, 2), [2, 0, 1], 0.5, 1e-6),
                                       ("f32", (2, 7), [-1], 1.0, 1e-6), ("f64", (2, 3), [], 0.0, 1e-2)):
    x, normed = rnd(dtype, *dims), {a % len(dims) for a in axes}
    gain = rnd(dtype, *(n for d, n in enumerate(dims) if d in normed))
    case("rms_norm_axes", [x, gain], norm(x, normed, f32(eps), gain, offset), axes=axes, eps=eps, offset=offset)
    case("rms_norm_axes", [x], norm(x, normed, f32(eps), None, 0), axes=axes, eps=eps)
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(f"{len(cases)} cases of {len({c['op'] for c in cases})} ops")
