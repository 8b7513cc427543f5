#!/usr/bin/python3
"""What quantising each kind of tensor costs the answers of models/fable.

    tools/quantisation_error.py MODEL [--perplexity]

MODEL is the fable folder with reference.safetensors.  The forward pass is written out here in numpy,
apart from the engine, over weights that went through sl_quantise and back (compiled with cc for the
occasion).  Prints ||logits - reference|| / ||reference|| over all prompts, one line per policy, and
with --perplexity that of the held-out rows.  Needs python3-numpy.
"""
import ctypes
import glob
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ["engine/quant/quantise.c", "core/codec.c", "core/type.c", "base/error.c"]
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, ROTARY, THETA = 256, 8, 4, 2, 64, 16, 10000.0
KEY_HEADS, VALUE_HEADS, EXPERTS, USED, EPS = 2, 4, 32, 4, 1e-6


def load(path):
    raw = open(path, "rb").read()
    (length,) = struct.unpack("<Q", raw[:8])
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        start, stop = (8 + length + at for at in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            wide = np.frombuffer(raw[start:stop], np.uint16).astype(np.uint32) << 16
            values = wide.view(np.float32)
        else:
            kind = {"F32": np.float32, "I32": np.int32, "I64": np.int64}[entry["dtype"]]
            values = np.frombuffer(raw[start:stop], kind)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


class Quantiser:
    def __init__(self, folder):
        path = f"{folder}/quantise.so"
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", "-std=c11", "-D_GNU_SOURCE", "-I.", "-Iinclude"]
            + SOURCES + ["-lm", "-o", path], cwd=ROOT, check=True)
        self.library = ctypes.CDLL(path)
        names = [line.split("(")[1].split(",")[0] for line in open(ROOT / "core/dtypes.def")
                 if line.startswith("DTYPE(")]
        self.dtypes = {name: number for number, name in enumerate(names)}

    def round_trip(self, weights, dtype):
        rows, cols = weights.shape
        weights = np.ascontiguousarray(weights, np.float32)
        codes = np.zeros((rows + 16) * (cols + 256) * 2 + 4096, np.uint8)
        decoded = np.empty_like(weights)
        number, size = self.dtypes[dtype], (ctypes.c_int64(rows), ctypes.c_int64(cols))
        at = lambda array, offset=0: ctypes.c_void_p(array.ctypes.data + offset)
        if self.library.sl_quantise(number, at(weights), *size, at(codes), None) != 0:
            raise ValueError("weights cannot be quantised")
        for row in range(rows):
            self.library.sl_decode_row(number, at(codes), *size, ctypes.c_int64(row),
                                       at(decoded, row * cols * 4))
        return decoded


sigmoid = lambda x: 1 / (1 + np.exp(-x))
silu = lambda x: x * sigmoid(x)
unit = lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
norm = lambda x, gain: unit(x) * (1 + gain)


def rope(x):
    half, steps = ROTARY // 2, np.arange(x.shape[1])
    angle = steps[:, None] * THETA ** (-np.arange(half) * 2 / ROTARY)
    cos, sin = (f(angle)[None, :, None].astype(np.float32) for f in (np.cos, np.sin))
    a, b = x[..., :half], x[..., half:ROTARY]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., ROTARY:]], -1)


def attention(w, p, x):
    batch, steps, _ = x.shape
    project = lambda name, heads: (x @ w[p + name].T).reshape(batch, steps, heads, -1)
    q, gate = np.split(project("q_proj.weight", HEADS), 2, -1)
    q = rope(norm(q, w[p + "q_norm.weight"])).transpose(0, 2, 1, 3)
    k = rope(norm(project("k_proj.weight", KV_HEADS), w[p + "k_norm.weight"]))
    v = project("v_proj.weight", KV_HEADS)
    k, v = (t.transpose(0, 2, 1, 3).repeat(HEADS // KV_HEADS, 1) for t in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) * HEAD**-0.5
    scores = np.where(np.tril(np.ones((steps, steps), bool)), scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (scores / scores.sum(-1, keepdims=True)) @ v
    mixed = mixed.transpose(0, 2, 1, 3) * sigmoid(gate)
    return mixed.reshape(batch, steps, -1) @ w[p + "o_proj.weight"].T


def delta_net(w, p, x):
    batch, steps, _ = x.shape
    taps = w[p + "conv1d.weight"][:, 0]
    inputs = np.pad(x @ w[p + "in_proj_qkv.weight"].T, ((0, 0), (taps.shape[1] - 1, 0), (0, 0)))
    mixed = silu(sum(inputs[:, i : i + steps] * taps[:, i] for i in range(taps.shape[1])))
    keys, repeats = KEY_HEADS * HEAD, VALUE_HEADS // KEY_HEADS
    heads = lambda t: t.reshape(batch, steps, -1, HEAD)
    unit_length = lambda t: t / np.sqrt((t * t).sum(-1, keepdims=True) + EPS)
    q = unit_length(heads(mixed[..., :keys])).repeat(repeats, 2) * np.float32(HEAD**-0.5)
    k = unit_length(heads(mixed[..., keys : 2 * keys])).repeat(repeats, 2)
    v = heads(mixed[..., 2 * keys :])
    beta = sigmoid(x @ w[p + "in_proj_b.weight"].T)
    rate = np.logaddexp(0, x @ w[p + "in_proj_a.weight"].T + w[p + "dt_bias"])
    decay = np.exp(-np.exp(w[p + "A_log"]) * rate)
    state = np.zeros((batch, VALUE_HEADS, HEAD, HEAD), np.float32)
    out = np.empty_like(v)
    for t in range(steps):
        state *= decay[:, t, :, None, None]
        miss = v[:, t] - (k[:, t][:, :, None] @ state)[:, :, 0]
        state += k[:, t][..., None] * (miss * beta[:, t, :, None])[:, :, None]
        out[:, t] = (q[:, t][:, :, None] @ state)[:, :, 0]
    gate = silu(heads(x @ w[p + "in_proj_z.weight"].T))
    out = unit(out) * w[p + "norm.weight"] * gate
    return out.reshape(batch, steps, -1) @ w[p + "out_proj.weight"].T


def swiglu(w, p, x):
    gate, up = x @ w[p + "gate_proj.weight"].T, x @ w[p + "up_proj.weight"].T
    return (silu(gate) * up) @ w[p + "down_proj.weight"].T


def experts(w, p, x):
    shape, x = x.shape, x.reshape(-1, HIDDEN)
    routes = x @ w[p + "gate.weight"].T
    routes = np.exp(routes - routes.max(-1, keepdims=True))
    chosen = np.argsort(-routes, -1, kind="stable")[:, :USED]
    share = np.take_along_axis(routes, chosen, 1)
    share /= share.sum(-1, keepdims=True)
    out = sigmoid(x @ w[p + "shared_expert_gate.weight"].T) * swiglu(w, p + "shared_expert.", x)
    for e in range(EXPERTS):
        token, place = np.nonzero(chosen == e)
        out[token] += swiglu(w, f"{p}experts.{e}.", x[token]) * share[token, place][:, None]
    return out.reshape(shape)


def logits(w, tokens):
    h = w["model.embed_tokens.weight"][tokens]
    for layer in range(LAYERS):
        p = f"model.layers.{layer}."
        x = norm(h, w[p + "input_layernorm.weight"])
        full = p + "self_attn.q_proj.weight" in w
        h = h + (attention(w, p + "self_attn.", x) if full else delta_net(w, p + "linear_attn.", x))
        h = h + experts(w, p + "mlp.", norm(h, w[p + "post_attention_layernorm.weight"]))
    return norm(h, w["model.norm.weight"]) @ w["lm_head.weight"].T


def prompt_error(w, reference):
    miss = size = 0
    for name in sorted(reference):
        if not name.endswith(".logits"):
            continue
        wanted = reference[name]
        tokens = reference[name.replace("logits", "greedy")][None, : len(wanted)]
        miss += ((logits(w, tokens)[0] - wanted) ** 2).sum()
        size += (wanted**2).sum()
    return np.sqrt(miss / size)


def perplexity(w, rows):
    total = 0.0
    for row in rows.reshape(-1, 4, rows.shape[1]):
        scores = logits(w, row)[:, :-1].astype(np.float64)
        scores -= scores.max(-1, keepdims=True)
        chosen = np.take_along_axis(scores, row[:, 1:, None], 2)[..., 0]
        total += (np.log(np.exp(scores).sum(-1)) - chosen).sum()
    return np.exp(total / (rows.shape[0] * (rows.shape[1] - 1)))


SENSITIVE = [".mlp.gate.", "shared_expert_gate", "embed_tokens", "lm_head"]
POLICIES = {  # name: (default type, {part of a tensor's name: its type}), the last match wins
    "float": (None, {}),
    "q8": ("q8", {}),
    "q4, the rule of convert.c": ("q4", {}),
    "q4, head q4": ("q4", {"lm_head": "q4"}),
    "q4, embedding q4": ("q4", {"embed_tokens": "q4"}),
    "q4, router and shared gate q4": ("q4", {".mlp.gate.": "q4", "shared_expert_gate": "q4"}),
    "q4, all of it": ("q4", {part: "q4" for part in SENSITIVE}),
    "q4, delta net a and b q8": ("q4", {"in_proj_a": "q8", "in_proj_b": "q8"}),
    "q4, routed experts float": ("q4", {".experts.": None}),
    "q4, delta net float": ("q4", {".linear_attn.": None}),
    "q4, attention float": ("q4", {".self_attn.": None}),
    "q4, shared expert float": ("q4", {".shared_expert.": None}),
}


def main():
    folder = sys.argv[1]
    reference = load(f"{folder}/reference.safetensors")
    forms = {None: {}}
    for path in sorted(glob.glob(f"{folder}/model*.safetensors")):
        forms[None].update(load(path))
    matrices = [name for name, values in forms[None].items() if values.ndim == 2]
    with tempfile.TemporaryDirectory() as scratch:
        quantiser = Quantiser(scratch)
        for dtype in ("q4", "q8"):
            forms[dtype] = {n: quantiser.round_trip(forms[None][n], dtype) for n in matrices}
    for policy, (default, exceptions) in POLICIES.items():
        rules = {part: default and "q8" for part in SENSITIVE} | exceptions
        weights = dict(forms[None])
        for name in matrices:
            matching = [dtype for part, dtype in rules.items() if part in name]
            weights[name] = forms[matching[-1] if matching else default][name]
        line = f"{policy:32s} logits {prompt_error(weights, reference):.5f}"
        if "--perplexity" in sys.argv:
            line += f"  perplexity {perplexity(weights, reference['heldout.tokens']):.5f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
