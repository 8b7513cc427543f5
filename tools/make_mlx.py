#!/usr/bin/env python3
"""make_mlx.py - fable as mlx-lm quantises it, with mlx-lm's own logits.

    make_mlx.py FABLE OUT [affine-4-64 mxfp4 nvfp4 ...]     (default: every row of CODES)
    make_mlx.py --small OUT [...]                           a tiny random model instead: tests/data/mlx

Needs mlx and mlx-lm (the CPU builds will do).  mlx-lm reads the released form of this family alone (nested config, experts
fused and stacked), so that is written first, to OUT/released; then for each code OUT/CODE, quantised by mlx_lm, and
beside it OUT/CODE.safetensors: promptN.tokens and promptN.logits as mlx-lm computes them in float32.  tests/golden/mlx_test.c
reads what this writes.  The l2 norm of queries and keys has Hugging Face's epsilon since mlx-lm 0.32, before it was larger.
"""
import json
import math
import os
import random
import shutil
import struct
import sys

import mlx.core as mx
import mlx_lm.utils

CODES = {f"affine-{bits}-{group}": dict(q_bits=bits, q_group_size=group)
         for bits, group in [(4, 64), (2, 64), (3, 64), (5, 64), (6, 64), (8, 64), (4, 32), (8, 32)]}
CODES |= {mode: dict(q_mode=mode) for mode in ("mxfp4", "mxfp8", "nvfp4")}
CODES["affine-4-64-f16"] = dict(q_bits=4, q_group_size=64, dtype="float16")
CODES["affine-4-64-f32"] = dict(q_bits=4, q_group_size=64, dtype="float32")
# Overrides: a wider code for some modules and none for others.
CODES["mixed"] = dict(q_bits=4, q_group_size=64, quant_predicate=lambda path, module: (
    False if "shared_expert" in path else dict(bits=6, group_size=32) if "down_proj" in path
    else dict(bits=8, group_size=64) if "lm_head" in path or path.endswith("mlp.gate") else True))
# All that there is, in one folder.
EVERY = {"switch_mlp.gate_proj": (4, 64), "switch_mlp.up_proj": "mxfp4", "switch_mlp.down_proj": "nvfp4",
         "shared_expert.gate_proj": (3, 32), "shared_expert.up_proj": (5, 64), "shared_expert.down_proj": (6, 64),
         "q_proj": (2, 64), "k_proj": "mxfp8", "v_proj": (8, 32), "o_proj": False, "in_proj_qkv": (4, 32),
         "in_proj_z": "mxfp4", "out_proj": "nvfp4", "lm_head": (8, 64), "embed_tokens": (6, 32)}
MODES = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}


def every(path, module):
    code = next((code for ending, code in EVERY.items() if path.endswith(ending)), (8, 64))
    if code is False:
        return False
    bits, group = MODES.get(code, code)
    return dict(bits=bits, group_size=group, mode=code if code in MODES else "affine")


CODES["every"] = dict(q_bits=4, q_group_size=64, quant_predicate=every)


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


def invent(out):
    """A folder of random weights, as small as the family can be."""
    rng = random.Random(5)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    hidden, vocab, experts, width = 64, 64, 4, 64
    config = dict(model_type="qwen3_5_moe_text", hidden_size=hidden, vocab_size=vocab, num_hidden_layers=2, rms_norm_eps=1e-6,
                  layer_types=["linear_attention", "full_attention"], num_attention_heads=2, num_key_value_heads=1, head_dim=32,
                  linear_num_key_heads=1, linear_num_value_heads=2, linear_key_head_dim=32, linear_value_head_dim=32,
                  linear_conv_kernel_dim=4, num_experts=experts, num_experts_per_tok=2, moe_intermediate_size=width,
                  shared_expert_intermediate_size=64, max_position_embeddings=256, tie_word_embeddings=False,
                  full_attention_interval=2, hidden_act="silu",
                  rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25))
    json.dump(config, open(os.path.join(out, "config.json"), "w"))
    tensors = {}

    def add(name, *shape, size=0.12):
        values = (int.from_bytes(struct.pack(">f", rng.gauss(0, size))[:2], "big") for _ in range(math.prod(shape)))
        tensors[name] = ("BF16", list(shape), b"".join(struct.pack("<H", v) for v in values))
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        add(name, vocab, hidden, size=0.5)
    add("model.norm.weight", hidden)
    for layer in range(2):
        at = f"model.layers.{layer}."
        add(at + "input_layernorm.weight", hidden)
        add(at + "post_attention_layernorm.weight", hidden)
        add(at + "mlp.gate.weight", experts, hidden, size=0.5)
        add(at + "mlp.shared_expert_gate.weight", 1, hidden)
        for expert in [f"experts.{e}" for e in range(experts)] + ["shared_expert"]:
            add(f"{at}mlp.{expert}.gate_proj.weight", width, hidden)
            add(f"{at}mlp.{expert}.up_proj.weight", width, hidden)
            add(f"{at}mlp.{expert}.down_proj.weight", hidden, width)
    at = "model.layers.0.linear_attn."
    for name, rows in (("qkv", 128), ("z", 64), ("a", 2), ("b", 2)):
        add(f"{at}in_proj_{name}.weight", rows, hidden, size=0.3)
    add(at + "conv1d.weight", 128, 1, 4, size=0.5)
    add(at + "A_log", 2, size=0.5)
    add(at + "dt_bias", 2, size=0.5)
    add(at + "norm.weight", 32, size=1)
    add(at + "out_proj.weight", hidden, 64)
    at = "model.layers.1.self_attn."
    for name, rows in (("q_proj", 128), ("k_proj", 32), ("v_proj", 32), ("o_proj", hidden)):
        add(f"{at}{name}.weight", rows, hidden, size=0.3)
    add(at + "q_norm.weight", 32)
    add(at + "k_norm.weight", 32)
    save_raw(os.path.join(out, "model.safetensors"), tensors)
    return {"prompt1": mx.array([rng.randrange(vocab) for _ in range(12)])}


def load_prompts(fable):
    reference = mx.load(os.path.join(fable, "reference.safetensors"))
    return {name[:-len(".tokens")]: value.astype(mx.int32) for name, value in reference.items()
            if name.startswith("prompt") and name.endswith(".tokens")}


def make(folder, released, code, prompts):
    shutil.rmtree(folder, ignore_errors=True)
    model, config = mlx_lm.utils.load_model(mlx_lm.utils.Path(released), lazy=True)
    how = dict(CODES[code])
    dtype = how.pop("dtype", None)
    if dtype:
        model.set_dtype(getattr(mx, dtype))
    model, config = mlx_lm.utils.quantize_model(
        model, config, how.get("q_group_size"), how.get("q_bits"), mode=how.get("q_mode", "affine"),
        quant_predicate=how.get("quant_predicate"))
    os.makedirs(folder)
    mlx_lm.utils.save_model(folder, model)
    mlx_lm.utils.save_config(config, config_path=os.path.join(folder, "config.json"))
    model, _ = mlx_lm.utils.load_model(mlx_lm.utils.Path(folder))
    model.set_dtype(mx.float32)
    found = {f"{name}.tokens": value for name, value in prompts.items()}
    found |= {f"{name}.logits": mx.array(model(tokens[None])[0]) for name, tokens in prompts.items()}
    mx.save_safetensors(folder + ".safetensors", found)


def main():
    source, out = sys.argv[1], sys.argv[2]
    base = os.path.join(out, ".base")
    if source == "--small":
        prompts, source = invent(base), base
    else:
        prompts = load_prompts(source)
    released = os.path.join(out, ".released")
    release(source, released)
    for code in sys.argv[3:] or (["every"] if base == source else CODES):
        make(os.path.join(out, code), released, code, prompts)
    for folder in (base, released):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
