"""All ops, as functions on values of a graph and on arrays: `help(sluice.ops.softmax)`.

They are made from the op table of the library; docs/ops.md lists them.

>>> sluice.ops.softmax(numpy.zeros((2, 3), numpy.float32), axis=-1)
"""

from typing import Any, Callable

from . import _op_table, sampling

globals().update(_op_table.FUNCTIONS)
__all__ = sorted(_op_table.FUNCTIONS)


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    problem = sampling.unknown_option(name, _op_table.FUNCTIONS, "op")
    raise AttributeError(str(problem))
