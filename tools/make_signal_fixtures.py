#!/usr/bin/env python3
"""Write tests/data/ops/signal.json: Fourier transforms by NumPy and log-mel spectra, in float64.

usage: make_signal_fixtures.py OUTPUT    (needs numpy and torch)
"""
import json
import sys

import numpy as np
import torch

rng = np.random.default_rng(11)
cases = []


def tensor(x, dtype="f32"):
    x = np.asarray(x)
    return {"dtype": dtype, "dims": list(x.shape), "data": x.astype(float).ravel().tolist()}


def rnd(*shape):
    return rng.standard_normal(shape).astype(np.float32).astype(float)


def case(op, inputs, outputs, dtype="f32", **attrs):
    cases.append({"op": op, "attrs": ", ".join(f"{k} = {v}" for k, v in attrs.items()),
                  "in": [tensor(x, dtype) for x in inputs], "out": [tensor(x, dtype) for x in outputs]})


def parts(block):
    n = block.shape[-1] // 2
    return block[..., :n] + 1j * block[..., n:]


def block(z):
    return np.concatenate([z.real, z.imag], -1)


def transforms():
    norms = ["backward", "ortho", "forward"]
    for shape, dtype in [((2 * 8,), "f32"), ((2, 3, 2 * 15), "f32"), ((3, 2 * 13), "f64"), ((1, 2 * 1), "f64"),
                         ((2, 2 * 90), "f32")]:
        x = rnd(*shape)
        for norm, name in enumerate(norms):
            case("fft", [x], [block(np.fft.fft(parts(x), norm=name))], dtype, norm=norm)
            case("fft", [x], [block(np.fft.ifft(parts(x), norm=name))], dtype, norm=norm, inverse=1)
        case("fft", [x], [block(np.fft.ifft(parts(x), norm="forward"))], dtype, norm=3, inverse=1)


def butterfly(x, w, gates, reverse, stage):
    half, stride = len(gates), 1 << stage
    z, w = parts(x), parts(w)
    out = z.copy()
    for b in range(half):
        i = b // stride * 2 * stride + b % stride
        j = i + stride
        if gates[b] == 0:
            continue
        u, v = z[..., i], w[b] * z[..., j]
        top, bottom = (j, i) if reverse[b] >= 0.5 else (i, j)
        out[..., top], out[..., bottom] = u + v, u - v
    return block(out)


def stages():
    for stage, shape in [(0, (2 * 8,)), (1, (3, 2 * 8)), (3, (2, 1, 2 * 16))]:
        half = shape[-1] // 4
        x, w = rnd(*shape), rnd(2 * half)
        gates, reverse = (rng.random(half) < 0.7).astype(float), np.round(rng.random(half), 2)
        reverse = reverse.astype(np.float32).astype(float)
        case("fft_butterfly_stage", [x, w, gates, reverse], [butterfly(x, w, gates, reverse, stage)], stage=stage)


def log_mel(spectrum, filters):
    n = spectrum.shape[-1] // 2
    bins = n // 2 + 1
    power = spectrum[..., :bins] ** 2 + spectrum[..., n:n + bins] ** 2
    logs = torch.log10(torch.clamp(power @ filters.T, min=1e-10))
    floor = logs.amax(-1, keepdim=True).detach() - 8
    return (torch.maximum(logs, floor) + 4) / 4


def mels():
    for rows, n, count in [((), 8, 3), ((2,), 20, 4), ((2, 3), 9, 2)]:
        spectrum = torch.tensor(rnd(*rows, 2 * n))
        if rows:
            spectrum[0] *= 1e-7
        spectrum = spectrum.float().double().requires_grad_()
        filters = torch.tensor(np.abs(rnd(count, n // 2 + 1)))
        filters[0, :] *= 1e-9
        filters = filters.float().double()
        out = log_mel(spectrum, filters)
        grad = torch.tensor(rnd(*rows, count))
        out.backward(grad)
        case("log_mel", [spectrum.detach(), filters], [out.detach()])
        case("log_mel_backward", [spectrum.detach(), filters, grad], [spectrum.grad])


transforms()
stages()
mels()
with open(sys.argv[1], "w", encoding="utf-8") as out:
    out.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
