#!/usr/bin/env python3
"""Write tests/data/ops/resize.json: resized tensors by the formulas of ONNX, in float64.

Each is compared with onnxruntime (in float32) where that runs it; some are PyTorch's.  onnxruntime differs where
align_corners meets a scale that does not give whole numbers: it takes the number of results for their width.
usage: make_resize_fixtures.py OUTPUT    (needs torch, numpy, onnx and onnxruntime)
"""
import itertools
import math
import sys

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper

from op_fixtures import Cases, f32, rnd

onnxruntime.set_default_logger_severity(4)
cases = Cases()


def place(o, size, out, scale, mode, roi):
    width = scale * size
    if mode == "half_pixel":
        return (o + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - out / width) + (o + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (o + 0.5) / scale - 0.5 if out > 1 else 0.0
    if mode == "align_corners":
        return o * (size - 1) / (width - 1) if out > 1 else 0.0
    if mode == "asymmetric":
        return o / scale
    if mode == "tf_half_pixel_for_nn":
        return (o + 0.5) / scale
    start, end = roi
    return start * (size - 1) + ((end - start) * (size - 1) / 2 if out == 1 else o * (end - start) * (size - 1) / (width - 1))


def cubic(x, a):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x ** 3 - (a + 3) * x ** 2 + 1
    return a * x ** 3 - 5 * a * x ** 2 + 8 * a * x - 4 * a if x < 2 else 0.0


def matrix(size, out, scale, spec, roi):
    """[out, size], and which rows are outside."""
    m, outside = np.zeros((out, size)), np.zeros(out, bool)
    for o in range(out):
        at = place(o, size, out, scale, spec["coordinates"], roi)
        if spec["coordinates"] == "tf_crop_and_resize" and not 0 <= at <= size - 1:
            outside[o] = True
            continue
        if spec["mode"] == "nearest":
            whole = {"round_prefer_floor": math.ceil(at - 0.5), "round_prefer_ceil": math.floor(at + 0.5),
                     "floor": math.floor(at), "ceil": math.ceil(at)}[spec.get("rounding", "round_prefer_floor")]
            m[o, min(max(whole, 0), size - 1)] = 1
            continue
        reach, stretch = (2 if spec["mode"] == "cubic" else 1), (min(scale, 1.0) if spec.get("antialias") else 1.0)
        taps = [(i, cubic((i - at) * stretch, f32(spec.get("cubic_a", -0.75))) if reach == 2 else
                 max(0.0, 1 - abs(i - at) * stretch))
                for i in range(math.floor(at - reach / stretch) - 1, math.ceil(at + reach / stretch) + 2)]
        if spec.get("exclude_outside"):
            taps = [(i, w) for i, w in taps if 0 <= i < size]
        total = sum(w for _, w in taps)
        for i, w in taps:
            m[o, min(max(i, 0), size - 1)] += w / total
    return m, outside


def resized(x, shape, scales, spec):
    x = np.array(x.tolist()).reshape(tuple(x.shape))
    lost = np.zeros(shape, bool)
    for axis, out in enumerate(shape):
        scale = scales[axis] if scales else out / x.shape[axis]
        roi = (spec["roi"][axis], spec["roi"][x.ndim + axis]) if "roi" in spec else (0, 1)
        if spec["coordinates"] not in ("tf_crop_and_resize", "tf_half_pixel_for_nn") and out == x.shape[axis] and scale == 1:
            continue
        m, outside = matrix(x.shape[axis], out, scale, spec, roi)
        x = np.moveaxis(np.tensordot(m, x, (1, axis)), 0, axis)
        lost |= outside.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.where(lost, f32(spec.get("extrapolation", 0.0)), x)


def compare(x, shape, scales, spec, want):
    """With onnxruntime; False where it does not run this."""
    attrs = {"mode": spec["mode"], "coordinate_transformation_mode": spec["coordinates"],
             "nearest_mode": spec.get("rounding", "round_prefer_floor"), "cubic_coeff_a": spec.get("cubic_a", -0.75),
             "exclude_outside": spec.get("exclude_outside", 0), "extrapolation_value": spec.get("extrapolation", 0.0)}
    if spec.get("antialias"):
        attrs["antialias"] = 1
    node = helper.make_node("Resize", ["x", "roi", "scales" if scales else "", "" if scales else "sizes"], ["y"], **attrs)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [helper.make_tensor("roi", TensorProto.FLOAT, [len(spec.get("roi", []))], spec.get("roi", [])),
                               helper.make_tensor("scales", TensorProto.FLOAT, [len(scales or [])], scales or []),
                               helper.make_tensor("sizes", TensorProto.INT64, [len(shape)], shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        got = session.run(None, {"x": np.array(x.tolist(), np.float32).reshape(tuple(x.shape))})[0]
    except Exception as reason:
        print("not compared:", spec, str(reason)[:90])
        return False
    if got.shape != want.shape or np.abs(got - want).max() > 1e-4:
        print("differs from onnxruntime:", tuple(x.shape), shape, scales, spec, np.abs(got - want).max())
    return True


def add(dims, shape, scales, dtype="f32", **spec):
    x = cases.real(rnd(*dims), dtype)
    if scales:
        scales = [f32(s) for s in scales]
        shape = [math.floor(d * s) for d, s in zip(dims, scales)]
    out = resized(x, shape, scales, spec)
    compare(x, shape, scales, spec, out)
    cases.add("resize", [x], [torch.tensor(out.tolist()).reshape(tuple(shape))], dtype=dtype,
              shape=[] if scales else shape, scales=scales or [], **spec)


def all_modes():
    for mode, coordinates in itertools.product(
            ("nearest", "linear", "cubic"),
            ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")):
        add((1, 2, 4, 5), [1, 2, 7, 3], None, mode=mode, coordinates=coordinates)
        add((1, 1, 3, 4), None, [1, 1, 0.6, 1.8], mode=mode, coordinates=coordinates)
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        add((1, 1, 4, 4), [1, 1, 8, 6], None, mode="nearest", coordinates="half_pixel", rounding=rounding)
        add((1, 1, 4, 4), None, [1, 1, 2.0, 0.5], mode="nearest", coordinates="asymmetric", rounding=rounding)
        add((1, 1, 4, 4), [1, 1, 7, 8], None, mode="nearest", coordinates="tf_half_pixel_for_nn", rounding=rounding)
    for mode in ("linear", "cubic"):
        add((1, 1, 6, 7), [1, 1, 3, 4], None, mode=mode, coordinates="half_pixel", antialias=1, exclude_outside=1)
        add((1, 1, 6, 7), None, [1, 1, 0.4, 1.5], mode=mode, coordinates="half_pixel", antialias=1)
        add((1, 1, 4, 4), [1, 1, 3, 3], None, mode=mode, coordinates="half_pixel", exclude_outside=1)
        add((2, 5), [4, 9], None, "f64", mode=mode, coordinates="half_pixel")
        add((3, 2, 3), [3, 5, 2], None, "f16", mode=mode, coordinates="align_corners")
        add((1, 2, 2, 3, 3), [1, 2, 3, 4, 5], None, "bf16", mode=mode, coordinates="half_pixel")
    add((1, 1, 4, 4), [1, 1, 8, 8], None, mode="cubic", coordinates="half_pixel", cubic_a=-0.5)
    for mode in ("nearest", "linear"):
        add((1, 1, 4, 4), [1, 1, 3, 3], None, mode=mode, coordinates="tf_crop_and_resize",
            roi=[0.0, 0.0, 0.4, 0.6, 1.0, 1.0, 0.6, 0.8])
        add((1, 1, 4, 4), [1, 1, 3, 3], None, mode=mode, coordinates="tf_crop_and_resize",
            roi=[0.0, 0.0, 0.4, 0.6, 1.0, 1.0, 1.2, 1.7], extrapolation=10.0)
    x = torch.randint(-9, 9, (1, 2, 3))
    want = F.interpolate(x.double(), size=5, mode="nearest").long()
    for kind in (torch.int8, torch.int64, torch.bool):
        cases.add("resize", [x.to(kind)], [want.to(kind)], shape=[1, 2, 5], scales=[], mode="nearest",
                  coordinates="asymmetric", rounding="floor")
    x = cases.real(rnd(1, 2, 5, 6), "f64")
    same = [("linear", "half_pixel", "bilinear", False), ("linear", "align_corners", "bilinear", True),
            ("cubic", "half_pixel", "bicubic", False), ("cubic", "align_corners", "bicubic", True)]
    for mode, coordinates, name, corners in same:
        for size in ((3, 9), (7, 4)):
            out = F.interpolate(x, size=size, mode=name, align_corners=corners)
            cases.add("resize", [x], [out], dtype="f64", shape=[1, 2, *size], scales=[], mode=mode, coordinates=coordinates)
    out = F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True)
    cases.add("resize", [x], [out], dtype="f64", shape=[1, 2, 3, 4], scales=[], mode="linear", antialias=1, exclude_outside=1)


def twice():
    for dims, dtype in (((1, 2, 3, 5), "f32"), ((3, 2), "f64"), ((2, 3, 1), "f16"), ((2, 2, 9), "bf16")):
        x = cases.real(rnd(*dims), dtype).requires_grad_()
        out = x.repeat_interleave(2, -1).repeat_interleave(2, -2)
        dy = cases.real(rnd(*out.shape), dtype)
        cases.add("resize_nearest2x", [x], [out], dtype=dtype)
        cases.add("resize_nearest2x_backward", [dy], torch.autograd.grad(out, x, dy), dtype=dtype)
    x = torch.randint(0, 2, (2, 3, 3))
    for kind in (torch.bool, torch.int64, torch.int16):
        cases.add("resize_nearest2x", [x.to(kind)], [x.repeat_interleave(2, -1).repeat_interleave(2, -2).to(kind)])


all_modes()
twice()
cases.write(sys.argv[1])
