#!/usr/bin/env python3
"""Makes tests/data/blocks/mlx.bin: random matrices quantised by mlx in every mode, and what mlx makes
of them again, in f32.  Needs numpy and mlx[cpu] from PyPI.

The file is entries of: mode (8 bytes, padded with zeros), type of scales (8 bytes), u32 bits, u32 group,
u32 rows, u32 columns, u32 bytes of codes, of scales and of biases (0: none), those, and rows * columns f32.
usage: make_mlx_vectors.py OUT
"""
import struct
import sys

import mlx.core as mx
import numpy as np

ROWS, COLS = 2, 128
TYPES = {"bf16": mx.bfloat16, "f16": mx.float16, "f32": mx.float32}


def raw(array):
    if array is None:
        return b""
    return np.asarray(array.view(mx.uint8)).tobytes()


def write(out, mode, scale_type, bits, group, parts, values):
    parts = [raw(p) for p in parts]
    out.write(struct.pack("<8s8sIIIIIII", mode.encode(), scale_type.encode(), bits, group, ROWS, COLS,
                          *[len(p) for p in parts]))
    for part in parts:
        out.write(part)
    out.write(np.asarray(values.astype(mx.float32)).tobytes())


def main():
    rng = np.random.default_rng(11)
    with open(sys.argv[1], "wb") as out:
        for bits in (2, 3, 4, 5, 6, 8):
            for group in (32, 64, 128):
                for name, kind in TYPES.items():
                    w = mx.array(rng.normal(0, 0.05, (ROWS, COLS)).astype(np.float32)).astype(kind)
                    q, s, b = mx.quantize(w, group_size=group, bits=bits)
                    assert s.dtype == kind, (s.dtype, kind)
                    wide = mx.dequantize(q, s.astype(mx.float32), b.astype(mx.float32), group_size=group, bits=bits)
                    write(out, "affine", name, bits, group, [q, s, b], wide)
        for mode, bits, group in (("mxfp4", 4, 32), ("nvfp4", 4, 16), ("mxfp8", 8, 32)):
            w = mx.array(rng.normal(0, 0.05, (ROWS, COLS)).astype(np.float32))
            q, s = mx.quantize(w, group_size=group, bits=bits, mode=mode)
            wide = mx.dequantize(q, s, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
            write(out, mode, "u8", bits, group, [q, s, None], wide)


main()
