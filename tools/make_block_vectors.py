#!/usr/bin/env python3
"""Makes tests/data/blocks/gguf.bin: random blocks of every GGUF type that is read, and what the gguf
package makes of them.  Needs numpy and gguf from PyPI.

The file is entries of: name (16 bytes, padded with zeros), u32 rows, u32 columns, u32 bytes of a row,
the rows, and rows * columns f32.
usage: make_block_vectors.py OUT
"""
import struct
import sys

import gguf
import numpy as np
from gguf.quants import dequantize

ROWS, COLS = 3, 256
# Where each type's blocks have 16-bit floats, which are made ordinary ones.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [], "NVFP4": [],
    "TQ1_0": [52], "TQ2_0": [64],
}


def blocks(kind, rng):
    cols, size = gguf.GGML_QUANT_SIZES[kind]
    count = ROWS * COLS // cols
    data = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES[kind.name]:
        halves = rng.normal(0, 0.1, count).astype(np.float16)
        data[:, at:at + 2] = halves.view(np.uint8).reshape(count, 2)
    if kind.name == "MXFP4":  # the package overflows, with a warning, where the rule does not
        data[:, 0] = rng.integers(0, 250, count)
        data[:4, 0] = [0, 1, 2, 127]
    return data.reshape(ROWS, -1)


def main():
    rng = np.random.default_rng(7)
    with open(sys.argv[1], "wb") as out:
        for name in HALVES:
            kind = gguf.GGMLQuantizationType[name]
            data = blocks(kind, rng)
            values = np.asarray(dequantize(data, kind), dtype=np.float32).reshape(ROWS, COLS)
            out.write(struct.pack("<16sIII", name.encode(), ROWS, COLS, data.shape[1]))
            out.write(data.tobytes())
            out.write(values.tobytes())


main()
