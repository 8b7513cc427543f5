#!/usr/bin/env python3
"""Write tests/data/ops/rnn.json: recurrent layers by PyTorch in float64, and by the formulas of ONNX written out.

PyTorch's layers are the plain ones; everything else (lengths, peepholes, clip, other functions) follows the formulas,
which are compared with PyTorch's first and with onnxruntime (in float32).
usage: make_rnn_fixtures.py OUTPUT    (needs torch, numpy, onnx and onnxruntime)
"""
import sys

import numpy as np
import onnxruntime
import torch
from onnx import TensorProto, helper

from op_fixtures import Cases, f32, rnd

onnxruntime.set_default_logger_severity(4)
cases = Cases()
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
USUAL = {"rnn": ["tanh"], "gru": ["sigmoid", "tanh"], "lstm": ["sigmoid", "tanh", "tanh"]}
FUNCTIONS = {
    "sigmoid": lambda x, a, b: torch.sigmoid(x), "tanh": lambda x, a, b: torch.tanh(x),
    "relu": lambda x, a, b: x.clamp(min=0), "affine": lambda x, a, b: a * x + b,
    "leaky_relu": lambda x, a, b: torch.where(x < 0, a * x, x), "thresholded_relu": lambda x, a, b: x * (x >= a),
    "scaled_tanh": lambda x, a, b: a * torch.tanh(b * x), "hard_sigmoid": lambda x, a, b: (a * x + b).clamp(0, 1),
    "elu": lambda x, a, b: torch.where(x < 0, a * torch.expm1(x), x), "softsign": lambda x, a, b: x / (1 + x.abs()),
    "softplus": lambda x, a, b: torch.nn.functional.softplus(x),
}
DEFAULTS = {"affine": (1, 0), "leaky_relu": (0.01, 0), "thresholded_relu": (1, 0), "scaled_tanh": (1, 1),
            "hard_sigmoid": (0.2, 0.5), "elu": (1, 0)}
NAMES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "affine": "Affine", "leaky_relu": "LeakyRelu",
         "thresholded_relu": "ThresholdedRelu", "scaled_tanh": "ScaledTanh", "hard_sigmoid": "HardSigmoid", "elu": "Elu",
         "softsign": "Softsign", "softplus": "Softplus"}


def sequence(kind, x, w, r, bias, h, c, peepholes, apply, clip, variant):
    """x[T,I] -> the states [T,H] and the last content."""
    size, out = h.shape[0], []
    wb, rb = bias.chunk(2)
    cut = (lambda v: v.clamp(-clip, clip)) if clip else (lambda v: v)
    for step in x:
        a, b = w @ step + wb, r @ h + rb
        if kind == "rnn":
            h = apply(0, cut(a + b))
        elif kind == "gru":
            z, reset = (apply(0, cut(a[i * size:(i + 1) * size] + b[i * size:(i + 1) * size])) for i in (0, 1))
            last = reset * b[2 * size:] if variant else r[2 * size:] @ (reset * h) + rb[2 * size:]
            h = (1 - z) * apply(1, cut(a[2 * size:] + last)) + z * h
        else:
            i, o, f, g = (a + b).chunk(4)
            pi, po, pf = peepholes.chunk(3)
            i = apply(0, cut(i + pi * c))
            f = 1 - i if variant else apply(0, cut(f + pf * c))
            c = f * c + i * apply(1, cut(g))
            h = apply(0, cut(o + po * c)) * apply(2, c)
        out.append(h)
    return out, h, c


def layer(kind, t, b, i, size, dtype="f32", direction="forward", extras=0, activations=None, alphas=None, betas=None,
          clip=0.0, variant=0, least=1):
    count = 2 if direction == "bidirectional" else 1
    gates = GATES[kind]
    x, w, r, bias, h0, c0, peep = (cases.real(rnd(*s), dtype) for s in (
        (t, b, i), (count, gates * size, i), (count, gates * size, size), (count, 2 * gates * size), (count, b, size),
        (count, b, size), (count, 3 * size)))
    lengths = torch.randint(least, t + 1, (b,), dtype=torch.int32)
    lengths[0], lengths[-1] = t, least
    inputs, onnx_inputs = [x, w, r], {"X": x, "W": w, "R": r}
    for bit, name, value in ((1, "B", bias), (2, "sequence_lens", lengths), (4, "initial_h", h0), (8, "initial_c", c0),
                             (16, "P", peep)):
        if extras & bit:
            inputs.append(value)
            onnx_inputs[name] = value
    functions = activations or USUAL[kind] * count
    each = len(functions) // count
    y, y_h, y_c = torch.zeros(t, count, b, size), torch.zeros(count, b, size), torch.zeros(count, b, size)
    for d in range(count):
        def apply(k, v):
            name = functions[d * each + k]
            a, beta = DEFAULTS.get(name, (0, 0))
            return FUNCTIONS[name](v, alphas[d * each + k] if alphas else a, betas[d * each + k] if betas else beta)
        for n in range(b):
            length = int(lengths[n]) if extras & 2 else t
            rows = x[:length, n]
            back = direction == "reverse" or d == 1
            out, h, c = sequence(kind, rows.flip(0) if back else rows, w[d], r[d],
                                 bias[d] if extras & 1 else torch.zeros_like(bias[d]),
                                 h0[d, n] if extras & 4 else torch.zeros(size),
                                 c0[d, n] if extras & 8 else torch.zeros(size),
                                 peep[d] if extras & 16 else torch.zeros(3 * size), apply, f32(clip), variant)
            for k, state in enumerate(out):
                y[length - 1 - k if back else k, d, n] = state
            y_h[d, n], y_c[d, n] = h, c
    outputs = [y, y_h] + ([y_c] if kind == "lstm" else [])
    attrs = {"extras": extras, "direction": direction, "activations": ",".join(activations or []), "clip": clip,
             "alphas": alphas or [], "betas": betas or []}
    if kind != "rnn":
        attrs["linear_before_reset" if kind == "gru" else "input_forget"] = variant
    if least:
        compare(kind, onnx_inputs, size, direction, activations, alphas, betas, clip, variant, outputs)
    cases.add(kind, inputs, outputs, dtype=dtype, **attrs)


def compare(kind, inputs, size, direction, activations, alphas, betas, clip, variant, want):
    order = ["X", "W", "R", "B", "sequence_lens", "initial_h"] + (["initial_c", "P"] if kind == "lstm" else [])
    attrs = {"hidden_size": size, "direction": direction}
    if activations:
        attrs["activations"] = [NAMES[a] for a in activations]
        # Only functions that have an alpha or a beta take one from the list.
        alphas = alphas or [DEFAULTS.get(n, (0, 0))[0] for n in activations]
        betas = betas or [DEFAULTS.get(n, (0, 0))[1] for n in activations]
        attrs["activation_alpha"] = [float(a) for a, n in zip(alphas, activations) if n in DEFAULTS]
        attrs["activation_beta"] = [float(b) for b, n in zip(betas, activations)
                                    if n in ("affine", "scaled_tanh", "hard_sigmoid")]
        attrs = {k: v for k, v in attrs.items() if v != []}
    if clip:
        attrs["clip"] = clip
    if variant:
        attrs["linear_before_reset" if kind == "gru" else "input_forget"] = 1
    node = helper.make_node(kind.upper(), [n if n in inputs else "" for n in order],
                            ["Y", "Y_h"] + (["Y_c"] if kind == "lstm" else []), **attrs)
    infos = [helper.make_tensor_value_info(n, TensorProto.INT32 if n == "sequence_lens" else TensorProto.FLOAT, list(v.shape))
             for n, v in inputs.items()]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in node.output]
    model = helper.make_model(helper.make_graph([node], "g", infos, results),
                              opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        got = session.run(None, {n: np.array(v.tolist(), np.int32 if n == "sequence_lens" else np.float32).reshape(
            tuple(v.shape)) for n, v in inputs.items()})
    except Exception as reason:
        print("not compared:", kind, activations, str(reason)[:120])
        return
    worst = max(np.abs(g - np.array(v.tolist()).reshape(g.shape)).max() for g, v in zip(got, want))
    if worst > 1e-4:
        print("differs from onnxruntime:", kind, direction, activations, inputs.keys(), variant, clip, worst)


def by_torch():
    """PyTorch's own layers: gates in other order."""
    order = {"rnn": [0], "gru": [1, 0, 2], "lstm": [0, 3, 1, 2]}  # where ONNX's gates are in PyTorch's
    for kind, maker in (("rnn", torch.nn.RNN), ("gru", torch.nn.GRU), ("lstm", torch.nn.LSTM)):
        net = maker(3, 4, bidirectional=True)

        def turned(names):
            blocks = [getattr(net, n) for n in names]
            return torch.stack([torch.cat([b.chunk(GATES[kind])[g] for g in order[kind]]) for b in blocks]).detach()
        x = cases.real(rnd(5, 2, 3), "f64")
        w, r = turned(["weight_ih_l0", "weight_ih_l0_reverse"]), turned(["weight_hh_l0", "weight_hh_l0_reverse"])
        bias = torch.cat([turned(["bias_ih_l0", "bias_ih_l0_reverse"]), turned(["bias_hh_l0", "bias_hh_l0_reverse"])], 1)
        out, last = net(x)
        states = list(last) if kind == "lstm" else [last]
        extra = {"gru": {"linear_before_reset": 1}, "lstm": {"input_forget": 0}, "rnn": {}}[kind]
        cases.add(kind, [x, w, r, bias], [out.reshape(5, 2, 2, 4).transpose(1, 2).contiguous(), *states], dtype="f64",
                  extras=1, direction="bidirectional", **extra)


by_torch()
for name in GATES:
    layer(name, 3, 2, 4, 5)
    layer(name, 4, 3, 2, 3, extras=7, direction="reverse")
    layer(name, 5, 2, 3, 4, "f64", extras=3, direction="bidirectional")
    layer(name, 2, 1, 3, 2, "f16", extras=1, clip=0.5)
    layer(name, 3, 2, 3, 2, "bf16", extras=5)
    if name != "rnn":
        layer(name, 4, 2, 3, 3, extras=5, variant=1)
        layer(name, 3, 2, 2, 3, variant=1, direction="bidirectional", extras=1)
    # Of an empty sequence the state is the one it began with (onnxruntime: 0).
    layer(name, 3, 2, 2, 2, extras=7, least=0)
layer("lstm", 4, 2, 3, 3, extras=31, direction="bidirectional")
layer("lstm", 3, 2, 3, 3, extras=17, clip=0.3)
layer("rnn", 3, 1, 2, 3, activations=["relu"])
layer("rnn", 3, 1, 2, 3, activations=["leaky_relu", "scaled_tanh"], alphas=[0.25, 0.5], betas=[0.0, 1.5],
      direction="bidirectional")
for name in ("affine", "thresholded_relu", "hard_sigmoid", "elu", "softsign", "softplus"):
    layer("rnn", 2, 1, 2, 3, activations=[name], extras=1)
layer("gru", 3, 2, 2, 3, activations=["hard_sigmoid", "softsign"], alphas=[0.5, 0.0], betas=[0.25, 0.0])
layer("lstm", 3, 2, 2, 3, activations=["hard_sigmoid", "elu", "tanh"])
cases.write(sys.argv[1])
