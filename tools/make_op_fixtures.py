#!/usr/bin/env python3
"""Write tests/data/ops/fixtures.json: what PyTorch computes for every op, in float64.

Each case holds an op, its attributes as text, its inputs and its outputs (states: after the op).
The gated delta net follows the formulas of Hugging Face transformers, written out here.
usage: make_op_fixtures.py OUTPUT    (needs torch and numpy)
"""
import json
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
cases = []


def f32(value):
    """An attribute as the op sees it."""
    return float(np.float32(value))


def rnd(*shape, scale=1.0):
    return torch.randn(shape) * scale


def ints(values, *shape):
    return torch.tensor(values, dtype=torch.int32).reshape(*(shape or (-1,)))


def tensor(x, dtype=None):
    if isinstance(x, dict):
        return {k: (tensor(v) if isinstance(v, torch.Tensor) else v) for k, v in x.items()}
    x = torch.as_tensor(x)
    dtype = dtype or ("f32" if x.is_floating_point() else "i32")
    return {"dtype": dtype, "dims": list(x.shape), "data": x.flatten().tolist()}


def coded(x, dtype):
    """A weight: rounded to what dtype holds, and stored as such."""
    kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
    x = x.to(kind).double()
    return x, {**tensor(x, dtype), "coded": True}


def case(op, inputs, outputs, **attrs):
    text = ", ".join(f"{k} = {list(v) if isinstance(v, (list, tuple)) else repr(v)}" for k, v in attrs.items())
    cases.append({
        "op": op, "attrs": text,
        "in": [x if isinstance(x, dict) and ("coded" in x or "gate" in x) else tensor(x) for x in inputs],
        "out": [tensor(x) for x in outputs],
    })


def elementwise():
    pairs = [((3, 5), (3, 5)), ((2, 1, 5), (3, 1)), ((4,), ()), ((1, 7), (5, 1))]
    binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
              "maximum": torch.maximum, "minimum": torch.minimum}
    for name, fn in binary.items():
        for a, b in pairs:
            x, y = rnd(*a), rnd(*b)
            case(name, [x, y], [fn(x, y)])
        if name != "div":
            x = torch.randint(-9, 9, (3, 4), dtype=torch.int32)
            y = torch.randint(-9, 9, (4,), dtype=torch.int32)
            case(name, [x, y], [fn(x, y)])
    big, small = ints([2147483647, -2147483648, 65536]), ints([1, -1, 65537])
    for name in ("add", "sub", "mul"):  # i32 wraps
        case(name, [big, small], [binary[name](big, small)])
    unary = {"neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "tanh": torch.tanh,
             "sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu, "relu": F.relu}
    for name, fn in unary.items():
        for shape in ((3, 7), (2, 1, 5), ()):
            x = rnd(*shape, scale=3)
            case(name, [x], [fn(x)])
    for name in ("neg", "abs", "relu"):
        x = ints([-5, 0, 7])
        case(name, [x], [unary[name](x)])
    for name, fn in {"log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt}.items():
        for shape in ((3, 7), (5,)):
            x = rnd(*shape).abs() + 0.01
            case(name, [x], [fn(x)])


def contraction():
    for a, b in [((3, 5), (5, 7)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((1, 1), (1, 1))]:
        x, y = rnd(*a), rnd(*b)
        case("matmul", [x, y], [x @ y])
    for dtype, t, k, n in [("f32", 3, 5, 7), ("bf16", 1, 33, 17), ("f16", 4, 8, 3)]:
        x = rnd(t, k)
        w, stored = coded(rnd(n, k), dtype)
        case("linear", [x, stored], [F.linear(x, w)])
        case("linear", [x, w], [F.linear(x, w)])
        ids = torch.randint(0, n, (5,), dtype=torch.int32)
        case("embed", [stored, ids], [F.embedding(ids, w)])


def reduction():
    for shape, axes in [((3, 5), [1]), ((2, 3, 5), [0, 2]), ((4, 1, 3), [1]), ((7,), [0]), ((2, 3), [1, 0])]:
        for keep in (0, 1):
            x = rnd(*shape)
            case("reduce_sum", [x], [x.sum(axes, keepdim=bool(keep))], axes=axes, keep=keep)
            case("reduce_mean", [x], [x.mean(axes, keepdim=bool(keep))], axes=axes, keep=keep)
            case("reduce_max", [x], [x.amax(axes, keepdim=bool(keep))], axes=axes, keep=keep)
    for shape in ((3, 5), (2, 3, 7), (1,)):
        x = rnd(*shape, scale=4)
        case("softmax", [x], [x.softmax(-1)])
        case("argmax", [x], [x.argmax(-1).int()])
    tied = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    case("argmax", [tied], [ints([1, 0])])


def movement():
    x = rnd(2, 3, 5)
    case("reshape", [x], [x.reshape(6, 5)], shape=[6, 5])
    case("reshape", [x], [x.reshape(5, -1, 2)], shape=[5, -1, 2])
    case("reshape", [torch.full((1, 1), 2.0)], [torch.tensor(2.0)], shape=[])
    case("transpose", [x], [x.permute(2, 0, 1).contiguous()], perm=[2, 0, 1])
    case("transpose", [x[0]], [x[0].T.contiguous()], perm=[1, 0])
    case("slice", [x], [x[:, 1:3].contiguous()], axis=1, start=1, length=2)
    case("slice", [x], [x[..., 4:].contiguous()], axis=2, start=4, length=1)
    y, z = rnd(2, 4, 5), ints(range(6), 2, 3)
    case("concat", [x, y], [torch.cat([x, y], 1)], axis=1)
    case("concat", [z, z], [torch.cat([z, z], 0)], axis=0)
    index = ints([2, 0, 2, 1], 2, 2)
    case("gather", [x, index], [x[:, index.long()]], axis=1)
    case("gather", [y, ints([4, 4, 0])], [y[..., [4, 4, 0]].contiguous()], axis=2)


def norms():
    eps = f32(1e-6)
    for shape in ((3, 5), (2, 3, 8), (1, 1)):
        x, z, gain = rnd(*shape), rnd(*shape), rnd(shape[-1])
        plain = F.rms_norm(x, shape[-1:], eps=eps)
        case("rms_norm", [x, gain], [plain * (1 + gain)], eps=1e-6, offset=1.0)
        case("rms_norm", [x, gain], [plain * gain], eps=1e-6)
        case("gated_rms_norm", [x, z, gain], [plain * gain * F.silu(z)], eps=1e-6)
        scale = f32(0.3)
        case("l2_norm", [x], [scale * x * torch.rsqrt((x * x).sum(-1, keepdim=True) + eps)], eps=1e-6, scale=0.3)


def rope_angles(positions, rotary, theta):
    return positions[:, None].double() * f32(theta) ** (-torch.arange(0, rotary, 2) / rotary)


def rope(x, angle):
    half = angle.shape[-1]
    turn = torch.polar(torch.ones_like(angle), angle)[:, None]
    pairs = torch.complex(x[..., :half], x[..., half:2 * half]) * turn
    return torch.cat([pairs.real, pairs.imag, x[..., 2 * half:]], -1)


def cached(keys, values):
    """[S, capacity, heads, D] as the cache keeps them: whole blocks of 16 positions, keys side by side."""
    keys, values = (F.pad(x.transpose(1, 2), (0, 0, 0, -x.shape[1] % 16)) for x in (keys, values))
    return keys.unflatten(2, (-1, 16)).transpose(-1, -2).contiguous(), values.contiguous()


def attention():
    for shape in ((3, 8), (2, 3, 2)):
        x = rnd(*shape)
        first, second = x.chunk(2, -1)
        case("split", [x], [first.contiguous(), second.contiguous()], axis=-1, sizes=[shape[-1] // 2] * 2)
        y = rnd(*shape)
        case("sigmoid_gate", [x, y], [x * torch.sigmoid(y)])
        case("swiglu", [x, y], [F.silu(x) * y])
    for t, heads, d, rotary, theta in [(4, 3, 8, 4, 1e7), (2, 1, 6, 6, 10000.0)]:
        x, positions = rnd(t, heads, d), ints([0, 3, 1000, 17][:t])
        angle = rope_angles(positions, rotary, theta)
        tables = [angle.cos()[:, None], angle.sin()[:, None]]
        case("rope_table", [positions], tables, rotary=rotary, theta=theta)
        case("rope_apply", [x, *tables], [rope(x, angle)])
    for slots, positions, sizes in [([1, 1, 0], [0, 1, 4], (2, 6, 2, 4, 6)), ([0], [2], (1, 3, 1, 5, 1))]:
        count, capacity, heads, d, query_heads = sizes
        t, slots, positions = len(slots), ints(slots), ints(positions)
        k, v, q = rnd(t, heads, d), rnd(t, heads, d), rnd(t, query_heads, d)
        before = rnd(count, capacity, heads, d), rnd(count, capacity, heads, d)
        after = before[0].clone(), before[1].clone()
        after[0][slots.long(), positions.long()] = k
        after[1][slots.long(), positions.long()] = v
        case("kv_append", [k, v, slots, positions, *cached(*before)], cached(*after))
        out = torch.empty_like(q)
        for i in range(t):
            seen = int(positions[i]) + 1
            keys, values = (c[int(slots[i]), :seen].transpose(0, 1) for c in after)
            out[i] = F.scaled_dot_product_attention(q[i][None, :, None], keys[None], values[None],
                                                    scale=f32(0.25), enable_gqa=True)[0, :, 0]
        case("sdpa", [q, *cached(*after), slots, positions], [out], scale=0.25)


def runs(slots, positions):
    """Consecutive rows of one slot, split where a sequence starts."""
    start = 0
    for end in range(1, len(slots) + 1):
        if end == len(slots) or slots[end] != slots[start] or positions[end] == 0:
            yield int(slots[start]), range(start, end)
            start = end


def conv():
    for slots, positions, c, w, count in [([1, 1, 1, 0, 0], [0, 1, 2, 7, 8], 5, 4, 2), ([0], [3], 3, 2, 1),
                                          ([2, 2, 0], [4, 5, 0], 1, 3, 3), ([0, 0, 0], [4, 0, 1], 2, 3, 1)]:
        x, weight, before = rnd(len(slots), c), rnd(c, w), rnd(count, w - 1, c)
        after, out = before.clone(), torch.empty(len(slots), c)
        for slot, rows in runs(slots, positions):
            past = torch.zeros(w - 1, c) if positions[rows[0]] == 0 else after[slot]
            full = torch.cat([past, x[rows[0]:rows[-1] + 1]])
            out[rows[0]:rows[-1] + 1] = F.silu(F.conv1d(full.T[None], weight[:, None], groups=c)[0].T)
            after[slot] = full[-(w - 1):]
        case("causal_conv", [x, weight, ints(slots), ints(positions), before], [out, after])


def recurrent(q, k, v, g, beta, state):
    """One head group: q, k [T,H,dk] (repeated), v [T,H,dv], g, beta [T,H], state [H,dk,dv]."""
    out = torch.empty_like(v)
    for t in range(len(q)):
        state = state * g[t].exp()[:, None, None]
        memory = (state * k[t][..., None]).sum(-2)
        change = (v[t] - memory) * beta[t][:, None]
        state = state + k[t][..., None] * change[:, None]
        out[t] = (state * q[t][..., None]).sum(-2)
    return out, state


def chunked(q, k, v, g, beta, state, size):
    """The chunk rule, with the inverse of the triangular system."""
    out = torch.empty_like(v)
    for s in range(0, len(q), size):
        Q, K, V, G, B = (x[s:s + size].transpose(0, 1) for x in (q, k, v, g, beta))
        G = G.cumsum(-1)
        decay = (G[..., :, None] - G[..., None, :]).tril().exp().tril()
        A = -((K * B[..., None]) @ K.mT * decay).tril(-1)
        T = torch.linalg.inv(torch.eye(A.shape[-1]) - A)
        U, W = T @ (V * B[..., None]), T @ (K * B[..., None] * G.exp()[..., None])
        new = U - W @ state
        out[s:s + size] = ((Q * G.exp()[..., None]) @ state + (Q @ K.mT * decay) @ new).transpose(0, 1)
        last = G[..., -1:]
        state = state * last.exp()[..., None] + (K * (last - G).exp()[..., None]).mT @ new
    return out, state


def delta():
    for t, heads in ((3, 4), (1, 1)):
        a, b, a_log, dt_bias = rnd(t, heads, scale=2), rnd(t, heads), rnd(heads), rnd(heads)
        case("decay_beta", [a, b, a_log, dt_bias], [-a_log.exp() * F.softplus(a + dt_bias), b.sigmoid()])
    for slots, positions, hk, hv, dk, dv, count in [
            ([1] * 7 + [0] * 5, [0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13], 2, 4, 5, 3, 2),
            ([0] * 3 + [2], [4, 5, 6, 0], 1, 3, 4, 7, 3),
            ([0] * 4, [8, 9, 0, 1], 1, 2, 3, 2, 1)]:
        t = len(slots)
        q, k = F.normalize(rnd(t, hk, dk), dim=-1) * dk ** -0.5, F.normalize(rnd(t, hk, dk), dim=-1)
        v, g, beta, before = rnd(t, hv, dv), -rnd(t, hv).abs(), rnd(t, hv).sigmoid(), rnd(count, hv, dk, dv)
        inputs = [q, k, v, g, beta, ints(slots), ints(positions), before]
        for size in (0, 1, 3, 64):
            after, out = before.clone(), torch.empty(t, hv, dv)
            for slot, rows in runs(slots, positions):
                r = slice(rows[0], rows[-1] + 1)
                state = torch.zeros(hv, dk, dv) if positions[rows[0]] == 0 else after[slot]
                wide = [x[r].repeat_interleave(hv // hk, 1) for x in (q, k)]
                rule = (lambda *x: chunked(*x, size)) if size else recurrent
                out[r], after[slot] = rule(*wide, v[r], g[r], beta[r], state)
            if size:
                case("delta_chunk", inputs, [out, after], chunk=size)
            else:
                case("delta_step", inputs, [out, after])


def group(chosen, experts):
    flat = chosen.flatten()
    order = torch.sort(flat, stable=True).indices.int()
    starts = torch.searchsorted(torch.sort(flat).values, torch.arange(experts + 1, dtype=torch.int32)).int()
    return order, starts


def moe():
    for t, e, k in ((4, 6, 3), (1, 5, 5)):
        logits = rnd(t, e)
        if t > 1:
            logits[1] = torch.tensor([1.0, 2.0, 2.0, 0.0, 2.0, 2.0])
        ranked = torch.sort(logits.softmax(-1), descending=True, stable=True)
        weights, chosen = ranked.values[:, :k].contiguous(), ranked.indices[:, :k].contiguous().int()
        case("route", [logits], [chosen, weights], k=k)
        case("route", [logits], [chosen, weights / weights.sum(-1, keepdim=True)], k=k, normalise=1)
        h, i = (5, 3) if t > 1 else (2, 7)
        x = rnd(t, h)
        gate, up, down = (coded(rnd(*s), "f32") for s in ((e, i, h), (e, i, h), (e, h, i)))
        experts = {"dtype": "f32", "dims": [e, i, h],
                   "gate": gate[1]["data"], "up": up[1]["data"], "down": down[1]["data"]}
        order, starts = group(chosen, e)
        case("moe_group", [chosen, experts], [order, starts], layer=3)
        picked = chosen.long()
        inner = F.silu(torch.einsum("th,tkih->tki", x, gate[0][picked])) * torch.einsum("th,tkih->tki", x, up[0][picked])
        y = torch.einsum("tki,tkhi->tkh", inner, down[0][picked])
        case("moe_ffn", [x, order, starts, experts], [y], layer=3, k=k)
        case("moe_combine", [y, weights], [torch.einsum("tkh,tk->th", y, weights)])
        shared, g = rnd(t, h), rnd(t, 1)
        case("shared_combine", [x, shared, g], [x + g.sigmoid() * shared])


for make in (elementwise, contraction, reduction, movement, norms, attention, conv, delta, moe):
    make()
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(f"{len(cases)} cases of {len({c['op'] for c in cases})} ops")
