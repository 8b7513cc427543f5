"""Cases of ops as JSON, for tests/support/node_case.h: an op, its attributes as text, inputs, results.

Results are written with 15 digits, all that the tests look at; numbers that are not finite as text.
"""
import json
import math

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(11)

KINDS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}
NAMES = {torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
         torch.bool: "bool"}


def f32(value):
    """An attribute as the op sees it."""
    return float(np.float32(value))


def rnd(*shape, scale=1.0):
    return torch.randn(shape) * scale


def number(x):
    if not isinstance(x, float):
        return int(x)
    if abs(x) < 1e-13:
        return 0
    if math.isfinite(x):
        return int(x) if x.is_integer() and abs(x) < 1e15 else float(f"{x:.15g}")
    return "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"


class Cases:
    def __init__(self):
        self.cases = []

    @staticmethod
    def real(x, dtype):
        """Rounded to few digits, so that files stay small, and to what dtype holds."""
        x = torch.round(x * 64) / 64
        return x.to(KINDS[dtype]).double()

    @staticmethod
    def tensor(x, dtype):
        x = x.detach()
        name = dtype if x.is_floating_point() else NAMES[x.dtype]
        return {"dtype": name, "dims": list(x.shape), "data": [number(v) for v in x.flatten().tolist()]}

    def add(self, op, inputs, outputs, dtype="f32", **attrs):
        def text(v):
            if isinstance(v, str):
                return json.dumps(v)
            return repr(list(v) if isinstance(v, (list, tuple)) else v)
        line = ", ".join(f"{k} = {text(v)}" for k, v in attrs.items())
        self.cases.append({"op": op, "attrs": line, "in": [self.tensor(x, dtype) for x in inputs],
                           "out": [self.tensor(x, dtype) for x in outputs]})

    def write(self, path):
        with open(path, "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in self.cases) + "\n]\n")
        print(f"{len(self.cases)} cases of {len({c['op'] for c in self.cases})} ops")
