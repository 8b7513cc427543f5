#!/usr/bin/env python3
"""make_mlx.py - fable as mlx-lm quantises it, with mlx-lm's own logits.

    make_mlx.py FABLE OUT [affine-4-64 mxfp4 nvfp4 ...]     (default: every row of CODES)

Needs mlx and mlx-lm (the CPU builds will do).  mlx-lm reads the released form of this family alone (nested config, experts
fused and stacked), so that is written first, to OUT/released; then for each code OUT/CODE, converted by mlx_lm.convert, and
beside it OUT/CODE.safetensors: promptN.tokens, promptN.logits as mlx-lm computes them in float32, and promptN.logits_hf where
the l2 norm of queries and keys has Hugging Face's epsilon (mlx-lm's is larger by the head's size).  tests/golden/mlx_test.c
reads what this writes.
"""
import json
import os
import shutil
import struct
import sys

import mlx.core as mx
import mlx_lm.utils
from mlx_lm import convert

CODES = {f"affine-{bits}-{group}": dict(q_bits=bits, q_group_size=group)
         for bits, group in [(4, 64), (2, 64), (3, 64), (5, 64), (6, 64), (8, 64), (4, 32), (8, 32)]}
CODES |= {mode: dict(q_mode=mode) for mode in ("mxfp4", "mxfp8", "nvfp4")}
CODES["affine-4-64-f16"] = dict(q_bits=4, q_group_size=64, dtype="float16")
CODES["affine-4-64-f32"] = dict(q_bits=4, q_group_size=64, dtype="float32")
# Overrides: a wider code for some modules and none for others.
CODES["mixed"] = dict(q_bits=4, q_group_size=64, quant_predicate=lambda path, module: (
    False if "shared_expert" in path else dict(bits=6, group_size=32) if "down_proj" in path
    else dict(bits=8, group_size=64) if "lm_head" in path or path.endswith("mlp.gate") else True))


def load_raw(folder):
    """name: (dtype, shape, bytes) of all shards."""
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if not (name.startswith("model") and name.endswith(".safetensors")):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            start = file.tell()
            for key, item in header.items():
                if key != "__metadata__":
                    file.seek(start + item["data_offsets"][0])
                    size = item["data_offsets"][1] - item["data_offsets"][0]
                    tensors[key] = (item["dtype"], item["shape"], file.read(size))
    return tensors


def save_raw(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


def release(fable, out):
    """The same model as large ones of its family are published."""
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    config = json.load(open(os.path.join(fable, "config.json")))
    for name in os.listdir(fable):
        if not name.endswith("safetensors") and "safetensors.index" not in name and name != "reference.json":
            shutil.copyfile(os.path.join(fable, name), os.path.join(out, name))
    nested = {"model_type": "qwen3_5_moe", "architectures": ["Qwen3_5MoeForConditionalGeneration"],
              "tie_word_embeddings": config["tie_word_embeddings"], "text_config": config}
    json.dump(nested, open(os.path.join(out, "config.json"), "w"), indent=1)
    raw = load_raw(fable)
    tensors = {}
    for name, item in raw.items():
        if ".mlp.experts." not in name:
            tensors[name.replace("model.", "model.language_model.", 1)] = item
    experts, width, hidden = config["num_experts"], config["moe_intermediate_size"], config["hidden_size"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}.mlp.experts."
        part = lambda e, which: raw[f"{at}{e}.{which}_proj.weight"][2]
        to = at.replace("model.", "model.language_model.", 1)
        tensors[to + "gate_up_proj"] = ("BF16", [experts, 2 * width, hidden], b"".join(
            part(e, "gate") + part(e, "up") for e in range(experts)))
        tensors[to + "down_proj"] = ("BF16", [experts, hidden, width], b"".join(part(e, "down") for e in range(experts)))
    # What such checkpoints also hold, and the text model does not use.
    one = ("BF16", [1], b"\0\0")
    tensors["mtp.norm.weight"] = tensors["model.visual.patch_embed.proj.weight"] = one
    save_raw(os.path.join(out, "model.safetensors"), tensors)


def logits_of(model, prompts, hf_epsilon):
    plain = mx.fast.rms_norm

    def rms_norm(x, weight, eps, **more):
        return plain(x, weight, eps / x.shape[-1] if weight is None else eps, **more)
    if hf_epsilon:
        mx.fast.rms_norm = rms_norm
    try:
        return {name: mx.array(model(tokens[None])[0]) for name, tokens in prompts.items()}
    finally:
        mx.fast.rms_norm = plain


def main():
    fable, out = sys.argv[1], sys.argv[2]
    released = os.path.join(out, "released")
    release(fable, released)
    reference = mx.load(os.path.join(fable, "reference.safetensors"))
    prompts = {name[:-len(".tokens")]: value.astype(mx.int32) for name, value in reference.items()
               if name.startswith("prompt") and name.endswith(".tokens")}
    for code in sys.argv[3:] or CODES:
        folder = os.path.join(out, code)
        shutil.rmtree(folder, ignore_errors=True)
        convert(released, folder, quantize=True, **CODES[code])
        model, _ = mlx_lm.utils.load_model(mlx_lm.utils.Path(folder))
        model.set_dtype(mx.float32)
        found = {}
        for ending, epsilon in (("logits", False), ("logits_hf", True)):
            for name, value in logits_of(model, prompts, epsilon).items():
                found[f"{name}.{ending}"] = value
        found |= {f"{name}.tokens": value for name, value in prompts.items()}
        mx.save_safetensors(os.path.join(out, code + ".safetensors"), found)


if __name__ == "__main__":
    main()
