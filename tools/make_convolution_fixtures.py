#!/usr/bin/env python3
"""Write tests/data/ops/convolution.json and pool.json: convolutions, pools and their gradients by PyTorch, in float64.

usage: make_convolution_fixtures.py FOLDER    (needs torch and numpy)
"""
import itertools
import sys

import torch
import torch.nn.functional as F

from op_fixtures import Cases, f32, rnd

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
ACTS = [lambda x: x, F.relu, F.silu, F.gelu, torch.sigmoid, torch.tanh, lambda x: F.gelu(x, approximate="tanh")]
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def padded(x, before, after, value=0.0):
    """Pads may differ on both sides, which PyTorch's convolutions and pools do not take."""
    flat = [p for pair in reversed(list(zip(before, after))) for p in pair]
    return F.pad(x, flat, value=value)


def seen(x, kernel, stride, dilation):
    """[N, C, *windows, *kernel]: what each window sees of x, which is padded already."""
    rank = len(kernel)
    outs = [(x.shape[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(rank)]
    rows = []
    for taps in itertools.product(*map(range, kernel)):
        cut = tuple(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(taps, dilation, outs, stride))
        rows.append(x[(slice(None), slice(None)) + cut])
    return torch.stack(rows, -1)


def convolutions(cases):
    shapes = [  # x, w, strides, before, after, dilations, groups, dtype
        ((2, 3, 9), (4, 3, 3), [1], [0], [0], [1], 1, "f32"),
        ((1, 4, 7), (6, 2, 2), [2], [1], [0], [2], 2, "f64"),
        ((2, 2, 6, 5), (3, 2, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], 1, "f32"),
        ((1, 4, 7, 6), (4, 1, 3, 2), [2, 1], [0, 1], [2, 0], [1, 2], 4, "f32"),
        ((1, 2, 5, 5), (4, 1, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1], 2, "f16"),
        ((1, 3, 4, 4), (5, 3, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1], 1, "f32"),
        ((1, 2, 3, 4, 5), (2, 2, 2, 3, 2), [1, 2, 1], [1, 0, 0], [0, 1, 1], [1, 1, 2], 1, "f32"),
        ((1, 2, 3, 3, 4), (2, 1, 2, 2, 2), [1, 1, 2], [0, 1, 1], [0, 1, 1], [2, 1, 1], 2, "bf16"),
    ]
    for i, (xs, ws, stride, before, after, dilation, groups, dtype) in enumerate(shapes):
        x, w, bias = (cases.real(rnd(*s), dtype).requires_grad_() for s in (xs, ws, ws[:1]))
        rank = len(xs) - 2
        out = CONV[rank](padded(x, before, after), w, None, stride, 0, dilation, groups)
        dy = cases.real(rnd(*out.shape), dtype)
        dx, dw = torch.autograd.grad(out, (x, w), dy)
        attrs = {"dtype": dtype, "strides": stride, "pads_before": before, "pads_after": after,
                 "dilations": dilation, "groups": groups}
        total = out + bias.reshape(-1, *[1] * rank)
        cases.add("conv", [x, w], [out], **attrs)
        cases.add("conv", [x, w, bias], [total], **attrs)
        cases.add("fused_conv_bias_act", [x, w], [ACTS[i % 7](out)], act=i % 7, **attrs)
        cases.add("fused_conv_bias_act", [x, w, bias], [ACTS[(i + 3) % 7](total)], act=(i + 3) % 7, **attrs)
        cases.add("conv_backward_input", [dy, w], [dx], places=xs[2:], **attrs)
        cases.add("conv_backward_weight", [x, dy], [dw], kernel=ws[2:], **attrs)
    for kind in (torch.int32, torch.int8, torch.uint8, torch.int64):
        low, high = (0, 250) if kind == torch.uint8 else (-120, 120)
        x, w = (torch.randint(low, high, s) for s in ((1, 2, 5, 4), (3, 2, 2, 2)))
        if kind == torch.int64:
            x, w = x * 2 ** 40, w * 2 ** 20
        out = sum(seen(x, (2, 2), (1, 1), (1, 1))[:, c, None, :, :, k] * w.reshape(3, 2, 4)[None, :, c, None, None, k]
                  for c in range(2) for k in range(4))
        cases.add("conv", [x.to(kind), w.to(kind)], [out.to(kind)])
    x, w = rnd(1, 2, 4), rnd(2, 2, 3)
    x, w = cases.real(x, "f32"), cases.real(w, "f32")
    cases.add("conv", [x, w], [F.conv1d(x, w)])
    w[0, 0, 1] = float("inf")
    x[0, 1, 2] = float("nan")
    cases.add("conv", [x, w], [F.conv1d(x, w)])


def transposed(cases):
    shapes = [  # x, w, strides, before, after, dilations, output_padding, groups, dtype
        ((2, 3, 5), (3, 4, 3), [2], [1], [1], [1], [1], 1, "f32"),
        ((1, 4, 4), (4, 3, 2), [3], [0], [0], [2], [2], 2, "f64"),
        ((1, 3, 4, 3), (3, 2, 3, 3), [2, 1], [1, 0], [1, 0], [1, 1], [1, 0], 1, "f32"),
        ((2, 2, 3, 3), (2, 1, 2, 3), [1, 2], [0, 1], [0, 1], [2, 1], [0, 1], 2, "f16"),
        ((1, 2, 2, 3, 2), (2, 2, 2, 2, 3), [1, 2, 1], [0, 1, 1], [0, 1, 1], [1, 1, 1], [0, 0, 0], 1, "f32"),
    ]
    for xs, ws, stride, before, after, dilation, extra, groups, dtype in shapes:
        x, w, bias = (cases.real(rnd(*s), dtype) for s in (xs, ws, (ws[1] * groups,)))
        for b in (None, bias):
            out = TRANSPOSED[len(xs) - 2](x, w, b, stride, before, extra, groups, dilation)
            cases.add("conv_transpose", [x, w] + ([bias] if b is not None else []), [out], dtype=dtype, strides=stride,
                      pads_before=before, pads_after=after, dilations=dilation, output_padding=extra, groups=groups)
    x, w = cases.real(rnd(1, 2, 4, 4), "f32"), cases.real(rnd(2, 1, 3, 3), "f32")
    out = F.conv_transpose2d(x, w, None, 2)[:, :, 1:, 2:-1].contiguous()  # pads that differ
    cases.add("conv_transpose", [x, w], [out], strides=[2, 2], pads_before=[1, 2], pads_after=[0, 1])
    whole = torch.randint(-9, 9, (1, 2, 4)), torch.randint(-9, 9, (2, 3, 2))
    out = F.conv_transpose1d(whole[0].double(), whole[1].double())
    cases.add("conv_transpose", [t.int() for t in whole], [out.int()])


def others(cases):
    for xs, kernel, stride, before, after, dilation, dtype in [
            ((2, 3, 7), [3], [2], [1], [0], [1], "f32"), ((1, 2, 4, 5), [2, 3], [1, 2], [0, 1], [1, 1], [2, 1], "f16"),
            ((1, 2, 2, 3, 3), [1, 2, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0], [1, 1, 1], "f64")]:
        x = cases.real(rnd(*xs), dtype)
        rows = seen(padded(x, before, after), kernel, stride, dilation)
        out = rows.movedim(1, -2).reshape(-1, xs[1] * rows.shape[-1])
        attrs = {"strides": stride, "pads_before": before, "pads_after": after, "dilations": dilation, "kernel": kernel}
        cases.add("im2col", [x], [out], dtype=dtype, **attrs)
        cases.add("im2col", [(x * 16).to(torch.int16)], [(out * 16).to(torch.int16)], **attrs)
    for xs, taps, dilation, dtype in [((2, 3, 9), 4, 1, "f32"), ((1, 2, 3), 5, 1, "f32"), ((1, 4, 17), 3, 2, "f64"),
                                      ((2, 2, 5), 2, 3, "bf16")]:
        x, w, bias = (cases.real(rnd(*s), dtype) for s in (xs, (xs[1], taps), (xs[1],)))
        out = F.conv1d(F.pad(x, (dilation * (taps - 1), 0)), w[:, None], None, 1, 0, dilation, xs[1])
        cases.add("causal_conv1d", [x, w], [out], dtype=dtype, dilation=dilation)
        cases.add("causal_conv1d", [x, w, bias], [out + bias[:, None]], dtype=dtype, dilation=dilation)


POOLS = [  # x, kernel, strides, before, after, dilations, ceil, dtype
    ((2, 3, 9), [3], [2], [1], [1], [1], 0, "f32"),
    ((1, 2, 8), [3], [2], [0], [0], [1], 1, "f64"),
    ((2, 2, 6, 5), [2, 3], [1, 2], [1, 0], [0, 1], [1, 1], 0, "f32"),
    ((1, 3, 7, 6), [3, 2], [2, 2], [1, 1], [1, 1], [1, 2], 1, "f32"),
    ((1, 2, 5, 5), [5, 5], [1, 1], [0, 0], [0, 0], [1, 1], 0, "f16"),
    ((1, 2, 3, 4, 5), [2, 3, 2], [1, 2, 1], [1, 0, 0], [0, 1, 1], [1, 1, 2], 0, "f32"),
    ((1, 1, 4, 4), [3, 3], [3, 3], [1, 1], [1, 1], [1, 1], 1, "bf16"),
]


def windows(x, before, after, kernel, stride, dilation, ceil, value):
    """input patches (im2col), with more padding after where there are more windows by rounding up."""
    after = list(after)
    for i in range(len(kernel)):
        size = x.shape[2 + i] + before[i] + after[i] - dilation[i] * (kernel[i] - 1) - 1
        if ceil and size % stride[i] and (size // stride[i] + 1) * stride[i] < x.shape[2 + i] + before[i]:
            after[i] += stride[i] - size % stride[i]
    return seen(padded(x, before, after, value), kernel, stride, dilation)


def pools(cases):
    for xs, kernel, stride, before, after, dilation, ceil, dtype in POOLS:
        x = cases.real(rnd(*xs), dtype)
        x.view(-1)[:4] = x.view(-1)[0]  # ties
        x.requires_grad_()
        spec = {"kernel": kernel, "strides": stride, "pads_before": before, "pads_after": after, "dilations": dilation,
                "ceil": ceil, "dtype": dtype}
        geometry = (before, after, kernel, stride, dilation, ceil)
        low, zero = windows(x, *geometry, -float("inf")), windows(x, *geometry, 0.0)
        # The first largest: multiplied by a mask of it, so that the gradient goes there.
        first = (low == low.amax(-1, keepdim=True)).double().cumsum(-1).eq(1) & (low == low.amax(-1, keepdim=True))
        largest = torch.where(first, zero, torch.zeros(())).sum(-1)
        dy = cases.real(rnd(*largest.shape), dtype)
        cases.add("pool_max", [x], [low.amax(-1)], **spec)
        cases.add("pool_max_backward", [x, dy], torch.autograd.grad(largest, x, dy, retain_graph=True), **spec)
        cases.add("pool_min", [x], [windows(x, *geometry, float("inf")).amin(-1)], **spec)
        cases.add("pool_sum", [x], [zero.sum(-1)], **spec)
        cases.add("pool_prod", [x], [windows(x, *geometry, 1.0).prod(-1)], **spec)
        cases.add("lp_pool", [x], [(zero.abs() ** 3 + 0).sum(-1) ** (1 / 3)], p=3.0, **spec)
        cases.add("lp_pool", [x], [zero.pow(2).sum(-1).sqrt()], p=2.0, **spec)
        place = torch.arange(x.numel()).reshape(xs).double()
        at = torch.where(first, windows(place, *geometry, 0.0), torch.zeros(())).sum(-1)
        cases.add("max_pool_indices", [x], [at.long()], **spec)
        ones = torch.ones(xs)
        inside = windows(ones, *geometry, 0.0).sum(-1)
        all_of = windows(padded(ones, before, after, 1.0), [0] * len(kernel), [0] * len(kernel), kernel, stride, dilation,
                         ceil, 0.0)
        all_of = all_of[tuple(slice(0, s) for s in inside.shape)].sum(-1)
        for include, count in ((0, inside), (1, all_of)):
            out = zero.sum(-1) / count
            cases.add("pool_mean", [x], [out], include_pad=include, **spec)
            cases.add("pool_mean_backward", [dy], torch.autograd.grad(out, x, dy, retain_graph=True), include_pad=include,
                      places=xs[2:], **spec)
    for kind, low, high in ((torch.uint8, 0, 255), (torch.int8, -128, 127), (torch.int32, -9, 9), (torch.int64, -9, 9)):
        x = torch.randint(low, high, (1, 2, 5, 5))
        rows = seen(x, (2, 2), (2, 1), (1, 1))
        for op, out in (("pool_max", rows.amax(-1)), ("pool_min", rows.amin(-1)), ("pool_sum", rows.sum(-1)),
                        ("pool_prod", rows.prod(-1))):
            cases.add(op, [x.to(kind)], [out.to(kind)], kernel=[2, 2], strides=[2, 1])
    x = cases.real(rnd(1, 1, 3, 4), "f32")
    x[0, 0, 1, 1] = float("nan")
    cases.add("pool_max", [x], [F.max_pool2d(x, 2, 1)], kernel=[2, 2])
    out, at = F.max_pool2d(cases.real(rnd(1, 1, 4, 3), "f32"), 2, 1, return_indices=True)
    x = cases.real(rnd(1, 2, 4, 3), "f32")
    out, at = F.max_pool2d(x, 2, 1, return_indices=True)
    flat = at + torch.tensor([0, 12]).reshape(1, 2, 1, 1)
    cases.add("max_pool_indices", [x], [flat], kernel=[2, 2])
    turned = at % 3 * 4 + at // 3 + torch.tensor([0, 12]).reshape(1, 2, 1, 1)
    cases.add("max_pool_indices", [x], [turned], kernel=[2, 2], column_major=1)
    # Against PyTorch's own pools, where it has them.
    x = cases.real(rnd(1, 2, 7, 8), "f32")
    for ceil in (0, 1):
        for include in (0, 1):
            out = F.avg_pool2d(x, 3, 2, 1, ceil_mode=bool(ceil), count_include_pad=bool(include))
            cases.add("pool_mean", [x], [out], kernel=[3, 3], strides=[2, 2], pads_before=[1, 1], pads_after=[1, 1],
                      ceil=ceil, include_pad=include)
        out, at = F.max_pool2d(x, 3, 2, 1, 2, bool(ceil), True)
        spec = {"kernel": [3, 3], "strides": [2, 2], "pads_before": [1, 1], "pads_after": [1, 1], "dilations": [2, 2]}
        cases.add("pool_max", [x], [out], ceil=ceil, **spec)
        cases.add("max_pool_indices", [x], [at + torch.tensor([0, 56]).reshape(1, 2, 1, 1)], ceil=ceil, **spec)


cases = Cases()
for make in (convolutions, transposed, others):
    make(cases)
cases.write(sys.argv[1] + "/convolution.json")
cases = Cases()
pools(cases)
cases.write(sys.argv[1] + "/pool.json")
