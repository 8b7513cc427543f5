#!/usr/bin/env python3
"""Quantises a GGUF file to every type that llama.cpp writes and this program reads, and compares all
tensors as decoded here with what the gguf package makes of them.  Needs numpy and gguf from PyPI, and
llama.cpp's llama-quantize.

usage: compare_gguf_types.py LLAMA_QUANTIZE MODEL.gguf [BLOCKS_TEST]
"""
import os
import struct
import subprocess
import sys
import tempfile

import gguf
import numpy as np
from gguf.quants import dequantize

TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS",
         "MXFP4_MOE", "TQ1_0", "TQ2_0", "F16", "BF16"]


def decoded(path):
    with open(path, "rb") as file:
        while head := file.read(4):
            name = file.read(struct.unpack("<I", head)[0]).decode()
            count, = struct.unpack("<Q", file.read(8))
            yield name, np.frombuffer(file.read(4 * count), dtype=np.float32)


def compare(model, program, room):
    out = os.path.join(room, "decoded")
    subprocess.run([program, model, out], check=True)
    tensors = {t.name: t for t in gguf.GGUFReader(model).tensors}
    kinds, most, count = {}, 0.0, 0
    for name, ours in decoded(out):
        tensor = tensors.pop(name)
        kind = tensor.tensor_type
        data = np.asarray(tensor.data)
        theirs = data if data.dtype in (np.float32, np.float16) else dequantize(data, kind)
        theirs = np.asarray(theirs, dtype=np.float32).reshape(-1)
        assert theirs.size == ours.size, name
        same = np.array_equal(theirs.view(np.uint32) | (theirs == 0) * np.uint32(1 << 31),
                              ours.view(np.uint32) | (ours == 0) * np.uint32(1 << 31))
        most = max(most, 0.0 if same else float(np.abs(theirs.astype(np.float64) - ours).max()))
        assert same or most > 0, name
        kinds[kind.name] = kinds.get(kind.name, 0) + 1
        count += ours.size
    return kinds, most, count, sorted({t.tensor_type.name for t in tensors.values()})


def main():
    quantize, model = sys.argv[1:3]
    program = sys.argv[3] if len(sys.argv) > 3 else "build/tests/engine_formats_blocks_test"
    wrong = False
    with tempfile.TemporaryDirectory() as room:
        for kind in TYPES:
            made = os.path.join(room, "made.gguf")
            command = [quantize, "--allow-requantize", "--pure", model, made, kind]
            ran = subprocess.run(command, capture_output=True)
            if ran.returncode:
                print(f"{kind}: llama-quantize failed")
                wrong = True
                continue
            kinds, most, count, unread = compare(made, program, room)
            wrong |= most > 0 or not count or bool(unread)
            listed = ", ".join(f"{v} {k}" for k, v in sorted(kinds.items()))
            print(f"{kind}: {count} weights ({listed}), largest difference {most}" + (f", not read: {unread}" if unread else ""),
                  flush=True)
    sys.exit(wrong)


main()
