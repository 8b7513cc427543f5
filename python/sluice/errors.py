"""Exceptions: one class for each status of the library."""

from contextlib import contextmanager
from typing import Dict, Iterator, List, Type

from . import _declarations as d


class Error(Exception):
    """What the library could not do: one line with the object, what was found and wanted.

    >>> try:
    ...     sluice.Model("no-such-file")
    ... except sluice.Error as error:
    ...     print(error)
    no-such-file: No such file or directory
    """

    status: int = 0


class InvalidError(Error, ValueError):
    """A rule of the API was broken: a value out of range, a closed object, a wrong shape."""

    status = d.SL_INVALID


class NoMemoryError(Error, MemoryError):
    """There is not enough memory, or the budget is too small."""

    status = d.SL_NO_MEMORY


class IOError(Error, OSError):  # noqa: A001 - it is sluice.IOError
    """A read or write failed."""

    status = d.SL_IO


class FormatError(Error, ValueError):
    """A file is malformed."""

    status = d.SL_FORMAT


class UnsupportedError(Error, NotImplementedError):
    """There is no kernel, architecture or option for this."""

    status = d.SL_UNSUPPORTED


class DeviceError(Error, RuntimeError):
    """The device reported an error."""

    status = d.SL_DEVICE


class CancelledError(Error):
    """The call was asked to stop."""

    status = d.SL_CANCELLED


class BusyError(Error):
    """A queue is full; try again later."""

    status = getattr(d, "SL_BUSY", 8)


_OF_STATUS: Dict[int, Type[Error]] = {
    kind.status: kind
    for kind in (
        InvalidError,
        NoMemoryError,
        IOError,
        FormatError,
        UnsupportedError,
        DeviceError,
        CancelledError,
        BusyError,
    )
}


def error_of(status: int, error: d.sl_error) -> Error:
    """The exception for a call that failed."""
    return _OF_STATUS.get(status, Error)(error.message.decode("utf-8", "replace"))


#: What Python functions have raised that the library called.
Problems = List[BaseException]


@contextmanager
def raised_in(*customs: Problems) -> Iterator[None]:
    """What Python functions raise in a call is the cause of its error, or Ctrl-C itself."""
    for problems in customs:
        problems.clear()
    try:
        yield
    except Error as error:
        causes = [cause for problems in customs for cause in problems]
        for problems in customs:
            problems.clear()
        if causes and not isinstance(causes[0], Exception):
            raise causes.pop(0) from None
        raise error from (causes.pop(0) if causes else None)
