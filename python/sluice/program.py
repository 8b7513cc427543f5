"""Compiled graphs: functions on NumPy arrays that share their memory."""

import ctypes
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from . import _declarations as d
from ._handle import Handle, Owner
from ._library import call, fill, lib
from .arrays import Array, address_of, empty, fit_array, is_aligned, numpy_dtype
from .errors import InvalidError, Problems, raised_in

if TYPE_CHECKING:
    from .graph import Graph, Item, Symbol


class TensorType(NamedTuple):
    """Element type and shape."""

    dtype: str
    shape: Tuple[int, ...]


Results = Union[Array, Dict[str, Array]]


class Program(Owner):
    """A compiled graph: a function of its inputs.

    Inputs at aligned addresses (`sluice.empty`, PyTorch's tensors) are read in place, others are
    copied; results are written into new arrays, or into those given as `out`.  A program is used
    by one thread at a time.

    >>> y = f(x)                     # the only output, or a dict of all
    >>> f(x, out=y)                  # into an array of your own
    >>> f["h"]                       # a weight or state
    """

    def __init__(
        self,
        handle: Handle,
        items: "Sequence[Item]",
        share: "Optional[Program]" = None,
        customs: Sequence[Problems] = (),
    ) -> None:
        self._handle = handle
        self._customs = customs
        kinds: Dict[str, Dict[str, TensorType]] = {}
        for item in items:
            kinds.setdefault(item.kind, {})[item.name] = item.type
        self.inputs: Dict[str, TensorType] = kinds.get("input", {})
        self.weights: Dict[str, TensorType] = kinds.get("weight", {})
        self.states: Dict[str, TensorType] = kinds.get("state", {})
        self.outputs: Dict[str, TensorType] = kinds.get("output", {})
        self._bound: Dict[str, Array] = {}  # memory of inputs and outputs that the program uses now
        # Memory of weights and states: of all programs that share them, as long as one is there.
        self._shared: Dict[str, Array] = share._shared if share is not None else {}
        self._own: Dict[str, Array] = {}  # for arrays that it cannot use

    def __repr__(self) -> str:
        def names(of: Mapping[str, TensorType]) -> str:
            return ", ".join(f"{name}: {kind.dtype}{list(kind.shape)}" for name, kind in of.items())

        return f"<sluice.Program ({names(self.inputs)}) -> ({names(self.outputs)})>"

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Results:
        """Runs the program.  Inputs in the order of their declaration, or by name."""
        for name, value in self._inputs(arrays, named).items():
            self._give(name, fit_array(name, value, *self.inputs[name]))
        results = self._outputs(out)
        for name, array in results.items():
            self._write_to(name, array)
        if self._customs:
            with raised_in(*self._customs):
                call(lib.sl_compiled_run, self._live())
        else:
            call(lib.sl_compiled_run, self._live())
        for name, array in results.items():
            if self._bound[name] is not array:
                np.copyto(array, self._bound[name])
        return next(iter(results.values())) if len(results) == 1 else results

    def _inputs(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> Dict[str, Any]:
        if len(arrays) > len(self.inputs):
            raise TypeError(f"the program has {len(self.inputs)} inputs, {len(arrays)} were given")
        given = dict(zip(self.inputs, arrays))
        for name, value in named.items():
            if name not in self.inputs or name in given:
                raise TypeError(
                    f"input {name!r} is {'given twice' if name in given else 'unknown'};"
                    f" the program has {list(self.inputs)}"
                )
            given[name] = value
        missing = [name for name in self.inputs if name not in given and name not in self._bound]
        if missing:
            raise TypeError(f"inputs {missing} are missing")
        return given

    def _outputs(self, out: Any) -> Dict[str, Array]:
        if out is None:
            return {name: empty(kind.shape, kind.dtype) for name, kind in self.outputs.items()}
        given = (
            out
            if isinstance(out, Mapping)
            else dict(zip(self.outputs, out if isinstance(out, (list, tuple)) else [out]))
        )
        if set(given) != set(self.outputs):
            raise TypeError(f"out has {list(given)}, the program has {list(self.outputs)}")
        for name, array in given.items():
            if not isinstance(array, np.ndarray) or not array.flags.writeable:
                raise TypeError(f"out: '{name}' is not an array that can be written")
            fit_array(name, array, *self.outputs[name])
        return {name: given[name] for name in self.outputs}

    # ---- memory ----

    def _bind(self, name: str, array: Array) -> None:
        own = name in self.inputs or name in self.outputs
        bound = self._bound if own else self._shared
        if bound.get(name) is not array:
            call(lib.sl_compiled_bind, self._live(), name.encode(), address_of(array), array.nbytes)
            bound[name] = array

    def _give(self, name: str, array: Array) -> None:
        """The program reads the array where it is, or a copy."""
        if not is_aligned(array):
            own = self._own.get(name)
            if own is None or own.shape != array.shape or own.dtype != array.dtype:
                own = self._own[name] = _aligned_like(array)
            np.copyto(own, array)
            array = own
        self._bind(name, array)

    def _write_to(self, name: str, array: Array) -> None:
        """The program writes an output to the array, or to memory of its own."""
        if not is_aligned(array):
            if name not in self._own:
                self._own[name] = _aligned_like(array)
            array = self._own[name]
        self._bind(name, array)

    def bind(self, name: str, array: Array) -> None:
        """From now on an input, weight, state or output is this memory: nothing is copied.

        The array is contiguous and at an address that is a multiple of 64 (`sluice.empty`).
        Weights and states of programs that share them are bound for all of these.
        """
        kinds = {**self.inputs, **self.weights, **self.states, **self.outputs}
        if name not in kinds:
            raise KeyError(name)
        array = fit_array(name, array, *kinds[name])
        if (name in self.states or name in self.outputs) and not array.flags.writeable:
            raise TypeError(f"'{name}': the program writes there, and the array is read-only")
        if not is_aligned(array):
            raise InvalidError(
                f"'{name}': the array is not contiguous at a multiple of"
                f" {d.SL_BIND_ALIGNMENT} bytes; sluice.empty makes one"
            )
        self._bind(name, array)

    def __getitem__(self, name: str) -> Array:
        """A copy of an input, weight, state or output."""
        kinds = {**self.inputs, **self.weights, **self.states, **self.outputs}
        if numpy_dtype(kinds[name].dtype) is None:
            raise InvalidError(f"'{name}' is {kinds[name].dtype}, which NumPy does not have")
        found = empty(kinds[name].shape, kinds[name].dtype)
        call(
            lib.sl_compiled_get_at, self._live(), name.encode(), 0, address_of(found), found.nbytes
        )
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        """Sets a weight or state; the data is copied."""
        kinds = {**self.inputs, **self.weights, **self.states}
        array = np.ascontiguousarray(fit_array(name, value, *kinds[name]))
        call(lib.sl_compiled_set, self._live(), name.encode(), address_of(array), array.nbytes)

    # ---- time ----

    @property
    def timing(self) -> Dict[str, Any]:
        """Runs so far, and seconds of the last one and of all: encode, wait, run."""
        out = fill(d.sl_compiled_timing)
        call(lib.sl_compiled_timing_of, self._live(), ctypes.byref(out))

        def seconds(of: Any) -> Dict[str, float]:
            return {field: getattr(of, field) for field, _ in of._fields_}

        return {"runs": out.runs, "last": seconds(out.last), "total": seconds(out.total)}


def _aligned_like(array: Array) -> Array:
    """New memory of the same shape and type."""
    return empty((array.nbytes,), "u8").view(array.dtype).reshape(array.shape)


class SizedProgram:
    """A graph with symbols: compiled for the sizes of the arrays that it is called with.

    Programs of all sizes share weights and states.
    """

    def __init__(
        self,
        graph: "Graph",
        symbols: "Mapping[str, Symbol]",
        shapes: Mapping[str, Tuple[int, ...]],
        options: Dict[str, Any],
    ) -> None:
        self._graph, self._symbols, self._shapes = graph, symbols, shapes
        self._options = options
        self._programs: Dict[Tuple[int, ...], Program] = {}
        self._inputs: List[str] = [item.name for item in graph.items() if item.kind == "input"]

    def __repr__(self) -> str:
        def shape(name: str) -> str:
            sizes = (getattr(size, "name", size) for size in self._shapes[name])
            return f"{name}: [{', '.join(map(str, sizes))}]"

        return f"<sluice.SizedProgram ({', '.join(map(shape, self._shapes))})>"

    def sizes_of(self, given: Mapping[str, Any]) -> Dict[str, int]:
        """The size of each symbol, from the shapes of inputs."""
        sizes: Dict[str, int] = {}
        for name, shape in self._shapes.items():
            if name not in given:
                raise TypeError(f"input {name!r} is missing, whose shape gives sizes")
            for wanted, size in zip(shape, np.shape(given[name])):
                symbol = getattr(wanted, "name", None)
                if symbol is not None and sizes.setdefault(symbol, size) != size:
                    raise InvalidError(f"{symbol} is {sizes[symbol]} and {size}")
        missing = [name for name in self._symbols if name not in sizes]
        if missing:
            raise InvalidError(f"no input has the sizes {missing}")
        return sizes

    def at(self, **sizes: int) -> Program:
        """The program for these sizes."""
        key = tuple(sizes[name] for name in self._symbols)
        if key not in self._programs:
            options = dict(self._options)
            if options["share"] is None and self._programs:
                options["share"] = next(iter(self._programs.values()))
            self._programs[key] = self._graph.with_sizes(**sizes).compile(**options)
        return self._programs[key]

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Results:
        given = {**dict(zip(self._inputs, arrays)), **named}
        return self.at(**self.sizes_of(given))(*arrays, out=out, **named)
