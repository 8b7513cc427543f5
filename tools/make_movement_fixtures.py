#!/usr/bin/env python3
"""Write tests/data/ops/movement.json: what NumPy and PyTorch compute for the ops of movement.def,
reduce.def, softmax.def and sort.def.

Each case holds an op, its attributes as text, its inputs and its outputs.  A tensor is a dtype, dims
and data: numbers, "nan", "inf" or "-inf"; of c64 the two parts one after the other, of u64 the bits as
i64.  Results of floats are computed in float64 from inputs that their types hold exactly.
usage: make_movement_fixtures.py OUTPUT    (needs numpy and torch)
"""
import json
import sys

import numpy as np
import torch

rng = np.random.default_rng(11)
cases = []
FLOATS = ("f32", "f64", "f16", "bf16")
INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
ALL = FLOATS + INTS + ("bool", "c64")
NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bool": np.bool_, "c64": np.complex64,
         "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}


MAIN = ("f32", "i64", "u64", "bf16", "bool")


def of(dtype, shapes):
    """All shapes for one type of each class, the first for the others."""
    return shapes if dtype in MAIN else shapes[:1]


class T:
    """An array with the name of its element type; floats are held in float64."""

    def __init__(self, data, dtype):
        self.dtype = dtype
        data = np.asarray(data)
        if dtype == "bf16":
            data = (data.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
        elif dtype in NUMPY:
            data = data.astype(NUMPY[dtype])
        wide = np.float64 if dtype in FLOATS else np.complex128 if dtype == "c64" else data.dtype
        self.a = data.astype(wide)


def result(data, dtype):
    """A result of floats: not rounded to their type."""
    t = T(0, dtype)
    t.a = np.asarray(data)
    return t


def number(x):
    if np.isnan(x):
        return "nan"
    return x if np.isfinite(x) else "inf" if x > 0 else "-inf"


def tensor(t):
    a = np.asarray(t.a)
    if t.dtype == "c64":
        data = [number(float(v)) for z in a.flatten() for v in (z.real, z.imag)]
    elif t.dtype in FLOATS:
        data = [number(float(v)) for v in a.flatten()]
    elif t.dtype == "u64":
        data = a.flatten().view(np.int64).tolist()
    else:
        data = a.flatten().astype(np.int64).tolist()
    return {"dtype": t.dtype, "dims": list(a.shape), "data": data}


def case(op, inputs, outputs, **attrs):
    text = ", ".join(f"{k} = {list(v) if isinstance(v, (list, tuple)) else v}" for k, v in attrs.items())
    cases.append({"op": op, "attrs": text, "in": [tensor(x) for x in inputs], "out": [tensor(x) for x in outputs]})


def some(dtype, *shape):
    """Random elements; of integers the extremes are among them."""
    if dtype in FLOATS:
        return T(rng.standard_normal(shape) * 3, dtype)
    if dtype == "c64":
        return T(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), dtype)
    if dtype == "bool":
        return T(rng.integers(0, 2, shape), dtype)
    info = np.iinfo(NUMPY[dtype])
    return T(rng.integers(info.min, info.max, shape, dtype=NUMPY[dtype], endpoint=True), dtype)


def index(values, dtype="i64"):
    return T(np.asarray(values), dtype)


def torch_of(a):
    """By way of lists, so that any pair of versions of the two works."""
    return torch.tensor(a.tolist(), dtype=torch.float64).reshape(a.shape)


def array(t):
    return np.array(t.detach().tolist()).reshape(tuple(t.shape))


def moved(op, x, out, **attrs):
    case(op, [x], [result(out, x.dtype)], **attrs)


def movement():
    for dtype in ALL:
        x = some(dtype, 2, 3, 4)
        moved("reshape", x, x.a.reshape(4, -1), shape=[4, -1])
        moved("transpose", x, x.a.transpose(2, 0, 1), perm=[2, 0, 1])
        moved("slice", x, x.a[:, 1:3], axis=1, start=1, length=2)
        moved("strided_slice", x, x.a[1:, ::-2, -3:-1], starts=[1, 9, -3], ends=[9, -9, -1], steps=[1, -2, 1])
        moved("reverse", x, x.a[::-1, :, ::-1], axes=[-1, 0])
        moved("expand", T(x.a[:, :1], dtype), np.broadcast_to(x.a[:, :1], (3, 2, 2, 4)), shape=[3, 2, 2, -1])
        y = some(dtype, 2, 1, 4)
        case("concat", [x, y, x], [result(np.concatenate([x.a, y.a, x.a], 1), dtype)], axis=-2)
        case("split", [x], [result(p, dtype) for p in np.split(x.a, [1, 1], 2)], axis=2, sizes=[1, 0, 3])
        value = some(dtype)
        full = np.full((2, 5, 2), value.a, x.a.dtype)
        full[0, 1:4, 0:2] = x.a[1, :, 2:4]
        case("pad", [x, value], [result(full, dtype)], before=[-1, 1, -2], after=[1, 1, 0], mode=0)
        moved("trilu", x, np.triu(x.a, 1), upper=1, k=1)
        case("gather", [x, index([[2, -1], [0, 0]])], [result(x.a[:, [[2, 2], [0, 0]]], dtype)], axis=1)
        case("gather_nd", [x, index([[0, -1], [1, 0]], "i32")], [result(x.a[[0, 1], [2, 0]], dtype)])
        at = rng.integers(-4, 4, (2, 3, 2))
        case("take_along", [x, index(at)], [result(np.take_along_axis(x.a, at % 4, 2), dtype)], axis=-1)
        to = np.array([[[2, 0, 1]], [[1, -2, 3]]])
        u = some(dtype, 2, 1, 3)
        out = x.a.copy()
        np.put_along_axis(out[:, :1], to % 4, u.a, 2)
        case("scatter", [x, index(to), u], [result(out, dtype)], axis=2, combine=0)
        out = x.a.copy()
        out[[1, 0], [2, 0]] = y.a[:, 0]
        case("scatter_nd", [x, index([[1, 2], [0, -3]]), T(y.a[:, 0], dtype)], [result(out, dtype)], combine=0)
        case("dynamic_slice", [x, index([-5, 1, 3])], [result(x.a[:1, 1:3, 2:], dtype)], sizes=[1, 2, 2])
        out = x.a.copy()
        out[1:, 0:1, :] = y.a[:1]
        case("dynamic_update_slice", [x, T(y.a[:1], dtype), index([4, -1, 0], "i32")], [result(out, dtype)])
        pair = some(dtype, 2)
        ids = np.array([[1, -1, 7], [0, 2, -4]])
        case("one_hot", [index(ids), pair], [result(pair.a[(np.arange(3)[:, None] == np.where(ids < 0, ids + 3, ids)[:, None]).astype(int)], dtype)], axis=1, depth=3)


def more_movement():
    x = some("f32", 3, 5)
    empty = some("i64", 0, 3)
    moved("reshape", empty, empty.a.reshape(2, 0, 3), shape=[2, 0, 3])
    moved("reshape", empty, empty.a.reshape(0, 3), shape=[-1, 3])
    moved("transpose", empty, empty.a.T, perm=[1, 0])
    moved("slice", x, x.a[3:3], axis=0, start=3, length=0)
    case("concat", [empty, some("i64", 0, 3)], [result(empty.a, "i64")], axis=0)
    z = some("i64", 2, 3)
    case("concat", [empty, z], [result(z.a, "i64")], axis=0)
    case("concat", [z], [result(z.a, "i64")], axis=0)
    moved("strided_slice", x, x.a[::-1, 4:1:-2], starts=[-1, 4], ends=[-9, 1], steps=[-1, -2])
    moved("strided_slice", x, x.a[2:1, :], starts=[2, 0], ends=[1, 9], steps=[1, 1])
    moved("strided_slice", x, x.a[:, ::3], starts=[0, 0], ends=[9, 9], steps=[1, 3])
    moved("reverse", x, x.a, axes=[])
    moved("reverse", x, x.a[:, ::-1], axes=[1])
    one = some("i16", 1, 1)
    moved("expand", one, np.broadcast_to(one.a, (2, 3, 4)), shape=[2, 3, 4])
    moved("expand", x, x.a, shape=[3, 5])
    moved("expand", T(np.zeros((1, 2)), "f32"), np.zeros((0, 2)), shape=[0, 2])
    case("split", [x], [result(p, "f32") for p in np.split(x.a, [2], 0)], axis=-2, sizes=[2, 1])
    case("split", [z], [result(z.a, "i64")], axis=1, sizes=[3])
    for mode, name in ((1, "reflect"), (2, "edge"), (3, "wrap")):
        for before, after in (([1, 2], [2, 4]), ([0, 7], [5, 11]), ([2, 0], [0, 3])):
            out = np.pad(x.a, list(zip(before, after)), mode=name)
            case("pad", [x, T(0, "f32")], [result(out, "f32")], before=before, after=after, mode=mode)
        w = some("i32", 4)
        case("pad", [w, T([0], "i32")], [result(np.pad(w.a, (0, 3), mode=name)[1:], "i32")], before=[-1], after=[3], mode=mode)
    case("pad", [empty, T(7, "i64")], [result(np.full((2, 4), 7), "i64")], before=[1, 0], after=[1, 1], mode=0)
    for upper, fn in ((0, np.tril), (1, np.triu)):
        for k in (-2, 0, 1, 9, -9):
            moved("trilu", x, fn(x.a, k), upper=upper, k=k)
    case("gather", [x, index(-1, "i32")], [result(x.a[:, -1], "f32")], axis=-1)
    case("gather", [x, index(np.zeros((0, 2), int))], [result(x.a[np.zeros((0, 2), int)], "f32")], axis=0)
    b = some("f32", 2, 3, 4)
    rows = np.array([[[1], [0]], [[2], [-1]]])
    case("gather_nd", [b, index(rows)], [result(np.stack([b.a[i][rows[i, :, 0]] for i in range(2)]), "f32")], batch_dims=1)
    case("gather_nd", [b, index(np.array([1, 2, 3]))], [result(b.a[1, 2, 3], "f32")])
    case("take_along", [x, index([[0, -1, 2]], "i32")], [result(x.a[[0, 2, 2], [0, 1, 2]][None], "f32")], axis=0)
    case("take_along", [x, index([[4, 0], [1, 1]])], [result(np.array([x.a[0, [4, 0]], x.a[1, [1, 1]]]), "f32")], axis=1)


def scattering():
    folds = {1: "add", 2: "mul", 3: "maximum", 4: "minimum"}
    for dtype in FLOATS + INTS:
        for combine, name in folds.items():
            x, u = some(dtype, 3, 4), some(dtype, 5, 3)
            at = np.array([[0, 2, 1], [0, -3, 1], [2, 2, -1], [0, 0, 0], [1, 1, 1]])
            out = x.a.copy()
            with np.errstate(over="ignore"):
                for i in range(5):
                    for j in range(3):
                        out[at[i, j], j] = getattr(np, {"mul": "multiply"}.get(name, name))(out[at[i, j], j], u.a[i, j])
            case("scatter", [x, index(at), u], [result(out, dtype)], axis=0, combine=combine)
            out = x.a.copy()
            pairs = np.array([[1], [1], [-1]])
            v = some(dtype, 3, 4)
            with np.errstate(over="ignore"):
                for i in range(3):
                    out[pairs[i, 0]] = getattr(np, {"mul": "multiply"}.get(name, name))(out[pairs[i, 0]], v.a[i])
            case("scatter_nd", [x, index(pairs, "i32"), v], [result(out, dtype)], combine=combine)
        u = some(dtype, 2, 3, 2)
        at = np.array([[0, 3, 0], [-1, 3, 0]])
        out = np.zeros((4, 2), u.a.dtype)
        with np.errstate(over="ignore"):
            for i in range(2):
                for j in range(3):
                    out[at[i, j]] += u.a[i, j]
        case("scatter_add", [index(at), u], [result(out, dtype)], rows=4)
    z = some("c64", 3, 2)
    case("scatter_add", [index([1, 1, 0], "i32"), z], [result(np.stack([z.a[2], z.a[0] + z.a[1]]), "c64")], rows=2)
    case("scatter_add", [index([1, -2]), some("f64", 2, 0)], [result(np.zeros((2, 0)), "f64")], rows=2)
    for dtype in FLOATS:
        for axis, shape in ((0, (4, 3)), (-1, (2, 4)), (1, (2, 4, 3))):
            x = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
            at = torch.tensor([[3, 0], [3, 1]])
            picked = x.index_select(axis, at.flatten())
            dim = axis % x.dim()
            y = picked.reshape(*shape[:dim], 2, 2, *shape[dim + 1:])
            dy = some(dtype, *y.shape)
            y.backward(torch_of(dy.a))
            case("gather_backward", [index(array(at)), dy], [result(array(x.grad), dtype)], axis=axis, size=4)


def made():
    for dtype in FLOATS + INTS:
        case("iota", [], [result(T(np.broadcast_to(np.arange(3)[:, None], (2, 3, 4)), dtype).a, dtype)], shape=[2, 3, 4], axis=-2, dtype=dtype)
    case("iota", [], [result(np.arange(300).astype(np.int8), "i8")], shape=[300], axis=0, dtype="i8")
    case("iota", [], [result(np.zeros((0, 2), np.int64), "i64")], shape=[0, 2], axis=1, dtype="i64")
    case("one_hot", [index(2, "i32"), T([0, 1], "f32")], [result([0, 0, 1, 0], "f32")], axis=0, depth=4)
    case("one_hot", [index([0, 1], "i32"), T([5, 1], "i64")], [result(np.array([[1, 5], [5, 1], [5, 5]]), "i64")], axis=0, depth=3)


def reductions():
    shapes = [((2, 3, 5), [0, -1]), ((3, 5), [1]), ((4, 1, 3), [1]), ((7,), [0]), ((2, 3), [1, 0]), ((2, 3), [])]
    with np.errstate(over="ignore"):
        for dtype in ALL:
            for number_, (shape, axes) in enumerate(of(dtype, shapes)):
                x, keep = some(dtype, *shape), number_ % 2
                how = dict(axis=tuple(axes), keepdims=bool(keep))
                if dtype != "bool":
                    same = {"dtype": x.a.dtype} if dtype in INTS else {}
                    case("reduce_sum", [x], [result(x.a.sum(**how, **same), dtype)], axes=axes, keep=keep)
                    case("reduce_prod", [x], [result(x.a.prod(**how, **same), dtype)], axes=axes, keep=keep)
                if dtype in FLOATS + ("c64",):
                    case("reduce_mean", [x], [result(x.a.mean(**how), dtype)], axes=axes, keep=keep)
                elif dtype in INTS and dtype != "u64":
                    total = x.a.sum(**how, dtype=np.int64)
                    n = x.a.size // total.size
                    case("reduce_mean", [x], [result(np.sign(total) * (np.abs(total) // n), dtype)], axes=axes, keep=keep)
                if dtype != "c64":
                    case("reduce_max", [x], [result(x.a.max(**how), dtype)], axes=axes, keep=keep)
                    case("reduce_min", [x], [result(x.a.min(**how), dtype)], axes=axes, keep=keep)
    odd = T([[1, np.nan, 2], [-np.inf, 5, np.inf]], "f32")
    for name, fn in (("reduce_max", np.max), ("reduce_min", np.min), ("reduce_sum", np.sum)):
        moved(name, odd, fn(odd.a, 1), axes=[1], keep=0)
    for dtype, least, most in (("f32", -np.inf, np.inf), ("i16", -32768, 32767), ("u8", 0, 255), ("bool", 0, 1), ("u64", 0, 2**64 - 1)):
        nothing = some(dtype, 2, 0)
        values = {"reduce_max": least, "reduce_min": most, "reduce_sum": 0, "reduce_prod": 1}
        for name, value in values.items():
            if dtype == "bool" and name in ("reduce_sum", "reduce_prod"):
                continue
            moved(name, nothing, np.array([value, value], nothing.a.dtype), axes=[1], keep=0)
    moved("reduce_mean", some("f32", 0, 2), np.array([np.nan, np.nan]), axes=[0], keep=0)
    u = T(np.array([2**64 - 1, 2**64 - 2], np.uint64), "u64")
    moved("reduce_mean", u, np.uint64((2**64 - 3) // 2), axes=[0], keep=0)


def over_axis():
    for dtype in FLOATS:
        for shape, back in (((3, 5), 0), ((2, 3, 7), 1), ((5, 2, 3), 2), ((4,), 0), ((3, 1), 0)):
            x = some(dtype, *shape)
            axis = len(shape) - 1 - back
            for name, fn in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
                given = torch_of(x.a).requires_grad_()
                y = fn(given, axis)
                case(name, [x], [result(array(y), dtype)], axis=axis)
                # The gradient of what the type holds of y.
                held, dy = T(array(y), dtype), some(dtype, *shape)
                if name == "softmax":
                    grad = held.a * (dy.a - (held.a * dy.a).sum(axis, keepdims=True))
                else:
                    grad = dy.a - np.exp(held.a) * dy.a.sum(axis, keepdims=True)
                case(name + "_backward", [held, dy], [result(grad, dtype)], axis=axis)
        for shape, axes in (((3, 5), [1]), ((2, 3, 4), [0, 2]), ((4,), [])):
            x = some(dtype, *shape)
            given = torch_of(x.a).requires_grad_()
            y = given.amax(axes) if axes else given + 0
            dy = some(dtype, *y.shape)
            y.backward(torch_of(dy.a))
            case("reduce_max_backward", [x, T(array(y), dtype), dy], [result(array(given.grad), dtype)], axes=axes, keep=0)
    tied = T([[1, 3, 3, 0], [2, 2, 2, 2]], "f32")
    case("reduce_max_backward", [tied, T([[3], [2]], "f32"), T([[1], [2]], "f32")],
         [result([[0, 0.5, 0.5, 0], [0.5] * 4], "f32")], axes=[-1], keep=1)
    for dtype in FLOATS + INTS + ("bool",):
        for shape, back in of(dtype, (((2, 3, 7), 1), ((3, 5), 0), ((5, 2, 3), 2))):
            x = T(rng.integers(0, 2 if dtype == "bool" else 9, shape), dtype)
            axis = len(shape) - 1 - back
            for name, fn in (("argmax", np.argmax), ("argmin", np.argmin)):
                case(name, [x], [result(fn(x.a, axis), "i32")], axis=axis)
                last = shape[axis] - 1 - fn(np.flip(x.a, axis), axis)
                case(name, [x], [result(np.expand_dims(last, axis), "i64")], axis=axis, keep=1, last=1, to="i64")
    odd = T([[np.nan, 5, 9], [2, np.nan, 1], [-np.inf, np.inf, 0]], "f32")
    case("argmax", [odd], [result([0, 0, 1], "i32")])
    case("argmin", [odd], [result([0, 2, 0], "i32")])


def running():
    with np.errstate(over="ignore"):
        for dtype in FLOATS + INTS:
            for shape, axis in of(dtype, (((2, 3, 4), -2), ((3, 5), 1), ((4, 3), 0))):
                x = some(dtype, *shape)
                for name, fn, first in (("cumsum", np.cumsum, 0), ("cumprod", np.cumprod, 1)):
                    for exclusive in (0, 1):
                        for reverse in (0, 1):
                            y = np.flip(x.a, axis) if reverse else x.a
                            y = fn(y, axis, dtype=x.a.dtype)
                            if exclusive:
                                y = np.roll(y, 1, axis)
                                np.moveaxis(y, axis, 0)[0] = first
                            y = np.flip(y, axis) if reverse else y
                            case(name, [x], [result(y, dtype)], axis=axis, exclusive=exclusive, reverse=reverse)
    for dtype in FLOATS:
        for axis, exclusive, reverse in ((1, 0, 0), (-2, 1, 0), (1, 1, 1)):
            dy = some(dtype, 3, 5)
            given = torch.zeros(3, 5, dtype=torch.float64, requires_grad=True)
            y = torch.cumsum(given.flip(axis) if reverse else given, axis)
            y = y - (given.flip(axis) if reverse else given) if exclusive else y
            y = y.flip(axis) if reverse else y
            y.backward(torch_of(dy.a))
            case("cumsum_backward", [dy], [result(array(given.grad), dtype)], axis=axis, exclusive=exclusive, reverse=reverse)


def sorting():
    for dtype in FLOATS + INTS + ("bool",):
        for shape, axis in of(dtype, (((2, 5, 3), 1), ((3, 7), -1), ((4, 3, 2), 0))):
            if dtype in FLOATS:
                x = T(rng.integers(-4, 4, shape) / 2, dtype)
            else:
                x = some(dtype, *shape)
            up = np.argsort(x.a, axis, kind="stable")
            back = np.flip(x.a, axis)
            down = shape[axis] - 1 - np.flip(np.argsort(back, axis, kind="stable"), axis)
            for descending, order in ((0, up), (1, down)):
                values = np.take_along_axis(x.a, order, axis)
                case("sort", [x], [result(values, dtype)], axis=axis, descending=descending)
                case("argsort", [x], [result(order, "i64")], axis=axis, descending=descending)
                k = 2
                kept = np.take(order, range(k), axis)
                case("topk", [x], [result(np.take_along_axis(x.a, kept, axis), dtype), result(kept, "i64")],
                     k=k, axis=axis, largest=descending, sorted=1)
    odd = T([3, np.nan, -0.0, 0.0, np.inf, -np.inf, np.nan], "f32")
    case("sort", [odd], [result([-np.inf, -0.0, 0.0, 3, np.inf, np.nan, np.nan], "f32")], axis=0)
    case("argsort", [odd], [result([1, 6, 4, 0, 2, 3, 5], "i64")], axis=0, descending=1)
    case("topk", [odd], [result([np.nan, np.nan, np.inf], "f32"), result([1, 6, 4], "i64")], k=3, axis=0, largest=1)
    case("topk", [odd], [result(np.zeros(0), "f32"), result(np.zeros(0, int), "i64")], k=0, axis=0, largest=1)


movement()
more_movement()
scattering()
made()
reductions()
over_axis()
running()
sorting()
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(len(cases), "cases")
