"""Functions for all ops of the library, made from its op table."""

import ctypes
import inspect
import keyword
import os
import re
import textwrap
from collections import OrderedDict, namedtuple
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import _declarations as d
from ._library import call, fill, lib
from .arrays import as_array
from .graph import Graph, Value, attributes_text
from .program import Program
from .sampling import unknown_option

_MOST_PROGRAMS = 256


class Attribute(NamedTuple):
    """An attribute of an op; default None: it has none."""

    name: str
    kind: str
    default: Optional[str]


class Op(NamedTuple):
    """A row of the op table."""

    name: str
    summary: str
    inputs: Tuple[str, ...]  # "x", "state(state)"; of a list "parts.."
    outputs: Tuple[str, ...]
    attributes: Tuple[Attribute, ...]

    @property
    def named_inputs(self) -> List[str]:
        return [name.split("(")[0] for name in self.inputs if not name.endswith("..")]

    @property
    def list_input(self) -> Optional[str]:
        return next((name[:-2] for name in self.inputs if name.endswith("..")), None)

    @property
    def python_name(self) -> str:
        return self.name + "_" if keyword.iskeyword(self.name) else self.name


def read_ops() -> Dict[str, Op]:
    """The op table by name."""
    found: Dict[str, Op] = {}
    for index in range(lib.sl_op_count()):
        row = fill(d.sl_op_row)
        call(lib.sl_op_at, index, ctypes.byref(row))
        attributes = re.findall(r"(\w+):(\w+(?:\([^)]*\))?)(?:=(\S*))?", row.attributes.decode())
        made = tuple(Attribute(name, kind, default or None) for name, kind, default in attributes)
        found[row.name.decode()] = Op(
            row.name.decode(),
            row.summary.decode(),
            tuple(row.inputs.decode().split()),
            tuple(row.outputs.decode().split()),
            made,
        )
    return found


def _signature(op: Op) -> inspect.Signature:
    kind = inspect.Parameter
    parameters = [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in op.named_inputs]
    if op.list_input:
        parameters.append(kind(op.list_input, kind.VAR_POSITIONAL))
    taken = {parameter.name for parameter in parameters}
    for attribute in op.attributes:
        if attribute.name in taken or keyword.iskeyword(attribute.name):
            continue  # such as the attribute of a sum's own name: it is passed through **attributes
        default = kind.empty if attribute.default is None else _Default(attribute.default)
        parameters.append(kind(attribute.name, kind.KEYWORD_ONLY, default=default))
    return inspect.Signature(parameters)


class _Default(str):
    """A default as the op table writes it."""

    def __repr__(self) -> str:
        return str(self)


def _document(op: Op) -> str:
    lines = [
        *textwrap.wrap(op.summary, 92, break_long_words=False, break_on_hyphens=False),
        "",
        f"Operands: {' '.join(op.inputs) or 'none'}",
        f"Results: {' '.join(op.outputs)}",
    ]
    for attribute in op.attributes:
        default = "" if attribute.default is None else f", default {attribute.default}"
        lines.append(f"{attribute.name}: {attribute.kind}{default}")
    return "\n".join(
        [*lines, "", "Arrays alone are computed at once; with a value of a graph, a node is added."]
    )


def _take_operands(op: Op, given: Tuple[Any, ...], options: Dict[str, Any]) -> List[Any]:
    """Operands by position, then by name, then those of the list."""
    names = op.named_inputs
    if len(given) > len(names) and op.list_input is None:
        raise TypeError(f"{op.name} takes {len(names)} operands, {len(given)} were given")
    operands = list(given[: len(names)])
    for name in names[len(operands) :]:
        if name not in options:
            raise TypeError(f"{op.name}: operand {name!r} is missing")
        operands.append(options.pop(name))
    for one in given[len(names) :]:
        operands += one if isinstance(one, (list, tuple)) else [one]
    return operands


def _make(op: Op) -> Callable[..., Any]:
    attributes = {attribute.name: attribute for attribute in op.attributes}
    fixed = not any(name.endswith("..") for name in op.outputs)
    names = [name.split("(")[0] for name in op.outputs] if fixed else []
    result_type = namedtuple(f"{op.name}_results", names) if len(names) > 1 else None

    def function(
        *given: Any,
        graph: Optional[Graph] = None,
        results: Optional[int] = None,
        **options: Any,
    ) -> Any:
        operands = _take_operands(op, given, options)
        for name in options:
            if name not in attributes:
                raise unknown_option(name, [*attributes, *op.named_inputs])
        for one in operands:
            if graph is None and isinstance(one, Value):
                graph = one.graph
        if graph is None:
            found = _run_now(op, operands, options, results)
        else:
            found = _apply(graph, op, attributes, operands, options, results)
        return result_type(*found) if result_type is not None else found

    function.__name__ = function.__qualname__ = op.python_name
    function.__doc__ = _document(op)
    function.__signature__ = _signature(op)  # type: ignore[attr-defined]
    return function


def _apply(
    graph: Graph,
    op: Op,
    attributes: Dict[str, Attribute],
    operands: List[Any],
    options: Dict[str, Any],
    results: Optional[int],
) -> Any:
    bodies = {name: value for name, value in options.items() if attributes[name].kind == "graph"}
    plain = {
        name: f'"{value}"' if attributes[name].kind == "text" else value
        for name, value in options.items()
        if name not in bodies
    }
    return graph.apply(op.name, *operands, results=results, bodies=bodies, **plain)


# ---- ops on arrays alone ----

# A program that runs is not here, so that each is used by one thread.
_programs: "OrderedDict[Any, Program]" = OrderedDict()
os.register_at_fork(after_in_child=_programs.clear)  # they belong to the other process


def _run_now(op: Op, operands: List[Any], options: Dict[str, Any], results: Optional[int]) -> Any:
    """Compiles the op for these types, once unless it has bodies, and runs it."""
    arrays = [as_array(one) for one in operands]
    key = (
        op.name,
        tuple((array.dtype, array.shape) for array in arrays),
        attributes_text(dict(sorted(options.items()))),
    )
    program = _programs.pop(key, None) or _compile(op, arrays, options, results)
    found = program(*arrays)
    if not any(isinstance(value, Graph) for value in options.values()):
        _programs[key] = program
        if len(_programs) > _MOST_PROGRAMS:
            _programs.popitem(last=False)
    return tuple(found.values()) if isinstance(found, dict) else found


def _compile(op: Op, arrays: List[Any], options: Dict[str, Any], results: Optional[int]) -> Program:
    graph = Graph(op.name)
    values = [graph.input(f"in{i}", array.shape, array.dtype) for i, array in enumerate(arrays)]
    made = _apply(graph, op, {a.name: a for a in op.attributes}, values, options, results)
    for i, value in enumerate(made if isinstance(made, tuple) else (made,)):
        graph.output(f"out{i}", value)
    program: Program = graph.compile()
    return program


OPS: Dict[str, Op] = read_ops()
FUNCTIONS: Dict[str, Callable[..., Any]] = {op.python_name: _make(op) for op in OPS.values()}
