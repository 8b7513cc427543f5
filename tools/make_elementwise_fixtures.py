#!/usr/bin/env python3
"""Write tests/data/ops/elementwise.json: what PyTorch and NumPy compute for elementwise ops, in float64.

Each case holds an op, its attributes as text, its inputs and its output.  Numbers that JSON has no words for
are text; complex elements are two numbers each.
usage: make_elementwise_fixtures.py OUTPUT    (needs torch and numpy)
"""
import json
import re
import sys

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(11)
rng = np.random.default_rng(11)
cases = []
FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}
INTS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
        "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
PAIRS = [((3, 5), (3, 5)), ((2, 1, 5), (3, 1)), ((1, 7), (5, 1))]
SPECIAL = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -1.0, 0.5, -2.5, 1.5]


def number(value):
    if isinstance(value, (bool, int)):
        return int(value) if abs(int(value)) < 2 ** 63 else str(value)
    text = repr(float(value))
    return text if re.search("[a-z]{3}", text) else (-0.0 if text == "-0.0" else float(f"{value:.15g}")
                                                      if float(f"{value:.15g}") == value else float(value))


def array(x):
    """By way of lists: this works for any versions of the two libraries."""
    if not isinstance(x, torch.Tensor):
        return np.asarray(x)
    return np.array(x.tolist()).reshape(x.shape)


def tensor(x, dtype):
    x = array(x)
    flat = x.flatten()
    if dtype == "c64":
        flat = np.stack([flat.real, flat.imag], -1).flatten()
    return {"dtype": dtype, "dims": list(x.shape), "data": [number(v) for v in flat.tolist()]}


def case(op, inputs, output, **attrs):
    text = ", ".join(f"{k} = " + (f'"{v}"' if k == "kind" else str(v)) for k, v in attrs.items())
    cases.append({"op": op, "attrs": text, "in": [tensor(*x) for x in inputs], "out": [tensor(*output)]})


def reals(shape, dtype="f32", low=-3.0, high=3.0):
    """Values that the type holds, as float64."""
    return (torch.rand(shape) * (high - low) + low).to(FLOATS[dtype]).double()


def integers(shape, dtype):
    info = np.iinfo(INTS[dtype])
    return rng.integers(max(info.min, -90), min(info.max, 90), shape).astype(INTS[dtype])


UNARY = {  # name: function, least, most
    "neg": (torch.neg, -3, 3), "abs": (torch.abs, -3, 3), "exp": (torch.exp, -9, 9), "log": (torch.log, 0.01, 9),
    "sqrt": (torch.sqrt, 0.01, 9), "rsqrt": (torch.rsqrt, 0.01, 9), "tanh": (torch.tanh, -4, 4),
    "sigmoid": (torch.sigmoid, -9, 9), "silu": (torch.nn.functional.silu, -9, 9),
    "gelu": (torch.nn.functional.gelu, -5, 5),
    "gelu_approx": (lambda x: torch.nn.functional.gelu(x, approximate="tanh"), -5, 5),
    "relu": (torch.relu, -3, 3), "sin": (torch.sin, -40, 40), "cos": (torch.cos, -40, 40), "tan": (torch.tan, -9, 9),
    "asin": (torch.asin, -1, 1), "acos": (torch.acos, -1, 1), "atan": (torch.atan, -9, 9), "sinh": (torch.sinh, -9, 9),
    "cosh": (torch.cosh, -9, 9), "asinh": (torch.asinh, -9, 9), "acosh": (torch.acosh, 1, 9),
    "atanh": (torch.atanh, -0.99, 0.99), "round": (torch.round, -9, 9), "floor": (torch.floor, -9, 9),
    "ceil": (torch.ceil, -9, 9), "sign": (lambda x: torch.where(x.isnan(), x, torch.sign(x)), -3, 3), "erf": (torch.erf, -3, 3), "log1p": (torch.log1p, -0.9, 9),
    "expm1": (torch.expm1, -5, 5), "softplus": (lambda x: torch.logaddexp(x, torch.zeros(())), -30, 30),
    "reciprocal": (torch.reciprocal, 0.1, 5)}


def unary():
    for name, (fn, low, high) in UNARY.items():
        for dtype, shape in (("f32", (3, 7)), ("f32", (2, 1, 5)), ("f32", ()), ("f64", (5,)), ("f16", (2, 3)),
                             ("bf16", (3,)), ("f32", (0, 3))):
            x = reals(shape, dtype, low, high)
            case(name, [(x, dtype)], (fn(x), dtype))
        if name not in ("silu", "gelu", "gelu_approx", "softplus"):
            x = torch.tensor(SPECIAL)
            y = fn(x)
            case(name, [(x, "f32")], (y, "f32"))
    for dtype in INTS:
        x = integers((2, 3), dtype)
        for name, fn in {"neg": np.negative, "abs": np.abs, "sign": np.sign, "bitwise_not": np.invert,
                         "relu": lambda v: np.maximum(v, v.dtype.type(0))}.items():
            case(name, [(x, dtype)], (fn(x), dtype))
    edge = np.array([-128, 127, 0], np.int8)
    case("neg", [(edge, "i8")], (-edge, "i8"))
    case("abs", [(edge, "i8")], (np.abs(edge), "i8"))
    case("abs", [(np.array([2 ** 64 - 1, 2 ** 63], np.uint64), "u64")], (np.array([2 ** 64 - 1, 2 ** 63], np.uint64), "u64"))
    flags = rng.integers(0, 2, (3, 4)).astype(bool)
    for x in (flags, flags[:1], flags[0]):
        case("logical_not", [(x, "bool")], (~x, "bool"))
    special = torch.tensor(SPECIAL)
    for dtype in FLOATS:
        case("is_nan", [(special, dtype)], (special.isnan(), "bool"))
        case("is_inf", [(special, dtype)], (special.isinf(), "bool"), which=3)
        case("is_inf", [(special, dtype)], (special.isneginf(), "bool"), which=1)
        case("is_inf", [(special, dtype)], (special.isposinf(), "bool"), which=2)
        for name in ("stop_gradient",):
            case(name, [(special, dtype)], (special, dtype))


def truncated(x, y):
    with np.errstate(all="ignore"):
        wide = np.where(y == 0, 0, np.abs(x.astype(object)) // np.where(y == 0, 1, np.abs(y.astype(object))))
        return np.array(np.where((x < 0) != (y < 0), -wide, wide), object)


def binary():
    float_ops = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
                 "minimum": torch.minimum, "atan2": torch.atan2}
    compare = {"equal": torch.eq, "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le,
               "greater": torch.gt, "greater_equal": torch.ge}
    for name, fn in {**float_ops, **compare}.items():
        result = (lambda d: "bool") if name in compare else (lambda d: d)
        for dtype, (a, b) in [("f32", p) for p in PAIRS] + [("f64", PAIRS[1]), ("f16", PAIRS[2]), ("bf16", PAIRS[1]),
                                                            ("f32", ((4,), ())), ("f32", ((0, 3), (1, 3)))]:
            x, y = reals(a, dtype), reals(b, dtype)
            if name in compare and x.numel():
                x.view(-1)[0] = y.view(-1)[0]
            case(name, [(x, dtype), (y, dtype)], (fn(x, y), result(dtype)))
        x, y = torch.tensor(SPECIAL)[:, None], torch.tensor(SPECIAL)[None, :7]
        case(name, [(x, "f32"), (y, "f32")], (fn(x, y), result("f32")))
    for dtype in FLOATS:
        x, y = reals((3, 1, 4), dtype, 0.1, 4), reals((2, 1), dtype)
        case("pow", [(x, dtype), (y, dtype)], (x ** y, dtype))
        x, y = reals((3, 4), dtype), torch.tensor([[-2.0], [3.0], [0.5]])
        case("pow", [(x, dtype), (y, dtype)], (x ** y, dtype))
        x, y = reals((5, 1), dtype, -9, 9), reals((6,), dtype)
        case("mod", [(x, dtype), (y, dtype)], (torch.remainder(x, y), dtype))
        case("mod", [(x, dtype), (y, dtype)], (torch.fmod(x, y), dtype), truncate=1)
    x, y = torch.tensor(SPECIAL)[:, None], torch.tensor(SPECIAL)[None]
    case("pow", [(x, "f32"), (y, "f32")], (np.power(array(x), array(y)), "f32"))
    int_ops = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
               "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
    np_compare = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
                  "greater": np.greater, "greater_equal": np.greater_equal}
    for dtype, kind in INTS.items():
        info = np.iinfo(kind)
        x, y = integers((3, 4), dtype), integers((4,), dtype)
        y[y == 0] = 3
        edges = np.array([info.min, info.max, info.max, 1], kind)
        for a, b in ((x, y), (x[:, :1], y[None]), (edges, np.array([1, 1, 2, info.max], kind))):
            for name, fn in int_ops.items():
                case(name, [(a, dtype), (b, dtype)], (fn(a, b), dtype))
            for name, fn in np_compare.items():
                case(name, [(a, dtype), (b, dtype)], (fn(a, b), "bool"))
            case("div", [(a, dtype), (b, dtype)], (truncated(a, b).astype(kind), dtype))
            case("mod", [(a, dtype), (b, dtype)], (np.mod(a, b), dtype))
            case("mod", [(a, dtype), (b, dtype)], (np.fmod(a, b), dtype), truncate=1)
        powers = np.array([0, 1, 2, 5], kind)
        case("pow", [(x, dtype), (powers, dtype)], (np.power(x, powers), dtype))
        by = np.array([0, 1, 3, info.bits - 1], kind)
        case("shift_left", [(x, dtype), (by, dtype)], (np.left_shift(x, by), dtype))
        case("shift_right", [(x, dtype), (by, dtype)], (np.right_shift(x, by), dtype))
        out = np.array([info.bits, info.bits], kind)
        ends = np.array([info.min, info.max], kind)
        case("shift_left", [(ends, dtype), (out, dtype)], (np.zeros(2, kind), dtype))
        case("shift_right", [(ends, dtype), (out, dtype)], (np.array([-1 if info.min else 0, 0], kind), dtype))
        zero = np.zeros(2, kind)
        case("div", [(ends, dtype), (zero, dtype)], (zero, dtype))
        case("mod", [(ends, dtype), (zero, dtype)], (zero, dtype))
        if info.min:
            minus = np.array([-1, -1], kind)
            case("div", [(ends, dtype), (minus, dtype)], (np.array([info.min, -info.max], kind), dtype))
            case("mod", [(ends, dtype), (minus, dtype)], (zero, dtype))
            case("pow", [(np.array([1, -1, -1, 2, 0], kind), dtype), (np.array([-3, -3, -2, -1, -1], kind), dtype)],
                 (np.array([1, -1, 1, 0, 0], kind), dtype))
    p, q = rng.integers(0, 2, (2, 3, 1)).astype(bool), rng.integers(0, 2, (1, 4)).astype(bool)
    for a, b in ((p, q), (q, q), (q[0, :1], p)):
        for name, fn in {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
                         "equal": np.equal, "not_equal": np.not_equal}.items():
            case(name, [(a, "bool"), (b, "bool")], (fn(a, b), "bool"))


def ternary():
    condition = rng.integers(0, 2, (3, 1, 4)).astype(bool)
    for dtype in FLOATS:
        a, b = reals((2, 1), dtype), reals((4,), dtype)
        case("where", [(condition, "bool"), (a, dtype), (b, dtype)],
             (torch.where(torch.tensor(condition.tolist()), a, b), dtype))
        x, low, high = reals((2, 3, 4), dtype), reals((3, 1), dtype, -2, 0), reals((), dtype, -1, 2)
        case("clamp", [(x, dtype), (low, dtype), (high, dtype)],
             (torch.minimum(torch.maximum(x, low), high), dtype))
    for dtype in INTS:
        a, b = integers((2, 1), dtype), integers((4,), dtype)
        case("where", [(condition, "bool"), (a, dtype), (b, dtype)], (np.where(condition, a, b), dtype))
        x, low, high = integers((3, 4), dtype), integers((4,), dtype), integers((3, 1), dtype)
        case("clamp", [(x, dtype), (low, dtype), (high, dtype)], (np.minimum(np.maximum(x, low), high), dtype))
    case("where", [(condition, "bool"), (condition[0], "bool"), (condition, "bool")],
         (np.where(condition, condition[0], condition), "bool"))
    x = torch.tensor(SPECIAL)
    case("clamp", [(x, "f32"), (torch.tensor(-1.5), "f32"), (torch.tensor(1.0), "f32")],
         (torch.minimum(torch.maximum(x, torch.tensor(-1.5)), torch.tensor(1.0)), "f32"))


def casts():
    for name, kind in FLOATS.items():
        for to, target in FLOATS.items():
            x = reals((3, 4), name, -300, 300)
            case("cast", [(x, name)], (x.to(target).double() if name != "f64" or to == "f32" or to == "f64"
                                       else x.float().to(target).double(), to), to=to)
        for to, target in INTS.items():
            info = np.iinfo(target)
            x = reals((2, 5), name, max(info.min, -100), min(info.max, 100))
            case("cast", [(x, name)], (np.trunc(array(x)).astype(target), to), to=to)
            far = torch.tensor([float("inf"), float("-inf"), float("nan"), 60000.0, -60000.0]).to(kind).double()
            limit = [info.max, info.min, 0, min(info.max, int(far[3])), max(info.min, int(far[4]))]
            case("cast", [(far, name)], (np.array(limit, target), to), to=to, saturate=1)
            wrapped = [0, 0, 0, int(far[3]), int(far[4])]
            case("cast", [(far, name)], (np.array(wrapped, object).astype(np.int64).astype(target), to), to=to)
            y = integers((3, 2), to)
            case("cast", [(y, to)], (torch.tensor(y.astype(np.float64).tolist()).float().to(kind).double(), name), to=name)
        x = torch.tensor(SPECIAL)
        case("cast", [(x, name)], (x != 0, "bool"), to="bool")
        flags = rng.integers(0, 2, 5).astype(bool)
        case("cast", [(flags, "bool")], (flags.astype(np.float64), name), to=name)
        x = reals((3,), name)
        case("cast", [(x, name)], (x.float().to(torch.complex128), "c64"), to="c64")
    for name, kind in INTS.items():
        info = np.iinfo(kind)
        ends = np.array([info.min, info.max, 0, 1, info.max // 2 + 3], kind)
        for to, target in INTS.items():
            limits = np.iinfo(target)
            case("cast", [(ends, name)], (ends.astype(target), to), to=to)
            clipped = [min(max(int(v), limits.min), limits.max) for v in ends]
            case("cast", [(ends, name)], (np.array(clipped, target), to), to=to, saturate=1)
        case("cast", [(ends, name)], (ends != 0, "bool"), to="bool")
        case("cast", [(ends, name)], (ends.astype(np.float64), "f64"), to="f64")
        case("cast", [(ends, name)], (ends.astype(np.float32).astype(np.float64), "f32"), to="f32")
    for a, b, kind, other in (("f32", "u32", np.float32, np.uint32), ("f32", "i32", np.float32, np.int32),
                              ("f64", "i64", np.float64, np.int64), ("f16", "u16", np.float16, np.uint16)):
        x = rng.normal(size=(3, 2)).astype(kind)
        case("bitcast", [(x.astype(np.float64), a)], (x.view(other), b), to=b)
        case("bitcast", [(x.view(other), b)], (x.astype(np.float64), a), to=a)
    x = np.array([-1, 5, -128], np.int8)
    case("bitcast", [(x, "i8")], (x.view(np.uint8), "u8"), to="u8")
    x = rng.normal(size=4).astype(np.float32)
    case("bitcast", [(x.view(np.complex64), "c64")], (x.view(np.uint64), "u64"), to="u64")


def complexes():
    def z(*shape):
        return (torch.randn(shape) + 1j * torch.randn(shape)).to(torch.complex64).to(torch.complex128)

    for a, b in PAIRS:
        x, y = z(*a), z(*b)
        for name, fn in {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}.items():
            case(name, [(x, "c64"), (y, "c64")], (fn(x, y), "c64"))
        x.view(-1)[0] = y.view(-1)[0]
        case("equal", [(x, "c64"), (y, "c64")], (x == y, "bool"))
        case("not_equal", [(x, "c64"), (y, "c64")], (x != y, "bool"))
        case("where", [(torch.tensor([True]), "bool"), (x, "c64"), (y, "c64")],
             (torch.where(torch.tensor([True]), x, y), "c64"))
        for name, fn in {"neg": torch.neg, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt,
                         "conjugate": torch.conj, "stop_gradient": lambda v: v}.items():
            case(name, [(x, "c64")], (fn(x), "c64"))
        for name, fn in {"real": torch.real, "imag": torch.imag, "complex_norm_sq": lambda v: (v * v.conj()).real}.items():
            case(name, [(x, "c64")], (fn(x).clone(), "f32"))
        dy = reals(b)
        case("complex_norm_sq_backward", [(x, "c64"), (dy, "f32")], (x * dy, "c64"))
        re, im = reals(a), reals(b)
        case("complex", [(re, "f32"), (im, "f32")], (torch.complex(*torch.broadcast_tensors(re, im)), "c64"))


def backward():
    for name, (fn, low, high) in UNARY.items():
        for dtype, (a, b) in (("f32", PAIRS[0]), ("f32", PAIRS[1]), ("f64", PAIRS[2]), ("f16", PAIRS[0]),
                              ("bf16", PAIRS[0])):
            x, dy = reals(a, dtype, low, high).requires_grad_(), reals(b, dtype)
            spread, passed = torch.broadcast_tensors(x, dy)
            inside = spread.detach().clone().requires_grad_()
            grad, = torch.autograd.grad((fn(inside) * passed).sum(), inside)
            case("activation_backward", [(x.detach(), dtype), (dy, dtype)], (grad, dtype), kind=name)
            if name == "relu":
                case("relu_backward", [(x.detach(), dtype), (dy, dtype)], (grad, dtype))
    x, dy = torch.tensor([0.0, -1.0, 2.0]), torch.tensor([5.0, float("inf"), 7.0])
    case("relu_backward", [(x, "f32"), (dy, "f32")], (torch.tensor([0.0, 0.0, 7.0]), "f32"))
    case("activation_backward", [(x, "f32"), (x, "f32")], (x, "f32"), kind="identity")


def steps():
    """Numbers of steps, from the header."""
    with open("core/elementwise_region.h") as header:
        return {m[2]: int(m[1]) for m in re.finditer(r"STEP\((\d+), (\w+), \d\)", header.read())}


def regions():
    number_of = steps()

    def code(*rows):
        return sum(([number_of[name], *(list(registers) + [0] * (3 - len(registers))), attribute]
                    for name, registers, attribute in rows), [])

    silu = torch.nn.functional.silu
    for a, b in PAIRS + [((4,), ())]:
        x, y = reals(a), reals(b)
        case("elementwise_region", [(x, "f32"), (y, "f32")], (silu(x * y) + x, "f32"),
             code=code(("mul", (0, 1), 0), ("silu", (2,), 0), ("add", (3, 0), 0)), prologue=0, prologue_input=0)
        case("elementwise_region", [(x, "f32"), (y, "f32")], (torch.where(x < y, x.sin(), y * y), "f32"),
             code=code(("less", (0, 1), 0), ("sin", (0,), 0), ("mul", (1, 1), 0), ("where", (2, 3, 4), 0)),
             prologue=0, prologue_input=0)
    inputs = [reals((3, 4) if i % 2 else (4,)) for i in range(7)]
    total, rows = inputs[0], []
    for i in range(1, 7):
        total = total + inputs[i]
        rows.append(("add", (6 + i - 1 if i > 1 else 0, i), 0))
    case("elementwise_region", [(x, "f32") for x in inputs], (total, "f32"), code=code(*rows), prologue=0,
         prologue_input=0)
    x = integers((3, 1), "i32")
    y = reals((2,))
    case("elementwise_region", [(x, "i32"), (y, "f32")], (torch.tensor(x.tolist()).double() * y, "f32"),
         code=code(("cast", (0,), 0), ("mul", (2, 1), 0)), prologue=0, prologue_input=0)
    double = torch.nn.Upsample(scale_factor=2, mode="nearest")
    for shape in ((2, 3, 2, 5), (1, 1, 1, 1), (1, 2, 3, 1)):
        small = reals(shape)
        large, bias = reals((shape[0], shape[1], 2 * shape[2], 2 * shape[3])), reals((shape[1], 1, 1))
        case("elementwise_region", [(bias, "f32"), (small, "f32"), (large, "f32")],
             ((double(small) + bias).tanh() * large, "f32"),
             code=code(("add", (1, 0), 0), ("tanh", (3,), 0), ("mul", (4, 2), 0)), prologue=1, prologue_input=1)
        case("transform_region", [(small, "f32")], (double(small), "f32"), steps=[1])
        case("transform_region", [(small, "f32")], (double(double(small)), "f32"), steps=[1, 1])
        parts = [reals((1, *shape[1:])) for _ in range(3)]
        for prologue, first in ((0, lambda v: v), (1, double)):
            case("batch_elementwise_region", [(p, "f32") for p in parts],
                 (torch.cat([torch.exp(-first(p)) for p in parts]), "f32"),
                 code=code(("neg", (0,), 0), ("exp", (1,), 0)), prologue=prologue)
    x = torch.arange(24.0).reshape(2, 3, 4)
    case("transform_region", [(x, "i16")], (x.repeat_interleave(2, 1).repeat_interleave(2, 2), "i16"), steps=[1])


for make in (unary, binary, ternary, casts, complexes, backward, regions):
    make()
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(f"{len(cases)} cases of {len({c['op'] for c in cases})} ops")
