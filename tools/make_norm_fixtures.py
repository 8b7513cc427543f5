#!/usr/bin/env python3
"""Write tests/data/ops/norm.json: norms over chosen axes and their gradients by PyTorch, in float64.

usage: make_norm_fixtures.py OUTPUT    (needs torch and numpy)
"""
import sys

import torch
import torch.nn.functional as F

from op_fixtures import Cases, f32, rnd

cases = Cases()


def grads(out, dy, *wrt):
    return torch.autograd.grad(out, wrt, dy)


def layer():
    for dims, axis, dtype in [((3, 5), -1, "f32"), ((2, 3, 8), 1, "f32"), ((7,), 0, "f64"),
                              ((2, 1, 33), -1, "f16"), ((2, 2, 3, 3), -3, "bf16"), ((5, 1), 1, "f32")]:
        tail = dims[axis:]
        x, gain, bias = (cases.real(t, dtype).requires_grad_() for t in (rnd(*dims) + 2, rnd(*tail), rnd(*tail)))
        dy = cases.real(rnd(*dims), dtype)
        out = F.layer_norm(x, tail, gain, bias, f32(1e-5))
        dx, dgain = grads(out, dy, x, gain)
        cases.add("layer_norm", [x, gain, bias], [out], dtype=dtype, axis=axis, eps=1e-5)
        cases.add("layer_norm_backward_input", [x, gain, dy], [dx], dtype=dtype, axis=axis, eps=1e-5)
        cases.add("layer_norm_backward_gain", [x, dy], [dgain], dtype=dtype, axis=axis, eps=1e-5)


def channels():
    for dims, groups, dtype in [((2, 4, 3, 5), 2, "f32"), ((1, 6, 7), 6, "f64"), ((3, 5), 1, "f16"),
                                ((2, 3, 2, 2, 2), 3, "bf16"), ((2, 8, 1, 17), 4, "f32")]:
        c = dims[1]
        x, gain, bias = (cases.real(t, dtype).requires_grad_() for t in (rnd(*dims) - 1, rnd(c), rnd(c)))
        dy = cases.real(rnd(*dims), dtype)
        out = F.group_norm(x, groups, gain, bias, f32(1e-3))
        dx, dgain, dbias = grads(out, dy, x, gain, bias)
        cases.add("group_norm", [x, gain, bias], [out], dtype=dtype, groups=groups, eps=1e-3)
        cases.add("group_norm_backward_input", [x, gain, dy], [dx], dtype=dtype, groups=groups, eps=1e-3)
        cases.add("group_norm_backward_gain", [x, dy], [dgain], dtype=dtype, groups=groups, eps=1e-3)
        cases.add("group_norm_backward_bias", [dy], [dbias], dtype=dtype)
        places = F.layer_norm(x.movedim(1, -1), (c,), gain, bias, f32(1e-6)).movedim(-1, 1)
        cases.add("layer_norm2d", [x, gain, bias], [places], dtype=dtype, eps=1e-6)


def batch():
    for dims, axis, dtype in [((2, 3, 4, 5), 1, "f32"), ((5, 7), -1, "f32"), ((3, 2, 4), 0, "f64"),
                              ((2, 3, 9), -2, "f16"), ((4, 6), 1, "bf16")]:
        c = dims[axis]
        x, gain, bias, mean = (cases.real(t, dtype).requires_grad_() for t in (rnd(*dims), rnd(c), rnd(c), rnd(c)))
        variance, dy = cases.real(rnd(c).abs() + 0.1, dtype), cases.real(rnd(*dims), dtype)
        out = F.batch_norm(x.movedim(axis, 1), mean.detach(), variance, gain, bias, False, 0.0,
                           f32(1e-5)).movedim(1, axis)
        dx, dgain, dbias = grads(out, dy, x, gain, bias)
        attrs = {"dtype": dtype, "axis": axis, "eps": 1e-5}
        cases.add("batch_norm_inference", [x, gain, bias, mean, variance], [out], **attrs)
        cases.add("batch_norm_inference_backward_input", [gain, variance, dy], [dx], **attrs)
        cases.add("batch_norm_inference_backward_gain", [x, mean, variance, dy], [dgain], **attrs)
        cases.add("batch_norm_inference_backward_bias", [dy], [dbias], dtype=dtype, axis=axis)


def rms():
    for dims, offset, dtype in [((3, 5), 0.0, "f32"), ((2, 3, 17), 1.0, "f32"), ((9,), 0.5, "f64"), ((2, 6), 0.0, "f16")]:
        x, gain = (cases.real(t, dtype).requires_grad_() for t in (rnd(*dims), rnd(dims[-1])))
        dy = cases.real(rnd(*dims), dtype)
        out = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + f32(1e-6)) * (offset + gain)
        dx, dgain = grads(out, dy, x, gain)
        cases.add("rms_norm_backward_input", [x, gain, dy], [dx], dtype=dtype, eps=1e-6, offset=offset)
        cases.add("rms_norm_backward_gain", [x, dy], [dgain], dtype=dtype, eps=1e-6)


for make in (layer, channels, batch, rms):
    make()
cases.write(sys.argv[1])
