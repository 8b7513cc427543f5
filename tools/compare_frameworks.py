#!/usr/bin/env python3
"""compare_frameworks.py - Speed of tensor programs beside PyTorch, ONNX Runtime and JAX.

    compare_frameworks.py [--sluice PATH] [--threads N] [--rounds N] [--json] [NAME ...]

Each subject is a PyTorch module.  PyTorch runs it eagerly and compiled, ONNX Runtime runs what
PyTorch exports of it, sluice imports the same file (or runs the program given as text where ONNX
has no word for it), JAX runs the transforms.  Engines take turns; of each the least of its
medians counts.  An engine that is not installed is left out.  `pip install torch onnx onnxruntime
jax` has them all.  The last columns are the best peer's time over ours, and for subjects that
memory bounds the bytes that must move over our time, in GB/s; "sum of two" computes next to nothing.
"""
import argparse
import contextlib
import importlib.metadata
import io
import json
import math
import pathlib
import statistics
import subprocess
import tempfile
import time
import warnings

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(1)
WIDE = (4096, 1024)


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Residual(nn.Module):
    """LayerNorm of a sum, as between the parts of a transformer."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, y):
        total = x + y
        return total, self.norm(total)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.gain


class Block(nn.Module):
    """One layer of a decoder: attention and a feed-forward part, norms before both."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, rows, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, rows, 3, self.heads, width // self.heads)
        q, k, v = (parts[:, :, i].transpose(1, 2) for i in range(3))
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, rows, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Separable(nn.Module):
    """A depthwise and a pointwise convolution."""

    def __init__(self, channels, out, stride=1):
        super().__init__()
        self.deep = nn.Conv2d(channels, channels, 3, stride, 1, groups=channels)
        self.point = nn.Conv2d(channels, out, 1)

    def forward(self, x):
        return F.relu(self.point(F.relu(self.deep(x))))


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def mobile_net():
    return nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), Separable(32, 64), Separable(64, 128, 2),
                         Separable(128, 128), Separable(128, 256, 2), Separable(256, 256),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))


def mlp(*widths):
    layers = []
    for i in range(len(widths) - 1):
        layers += [nn.Linear(widths[i], widths[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def light(a, b, row):
    return ((a * row + b) * 0.7 - a) * b


def heavy(a, b, row):
    return F.silu(a * row) + torch.tanh(b) * 0.5


def gelu_bias(x, y, bias):
    return x + F.gelu(y + bias)


def fft(x):
    return torch.fft.fft(torch.view_as_complex(x)).view(torch.float32)


class Subject:
    """A module, the shapes of its inputs, and what of it is known beside."""

    def __init__(self, name, module, *shapes, moved=0, text=None, jax=None):
        self.name, self.module, self.shapes, self.moved = name, module.eval(), shapes, moved
        self.text, self.jax = text, jax
        self.inputs = [torch.rand(shape) * 2 - 1 for shape in shapes]


def fft_subject(rows, length):
    text = (f'graph "fft" {{ input %x : c64[{rows},{length}]\n'
            f'  %y = fft(%x) {{inverse = 0, norm = 0}} : c64[{rows},{length}]\n  output "y" = %y }}\n')
    return Subject(f"fft {rows}x{length}", Call(fft), (rows, length, 2), text=text, jax="fft",
                   moved=16 * rows * length)


def subjects():
    size = 4 * math.prod(WIDE)
    yield Subject("sum of two", Call(torch.add), WIDE, WIDE, moved=3 * size)
    yield Subject("chain, light", Call(light), WIDE, WIDE, (WIDE[1],), moved=3 * size)
    yield Subject("chain, heavy", Call(heavy), WIDE, WIDE, (WIDE[1],), moved=3 * size)
    yield Subject("gelu, bias, residual", Call(gelu_bias), WIDE, WIDE, (WIDE[1],), moved=3 * size)
    yield Subject("chain in cache", Call(heavy), (64, 256), (64, 256), (256,))
    yield Subject("layer norm", nn.LayerNorm(WIDE[1]), WIDE, moved=2 * size)
    yield Subject("residual, layer norm", Residual(WIDE[1]), WIDE, WIDE, moved=4 * size)
    yield Subject("rms norm", RMSNorm(WIDE[1]), WIDE, moved=2 * size)
    yield Subject("softmax", Call(lambda x: F.softmax(x, -1)), WIDE, moved=2 * size)
    yield Subject("layer norm in cache", nn.LayerNorm(256), (64, 256))
    yield Subject("mlp 784-512-512-10 x 128", mlp(784, 512, 512, 10), (128, 784))
    yield Subject("mlp 784-512-512-10 x 1", mlp(784, 512, 512, 10), (1, 784))
    yield Subject("mlp 1024-4096-1024 x 256", mlp(1024, 4096, 1024), (256, 1024))
    yield Subject("matmul 1024", Call(torch.matmul), (1024, 1024), (1024, 1024))
    yield Subject("conv net, 8 of 64x64", conv_net(), (8, 3, 64, 64))
    yield Subject("separable net, 4 of 128x128", mobile_net(), (4, 3, 128, 128))
    yield Subject("transformer block 512, 2x256", Block(512, 8), (2, 256, 512))
    yield Subject("transformer block 768, 1x32", Block(768, 12), (1, 32, 768))
    heads = (2, 8, 512, 64)
    yield Subject("attention 2x8x512x64", Call(F.scaled_dot_product_attention), heads, heads, heads)
    yield fft_subject(1024, 1024)
    yield fft_subject(256, 1000)
    yield fft_subject(1, 1 << 20)


def median_time(run, least_seconds=0.3):
    run()
    times, start = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < least_seconds:
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def sluice_runner(subject, path, arguments):
    command = [arguments.sluice, "ir", "bench", path, "--device", "cpu", "--json", "-t",
               str(arguments.threads), "-r"]

    def measure(repeats):
        done = subprocess.run(command + [str(repeats)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return json.loads(done.stdout)["median_seconds"]

    repeats = int(min(3000, max(5, 0.3 / measure(3))))
    return lambda: measure(repeats)


def torch_runner(function, inputs):
    def run():
        with torch.inference_mode():
            function(*inputs)
    return lambda: median_time(run)


def onnx_runner(subject, path, arguments):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {item.name: value.numpy() for item, value in zip(session.get_inputs(), subject.inputs)}
    return lambda: median_time(lambda: session.run(None, feed))


def jax_runner(subject):
    import jax
    x = jax.numpy.asarray(torch.view_as_complex(subject.inputs[0]).numpy())
    run = jax.jit(jax.numpy.fft.fft)
    return lambda: median_time(lambda: run(x).block_until_ready())


def runners(subject, folder, arguments):
    """The engines that can run it, by name."""
    path = str(folder / "subject.onnx")
    if subject.text:
        path = str(folder / "subject.ir")
        pathlib.Path(path).write_text(subject.text, encoding="ascii")
    else:
        with contextlib.redirect_stdout(io.StringIO()):
            torch.onnx.export(subject.module, tuple(subject.inputs), path, opset_version=17, dynamo=False)
    found = {"sluice": lambda: sluice_runner(subject, path, arguments),
             "eager": lambda: torch_runner(subject.module, subject.inputs),
             "compiled": lambda: torch_runner(torch.compile(subject.module), subject.inputs)}
    if not subject.text:
        found["onnx"] = lambda: onnx_runner(subject, path, arguments)
    if subject.jax:
        found["jax"] = lambda: jax_runner(subject)
    ready = {}
    for name, make in found.items():
        try:
            ready[name] = make()
        except (ImportError, RuntimeError) as problem:
            print(f"  {subject.name}: no {name}: {str(problem).splitlines()[0]}", flush=True)
    return ready


def measure(subject, arguments):
    torch._dynamo.reset()  # pylint: disable=protected-access
    with tempfile.TemporaryDirectory() as folder:
        ready = runners(subject, pathlib.Path(folder), arguments)
        least = {name: math.inf for name in ready}
        for _ in range(arguments.rounds):
            for name, run in ready.items():
                least[name] = min(least[name], run())
    return least


def versions():
    for name in ("torch", "onnxruntime", "jax"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield f"{name} {importlib.metadata.version(name)}"


ENGINES = ("sluice", "eager", "compiled", "onnx", "jax")


def line(subject, times):
    cells = [f"{times[e] * 1e3:9.3f}" if e in times else f"{'-':>9}" for e in ENGINES]
    peers = [t for e, t in times.items() if e != "sluice"]
    ratio = f"{min(peers) / times['sluice']:7.2f}" if peers and "sluice" in times else f"{'-':>7}"
    rate = f"{subject.moved / times['sluice'] / 1e9:7.1f}" if subject.moved and "sluice" in times else ""
    return f"{subject.name:28} {' '.join(cells)} {ratio} {rate}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="subjects whose names begin so; default: all")
    parser.add_argument("--sluice", default="build/sluice", help="the program (build/sluice)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="how often the engines take turns")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(arguments.threads)
    print(", ".join(versions()), f"{arguments.threads} threads; milliseconds", sep=", ")
    print(f"{'':28} {' '.join(f'{e:>9}' for e in ENGINES)} {'ratio':>7} {'GB/s':>7}")
    results = {}
    for subject in subjects():
        if arguments.names and not any(subject.name.startswith(n) for n in arguments.names):
            continue
        results[subject.name] = measure(subject, arguments)
        print(line(subject, results[subject.name]), flush=True)
    if arguments.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
