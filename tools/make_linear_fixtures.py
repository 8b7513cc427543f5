#!/usr/bin/env python3
"""Write tests/data/ops/linear.json and quant.json: products, systems, packed weights, losses and few-bit numbers by
NumPy and PyTorch, in float64 (integers in their own types, quotients that are rounded in float32).

Packed weights of GGUF are those of tests/data/blocks/gguf.bin, decoded by the gguf package (make_block_vectors.py).
usage: make_linear_fixtures.py FOLDER BLOCKS    (needs torch and numpy)
"""
import json
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

from op_fixtures import number

FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}
INTS = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32,
        "i64": np.int64, "u64": np.uint64}
rng = np.random.default_rng(29)


class Bare(str):
    """An attribute's text that is not quoted: the name of an element type."""


class Cases:
    def __init__(self):
        self.cases = []

    def add(self, op, inputs, outputs, **attrs):
        """inputs and outputs: (dtype, array)."""
        def text(v):
            if isinstance(v, str):
                return v if isinstance(v, Bare) else json.dumps(v)
            return repr(list(v) if isinstance(v, (list, tuple)) else v)

        def tensor(pair):
            dtype, x = pair
            x = np.asarray(x)
            if dtype == "c64":
                x = np.stack([x.real, x.imag], -1)
                dims, values = x.shape[:-1], x
            else:
                dims, values = x.shape, x
            signed = values.astype(np.int64) if dtype == "u64" else values
            return {"dtype": dtype, "dims": list(dims), "data": [number(v) for v in signed.flatten().tolist()]}
        self.cases.append({"op": op, "attrs": ", ".join(f"{k} = {text(v)}" for k, v in attrs.items()),
                           "in": [tensor(x) for x in inputs], "out": [tensor(x) for x in outputs]})

    def write(self, path):
        with open(path, "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in self.cases) + "\n]\n")
        print(f"{path}: {len(self.cases)} cases of {len({c['op'] for c in self.cases})} ops")


def real(dtype, *shape, scale=1.0):
    """Few digits, and what dtype holds."""
    x = np.round(rng.normal(0, scale, shape) * 64) / 64
    return torch.tensor(x).to(FLOATS[dtype]).double().numpy()


def integers(dtype, *shape):
    info = np.iinfo(INTS[dtype])
    return rng.integers(info.min, info.max, shape, dtype=INTS[dtype], endpoint=True)


def values(dtype, *shape):
    if dtype in INTS:
        return integers(dtype, *shape)
    if dtype == "c64":
        return real("f32", *shape) + 1j * real("f32", *shape)
    return real(dtype, *shape)


def products(cases):
    shapes = [((3, 5), (5, 7)), ((2, 1, 3, 4), (5, 4, 2)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((1, 1), (1, 1))]
    types = ["f32", "f16", "bf16", "f64", "c64"] + list(INTS)
    for i, dtype in enumerate(types):
        for a, b in shapes if i == 0 else (shapes[1], shapes[2]):
            x, y = values(dtype, *a), values(dtype, *b)
            with np.errstate(over="ignore"):
                cases.add("matmul", [(dtype, x), (dtype, y)], [(dtype, np.matmul(x, y))])
    dots = [((3, 4), (4, 5), [1], [0], [], []),
            ((2, 3, 4), (4, 2, 5), [2], [0], [0], [1]),
            ((2, 3, 4, 5), (5, 3, 6, 4), [3, 2], [0, 3], [1], [1]),
            ((2, 3, 4), (3, 4, 2), [-1, 0], [1, -1], [-2], [-3]),
            ((3,), (4,), [], [], [], []), ((5,), (5,), [0], [0], [], []), ((2, 0), (0, 3), [1], [0], [], [])]
    for i, (a, b, lc, rc, lb, rb) in enumerate(dots):
        for dtype in types if i in (1, 3) else ("f32", "f64"):
            x, y = values(dtype, *a), values(dtype, *b)
            left, right = list("abcd"[:len(a)]), ["?"] * len(b)
            for p, q in zip(lb + lc, rb + rc):
                right[q] = left[p]
            fresh = iter("wxyz")
            right = [next(fresh) if c == "?" else c for c in right]
            batch = [left[p] for p in lb]
            gone = {left[p] for p in lb + lc}
            out = batch + [c for c in left if c not in gone] + [c for c in right if c not in gone]
            with np.errstate(over="ignore"):
                z = np.einsum("".join(left) + "," + "".join(right) + "->" + "".join(out), x, y)
            cases.add("dot_general", [(dtype, x), (dtype, y)], [(dtype, z)], lhs_contract=lc, rhs_contract=rc,
                      lhs_batch=lb, rhs_batch=rb)


def systems(cases):
    for n, sides, dtype in ((1, (), "f64"), (4, (3,), "f64"), (7, (), "f32"), (5, (2,), "f32")):
        a, b = real(dtype, n, n), real(dtype, n, *sides)
        cases.add("dense_solve", [(dtype, a), (dtype, b)], [(dtype, np.linalg.solve(a, b))])
    for batch, n, sides, dtype in (((3,), 4, (2,), "f64"), ((2, 2), 3, (), "f32"), ((1,), 6, (1,), "f32")):
        a, b = real(dtype, *batch, n, n), real(dtype, *batch, n, *sides)
        x = np.linalg.solve(a, b if sides else b[..., None])
        cases.add("batched_dense_solve", [(dtype, a), (dtype, b)], [(dtype, x if sides else x[..., 0])])


def determinants(cases):
    for dtype, shape in (("f64", (3, 3)), ("f32", (2, 2, 4, 4)), ("f64", (3, 1, 1)), ("f32", (5, 5))):
        x = real(dtype, *shape)
        cases.add("det", [(dtype, x)], [(dtype, np.linalg.det(x))])
    cases.add("det", [("f64", np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]]))], [("f64", np.array(0.0))])


def chosen(cases):
    for dtype, rows, k, r, n in (("f32", (3,), 5, 2, 7), ("f64", (2, 3), 4, 1, 3), ("bf16", (4,), 9, 3, 5), ("f16", (), 6, 2, 2)):
        x, w, a, b = (real(dtype, *s) for s in ((*rows, k), (k, n), (k, r), (r, n)))
        cases.add("lora_matmul", [(dtype, v) for v in (x, w, a, b)], [(dtype, x @ w + 0.75 * (x @ a) @ b)], scale=0.75)
    for dtype, index, m, k, n, e in (("f32", "i32", 5, 4, 3, 3), ("f64", "i64", 4, 3, 5, 2), ("f16", "i32", 3, 7, 2, 4)):
        x, w = real(dtype, m, k), real(dtype, e, k, n)
        experts = rng.integers(0, e, m)
        cases.add("grouped_matmul", [(dtype, x), (dtype, w), (index, experts)],
                  [(dtype, np.einsum("mk,mkn->mn", x, w[experts]))])


def nibbles(codes):
    """[K, N] of 0..15 as [K, ceil(N / 2)] bytes, the even column low."""
    if codes.shape[1] % 2:
        codes = np.concatenate([codes, np.zeros((codes.shape[0], 1), codes.dtype)], 1)
    return (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)


def e4m3(b):
    b = b.astype(np.int64)
    exponent, mantissa = b >> 3 & 15, b & 7
    value = np.where(exponent > 0, (1 + mantissa / 8) * 2.0 ** (exponent - 7), mantissa * 2.0 ** -9)
    return np.where(b & 128, -value, value)


def e5m2(b):
    return (b.astype(np.uint16) << 8).view(np.float16).astype(np.float64)


E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])


def packed(cases, blocks):
    def add(scheme, x, w, params, weights, **attrs):
        cases.add("dequant_matmul", [("f32", x), w, *params], [("f32", x @ weights)], scheme=scheme, **attrs)
    for k, n, block, rows in ((8, 3, 4, (2,)), (5, 4, 2, (3, 1)), (7, 5, 16, (1,))):
        x, r = real("f32", *rows, k), -(-k // block)
        scale, zero = real("f32", r, n) + 0.25, real("f32", r, n, scale=4)
        wide = lambda v, step=block: np.repeat(v, step, 0)[:k]
        codes = rng.integers(-128, 128, (k, n))
        add("int8_block", x, ("i8", codes), [("f32", scale)], codes * wide(scale), block=block)
        add("int8_block_asym", x, ("i8", codes), [("f32", scale), ("f32", zero)], (codes - wide(zero)) * wide(scale),
            block=block)
        add("int8_block_asym", x, ("u8", codes + 128), [("f32", scale), ("f32", zero)],
            (codes + 128 - wide(zero)) * wide(scale), block=block)
        codes = rng.integers(0, 16, (k, n))
        signed = np.where(codes >= 8, codes - 16, codes)
        add("int4_block", x, ("u8", nibbles(codes)), [("f32", scale)], signed * wide(scale), block=block)
        add("int4_block_asym", x, ("u8", nibbles(codes)), [("f32", scale), ("f32", zero)],
            (codes - wide(zero)) * wide(scale), block=block)
        codes = rng.integers(0, 256, (k, n))
        by_column = real("f32", n)
        add("fp8_e4m3", x, ("u8", np.where((codes & 127) == 127, 0, codes)), [("f32", by_column)],
            np.where((codes & 127) == 127, 0, e4m3(codes)) * by_column)
        finite = np.where((codes & 0x7c) == 0x7c, 3, codes)
        add("fp8_e5m2", x, ("u8", finite), [("f32", by_column[:1])], e5m2(finite) * by_column[0])
    for k, n, rows in ((16, 4, (2,)), (20, 3, (1, 2)), (33, 2, (3,))):
        x, codes, scale = real("f32", *rows, k), rng.integers(0, 16, (k, n)), rng.integers(0, 126, (-(-k // 16), n))
        add("nvfp4", x, ("u8", nibbles(codes)), [("u8", scale), ("f32", np.array([0.75]))],
            E2M1[codes] * np.repeat(e4m3(scale), 16, 0)[:k] * 0.75)
    with open(blocks, "rb") as f:
        while head := f.read(28):
            name, rows, cols, size = struct.unpack("<16sIII", head)
            scheme = "gguf_" + name.rstrip(b"\0").decode().lower()
            w = np.frombuffer(f.read(rows * size), np.uint8).reshape(rows, size)
            weights = np.frombuffer(f.read(rows * cols * 4), np.float32).reshape(rows, cols).astype(np.float64)
            if scheme == "gguf_mxfp4":  # its powers of two would hide each other
                continue
            x = real("f32", 2, cols)
            add(scheme, x, ("u8", w), [], weights.T)
            if scheme in ("gguf_q4_k", "gguf_q8_0", "gguf_q6_k"):
                experts = np.array([2, 0, 2, 1])
                y = real("f32", 4, cols)
                cases.add("dequant_grouped_matmul", [("f32", y), ("u8", w[:, None]), ("i32", experts)],
                          [("f32", np.einsum("mk,mk->m", y, weights[experts])[:, None])], scheme=scheme)
                few = 2 if scheme == "gguf_q8_0" else 1
                blocks_of = 34 * 2 if scheme == "gguf_q8_0" else size
                take = 64 if scheme == "gguf_q8_0" else cols
                cases.add("dequant_moe_weights", [("u8", w[:few, None, :blocks_of])],
                          [("f32", weights[:few, :take, None])], scheme=scheme)


def losses(cases):
    for dtype, index, rows, classes, weighted, ignore in (
            ("f32", "i32", (5,), 4, False, None), ("f64", "i64", (2, 3), 7, True, None), ("f32", "i64", (4,), 3, True, -100),
            ("f16", "i32", (3,), 5, False, 2), ("bf16", "i32", (), 6, True, None)):
        x = torch.tensor(real(dtype, *rows, classes, scale=3.0), requires_grad=True)
        labels = torch.tensor(rng.integers(0, classes, rows))
        attrs = {}
        if ignore is not None:
            labels[0] = ignore
            attrs = {"ignores": 1, "ignore": ignore}
        weights = torch.tensor(np.abs(real(dtype, classes)) + 0.25) if weighted else None
        kept = -12345 if ignore is None else ignore
        dloss = torch.tensor(real(dtype, *rows))
        extra = [(dtype, weights.numpy())] if weighted else []
        flat = lambda v: v.reshape(-1, classes)
        loss = F.cross_entropy(flat(x), labels.reshape(-1), weights, reduction="none", ignore_index=kept).reshape(rows)
        dx, = torch.autograd.grad(loss, x, dloss)
        given = [(dtype, x.detach().numpy()), (index, labels.numpy())]
        cases.add("softmax_cross_entropy", [*given, *extra], [(dtype, loss.detach().numpy())], **attrs)
        cases.add("softmax_cross_entropy_backward", [*given, (dtype, dloss.numpy()), *extra], [(dtype, dx.numpy())], **attrs)
        loss = F.nll_loss(flat(x), labels.reshape(-1), weights, reduction="none", ignore_index=kept).reshape(rows)
        dx, = torch.autograd.grad(loss, x, dloss)
        cases.add("nll", [*given, *extra], [(dtype, loss.detach().numpy())], **attrs)
        cases.add("nll_backward", [given[1], (dtype, dloss.numpy()), *extra], [(dtype, dx.numpy())], classes=classes, **attrs)


def along(v, shape, axis):
    return v.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))]) if v.size > 1 else v.reshape(())


def divided(dtype, x, s):
    """x / s as x's type has it."""
    return x / s if dtype == "f64" else (x.astype(np.float32) / np.asarray(s, np.float32)).astype(np.float64)


def codes(cases):
    for dtype, to, shape, axis in (("f32", "i8", (3, 5), None), ("f32", "u8", (2, 3, 4), 1), ("f16", "i16", (4, 3), -1),
                                   ("bf16", "u16", (5,), None), ("f64", "i32", (2, 2), 0), ("f32", "u8", (0, 3), 1)):
        info = np.iinfo(INTS[to])
        x = real(dtype, *shape, scale=20.0)
        if x.size > 4:
            x.flat[:3] = [1e9, -1e9, np.nan]
            x.flat[0:2] = torch.tensor(x.flat[0:2]).to(FLOATS[dtype]).double().numpy()
        count = 1 if axis is None else shape[axis]
        scale = np.abs(real(dtype, count)) + 0.125
        zero = rng.integers(max(info.min, -100), min(info.max, 100), count)
        s, z = (along(v, shape, axis or 0) for v in (scale, zero))
        q = np.nan_to_num(np.round(divided(dtype, x, s)), nan=0.0, posinf=1e300, neginf=-1e300)
        out = np.clip(q + z, info.min, info.max)
        extra = {} if axis is None else {"axis": axis}
        given = [(dtype, scale if axis is not None else scale[0]), (to, zero if axis is not None else zero[0])]
        cases.add("quantize", [(dtype, x), *given], [(to, out.astype(np.int64))], to=Bare(to), **extra)
        back = (out - z) * s
        cases.add("dequantize", [(to, out.astype(np.int64)), *given], [(dtype, back)], **extra)
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    cases.add("quantize", [("f32", halves), ("f32", np.array(1.0)), ("i8", np.array(3))],
              [("i8", np.round(halves).astype(int) + 3)], to=Bare("i8"))


def recoded(sums, multiplier, zero, dtype):
    scaled = np.round(sums.astype(np.int32).astype(np.float32) * multiplier.astype(np.float32)).astype(np.int64)
    info = np.iinfo(INTS[dtype])
    return np.clip(scaled + zero, info.min, info.max)


def code_products(cases):
    for a, b, left, right, out, wide, biased in (((3, 5), (5, 4), "i8", "i8", "i8", False, True), ((2, 3, 7), (7, 2), "u8", "i8", "u8", True, False),
                                                 ((2, 1, 4, 6), (3, 6, 5), "u8", "u8", "i8", True, True)):
        x, y = integers(left, *a).astype(np.int64), integers(right, *b).astype(np.int64)
        n = b[-1]
        xz, oz = int(integers(left)), int(integers(out))
        yz = integers(right, n if wide else 1).astype(np.int64)
        m = np.abs(real("f64", n if wide else 1, scale=0.002)).astype(np.float32).astype(np.float64) + 2.0 ** -12
        bias = rng.integers(-5000, 5000, n)
        sums = np.matmul(x - xz, y - yz) + (bias if biased else 0)
        cases.add("q_matmul", [(left, x), (right, y), (left, np.array(xz)), (right, yz), ("f32", m), (out, np.array([oz])),
                               *([("i32", bias)] if biased else [])], [(out, recoded(sums, m, oz, out))])
    for xs, ws, strides, before, after, dilations, groups, left, right, out in (
            ((2, 3, 6, 5), (4, 3, 3, 2), [2, 1], [1, 0], [0, 2], [1, 2], 1, "i8", "i8", "i8"),
            ((1, 4, 5, 5), (6, 2, 2, 2), [1, 1], [0, 0], [0, 0], [1, 1], 2, "u8", "i8", "u8"),
            ((2, 2, 9), (3, 2, 4), [3], [2], [1], [1], 1, "u8", "u8", "u8"),
            ((1, 2, 3, 4, 3), (2, 1, 2, 2, 2), [1, 2, 1], [0, 1, 1], [1, 0, 0], [1, 1, 1], 2, "i8", "i8", "u8")):
        x, w = integers(left, *xs).astype(np.int64), integers(right, *ws).astype(np.int64)
        xz, oz, m = int(integers(left)), int(integers(out)), np.abs(real("f64", ws[0], scale=0.01)) + 2.0 ** -10
        wz, bias = integers(right, ws[0]).astype(np.int64), rng.integers(-5000, 5000, ws[0])
        space = len(xs) - 2
        pads = [p for pair in reversed(list(zip(before, after))) for p in pair]
        conv = (F.conv1d, F.conv2d, F.conv3d)[space - 1]
        sums = conv(F.pad(torch.tensor((x - xz).astype(np.float64)), pads),
                    torch.tensor((w - wz.reshape(-1, *[1] * (space + 1))).astype(np.float64)), None, strides, 0, dilations, groups)
        shape = (1, -1, *[1] * space)
        sums = sums.numpy().round().astype(np.int64) + bias.reshape(shape)
        cases.add("q_conv", [(left, x), (right, w), (left, np.array([xz])), (right, wz), ("f32", m), (out, np.array(oz)), ("i32", bias)],
                  [(out, recoded(sums, m.reshape(shape), oz, out))], strides=strides, pads_before=before, pads_after=after,
                  dilations=dilations, groups=groups)


def fake(dtype, x, s, q):
    return np.clip(np.round(divided(dtype, x, s)), -q, q) * s


def rounded_to(dtype, v):
    return torch.tensor(v).to(FLOATS[dtype]).double().numpy()


def training(cases):
    shapes = [("f32", 8, (3, 5), None), ("f32", 4, (2, 3, 4), 1), ("f64", 2, (4, 3), -1), ("f16", 3, (6,), None), ("bf16", 8, (2, 3), 0)]
    for dtype, bits, shape, axis in shapes:
        q = 2 ** (bits - 1) - 1
        x, dy = real(dtype, *shape), real(dtype, *shape)
        if shape == (2, 3, 4):
            x[:, 2] = 0
        count = 1 if axis is None else shape[axis]
        others = tuple(i for i in range(len(shape)) if axis is None or i != axis % len(shape))
        batch = rounded_to(dtype, divided(dtype, np.abs(x).max(others).reshape(-1), np.float64(q)))
        state = rounded_to(dtype, np.abs(real(dtype, count)) + 0.125)
        state[-1] = 0 if count > 1 else state[-1]
        decay = float(np.float32(0.9))
        moved = np.where(state > 0, state * decay + (1 - decay) * divided(dtype, np.abs(x).max(others).reshape(-1), np.float64(q)),
                         batch)
        by_axis = {} if axis is None else {"by_axis": 1, "axis": axis}
        for mode, scale in enumerate((batch, rounded_to(dtype, moved), state)):
            s = along(scale, shape, axis or 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                out = np.where(s == 0, 0.0, fake(dtype, x, s, q))
            extra = {"decay": 0.9} if mode == 1 else {}
            cases.add("fake_quantize", [(dtype, x)] + ([(dtype, state)] if mode else []), [(dtype, out), (dtype, scale)],
                      bits=bits, mode=mode, **by_axis, **extra)
        scale = rounded_to(dtype, np.abs(real(dtype, count)) * 0.25 + 0.125)
        s = along(scale, shape, axis or 0)
        z = divided(dtype, x, s)
        slopes = (np.ones_like(z), (np.abs(z) <= q) * 1.0, 1 - np.tanh(z) ** 2, np.maximum(1 - np.abs(z) / q, 0))
        at = {} if axis is None else {"axis": axis}
        for ste, slope in enumerate(slopes):
            cases.add("fake_quantize_backward", [(dtype, x), (dtype, scale), (dtype, dy)], [(dtype, dy * slope)], bits=bits, ste=ste, **at)
        # What PyTorch's own gradient is when rounding passes it through.
        tx, ts = torch.tensor(x, requires_grad=True), torch.tensor(s, requires_grad=True)
        tz = tx / ts
        tz = tz + (torch.tensor(z) - tz).detach()
        code = torch.clamp(tz, -q, q)
        y = (code + (torch.round(code) - code).detach()) * ts
        dx, ds = torch.autograd.grad(y, (tx, ts), torch.tensor(dy))
        inputs = [(dtype, x), (dtype, scale)]
        cases.add("fake_quantize_lsq", inputs, [(dtype, fake(dtype, x, s, q))], bits=bits, **at)
        cases.add("fake_quantize_lsq_backward_x", inputs + [(dtype, dy)], [(dtype, dx.numpy())], bits=bits, **at)
        if dtype == "f64":  # autograd's own rounding of z is the reference's only there
            cases.add("fake_quantize_lsq_backward_scale", inputs + [(dtype, dy)], [(dtype, ds.numpy().reshape(-1))], bits=bits, **at)
        else:
            psi = np.where(np.abs(z) <= q, np.round(z) - z, np.sign(z) * q)
            ds = (dy * psi).sum(others).reshape(-1)
            cases.add("fake_quantize_lsq_backward_scale", inputs + [(dtype, dy)], [(dtype, ds)], bits=bits, **at)


def main():
    folder, blocks = sys.argv[1:]
    linear, quant = Cases(), Cases()
    for make in (products, systems, determinants, chosen, losses):
        make(linear)
    packed(linear, blocks)
    for make in (codes, code_products, training):
        make(quant)
    linear.write(f"{folder}/linear.json")
    quant.write(f"{folder}/quant.json")


main()
