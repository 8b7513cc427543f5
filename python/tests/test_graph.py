"""Tensor programs: operators and ops against NumPy."""

import inspect
from pathlib import Path
from typing import Any, Callable, Tuple

import numpy as np
import pytest
import sluice
from sluice import ops
from sluice._op_table import OPS

RANDOM = np.random.default_rng(1)


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RANDOM.uniform(0.1, 2, shape).astype(dtype)


X, Y = numbers(3, 4), numbers(3, 4)
BITS = np.array([5, -3, 12], np.int32)
OPERATORS: "list[Tuple[str, Callable[..., Any], Tuple[Any, ...]]]" = [
    ("add", lambda x, y: x + y, (X, Y)),
    ("sub", lambda x, y: x - y, (X, Y)),
    ("mul", lambda x, y: x * y, (X, Y)),
    ("div", lambda x, y: x / y, (X, Y)),
    ("mod", lambda x, y: x % y, (X, Y)),
    ("pow", lambda x, y: x**y, (X, Y)),
    ("numbers", lambda x: 1 - 2 * x / 3 + 2**x, (X,)),
    ("reversed", lambda x: 3 / x + 4 * x, (X,)),
    ("neg", lambda x: -abs(-x), (X,)),
    ("compare", lambda x, y: (x < y) | (x >= y) & ~(x == y) ^ (x != y), (X, Y)),
    ("at_most", lambda x, y: (x <= y) & (x > 0.5), (X, Y)),
    ("matmul", lambda x, y: x @ y, (X, numbers(4, 2))),
    ("broadcast", lambda x, y: x + y, (X, numbers(4))),
    ("bits", lambda x: (x & 6) | ~x ^ 1, (BITS,)),
    ("row", lambda x: x[1], (X,)),
    ("last", lambda x: x[..., -1], (X,)),
    ("part", lambda x: x[1:, ::2], (X,)),
    ("backwards", lambda x: x[::-1, 3:0:-2], (X,)),
    ("from_the_end", lambda x: x[:, -1::-1], (X,)),
    ("new_dim", lambda x: x[:, None, 1:3], (X,)),
    ("reshape", lambda x: x.reshape(2, -1).transpose(1, 0), (X,)),
    ("T", lambda x: x.T, (X,)),
    ("sum", lambda x: x.sum() + x.sum(axis=0), (X,)),
    ("mean", lambda x: x.mean(axis=(0, 1), keepdims=True), (X,)),
    ("max", lambda x: x.max(axis=-1) - x.min(axis=1), (X,)),
    ("astype", lambda x: x.astype(np.int32), (X * 3,)),
    ("f64", lambda x: x * 0.5, (numbers(5, dtype=np.float64),)),
    ("array_first", lambda x: Y * x, (X,)),
]


@pytest.mark.parametrize(
    ("name", "function", "given"), OPERATORS, ids=[one[0] for one in OPERATORS]
)
def test_operators_are_those_of_numpy(name: str, function: Any, given: Any) -> None:
    graph = sluice.Graph(name)
    values = [graph.input(f"x{i}", array.shape, array.dtype) for i, array in enumerate(given)]
    made = function(*values)
    graph.output("y", made)
    found, wanted = graph.compile()(*given), function(*given)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert made.shape == wanted.shape
    assert np.allclose(found, wanted, rtol=2e-6)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


NUMPY_OPS: "list[Tuple[str, Tuple[Any, ...], dict, Callable[..., Any]]]" = [
    (name, (X,), {}, getattr(np, name))
    for name in (
        "exp",
        "log",
        "sqrt",
        "tanh",
        "sin",
        "cos",
        "floor",
        "ceil",
        "sign",
        "log1p",
        "expm1",
    )
]
NUMPY_OPS += [
    ("softmax", (X,), {"axis": 0}, lambda x: softmax(x, 0)),
    ("maximum", (X, Y), {}, np.maximum),
    ("where", (X > 1, X, Y), {}, np.where),
    ("concat", (X, Y, X), {"axis": 1}, lambda *parts: np.concatenate(parts, 1)),
    ("reduce_prod", (X,), {"axes": [1]}, lambda x: x.prod(axis=1)),
    ("cumsum", (X,), {"axis": 1}, lambda x: x.cumsum(axis=1)),
    ("argsort", (X,), {}, lambda x: x.argsort()),
    ("argmax", (X,), {"axis": 0, "to": np.int64}, lambda x: x.argmax(axis=0)),
    ("transpose", (X,), {"perm": (1, 0)}, lambda x: x.T),
    ("expand", (X[:, :1],), {"shape": [3, 4]}, lambda x: np.broadcast_to(x, (3, 4))),
    ("gather", (X, np.array([2, 0])), {}, lambda x, i: x[i]),
    ("iota", (), {"shape": [4], "dtype": "i32"}, lambda: np.arange(4)),
    ("cast", (X,), {"to": "f64"}, lambda x: x.astype(np.float64)),
    ("linear", (X, numbers(5, 4)), {}, lambda x, w: x @ w.T),
    ("dense_solve", (numbers(3, 3) + 4 * np.eye(3, dtype="f4"), X), {}, np.linalg.solve),
    ("trilu", (X,), {"upper": True}, np.triu),
]


@pytest.mark.parametrize(
    ("name", "given", "options", "wanted"), NUMPY_OPS, ids=[o[0] for o in NUMPY_OPS]
)
def test_ops_on_arrays_are_those_of_numpy(name: str, given: Any, options: Any, wanted: Any) -> None:
    found = getattr(ops, name)(*given, **options)
    assert np.allclose(found, wanted(*given), rtol=1e-5, atol=1e-6)


def test_ops_with_several_results() -> None:
    found = ops.topk(X, k=2)
    assert np.array_equal(found.values, -np.sort(-X)[:, :2])
    assert np.array_equal(found.indices, np.argsort(-X)[:, :2])
    graph = sluice.Graph()
    parts = ops.split(graph.input("x", (3, 4)), axis=1, sizes=[1, 3])
    for i, part in enumerate(parts):
        graph.output(f"part{i}", part)
    results = graph.compile()(X)
    assert np.array_equal(results["part0"], X[:, :1]) and np.array_equal(results["part1"], X[:, 1:])


def test_every_op_has_a_function_with_its_attributes() -> None:
    assert len(ops.__all__) == len(OPS) > 150
    for op in OPS.values():
        function = getattr(ops, op.python_name)
        names = list(inspect.signature(function).parameters)
        assert names[: len(op.named_inputs)] == op.named_inputs
        assert {attribute.name for attribute in op.attributes} <= set(names) | set(op.named_inputs)
        assert " ".join(op.summary.split()) in " ".join(function.__doc__.split())
    assert str(inspect.signature(ops.layer_norm)) == "(x, gain, bias, *, axis=-1, eps=1e-5)"
    assert ops.if_.__name__ == "if_"


def test_mistakes_are_named() -> None:
    with pytest.raises(AttributeError, match="unknown op 'sofmax'; did you mean 'softmax'"):
        _ = ops.sofmax
    with pytest.raises(TypeError, match="unknown option 'axes'; did you mean 'axis'"):
        ops.softmax(X, axes=1)
    with pytest.raises(TypeError, match="operand 'bias' is missing"):
        ops.layer_norm(X, Y)
    with pytest.raises(TypeError, match="exp takes 1 operands, 2 were given"):
        ops.exp(X, Y)
    with pytest.raises(sluice.InvalidError, match="matmul"):
        ops.matmul(X, X)
    with pytest.raises(sluice.InvalidError, match="of another graph"):
        _ = sluice.Graph().input("x") + sluice.Graph().input("y")
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(sluice.Graph().input("x") == 1)
    program = simple_program()
    with pytest.raises(sluice.InvalidError, match=r"'x' has the shape \[3, 3\], wanted \[3, 4\]"):
        program(np.zeros((3, 3), np.float32))
    with pytest.raises(sluice.InvalidError, match="elements of type float64, wanted f32"):
        program(np.zeros((3, 4)))
    with pytest.raises(TypeError, match=r"inputs \['x'\] are missing"):
        program()
    with pytest.raises(TypeError, match="input 'z' is unknown"):
        program(z=X)


def simple_program() -> sluice.Program:
    graph = sluice.Graph("simple")
    x = graph.input("x", (3, 4))
    graph.output("y", x * 2.0)
    return graph.compile()


def mlp() -> sluice.Graph:
    graph = sluice.Graph("mlp")
    x = graph.input("x", (2, 4))
    w = graph.weight("w", np.arange(12, dtype=np.float32).reshape(4, 3) / 10)
    with graph.scope("layer 0"):
        graph.output("y", ops.softmax(x @ w + np.ones(3, np.float32)))
    return graph


def test_graphs_are_kept_in_text_and_files(tmp_path: Path) -> None:
    graph = mlp()
    assert "matmul(%x, %w)" in graph.text() and 'scope "layer 0"' in graph.text()
    again = sluice.Graph.read(graph.text())
    assert again.text() == graph.text()
    graph.save(tmp_path / "mlp.graph")
    assert sluice.Graph.load(tmp_path / "mlp.graph").text() == graph.text()
    kinds = [(item.kind, item.name, item.type) for item in graph.items()]
    assert kinds[0] == ("input", "x", sluice.TensorType("f32", (2, 4)))
    with pytest.raises(sluice.Error, match="line 1"):
        sluice.Graph.read("grap")


def test_weights_and_devices() -> None:
    x = numbers(2, 4)
    w = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
    for device in ("cpu", "ref"):
        program = mlp().compile(device=device)
        assert np.allclose(program(x), softmax(x @ w + 1, 1), rtol=1e-5)
    program["w"] = np.zeros((4, 3), np.float32)
    assert np.allclose(program(x), 1 / 3) and not program["w"].any()
    assert repr(program) == "<sluice.Program (x: f32[2, 4]) -> (y: f32[2, 3])>"
    assert program.timing["runs"] == 2


def test_states_are_kept_and_shared() -> None:
    graph = sluice.Graph()
    total = graph.state("total", (3,))
    graph.output("now", ops.assign(total, total + graph.input("x", (3,))))
    first = graph.compile()
    second = graph.compile(share=first)
    assert first([1, 2, 3]).tolist() == [1, 2, 3]
    assert second([1, 1, 1]).tolist() == [2, 3, 4]
    assert first["total"].tolist() == [2, 3, 4]
    first["total"] = [0, 0, 0]
    assert second([1, 1, 1]).tolist() == [1, 1, 1]


def test_symbolic_sizes() -> None:
    graph = sluice.Graph()
    rows = graph.symbol("rows")
    x = graph.input("x", (rows, 4))
    w = graph.weight("w", numbers(4, 2))
    graph.output("y", x @ w)
    program = graph.compile()
    for count in (1, 5, 2, 5):
        given = numbers(count, 4)
        assert np.allclose(program(given), given @ graph._weights["w"], rtol=1e-5)
    assert len(program._programs) == 3
    assert repr(program) == "<sluice.SizedProgram (x: [rows, 4])>"
    with pytest.raises(TypeError, match="input 'x' is missing"):
        program()


def test_bodies() -> None:
    body = sluice.Graph("double")
    body.output("y", body.input("x") * 2.0)
    condition = sluice.Graph("small")
    condition.output("go", condition.input("x") < 100.0)
    graph = sluice.Graph()
    x = graph.input("x")
    graph.output("y", ops.while_(x, condition=condition, body=body))
    assert float(graph.compile()(3.0)) == 192
    assert float(ops.custom_fn(np.float32(3), body=body)) == 6


def test_custom_ops_call_python() -> None:
    graph = sluice.Graph()
    rows = graph.symbol("rows")
    x = graph.input("x", (rows, 3))
    sinc = graph.custom(np.sinc, x * 2.0, results=lambda kind: [kind])
    low, high = graph.custom(
        lambda a: (a.min(axis=1), a.max(axis=1)),
        sinc,
        results=lambda kind: [(kind.dtype, kind.shape[:1])] * 2,
    )
    graph.output("low", low)
    graph.output("high", high + 1.0)
    program = graph.compile()
    del graph, rows, sinc, low, high
    for count in (2, 4):
        given = numbers(count, 3)
        found, wanted = program(given), np.sinc(given * 2)
        assert np.allclose(found["low"], wanted.min(axis=1), atol=1e-6)
        assert np.allclose(found["high"], wanted.max(axis=1) + 1, atol=1e-6)


def test_exceptions_of_custom_ops_are_told() -> None:
    graph = sluice.Graph()

    def fail(x: np.ndarray) -> np.ndarray:
        x[0] = 1
        return x

    graph.output("y", graph.custom(fail, graph.input("x", (2,)), results=[("f32", (2,))]))
    with pytest.raises(sluice.InvalidError, match="custom op: ValueError: .*read-only") as caught:
        graph.compile()([1.0, 2.0])
    assert isinstance(caught.value.__cause__, ValueError)  # with its traceback
    short = sluice.Graph()
    short.output("y", short.custom(np.sum, short.input("x", (2,)), results=[("f32", (2,))]))
    with pytest.raises(sluice.InvalidError, match=r"has the shape \(\), wanted \(2,\)"):
        short.compile()([1.0, 2.0])


def test_an_interrupt_in_a_custom_op_is_one() -> None:
    def interrupted(x: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    body = sluice.Graph("body")
    x = body.input("x")
    body.output("y", body.custom(interrupted, x, results=[("f32", ())]))
    with pytest.raises(KeyboardInterrupt):
        body.compile()(1.0)
    graph = sluice.Graph()
    y = sluice.ops.custom_fn(graph.input("x"), body=body)
    graph.output("y", y)
    with pytest.raises(KeyboardInterrupt):
        graph.compile()(1.0)


def test_an_error_in_a_shape_function_has_its_cause() -> None:
    graph = sluice.Graph()
    x = graph.input("x", (graph.symbol("rows"), 3))

    def types(kind: sluice.TensorType) -> list:
        return [(kind.dtype, {7: (7,)}.get(kind.shape[0]) or kind.shape[1:])]

    graph.output("y", graph.custom(lambda a: a[0], x, results=types))
    assert graph.compile()(numbers(2, 3)).shape == (3,)
    broken = sluice.Graph()
    with pytest.raises(ZeroDivisionError):
        broken.custom(abs, broken.input("x", (2,)), results=lambda kind: [("f32", (1 // 0,))])
