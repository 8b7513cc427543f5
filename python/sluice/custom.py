"""Ops of one's own: Python functions that programs call."""

import ctypes
from functools import partial
from typing import Any, Callable, Dict, List, Sequence, Tuple, Union

import numpy as np

from . import _declarations as d
from ._handle import create
from ._library import call, fill, lib
from .arrays import Array, dtype_name, numpy_dtype
from .errors import Problems
from .program import TensorType

Function = Callable[..., Any]
#: The types of the results, or a function that makes them of the types of the operands.
Results = Union[Sequence[Tuple[Any, Sequence[int]]], Callable[..., Any]]


class CustomOps:
    """The custom ops of a graph."""

    def __init__(self) -> None:
        self.handle = create(lib.sl_custom_ops_destroy, lib.sl_custom_ops_create)
        self.problems: Problems = []
        self._count = 0

    def add(self, function: Function, results: Results) -> str:
        """Adds an op, which lives as long as graphs and programs that use it; its name."""
        self._count += 1
        op = fill(d.sl_custom_op)
        fields: Dict[str, Any] = {one[0]: one[1] for one in d.sl_custom_op._fields_}
        op.name = name = f"python{self._count}".encode()
        shape, kernel = partial(_infer, results), partial(_compute, function)
        op.shape = fields["shape"](_guard(shape, self.problems))
        op.kernel = fields["kernel"](_guard(kernel, self.problems))
        self.handle.hold(op)
        call(lib.sl_custom_ops_add, self.handle, ctypes.byref(op))
        return name.decode()


def _guard(work: Callable[..., None], problems: Problems) -> Callable[..., int]:
    """A callback: what it raises is the error of the call."""

    def callback(_: Any, *given: Any) -> int:
        try:
            work(*given[:-1])
            return d.SL_OK
        except BaseException as error:
            problems.append(error)
            text = f"custom op: {type(error).__name__}: {error}".encode()
            if given[-1]:
                given[-1].contents.status = d.SL_INVALID
                given[-1].contents.message = text[:500]
            return d.SL_INVALID

    return callback


def _types(types: Any, count: int) -> List[TensorType]:
    found = (types[i] for i in range(count))
    return [TensorType(one.dtype.decode(), tuple(one.dims[: one.rank])) for one in found]


# Names of element types are borrowed by the library: they are never freed.
_WIDE = [kind + bits for kind in "iu" for bits in ("8", "16", "32", "64")]
_NAMES = {name: name.encode() for name in ["bf16", "f32", "f16", "f64", "bool", "c64", *_WIDE]}


def _infer(results: Results, given: Any, outputs: Any) -> None:
    inputs = _types(given.contents.inputs, given.contents.input_count)
    found = results(*inputs) if callable(results) else results
    if len(found) != given.contents.output_count:
        raise ValueError(f"{len(found)} types for {given.contents.output_count} results")
    for i, (dtype, shape) in enumerate(found):
        outputs[i].dtype, outputs[i].rank = _NAMES[dtype_name(dtype)], len(shape)
        outputs[i].dims[: len(shape)] = list(shape)


def _arrays(types: Any, addresses: Any, count: int) -> List[Array]:
    """Arrays over the memory of the program."""
    found = []
    pointers = ctypes.cast(addresses, ctypes.POINTER(ctypes.c_void_p))
    for i, kind in enumerate(_types(types, count)):
        of = numpy_dtype(kind.dtype)
        size = int(np.prod(kind.shape, dtype=np.int64)) * (of.itemsize if of is not None else 0)
        memory: Any = (ctypes.c_char * size).from_address(pointers[i] or 0) if size else None
        found.append(np.ndarray(kind.shape, of, memory))
    return found


def _compute(function: Function, given: Any, inputs: Any, outputs: Any) -> None:
    one = given.contents
    operands = _arrays(one.inputs, inputs, one.input_count)
    for operand in operands:
        operand.flags.writeable = False
    found = function(*operands)
    wanted = _arrays(one.outputs, outputs, one.output_count)
    for array, result in zip(wanted, found if isinstance(found, tuple) else (found,)):
        if np.shape(result) != array.shape:
            raise ValueError(f"the result has the shape {np.shape(result)}, wanted {array.shape}")
        np.copyto(array, result, casting="same_kind")
