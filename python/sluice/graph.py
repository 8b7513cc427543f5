"""Tensor programs: graphs of ops on symbolic values."""

import ctypes
import os
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _declarations as d
from ._handle import Handle, Owner, create
from ._library import call, fill, lib, take_text
from .arrays import Array, address_of, as_array, dtype_name, fit_array, numpy_dtype
from .custom import CustomOps, Function, Results
from .errors import InvalidError, Problems, raised_in
from .program import Program, SizedProgram, TensorType

Operand = Union["Value", Array, int, float, bool, Sequence[Any]]


class Symbol(int):
    """A size that a program learns when it runs; in types it counts as the number that it is."""

    name: str

    def __repr__(self) -> str:
        return self.name


class Value:
    """A tensor of a graph that is being built.

    It has the operators of NumPy, and `sluice.ops` has all ops.  There is no type promotion:
    numbers and lists become constants of the value's own type, arrays keep theirs.
    """

    __slots__ = ("graph", "_value", "dtype", "shape")
    __array_ufunc__ = None  # so that NumPy leaves `array + value` to this class

    def __init__(self, graph: "Graph", value: Any) -> None:
        kind = d.sl_tensor_type()
        call(lib.sl_value_type, graph._live(), value, ctypes.byref(kind))
        self.graph, self._value = graph, value
        self.dtype: str = kind.dtype.decode()
        self.shape: Tuple[int, ...] = tuple(kind.dims[: kind.rank])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<Value {self.dtype}{list(self.shape)}>"

    def __hash__(self) -> int:
        return id(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TypeError("a symbolic value is neither true nor false; use ops.where or ops.if_")

    def _op(self, name: str, *operands: Operand, **attributes: Any) -> "Value":
        result = self.graph.apply(name, *operands, **attributes)
        assert isinstance(result, Value)
        return result

    def __add__(self, other: Operand) -> "Value":
        return self._op("add", self, other)

    def __radd__(self, other: Operand) -> "Value":
        return self._op("add", other, self)

    def __sub__(self, other: Operand) -> "Value":
        return self._op("sub", self, other)

    def __rsub__(self, other: Operand) -> "Value":
        return self._op("sub", other, self)

    def __mul__(self, other: Operand) -> "Value":
        return self._op("mul", self, other)

    def __rmul__(self, other: Operand) -> "Value":
        return self._op("mul", other, self)

    def __truediv__(self, other: Operand) -> "Value":
        return self._op("div", self, other)

    def __rtruediv__(self, other: Operand) -> "Value":
        return self._op("div", other, self)

    def __mod__(self, other: Operand) -> "Value":
        return self._op("mod", self, other)

    def __pow__(self, other: Operand) -> "Value":
        return self._op("pow", self, other)

    def __rpow__(self, other: Operand) -> "Value":
        return self._op("pow", other, self)

    def __matmul__(self, other: Operand) -> "Value":
        return self._op("matmul", self, other)

    def __rmatmul__(self, other: Operand) -> "Value":
        return self._op("matmul", other, self)

    def __neg__(self) -> "Value":
        return self._op("neg", self)

    def __abs__(self) -> "Value":
        return self._op("abs", self)

    def __lt__(self, other: Operand) -> "Value":
        return self._op("less", self, other)

    def __le__(self, other: Operand) -> "Value":
        return self._op("less_equal", self, other)

    def __gt__(self, other: Operand) -> "Value":
        return self._op("greater", self, other)

    def __ge__(self, other: Operand) -> "Value":
        return self._op("greater_equal", self, other)

    def __eq__(self, other: object) -> "Value":  # type: ignore[override]
        return self._op("equal", self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> "Value":  # type: ignore[override]
        return self._op("not_equal", self, other)  # type: ignore[arg-type]

    def _bits(self, name: str) -> str:
        return ("logical_" if self.dtype == "bool" else "bitwise_") + name

    def __and__(self, other: Operand) -> "Value":
        return self._op(self._bits("and"), self, other)

    def __or__(self, other: Operand) -> "Value":
        return self._op(self._bits("or"), self, other)

    def __xor__(self, other: Operand) -> "Value":
        return self._op(self._bits("xor"), self, other)

    def __invert__(self) -> "Value":
        return self._op(self._bits("not"), self)

    def __getitem__(self, key: Any) -> "Value":
        """Integers, slices, `...` and None, as in NumPy."""
        keys = list(key) if isinstance(key, tuple) else [key]
        taken = sum(one is not None and one is not Ellipsis for one in keys)
        if Ellipsis not in keys:
            keys.append(Ellipsis)
        at = keys.index(Ellipsis)
        keys[at : at + 1] = [slice(None)] * (self.ndim - taken)
        if sum(one is not None for one in keys) != self.ndim:
            raise IndexError(f"too many indices for a value of {self.ndim} dims")
        return self._slice(keys)

    def _slice(self, keys: List[Any]) -> "Value":
        starts, ends, steps, shape = [], [], [], []
        axis = 0
        for one in keys:
            if one is None:
                shape.append(1)
                continue
            size = self.shape[axis]
            axis += 1
            if isinstance(one, slice):
                start, end, step = one.indices(size)
                shape.append(len(range(start, end, step)))
            else:
                index = int(one)
                if not -size <= index < size:
                    raise IndexError(f"index {index} is out of range for a dim of {size}")
                start, step = index % size, 1
                end = start + 1
            starts.append(start)
            ends.append(end if end >= 0 else -size - 1)  # -1 would be the last element
            steps.append(step)
        part = self._op("strided_slice", self, starts=starts, ends=ends, steps=steps)
        return part if part.shape == tuple(shape) else part.reshape(*shape)

    def reshape(self, *shape: Any) -> "Value":
        """The same elements with another shape; one dim may be -1."""
        dims = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return self._op("reshape", self, shape=list(dims))

    def transpose(self, *axes: int) -> "Value":
        """Dim i of the result is dim axes[i]; without axes they are reversed."""
        return self._op("transpose", self, perm=list(axes) or list(range(self.ndim))[::-1])

    @property
    def T(self) -> "Value":  # noqa: N802 - as in NumPy
        return self.transpose()

    def astype(self, dtype: Any) -> "Value":
        """The same numbers in another type."""
        return self._op("cast", self, to=dtype_name(dtype))

    def _reduce(self, op: str, axis: Any, keepdims: bool) -> "Value":
        axes = (
            list(range(self.ndim))
            if axis is None
            else [axis]
            if isinstance(axis, int)
            else list(axis)
        )
        return self._op(op, self, axes=axes, keep=keepdims)

    def sum(self, axis: Any = None, keepdims: bool = False) -> "Value":
        return self._reduce("reduce_sum", axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> "Value":
        return self._reduce("reduce_mean", axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> "Value":
        return self._reduce("reduce_max", axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> "Value":
        return self._reduce("reduce_min", axis, keepdims)


class Item(NamedTuple):
    """A declared value of a graph, or an output."""

    kind: str
    name: str
    type: TensorType


class Graph(Owner):
    """A tensor program that is being built.

    >>> g = sluice.Graph()
    >>> x = g.input("x", (2, 4))
    >>> w = g.weight("w", numpy.ones((4, 3), numpy.float32))
    >>> g.output("y", sluice.ops.softmax(x @ w + 1.0))
    >>> f = g.compile()
    >>> f(numpy.zeros((2, 4), numpy.float32))
    """

    def __init__(self, name: str = "graph") -> None:
        self._adopt(create(lib.sl_graph_destroy, lib.sl_graph_create, name.encode(), None))

    def _adopt(self, handle: Handle) -> None:
        self._handle = handle
        self._constants = 0
        self._custom: Optional[CustomOps] = None
        self._problems: Dict[int, Problems] = {}  # of its custom ops and of those of its bodies
        self._weights: Dict[str, Array] = {}
        self._symbols: Dict[str, Symbol] = {}
        self._symbolic: Dict[str, Tuple[int, ...]] = {}  # inputs whose shape has symbols

    @classmethod
    def _of(cls, handle: Handle) -> "Graph":
        made = object.__new__(cls)
        made._adopt(handle)
        return made

    @classmethod
    def read(cls, text: str) -> "Graph":
        """A graph of its text form (docs/ops.md)."""
        data = text.encode()
        return cls._of(create(lib.sl_graph_destroy, lib.sl_graph_read, data, len(data)))

    @classmethod
    def load(cls, path: "Union[str, os.PathLike[str]]") -> "Graph":
        """A graph of a file in the binary form."""
        return cls._of(create(lib.sl_graph_destroy, lib.sl_graph_load, os.fsencode(path)))

    @classmethod
    def from_onnx(cls, model: bytes, shapes: str = "") -> "Graph":
        """An ONNX model; shapes that it leaves open are given as "x=1,3,224,224; y=8"."""
        return cls._of(
            create(
                lib.sl_graph_destroy,
                lib.sl_graph_import_onnx,
                model,
                len(model),
                shapes.encode() or None,
            )
        )

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes the binary form."""
        call(lib.sl_graph_save, self._live(), os.fsencode(path))

    def text(self) -> str:
        """The text form."""
        out = ctypes.c_void_p()
        call(lib.sl_graph_text, self._live(), ctypes.byref(out))
        return take_text(out)

    # ---- declarations ----

    def symbol(self, name: str, size: int = 0) -> Symbol:
        """A size that is known when the program runs, for shapes of inputs.

        size: what types are inferred with until then; default: one is chosen.
        """
        made = Symbol(lib.sl_graph_add_symbol(self._live(), name.encode(), size))
        made.name = name
        self._check()
        self._symbols[name] = made
        return made

    def _declare(
        self, function: Any, name: str, dtype: Any, shape: Sequence[int], *data: Any
    ) -> Value:
        dims = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        value = function(
            self._live(), name.encode(), dtype_name(dtype).encode(), len(shape), dims, *data
        )
        self._check()
        return Value(self, value)

    def input(self, name: str, shape: Sequence[int] = (), dtype: Any = "f32") -> Value:
        """A tensor that is given to each run."""
        value = self._declare(lib.sl_graph_add_input, name, dtype, shape)
        if any(isinstance(size, Symbol) for size in shape):
            self._symbolic[name] = tuple(shape)
        return value

    def weight(self, name: str, array: Any, dtype: Any = None) -> Value:
        """A tensor that is set once: by this array, or, if it is a shape, through the program."""
        if isinstance(array, tuple):
            return self._declare(lib.sl_graph_add_weight, name, dtype or "f32", array)
        found = as_array(array)
        value = self._declare(lib.sl_graph_add_weight, name, dtype or found.dtype, found.shape)
        self._weights[name] = found
        return value

    def state(self, name: str, shape: Sequence[int], dtype: Any = "f32") -> Value:
        """A tensor that is kept from run to run; zeros at first."""
        return self._declare(lib.sl_graph_add_state, name, dtype, shape)

    def constant(self, array: Any, name: Optional[str] = None, dtype: Any = None) -> Value:
        """A tensor that is part of the graph."""
        found = np.ascontiguousarray(as_array(array))
        if dtype is not None and numpy_dtype(dtype_name(dtype)) is not None:
            found = found.astype(numpy_dtype(dtype_name(dtype)), copy=False)
        self._constants += 1
        return self._declare(
            lib.sl_graph_add_constant,
            name or f"constant{self._constants}",
            dtype or found.dtype,
            np.shape(array),
            address_of(found),
        )

    def output(self, name: str, value: Value) -> None:
        """Names a value that runs return."""
        lib.sl_graph_add_output(self._live(), name.encode(), value._value)
        self._check()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Labels the ops of a block in traces and timings: "layer 3"."""
        lib.sl_graph_set_scope(self._live(), name.encode())
        try:
            yield
        finally:
            lib.sl_graph_set_scope(self._live(), b"")

    # ---- nodes ----

    def apply(
        self,
        op: str,
        *operands: Operand,
        results: Optional[int] = None,
        bodies: Optional[Mapping[str, "Graph"]] = None,
        **attributes: Any,
    ) -> Any:
        """A node of any op: its only result, or a tuple.  `sluice.ops` has a function for each op.

        results: how many, of ops that do not know it themselves (custom, gradients of scan).
        bodies: graphs of if, while, scan and custom_fn, by the names of their attributes.
        """
        kind = next((one.dtype for one in operands if isinstance(one, Value)), None)
        values = [self._operand(one, kind)._value for one in operands]
        inputs = (d.sl_value * max(1, len(values)))(*values)
        room = results or 64
        outputs = (d.sl_value * room)()
        given = bodies or {}
        specs = (d.sl_body_spec * max(1, len(given)))(
            *(
                d.sl_body_spec(name.encode(), graph._live()._as_parameter_.value)
                for name, graph in given.items()
            )
        )
        node = fill(d.sl_node_spec)
        node.op, node.attrs = op.encode(), attributes_text(attributes).encode() or None
        node.inputs, node.input_count = inputs, len(values)
        node.outputs, node.output_count = outputs, room
        node.bodies, node.body_count = specs, len(given)
        count = lib.sl_graph_add_node(self._live(), ctypes.byref(node))
        self._check()
        for graph in given.values():
            if graph._custom is not None:
                self._live().keep(graph._custom.handle)
            self._problems.update(graph._problems)
        made = tuple(Value(self, d.sl_value(outputs[i].v)) for i in range(count))
        return made[0] if count == 1 else made

    def custom(self, function: Function, *operands: Operand, results: Results) -> Any:
        """A node that calls a Python function with arrays, on the CPU (or for it, on a GPU).

        The operands are views that cannot be written; the function returns an array, or a tuple.
        Any thread of the library may call it.  It must not refer to the graph, which would live on.
        results: type and shape of each result, or a function of the operands' types.

        >>> y = g.custom(numpy.sinc, x, results=[("f32", x.shape)])
        """
        if self._custom is None:
            self._custom = CustomOps()
            self._live().keep(self._custom.handle)
            self._problems[id(self._custom.problems)] = self._custom.problems
            lib.sl_graph_use_custom_ops(self._live(), self._custom.handle)
        values = [self._operand(one, None) for one in operands]
        types = [TensorType(value.dtype, value.shape) for value in values]
        name = self._custom.add(function, results)
        count = len(results(*types) if callable(results) else results)
        with raised_in(self._custom.problems):
            return self.apply("custom", *values, results=count, name=f'"{name}"')

    def _use_custom_of(self, other: "Graph") -> None:
        if other._custom is not None:
            self._custom = other._custom
            self._live().keep(other._custom.handle)
        self._problems.update(other._problems)

    def _operand(self, operand: Operand, kind: Optional[str]) -> Value:
        if isinstance(operand, Value):
            if operand.graph is not self:
                raise InvalidError("a value of another graph was given")
            return operand
        if isinstance(operand, (bool, int, float, complex)):
            return self.constant(operand, dtype=kind or "f32")
        return self.constant(operand)

    def _check(self) -> None:
        call(lib.sl_graph_check, self._live())

    # ---- what it has ----

    def items(self) -> List[Item]:
        """The declared values, then the outputs."""
        found = []
        for index in range(lib.sl_graph_item_count(self._live())):
            item = fill(d.sl_graph_item)
            call(lib.sl_graph_item_at, self._live(), index, ctypes.byref(item))
            found.append(
                Item(
                    item.kind.decode(),
                    item.name.decode(),
                    TensorType(item.dtype.decode(), tuple(item.dims[: item.rank])),
                )
            )
        return found

    def with_sizes(self, **sizes: int) -> "Graph":
        """A graph in which every symbol has a size."""
        pairs = (d.sl_symbol_size * max(1, len(sizes)))(
            *(d.sl_symbol_size(name.encode(), size) for name, size in sizes.items())
        )
        with raised_in(*self._problems.values()):
            made = Graph._of(
                create(
                    lib.sl_graph_destroy, lib.sl_graph_with_sizes, self._live(), pairs, len(sizes)
                )
            )
        made._weights = dict(self._weights)
        made._use_custom_of(self)
        return made

    # ---- compiling ----

    def compile(
        self,
        *,
        device: Optional[str] = None,
        threads: int = 0,
        isa: Optional[str] = None,
        options: str = "",
        share: Optional[Program] = None,
    ) -> Any:
        """A `Program` for a device; of a graph with symbols a `SizedProgram`.

        options: words of include/sluice/inspect.h, such as "no-fusion".
        share: a program whose weights and states are used, where the names are the same.
        """
        if self._symbols:
            return SizedProgram(
                self,
                self._symbols,
                self._symbolic,
                dict(device=device, threads=threads, isa=isa, options=options, share=share),
            )
        how = fill(d.sl_compile_options)
        how.device = device.encode() if device else None
        how.isa = isa.encode() if isa else None
        how.threads, how.compile = threads, options.encode() or None
        how.share = share._live()._as_parameter_ if share is not None else None
        with raised_in(*self._problems.values()):
            handle = create(
                lib.sl_compiled_destroy,
                lib.sl_compile,
                self._live(),
                ctypes.byref(how),
                keeps=(self._live(),),
            )
        program = Program(handle, self.items(), share, list(self._problems.values()))
        for name, array in self._weights.items():
            if share is None or name not in share.weights:
                program._give(name, fit_array(name, array, *program.weights[name]))
        return program


def attribute_text(value: Any) -> str:
    """An attribute as the text form has it."""
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, range, np.ndarray)):
        return "[" + ",".join(attribute_text(one) for one in value) + "]"
    if isinstance(value, str):
        return value
    if isinstance(value, (np.dtype, type)):
        return dtype_name(value)
    return repr(value.item() if isinstance(value, np.generic) else value)


def attributes_text(attributes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={attribute_text(value)}" for name, value in attributes.items())
