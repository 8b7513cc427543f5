#!/usr/bin/env python3
"""Write tests/data/ops/splat.json: Gaussian splats drawn, and their gradients, by PyTorch in float64.

Every pixel looks at every splat, by the formulas of core/splat.h; gradients by autograd.
usage: make_splat_fixtures.py OUTPUT    (needs torch and numpy)
"""
import json
import math
import sys

import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(5)
C0, C1 = 0.28209479177387814, 0.4886025119029199
NEAR, FAR = 10, 11
cases = []


def tensor(x):
    return {"dtype": "f32", "dims": list(x.shape), "data": x.detach().flatten().tolist()}


def rounded(x):
    return x.float().double()


def rotation(q):
    w, x, y, z = (q / q.norm(dim=1, keepdim=True)).unbind(1)
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    return torch.stack(rows, 1).reshape(-1, 3, 3)


def rays(camera, width, height):
    eye, target, up = camera[0:3], camera[3:6], camera[6:9]
    forward = (target - eye) / (target - eye).norm()
    right = torch.linalg.cross(up, forward)
    right = right / right.norm()
    above = torch.linalg.cross(forward, right)
    focal = 0.5 * height / math.tan(float(camera[9]) * math.pi / 360)
    x = (torch.arange(width) + 0.5 - 0.5 * width) / focal
    y = (torch.arange(height) + 0.5 - 0.5 * height) / focal
    return forward, x[None, :, None] * right + y[:, None, None] * above + forward


def colors_of(color, harmonics, away):
    count = harmonics.shape[1]
    if count == 0:
        return color
    d = away / away.norm(dim=1, keepdim=True)
    out = 0.5 + C0 * harmonics[:, 0]
    if count >= 4:
        out = out + C1 * (-d[:, 1:2] * harmonics[:, 1] + d[:, 2:3] * harmonics[:, 2] - d[:, 0:1] * harmonics[:, 3])
    return out


def render(p, s, q, o, color, harmonics, camera, width, height, radius, cutoff, enough):
    away = camera[0:3] - p
    m = rotation(q).transpose(1, 2) / (radius * s.exp())[:, :, None]
    u = torch.einsum("nij,nj->ni", m, away)
    rgb = colors_of(color, harmonics, away)
    forward, ray = rays(camera, width, height)
    depth = -(away @ forward)
    distance = away.norm(dim=1)
    image = torch.zeros(height, width, 3)
    through = torch.ones(height, width)
    for i in torch.argsort(distance, stable=True).tolist():
        if not camera[NEAR] <= depth[i] <= camera[FAR]:
            continue
        d = torch.einsum("ij,hwj->hwi", m[i], ray)
        t = -(d @ u[i]) / (d * d).sum(-1)
        v = u[i] + t[..., None] * d
        alpha = o[i] * torch.exp(-0.5 * (v * v).sum(-1))
        counts = (t > 0) & (alpha >= cutoff) & (through >= enough)
        alpha = torch.where(counts, alpha, torch.zeros(()))
        image = image + (through * alpha)[..., None] * rgb[i]
        through = through * (1 - alpha)
    return torch.cat([image + through[..., None] * camera[12:15], 1 - through[..., None]], -1)


def case(count, harmonics, width, height, camera, **attrs):
    parts = [torch.randn(count, 3), torch.randn(count, 3) * 0.4 - 1.2, torch.randn(count, 4),
             torch.rand(count) * 0.9 + 0.05, torch.rand(count, 3), torch.randn(count, harmonics, 3) * 0.5]
    parts = [rounded(x).requires_grad_() for x in parts]
    camera = rounded(torch.tensor(camera))
    how = {key: float(rounded(torch.tensor(value))) for key, value in attrs.items()}
    image = render(*parts, camera, width, height, **how)
    grad = rounded(torch.randn(height, width, 4))
    image.backward(grad)
    text = ", ".join([f"width = {width}", f"height = {height}"] + [f"{k} = {v!r}" for k, v in how.items()])
    inputs = [tensor(x) for x in parts] + [tensor(camera)]
    grads = [x.grad if x.grad is not None else torch.zeros_like(x) for x in parts]
    cases.append({"op": "gaussian_splat_render", "attrs": text, "in": inputs, "out": [tensor(image)]})
    cases.append({"op": "gaussian_splat_backward", "attrs": text, "in": inputs + [tensor(grad)],
                  "out": [tensor(x) for x in grads]})


case(6, 1, 7, 5, [0, 0, -4, 0, 0, 0, 0, 1, 0, 60, 0.1, 100, 0.2, 0.3, 0.4], radius=1.0, cutoff=1 / 255, enough=1e-4)
case(9, 4, 6, 8, [3, 2, -3, 0, 0.5, 0, 0, -1, 0.2, 45, 0.5, 6, 1, 0, 0.5], radius=1.5, cutoff=0.01, enough=0.05)
case(5, 5, 4, 4, [0.2, 0, 0.1, 1, 0.5, 0, 0, 0, 1, 100, 0.01, 10, 0, 0, 0], radius=0.7, cutoff=0.0, enough=0.0)
case(4, 1, 3, 3, [0, 0, -5, 0, 0, 0, 0, 1, 0, 30, 0.1, 100, 0.1, 0.1, 0.1], radius=1.0, cutoff=0.002, enough=0.001)
with open(sys.argv[1], "w", encoding="utf-8") as out:
    out.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
