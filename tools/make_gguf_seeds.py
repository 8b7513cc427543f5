#!/usr/bin/env python3
"""make_gguf_seeds.py FOLDER - Small inputs for gguf_fuzz from GGUF files that llama.cpp's converter made.

Each has the metadata of FOLDER/FAMILY.gguf and tensors of its names with few rows; one has a vocabulary
of pieces, one of byte pairs, and one is a model in two parts."""
import pathlib
import struct
import sys

import numpy
from gguf import GGUFReader, GGUFValueType, GGUFWriter

OUT = pathlib.Path("tests/data/fuzz/engine_formats_gguf_fuzz")


def copy_keys(reader, writer):
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key.startswith("general."):
            continue
        kind = field.types[0]
        if kind == GGUFValueType.ARRAY:
            writer.add_array(key, field.contents())
        else:
            writer.add_key_value(key, field.contents(), kind)


def vocabulary(writer, pieces):
    tokens = ["<unk>", "<s>", "</s>", "a", "b", "ab", "\u2581", "\u2581ab"]
    writer.add_tokenizer_model("llama" if pieces else "gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([2, 3, 3, 1, 1, 1, 1, 1])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    if pieces:
        writer.add_token_scores([0.0, 0.0, 0.0, -3.0, -4.0, -1.0, -5.0, -2.0])
        writer.add_unk_token_id(0)
    else:
        writer.add_tokenizer_pre("deepseek-v3")
        writer.add_token_merges(["a b"])


def write(path, architecture, fill, names):
    writer = GGUFWriter(path, architecture)
    fill(writer)
    for name, shape in names:
        writer.add_tensor(name, numpy.ones(shape, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def small(tensor):
    """Heads of few rows still divide; columns do not matter."""
    shape = [int(n) for n in reversed(tensor.shape)]
    return shape[:1] if len(shape) == 1 else [8 if n > 8 else n for n in shape[:-1]] + [1]


def main():
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.gguf")):
        reader = GGUFReader(path)
        names = [(t.name, small(t)) for t in reader.tensors if not t.name.startswith("blk") or t.name.startswith("blk.1.")]
        names = [(name, [min(n, 8) for n in shape]) for name, shape in names]

        def fill(writer):
            copy_keys(reader, writer)

        write(OUT / f"{path.stem}.gguf", reader.fields["general.architecture"].contents(), fill, names)
    reader = GGUFReader(pathlib.Path(sys.argv[1]) / "qwen3.gguf")
    for pieces in (False, True):
        def fill_text(writer):
            for key, field in reader.fields.items():
                if key.startswith("qwen3."):
                    writer.add_key_value(key, field.contents(), field.types[0])
            vocabulary(writer, pieces)

        write(OUT / ("pieces.gguf" if pieces else "pairs.gguf"), "qwen3", fill_text, [("token_embd.weight", [8, 1])])
    parts = []
    for number in range(2):
        def fill_part(writer):
            if number == 0:
                for key, field in reader.fields.items():
                    if key.startswith("qwen3."):
                        writer.add_key_value(key, field.contents(), field.types[0])
            writer.add_uint16("split.no", number)
            writer.add_uint16("split.count", 2)
            writer.add_int32("split.tensors.count", 2)

        part = OUT / f"part{number}"
        write(part, "qwen3", fill_part, [("token_embd.weight" if number == 0 else "output.weight", [4, 1])])
        parts.append(part.read_bytes())
        part.unlink()
    (OUT / "two.split").write_bytes(b"split" + struct.pack("<H", len(parts[0])) + parts[0] + parts[1])


main()
