#!/usr/bin/env python3
"""Write tests/data/ops/attention.json: what PyTorch computes, in float64, for the ops of attention.def,
rope_apply.def, recurrence.def, fused.def and random.def in core/ops.  Gradients are autograd's.  Inputs are multiples of 1/32, which every type of theirs
holds; results are not rounded to it.

usage: make_attention_fixtures.py OUTPUT    (needs torch and numpy)
"""
import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.manual_seed(11)
cases = []
KINDS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}


def short(x):
    return (x * 32).round().clamp(-127, 127) / 32


def rnd(dtype, *shape, scale=1.0):
    """Values that dtype holds, and short to write."""
    return short(torch.randn(shape) * scale)


def tensor(x, dtype):
    x = torch.as_tensor(x).detach()
    data = x.int() if x.dtype == torch.bool else x
    return {"dtype": dtype, "dims": list(x.shape), "data": [float(f"{v:.14g}") if data.is_floating_point() else v
                                                            for v in data.flatten().tolist()]}


def f32(value):
    return float(np.float32(value))


def case(op, dtype, inputs, outputs, kinds=None, out_kinds=None, **attrs):
    kinds, out_kinds = kinds or {}, out_kinds or {}
    text = ", ".join(f"{k} = {json.dumps(v) if isinstance(v, str) else list(v) if isinstance(v, (list, tuple)) else repr(v)}"
                     for k, v in attrs.items() if k != "to")
    if "to" in attrs:
        text += f", to = {attrs['to']}"
    cases.append({"op": op, "attrs": text,
                  "in": [tensor(x, kinds.get(i, dtype)) for i, x in enumerate(inputs)],
                  "out": [tensor(x, out_kinds.get(i, dtype)) for i, x in enumerate(outputs)]})


NONE, CAUSAL, SLIDING, CUSTOM, BIAS = range(5)


def attend(q, k, v, extra, mask=0, window=0, scale=0.0, softcap=0.0, sinks=0):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.mT * (f32(scale) or q.shape[-1] ** -0.5)
    if softcap:
        scores = f32(softcap) * torch.tanh(scores / f32(softcap))
    s, t = scores.shape[-2:]
    here = (torch.arange(s) + t - s)[:, None]
    keys = torch.arange(t)
    if mask in (CAUSAL, SLIDING):
        seen = keys <= here
        if mask == SLIDING:
            seen = seen & (keys > here - window)
        scores = scores.masked_fill(~seen, -math.inf)
    if mask == CUSTOM:
        scores = scores.masked_fill(~extra[0], -math.inf)
    if mask == BIAS:
        scores = scores + extra[0]
    if sinks:
        sink = extra[-1][None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sink], -1)
    largest = scores.amax(-1, keepdim=True).detach()
    terms = torch.exp(scores - largest.masked_fill(largest == -math.inf, 0))
    total = terms.sum(-1, keepdim=True)
    weights = terms / total.masked_fill(total == 0, 1)
    return weights[..., :t] @ v


def attention():
    shapes = [(1, 1, 1, 1, 1, 1, 1), (2, 4, 2, 3, 5, 3, 2), (1, 3, 1, 7, 7, 4, 6), (1, 4, 2, 4, 3, 5, 3),
              (2, 2, 2, 5, 9, 8, 3)]
    ways = [dict(), dict(mask=CAUSAL), dict(mask=SLIDING, window=2), dict(mask=CUSTOM), dict(mask=BIAS),
            dict(mask=CAUSAL, sinks=1, scale=0.3), dict(mask=BIAS, sinks=1, softcap=1.5), dict(softcap=2.0, scale=1.25),
            dict(mask=CUSTOM, sinks=1)]
    dtypes = ["f32", "f64", "f32", "f16", "bf16"]
    for n, (b, hq, h, s, t, d, dv) in enumerate(shapes):
        for w, way in enumerate(ways):
            dtype = dtypes[(n + w) % 5]
            q, k, v = rnd(dtype, b, hq, s, d), rnd(dtype, b, h, t, d), rnd(dtype, b, h, t, dv)
            extra, kinds, mask = [], {}, way.get("mask", 0)
            full = [(b, hq, s, t), (b, 1, 1, t), (s, t), (hq, s, 1), (t,)][(n + w) % 5]
            if mask == CUSTOM:
                extra.append(torch.rand(full) < 0.6)
                kinds[3] = "bool"
            if mask == BIAS:
                extra.append(rnd(dtype, *full))
            if way.get("sinks"):
                extra.append(rnd(dtype, hq))
            leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in [q, k, v, *extra]]
            out = attend(*leaves[:3], leaves[3:], **way)
            case("attention", dtype, [q, k, v, *extra], [out], kinds, **way)
            dout = rnd(dtype, b, hq, s, dv)
            out.backward(dout)
            grads = [x.grad for x in leaves if x.is_floating_point()]
            back = {4: "bool"} if mask == CUSTOM else {}
            case("attention_backward", dtype, [q, k, v, dout, *extra], grads if w % 2 else grads[:3], back, **way)


def rotate(x, cos, sin, interleaved):
    pairs = cos.shape[-1]
    head, tail = x[..., :2 * pairs], x[..., 2 * pairs:]
    if interleaved:
        a, b = head[..., ::2], head[..., 1::2]
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = head[..., :pairs], head[..., pairs:]
        turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return torch.cat([turned, tail], -1)


def both(op, dtype, x, tables, fn, out_dout=None, **attrs):
    """A rotation and its gradient."""
    leaf = x.clone().requires_grad_()
    out = fn(leaf)
    case(op, dtype, [x, *tables], [out], **attrs)
    dout = rnd(dtype, *x.shape)
    out.backward(dout)
    case(op + "_backward", dtype, [dout, *tables], [leaf.grad], **attrs)


def rope():
    plans = [("f32", (2, 3, 5, 8), (5, 4), 0, 0), ("f64", (2, 3, 5, 9), (5, 4), 6, 1), ("f16", (2, 5, 3, 6), (5, 1, 3), 0, 1),
             ("bf16", (4, 7), (2,), 4, 0), ("f32", (2, 1, 3, 7), (2, 1, 3, 2), 2, 1), ("f32", (5, 36), (5, 17), 0, 0)]
    for dtype, shape, table, rotary, interleaved in plans:
        x, cos, sin = rnd(dtype, *shape), rnd(dtype, *table), rnd(dtype, *table)
        used = rotary // 2 or table[-1]
        both("rope_apply", dtype, x, [cos, sin], lambda y: rotate(y, cos[..., :used], sin[..., :used], interleaved),
             rotary=rotary, interleaved=interleaved)
    for dtype, positions, count, magnitude, kind in [("f32", [0, 1, 7, 1000], 5, 0.0, "i32"), ("f64", [-3, 2], 3, 1.5, "i64"),
                                                     ("f16", [0.5, 2.25, -1.0], 4, 0.0, "f32")]:
        positions = torch.tensor(positions).reshape(2, -1) if len(positions) == 4 else torch.tensor(positions)
        frequencies = (10000.0 ** (-torch.arange(count) / count)).to(KINDS[dtype]).double()
        angle = positions[..., None].double() * frequencies
        scale = f32(magnitude) or 1
        case("rope_tables", dtype, [positions, frequencies], [scale * angle.cos(), scale * angle.sin()], {0: kind},
             magnitude=magnitude)


def mrope():
    for dtype, shape, table, sections, striped, interleaved in [
            ("f32", (2, 3, 5, 16), (3, 5, 8), (2, 3, 3), 0, 0), ("f64", (2, 5, 2, 13), (3, 5, 1, 6), (2, 2, 2), 1, 0),
            ("f16", (4, 16), (3, 4, 7), (3, 2, 2), 1, 1), ("bf16", (3, 6), (2, 3, 3), (1, 1, 1), 0, 1)]:
        x, cos, sin = rnd(dtype, *shape), rnd(dtype, *table), rnd(dtype, *table)
        kinds, columns = table[0], table[-1]
        if striped:
            # as Qwen3-VL interleaves: every kinds-th column up to kinds * section
            kind = torch.zeros(columns, dtype=torch.long)
            for i in range(1, kinds):
                kind[i:sections[i] * kinds:kinds] = i
        else:
            kind = torch.tensor([i % kinds for i, n in enumerate(sections) for _ in range(n)])
        pick = lambda y: torch.stack([y[kind[j], ..., j] for j in range(columns)], -1)
        both("mrope", dtype, x, [cos, sin], lambda y: rotate(y, pick(cos), pick(sin), interleaved),
             sections=sections, striped=striped, interleaved=interleaved)


def axial():
    for dtype, shape, width, height, theta in [("f32", (2, 2, 12, 8), 3, 4, 10000.0), ("f64", (12, 4), 2, 3, 100.0),
                                               ("f16", (1, 6, 12), 3, 2, 10000.0)]:
        x, d = rnd(dtype, *shape), shape[-1]
        frequencies = 1.0 / (f32(theta) ** (torch.arange(0, d, 4)[:d // 4].double() / d))
        t = torch.arange(width * height).double()
        across, down = torch.outer(t % width, frequencies), torch.outer(torch.div(t, width, rounding_mode="floor"), frequencies)
        turn = torch.cat([torch.polar(torch.ones_like(a), a) for a in (across, down)], -1)
        turn = turn.repeat(shape[-2] // (width * height), 1)

        def apply(y):
            pairs = torch.view_as_complex(y.unflatten(-1, (-1, 2)).contiguous())
            return torch.view_as_real(pairs * turn).flatten(-2)
        both("axial_rope2d", dtype, x, [], apply, width=width, height=height, theta=theta)


def recurrences():
    for dtype, b, s, h, n, given in [("f32", 2, 5, 3, 4, 1), ("f64", 1, 4, 2, 3, 0), ("f16", 1, 6, 17, 5, 1), ("bf16", 2, 1, 1, 1, 0)]:
        x, delta = rnd(dtype, b, s, h), rnd(dtype, b, s, h).abs()
        a, bb, c = -rnd(dtype, h, n).abs(), rnd(dtype, b, s, n), rnd(dtype, b, s, n)
        state = rnd(dtype, b, h, n)
        y, now = [], state if given else torch.zeros(b, h, n)
        for t in range(s):
            now = torch.exp(delta[:, t, :, None] * a) * now + delta[:, t, :, None] * bb[:, t, None] * x[:, t, :, None]
            y.append((now * c[:, t, None]).sum(-1))
        case("selective_scan", dtype, [x, delta, a, bb, c] + [state] * given, [torch.stack(y, 1), now])
    for dtype, b, s, hk, h, n, dv, given, scale in [("f32", 2, 5, 2, 4, 3, 6, 1, 0.0), ("f64", 1, 4, 1, 3, 5, 2, 0, 0.7),
                                                    ("f16", 1, 6, 2, 2, 4, 4, 1, 0.0), ("bf16", 1, 1, 1, 1, 1, 1, 0, 0.0)]:
        r = short
        q, k = r(F.normalize(torch.randn(b, s, hk, n), dim=-1)), r(F.normalize(torch.randn(b, s, hk, n), dim=-1))
        v, g, beta = rnd(dtype, b, s, h, dv), -rnd(dtype, b, s, h).abs(), r(torch.rand(b, s, h))
        state = rnd(dtype, b, h, n, dv)
        out, now = [], state if given else torch.zeros(b, h, n, dv)
        for t in range(s):
            kt, qt = (z[:, t].repeat_interleave(h // hk, 1) for z in (k, q))
            now = now * g[:, t].exp()[..., None, None]
            d = (v[:, t] - torch.einsum("bhij,bhi->bhj", now, kt)) * beta[:, t][..., None]
            now = now + torch.einsum("bhi,bhj->bhij", kt, d)
            out.append(torch.einsum("bhij,bhi->bhj", now, qt) * (f32(scale) or n ** -0.5))
        case("gated_delta_net", dtype, [q, k, v, g, beta] + [state] * given, [torch.stack(out, 1), now], scale=scale)


ACTS = [lambda x: x, F.relu, F.silu, F.gelu, torch.sigmoid, torch.tanh, lambda x: F.gelu(x, approximate="tanh")]


def blocks():
    for dtype, shape in [("f32", (3, 10)), ("f64", (2, 3, 2)), ("f16", (14,)), ("bf16", (2, 2, 6))]:
        x = rnd(dtype, *shape)
        first, second = x.chunk(2, -1)
        case("fused_swiglu", dtype, [x], [F.silu(second) * first])
        case("fused_swiglu", dtype, [x], [F.silu(first) * second], gate_first=1)
    for act in range(7):
        dtype = ["f32", "f64", "f16", "bf16"][act % 4]
        for a, b in [((3, 5), (5, 7)), ((2, 1, 4, 3), (3, 3, 2)), ((1, 1), (1, 1))]:
            x, w = rnd(dtype, *a), rnd(dtype, *b)
            bias = rnd(dtype, b[-1])
            case("fused_matmul_bias_act", dtype, [x, w, bias], [ACTS[act](x @ w + bias)], act=act)
    for i, (dtype, shape) in enumerate([("f32", (3, 5)), ("f64", (2, 3, 8)), ("f16", (1, 1)), ("bf16", (2, 7)), ("f32", (33,))]):
        x, y, gain, shift, bias = (rnd(dtype, *s) for s in (shape, shape, shape[-1:], shape[-1:], shape[-1:]))
        more = [bias] if i % 2 else []
        total, eps = x + y + (bias if more else 0), f32(1e-5)
        case("fused_residual_ln", dtype, [x, y, gain, shift, *more],
             [total, F.layer_norm(total, shape[-1:], gain, shift, eps)], eps=1e-5)
        rms = total / torch.sqrt((total * total).mean(-1, keepdim=True) + eps)
        case("add_rms_norm", dtype, [x, y, gain, shift, *more], [total, rms * gain + shift], eps=1e-5)


def block(x, qkv_w, out_w, qkv_b, out_b, heads, tables, interleaved, mask, way):
    q, k, v = (z.unflatten(-1, (heads, -1)).transpose(1, 2) for z in (x @ qkv_w + qkv_b).chunk(3, -1))
    if tables:
        q, k = rotate(q, *tables, interleaved), rotate(k, *tables, interleaved)
    mixed = attend(q, k, v, mask, **way)
    return mixed.transpose(1, 2).flatten(-2) @ out_w + out_b


def layers():
    plans = [("f32", 2, 5, 6, 2, 3, 7, dict(), 1, 1, 0), ("f64", 1, 4, 5, 3, 4, 5, dict(mask=CAUSAL, scale=0.4), 0, 1, 1),
             ("f16", 1, 3, 4, 1, 2, 4, dict(mask=CUSTOM), 1, 0, 0), ("bf16", 2, 2, 3, 1, 2, 3, dict(mask=BIAS, softcap=3.0), 1, 1, 1)]
    for dtype, b, s, e, heads, dim, f, way, bias, rope, interleaved in plans:
        p = heads * dim
        x, qkv_w, out_w = rnd(dtype, b, s, e), rnd(dtype, e, 3 * p, scale=0.5), rnd(dtype, p, f, scale=0.5)
        biases = [rnd(dtype, 3 * p), rnd(dtype, f)] if bias else []
        tables = [rnd(dtype, s, dim // 2), rnd(dtype, s, dim // 2)] if rope else []
        mask = way.get("mask", 0)
        extra = [torch.rand(b, 1, 1, s) < 0.7] if mask == CUSTOM else [rnd(dtype, heads, s, s)] if mask == BIAS else []
        out = block(x, qkv_w, out_w, *(biases or (0, 0)), heads, tables, interleaved, extra, way)
        case("fused_attention_block", dtype, [x, qkv_w, out_w, *extra, *biases, *tables], [out],
             {3: "bool"} if mask == CUSTOM else {}, heads=heads, bias=bias, rope=rope, interleaved=interleaved, **way)

        inner, eps = f + 2, f32(1e-5)
        out_w = rnd(dtype, p, e, scale=0.5)
        fc1, fc2 = rnd(dtype, e, inner, scale=0.5), rnd(dtype, inner, e, scale=0.5)
        g1, s1, g2, s2 = (rnd(dtype, e) for _ in range(4))
        biases = [rnd(dtype, 3 * p), rnd(dtype, e), rnd(dtype, inner), rnd(dtype, e)] if bias else []
        b4 = biases or [0, 0, 0, 0]
        act = [3, 1, 2, 6][len(cases) % 4]
        y = F.layer_norm(x + block(x, qkv_w, out_w, b4[0], b4[1], heads, [], 0, extra, way), (e,), g1, s1, eps)
        z = F.layer_norm(y + ACTS[act](y @ fc1 + b4[2]) @ fc2 + b4[3], (e,), g2, s2, eps)
        case("fused_transformer_layer", dtype, [x, qkv_w, out_w, g1, s1, fc1, fc2, g2, s2, *extra, *biases], [z],
             {9: "bool"} if mask == CUSTOM else {}, heads=heads, bias=bias, act=act, eps1=1e-5, eps2=1e-5, **way)


def philox(counter, key):
    """Philox4x32-10 as its authors describe it."""
    c, k, low = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & low, (a >> 32) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return c


def words(counter, key, count):
    start = sum(w << 32 * i for i, w in enumerate(counter))
    out = []
    for block in range(-(-count // 4)):
        at = (start + block) % (1 << 128)
        out += philox([at >> 32 * i & 0xFFFFFFFF for i in range(4)], key)
    return out[:count]


def integers(values, dtype):
    """u64 as the bits of i64, which JSON readers take."""
    return torch.tensor([v - (1 << 64) if dtype == "u64" and v >> 63 else v for v in values], dtype=torch.int64)


PI = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]  # as in Random123's vectors
ONES = [0xFFFFFFFF] * 6


def random_numbers():
    for counter, key in [([0] * 4, [0] * 2), (ONES[:4], ONES[4:]), (PI[:4], PI[4:])]:
        got = philox(counter, key)
        case("rng_uniform", "u32", [integers(key, "u32"), integers(counter, "u32")], [integers(got, "u32")], shape=[4], to="u32")
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox(ONES[:4], ONES[4:]) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert philox(PI[:4], PI[4:]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
    key, counter = PI[:2], [0xFFFFFFFE, 0xFFFFFFFF, 7, 0]
    k, c = integers(key, "u32"), integers(counter, "u32")
    for shape in ([37], [3, 5], []):
        n = int(np.prod(shape))
        w = words(counter, key, 2 * n)
        single = [(v >> 8) * 2.0 ** -24 for v in w]
        double = [((w[2 * i + 1] << 32 | w[2 * i]) >> 11) * 2.0 ** -53 for i in range(n)]
        for to, bits in (("f32", 24), ("f16", 11), ("bf16", 8)):
            out = torch.tensor([(v >> 32 - bits) * 2.0 ** -bits for v in w[:n]])
            case("rng_uniform", "u32", [k, c], [out.reshape(shape)], out_kinds={0: to}, shape=shape, to=to)
        case("rng_uniform", "u32", [k, c], [torch.tensor(double).reshape(shape)], out_kinds={0: "f64"}, shape=shape, to="f64")
        wide = integers([w[2 * i + 1] << 32 | w[2 * i] for i in range(n)], "u64")
        case("rng_uniform", "u32", [k, c], [wide.reshape(shape)], out_kinds={0: "u64"}, shape=shape, to="u64")
        more = [((w2[1] << 32 | w2[0]) >> 11) * 2.0 ** -53 for w2 in zip(*[iter(words(counter, key, 2 * n + 4))] * 2)]
        for to, u in (("f32", single), ("f64", more), ("f16", single)):
            z = [math.sqrt(-2 * math.log1p(-u[i & ~1])) * (math.sin if i & 1 else math.cos)(2 * math.pi * u[i | 1]) for i in range(n)]
            case("rng_normal", "u32", [k, c], [torch.tensor(z).reshape(shape)], out_kinds={0: to}, shape=shape, to=to)
    wide_key = integers([key[1] << 32 | key[0]], "u64").reshape(())
    wide_counter = integers([counter[1] << 32 | counter[0]], "u64").reshape(())
    w = words(counter[:2] + [0, 0], key, 6)
    case("rng_uniform", "u64", [wide_key, wide_counter], [integers(w, "u32")], out_kinds={0: "u32"}, shape=[6], to="u32")


def sample():
    key, counter = [5, 9], [3, 0]
    k, c = integers(key, "u32"), integers(counter, "u32")
    kinds = {1: "u32", 2: "u32"}
    for n, (dtype, shape, way) in enumerate([
            ("f32", (9, 7), dict(temperature=1.0)), ("f64", (2, 5, 11), dict(temperature=0.7, top_k=3)),
            ("f16", (8, 13), dict(temperature=1.5, top_p=0.6)), ("bf16", (17, 6), dict(temperature=1.0, top_k=4, top_p=0.5)),
            ("f32", (3, 5), dict(temperature=0)), ("f32", (5,), dict(temperature=2.0, top_k=9, top_p=1.0))]):
        logits = rnd(dtype, *shape)
        if n in (3, 4):
            logits = logits.round()  # ties
        rows = logits.reshape(-1, shape[-1])
        w = words(counter + [0, 0], key, len(rows))
        picked = []
        for row, word in zip(rows, w):
            t = f32(way.get("temperature", 0))
            if t == 0:
                picked.append(int(np.argmax(row.tolist())))
                continue
            p = torch.softmax(row / t, -1)
            top = way.get("top_k", 0)
            if 0 < top < len(p):
                p = torch.where(p >= p.sort(descending=True).values[top - 1], p, torch.zeros(()))
            p = p / p.sum()
            share = f32(way.get("top_p", 0)) or 1.0
            if share < 1:
                order = sorted(range(len(p)), key=lambda i: (-p[i].item(), i))
                total, kept = 0.0, set()
                for i in order:
                    if total >= share:
                        break
                    kept.add(i)
                    total += p[i].item()
                p = torch.tensor([v if i in kept else 0.0 for i, v in enumerate(p.tolist())])
                p = p / p.sum()
            u = (word >> 8) * 2.0 ** -24
            picked.append(int(np.nonzero(u < np.cumsum(p.tolist()))[0][0]))
        case("sample", dtype, [logits, k, c], [torch.tensor(picked).reshape(shape[:-1])], kinds, {0: "i32"}, **way)


for make in (attention, rope, mrope, axial, recurrences, blocks, layers, random_numbers, sample):
    make()
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(f"{len(cases)} cases of {len({c['op'] for c in cases})} ops")
