#!/usr/bin/env python3
"""Writes tests/data/ops/matmul_mlx.json: products with weights in MLX's affine layout, by NumPy.

Same form as fixtures.json (make_op_fixtures.py).  A row of codes is one large integer, column k in bits
[k bits, (k + 1) bits), stored as words of 32 bits, the lowest first.
usage: make_mlx_fixtures.py OUTPUT
"""
import json
import sys

import numpy

draw = numpy.random.default_rng(17)
cases = []


def tensor(dtype, value):
    return {"dtype": dtype, "dims": list(value.shape), "data": value.flatten().tolist()}


def words_of(codes, bits):
    row = sum(int(code) << k * bits for k, code in enumerate(codes))
    return [row >> 32 * i & 0xffffffff for i in range(len(codes) * bits // 32)]


for bits in (2, 3, 4, 5, 6, 8):
    for group, inner, cols, rows in ((32, 64, 3, 2), (64, 192, 5, 1), (128, 256, 2, 3)):
        x = draw.standard_normal((rows, inner)).astype(numpy.float32)
        # Multiples of 1/64, so that scale * code + bias is exact in f32, in which weights are held.
        scale, bias = (draw.integers(-99, 100, (cols, inner // group)).astype(numpy.float32) / 64 for _ in range(2))
        codes = draw.integers(0, 2 ** bits, (cols, inner))
        w = numpy.repeat(scale, group, 1).astype(float) * codes + numpy.repeat(bias, group, 1)
        cases.append({"op": "dequant_matmul", "attrs": 'scheme = "mlx_%d", block = %d' % (bits, group),
                      "in": [tensor("f32", x), tensor("u32", numpy.array([words_of(row, bits) for row in codes])),
                             tensor("f32", scale), tensor("f32", bias)],
                      "out": [tensor("f32", x.astype(float) @ w.T)]})
with open(sys.argv[1], "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
