"""NumPy arrays as memory of tensor programs: element types, alignment, DLPack."""

import importlib
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from . import _declarations as d
from .errors import InvalidError

Array = NDArray[Any]

_NAMES: Dict[str, str] = {
    "f32": "float32",
    "f16": "float16",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "bool": "bool",
    "c64": "complex64",
}
_OF_NUMPY: Dict[Any, str] = {np.dtype(numpy): name for name, numpy in _NAMES.items()}


def _bfloat16() -> "np.dtype[Any]":
    """That of ml_dtypes where it is installed, else the bits as uint16."""
    try:
        found: np.dtype[Any] = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
        return found
    except ImportError:
        return np.dtype(np.uint16)


def numpy_dtype(name: str) -> "Optional[np.dtype[Any]]":
    """The NumPy type of an element type; None for quantised weights."""
    if name == "bf16":
        return _bfloat16()
    return np.dtype(_NAMES[name]) if name in _NAMES else None


def dtype_name(dtype: Any) -> str:
    """The element type of a NumPy type, or of its own name."""
    if isinstance(dtype, str) and (
        dtype in _NAMES or numpy_dtype(dtype) is None and dtype[:1] in "qi"
    ):
        return dtype
    if isinstance(dtype, str) and dtype == "bf16":
        return dtype
    found = np.dtype(dtype)
    if found.name == "bfloat16":
        return "bf16"
    if found not in _OF_NUMPY:
        raise InvalidError(f"there is no element type for NumPy's {found}")
    return _OF_NUMPY[found]


def empty(shape: Sequence[int], dtype: Any = "f32") -> Array:
    """A new array at an address that programs use without a copy (a multiple of 64).

    >>> x = sluice.empty((512, 512))
    >>> x[...] = numpy.random.rand(512, 512)
    """
    of = numpy_dtype(dtype_name(dtype))
    if of is None:
        raise InvalidError(f"{dtype} has no elements in NumPy; use bytes of uint8")
    count = int(np.prod(shape, dtype=np.int64)) * of.itemsize
    memory = np.empty(count + d.SL_BIND_ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % d.SL_BIND_ALIGNMENT
    return np.ndarray(tuple(shape), of, memory, start)


def is_aligned(array: Array) -> bool:
    """Whether a program uses an array where it is."""
    return bool(array.flags.c_contiguous) and address_of(array) % d.SL_BIND_ALIGNMENT == 0


def address_of(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def as_array(value: Any) -> Array:
    """An array over the memory of value where it has some: NumPy, or DLPack on the CPU."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        found: Array = np.from_dlpack(value)
        return found
    return np.asarray(value)


def fit_array(name: str, value: Any, dtype: str, shape: Tuple[int, ...]) -> Array:
    """The array of a tensor, with its type; lists and Python numbers are converted."""
    wanted = numpy_dtype(dtype)
    if wanted is None:
        return np.ascontiguousarray(as_array(value)).view(np.uint8).reshape(-1)
    if isinstance(value, (list, tuple, int, float, complex)):
        value = np.asarray(value, dtype=wanted)
    array = as_array(value)
    if array.dtype != wanted and not (dtype == "bf16" and array.dtype == np.uint16):
        raise InvalidError(f"'{name}' has elements of type {array.dtype}, wanted {dtype}")
    if array.shape != shape:
        raise InvalidError(f"'{name}' has the shape {list(array.shape)}, wanted {list(shape)}")
    return array
