#!/usr/bin/env python3
"""make_gguf_heads.py FOLDER OUT - What the tests keep of GGUF files that llama.cpp's converter made.

FOLDER has one FAMILY.gguf for each of the tiny checkpoints, converted with
    convert_hf_to_gguf.py CHECKPOINT --outtype f32 --outfile FAMILY.gguf
(with --no-mtp where the family has layers for prediction, and with no vocabulary, which they lack).
OUT gets FAMILY.head for each: the file up to its data, then a CRC-32 for each tensor's bytes in the
order of the file, the bytes up to the data and those of the whole file (u64).  The test makes the
data itself from the checkpoint; the sums tell whether it does so as the converter does."""
import pathlib
import struct
import sys
import zlib

from gguf import GGUFReader


def head_of(path):
    reader = GGUFReader(path)
    data = path.read_bytes()
    tensors = sorted(reader.tensors, key=lambda t: t.data_offset)
    start = int(tensors[0].data_offset)
    sums = b"".join(struct.pack("<I", zlib.crc32(t.data.tobytes())) for t in reader.tensors)
    return data[:start] + sums + struct.pack("<QQ", start, len(data))


def main():
    folder, out = map(pathlib.Path, sys.argv[1:3])
    for path in sorted(folder.glob("*.gguf")):
        (out / f"{path.stem}.head").write_bytes(head_of(path))


main()
