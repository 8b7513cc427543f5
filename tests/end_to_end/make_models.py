#!/usr/bin/env python3
"""make_models.py - The same shape of random model as a Hugging Face folder, an MLX folder and a GGUF file.

    make_models.py OUT TOKENIZER.json [--hidden 1024] [--layers 4] [--experts 16]

Writes OUT/hf, OUT/mlx (affine, 4 bits in groups of 64) and OUT/model.gguf (Q8_0): architecture qwen3_moe with the
vocabulary of the given byte-level BPE tokenizer.  The weights are small random numbers; only their sizes matter.
Needs nothing but Python.
"""
import argparse
import json
import os
import random
import shutil
import struct

HEADS, KV_HEADS, HEAD, USED, WIDTH, CONTEXT = 16, 2, 64, 4, 512, 32768
NOISE = random.Random(1)


def noise(pattern, count):
    """count bytes: blocks made by pattern(), repeated."""
    block = b"".join(pattern() for _ in range(1024))
    return (block * (count // len(block) + 1))[:count]


def bf16():
    """A number below 2^-6 of either sign."""
    return struct.pack("<H", NOISE.getrandbits(1) << 15 | NOISE.randrange(115, 121) << 7 | NOISE.getrandbits(7))


def q8_block():
    return struct.pack("<e", 0.0005) + NOISE.randbytes(32)


class Shape:
    def __init__(self, given, tokenizer):
        self.hidden, self.layers, self.experts = given.hidden, given.layers, given.experts
        added = [token["id"] for token in tokenizer["added_tokens"]]
        self.vocab = -(-(max([*tokenizer["model"]["vocab"].values(), *added]) + 1) // 64) * 64

    def config(self):
        return {"model_type": "qwen3_moe", "vocab_size": self.vocab, "hidden_size": self.hidden,
                "num_hidden_layers": self.layers, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
                "head_dim": HEAD, "max_position_embeddings": CONTEXT, "num_experts": self.experts,
                "num_experts_per_tok": USED, "moe_intermediate_size": WIDTH, "norm_topk_prob": True,
                "rope_theta": 1000000, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
                "mlp_only_layers": [], "decoder_sparse_step": 1, "intermediate_size": WIDTH}

    def vectors(self):
        """Names of Hugging Face and GGUF, and lengths."""
        yield "model.norm.weight", "output_norm.weight", self.hidden
        for layer in range(self.layers):
            here, there = f"model.layers.{layer}.", f"blk.{layer}."
            yield here + "input_layernorm.weight", there + "attn_norm.weight", self.hidden
            yield here + "post_attention_layernorm.weight", there + "ffn_norm.weight", self.hidden
            yield here + "self_attn.q_norm.weight", there + "attn_q_norm.weight", HEAD
            yield here + "self_attn.k_norm.weight", there + "attn_k_norm.weight", HEAD

    def matrices(self):
        yield "model.embed_tokens", "token_embd", (self.vocab, self.hidden)
        for layer in range(self.layers):
            here, there = f"model.layers.{layer}.", f"blk.{layer}."
            yield here + "self_attn.q_proj", there + "attn_q", (HEADS * HEAD, self.hidden)
            yield here + "self_attn.k_proj", there + "attn_k", (KV_HEADS * HEAD, self.hidden)
            yield here + "self_attn.v_proj", there + "attn_v", (KV_HEADS * HEAD, self.hidden)
            yield here + "self_attn.o_proj", there + "attn_output", (self.hidden, HEADS * HEAD)
            yield here + "mlp.gate", there + "ffn_gate_inp", (self.experts, self.hidden)

    def stacks(self):
        for layer in range(self.layers):
            for name, rows, cols in (("gate", WIDTH, self.hidden), ("up", WIDTH, self.hidden),
                                     ("down", self.hidden, WIDTH)):
                yield f"model.layers.{layer}.mlp", name, f"blk.{layer}.ffn_{name}_exps", (self.experts, rows, cols)


def product(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def write_safetensors(path, tensors):
    """tensors: (name, dtype, shape, bytes)."""
    header, end = {}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for *_, data in tensors:
            file.write(data)


def plain(name, shape):
    return name, "BF16", shape, noise(bf16, 2 * product(shape))


def affine(name, shape):
    rows, cols = shape[:-1], shape[-1]
    groups = product(rows) * cols // 64
    return [(name + ".weight", "U32", (*rows, cols // 8), noise(lambda: NOISE.randbytes(4), product(shape) // 2)),
            (name + ".scales", "BF16", (*rows, cols // 64), struct.pack("<H", 0x3a80) * groups),
            (name + ".biases", "BF16", (*rows, cols // 64), struct.pack("<H", 0xbc00) * groups)]


def folder(out, shape, config, tokenizer, tensors):
    os.makedirs(out)
    with open(out + "/config.json", "w") as file:
        json.dump(config, file)
    shutil.copy(tokenizer, out + "/tokenizer.json")
    write_safetensors(out + "/model.safetensors", tensors)


def write_hf(out, shape, tokenizer):
    tensors = [plain(name, (count,)) for name, _, count in shape.vectors()]
    tensors += [plain(name + ".weight", dims) for name, _, dims in shape.matrices()]
    for layer, name, _, dims in shape.stacks():
        tensors += [plain(f"{layer}.experts.{e}.{name}_proj.weight", dims[1:]) for e in range(dims[0])]
    folder(out, shape, shape.config(), tokenizer, tensors)


def write_mlx(out, shape, tokenizer):
    tensors = [plain(name, (count,)) for name, _, count in shape.vectors()]
    for name, _, dims in shape.matrices():
        tensors += affine(name, dims)
    for layer, name, _, dims in shape.stacks():
        tensors += affine(f"{layer}.switch_mlp.{name}_proj", dims)
    config = {**shape.config(), "quantization": {"group_size": 64, "bits": 4}}
    folder(out, shape, config, tokenizer, tensors)


# ---- GGUF

def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    kind = 8 if isinstance(value[0], str) else 5
    items = b"".join(text(item) for item in value) if kind == 8 else struct.pack(f"<{len(value)}i", *value)
    return text(key) + struct.pack("<IIQ", 9, kind, len(value)) + items


def vocabulary(tokenizer, count):
    tokens, kinds = [f"[unused{i}]" for i in range(count)], [5] * count
    for name, number in tokenizer["model"]["vocab"].items():
        tokens[number], kinds[number] = name, 1
    for token in tokenizer["added_tokens"]:
        tokens[token["id"]], kinds[token["id"]] = token["content"], 3 if token["special"] else 4
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    return tokens, kinds, merges


def write_gguf(path, shape, tokenizer):
    tokens, kinds, merges = vocabulary(tokenizer, shape.vocab)
    keys = {"general.architecture": "qwen3moe", "qwen3moe.block_count": shape.layers,
            "qwen3moe.context_length": CONTEXT, "qwen3moe.embedding_length": shape.hidden,
            "qwen3moe.feed_forward_length": WIDTH, "qwen3moe.attention.head_count": HEADS,
            "qwen3moe.attention.head_count_kv": KV_HEADS, "qwen3moe.attention.key_length": HEAD,
            "qwen3moe.attention.value_length": HEAD, "qwen3moe.attention.layer_norm_rms_epsilon": 1e-6,
            "qwen3moe.rope.freq_base": 1e6, "qwen3moe.expert_count": shape.experts,
            "qwen3moe.expert_used_count": USED, "qwen3moe.expert_feed_forward_length": WIDTH,
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": kinds, "tokenizer.ggml.merges": merges}
    tensors = [(name, 0, (count,), struct.pack("<f", 1.0) * count) for _, name, count in shape.vectors()]
    everything = [(name + ".weight", dims) for _, name, dims in shape.matrices()]
    everything += [(name + ".weight", dims) for _, _, name, dims in shape.stacks()]
    tensors += [(name, 8, dims, noise(q8_block, product(dims) // 32 * 34)) for name, dims in everything]
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)))
        file.write(b"".join(entry(key, value) for key, value in keys.items()))
        offset = 0
        for name, kind, dims, data in tensors:
            file.write(text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *reversed(dims)))
            file.write(struct.pack("<IQ", kind, offset))
            offset += -(-len(data) // 32) * 32
        for *_, data in tensors:
            file.write(b"\0" * (-file.tell() % 32) + data)
        file.write(b"\0" * (-file.tell() % 32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("tokenizer")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--experts", type=int, default=16)
    given = parser.parse_args()
    with open(given.tokenizer) as file:
        tokenizer = json.load(file)
    shape = Shape(given, tokenizer)
    os.makedirs(given.out, exist_ok=True)
    write_hf(given.out + "/hf", shape, given.tokenizer)
    write_mlx(given.out + "/mlx", shape, given.tokenizer)
    write_gguf(given.out + "/model.gguf", shape, tokenizer)


if __name__ == "__main__":
    main()
