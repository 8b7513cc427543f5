"""Loads the shared library and gives its functions their types."""

import ctypes
import os
from pathlib import Path
from typing import Any, List, Optional

from . import _declarations as d
from .errors import error_of

_HERE = Path(__file__).resolve().parent


def _candidates() -> List[str]:
    """SLUICE_LIBRARY alone if it is set; else that of the wheel, else one that is installed."""
    given = os.environ.get("SLUICE_LIBRARY")
    if given:
        return [given]
    own = _HERE / "libsluice.so"
    return [str(own)] if own.exists() else [f"libsluice.so.{d.SL_VERSION_MAJOR}", "libsluice.so"]


def _load() -> ctypes.CDLL:
    problem: Optional[OSError] = None
    for path in _candidates():
        try:
            found = ctypes.CDLL(path)
            break
        except OSError as error:
            problem = error
    else:
        raise ImportError(
            f"libsluice.so cannot be loaded ({problem}): install the package with pip, or set"
            " SLUICE_LIBRARY to the path of the library"
        )
    try:
        for name, (result, parameters) in d.FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, parameters
    except AttributeError as error:
        raise ImportError(f"{path} is not the library of this package: {error}") from None
    version = found.sl_version().decode()
    if version != d.SL_VERSION:
        raise ImportError(f"{path} has version {version}, this package is for {d.SL_VERSION}")
    return found


lib: Any = _load()

# The call that is made for each token, without the conversion of its arguments, which would take as
# long as the call: pointers are c_void_p.
next_by: Any = lib["sl_session_next_by"]


def call(function: Any, *arguments: Any) -> None:
    """Calls a function that returns a status and takes an sl_error last; raises what it reports."""
    error = d.sl_error()
    status = function(*arguments, ctypes.byref(error))
    if status:
        del arguments  # a traceback that is kept does not keep handles
        raise error_of(status, error)


def take_text(pointer: ctypes.c_void_p) -> str:
    """A text that a function has handed over."""
    try:
        return ctypes.string_at(pointer.value or 0).decode("utf-8", "replace")
    finally:
        lib.sl_free(pointer)


def fill(of: Any) -> Any:
    """A struct that may grow, with its size set."""
    made = of()
    made.struct_size = ctypes.sizeof(of)
    return made
