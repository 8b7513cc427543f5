#!/usr/bin/env python3
"""Writes tests/data/ops/optimiser.json: steps of torch.optim in float64, several in a row.

Same form as fixtures.json (make_op_fixtures.py): the states come first, then what the step reads; the results are the
states after it.  Lion, which torch does not have, is computed by the formulas of its paper (arXiv 2302.06675).
Needs torch.
usage: make_optimiser_fixtures.py OUTPUT
"""
import json
import sys

import torch

torch.manual_seed(5)
STEPS = 3
cases = []


def tensor(value):
    return {"dtype": "f32", "dims": list(value.shape), "data": value.flatten().tolist()}


def rounded(*shape):
    return torch.randn(*shape, dtype=torch.float64).float().double()


def f32(value):
    return torch.tensor(value, dtype=torch.float32).double()


def case(op, attrs, inputs, outputs):
    cases.append({"op": op, "attrs": ", ".join("%s = %s" % (name, str(value).lower()) for name, value in attrs.items()),
                  "in": [tensor(x) for x in inputs], "out": [tensor(x) for x in outputs]})


def sgd(shape, rate, mu, decay, nesterov):
    x = rounded(*shape).requires_grad_()
    optimiser = torch.optim.SGD([x], lr=float(f32(rate)), momentum=float(f32(mu)), weight_decay=float(f32(decay)),
                                nesterov=nesterov)
    momentum = torch.zeros_like(x)
    for _ in range(STEPS):
        before, x.grad = [x.detach().clone(), momentum.clone()], rounded(*shape)
        optimiser.step()
        momentum = optimiser.state[x]["momentum_buffer"].clone()
        case("sgd_step", {"mu": mu, "decay": decay, "nesterov": nesterov}, before + [x.grad, f32([rate])],
             [x.detach(), momentum])


def adamw(shape, rate, beta1, beta2, eps, decay):
    x = rounded(*shape).requires_grad_()
    betas = (float(f32(beta1)), float(f32(beta2)))
    optimiser = torch.optim.AdamW([x], lr=float(f32(rate)), betas=betas, eps=float(f32(eps)),
                                  weight_decay=float(f32(decay)))
    mean, square = torch.zeros_like(x), torch.zeros_like(x)
    for step in range(1, STEPS + 1):
        before, x.grad = [x.detach().clone(), mean.clone(), square.clone()], rounded(*shape)
        optimiser.step()
        mean, square = (optimiser.state[x][name].clone() for name in ("exp_avg", "exp_avg_sq"))
        corrections = torch.tensor([1 - beta ** step for beta in betas], dtype=torch.float64)
        case("adamw_step", {"beta1": beta1, "beta2": beta2, "eps": eps, "decay": decay},
             before + [x.grad, f32([rate]), corrections], [x.detach(), mean, square])


def lion(shape, rate, beta1, beta2, decay):
    x, mean = rounded(*shape), torch.zeros(*shape, dtype=torch.float64)
    for _ in range(STEPS):
        g = rounded(*shape)
        direction = torch.sign(f32(beta1) * mean + (1 - f32(beta1)) * g)
        after = [x - f32(rate) * (direction + f32(decay) * x), f32(beta2) * mean + (1 - f32(beta2)) * g]
        case("lion_step", {"beta1": beta1, "beta2": beta2, "decay": decay}, [x, mean, g, f32([rate])], after)
        x, mean = after


def assign(shape):
    value = rounded(*shape)
    case("assign", {}, [rounded(*shape), value], [value])


for shape in ((3,), (2, 5), (1,)):
    sgd(shape, 0.1, 0.9, 0.0, False)
    sgd(shape, 0.05, 0.8, 0.01, True)
    adamw(shape, 0.01, 0.9, 0.999, 1e-8, 0.01)
    adamw(shape, 0.5, 0.8, 0.95, 1e-3, 0.1)
    lion(shape, 0.01, 0.9, 0.99, 0.1)
    assign(shape)
with open(sys.argv[1], "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
