"""Objects of the library that Python owns."""

import atexit
import ctypes
import os
import threading
import weakref
from typing import Any, Dict, List, Optional, Set, Tuple

from ._library import call
from .errors import InvalidError

# How many objects of each kind are open now, by the name of the function that releases them.
live: Dict[str, int] = {}


class _Resource:
    """A pointer and those who use it: its handle, and resources that borrow it.

    The collector may finalise a model before its sessions; the last user to leave releases it.
    Sets and lists are changed by single operations, between which finalizers may run.
    """

    __slots__ = ("pointer", "destroy", "keeps", "users", "held")

    def __init__(
        self, pointer: ctypes.c_void_p, destroy: Any, keeps: "Tuple[_Resource, ...]"
    ) -> None:
        self.pointer = [pointer]
        self.destroy, self.keeps = destroy, keeps
        self.users: Set[int] = {0}
        self.held: List[Any] = []  # what the library calls back
        for one in keeps:
            one.users.add(id(self))

    def keep(self, other: "_Resource") -> None:
        other.users.add(id(self))
        self.keeps += (other,)

    def leave(self, user: int) -> None:
        self.users.discard(user)
        if self.users:
            return
        try:
            pointer = self.pointer.pop()
        except IndexError:
            return
        if pointer.value:
            self.destroy(pointer)
        live[self.destroy.__name__] -= 1
        self.held.clear()
        for one in self.keeps:
            one.leave(id(self))


class Handle:
    """A pointer that is released when this object is gone, and all that borrow it (`keeps`).

    ctypes takes a handle as an argument, and a call in another thread keeps it alive until it
    returns.
    """

    __slots__ = ("_as_parameter_", "_resource", "_finalizer", "lost", "__weakref__")

    def __init__(
        self, pointer: ctypes.c_void_p, destroy: Any, keeps: "Tuple[Handle, ...]" = ()
    ) -> None:
        self._as_parameter_ = pointer
        self._resource: _Resource = _Resource(
            pointer, destroy, tuple(one._resource for one in keeps)
        )
        self.lost = ""  # why it can no longer be used
        live[destroy.__name__] = live.get(destroy.__name__, 0) + 1
        self._finalizer = weakref.finalize(self, self._resource.leave, 0)
        self._finalizer.atexit = False
        _handles.add(self)

    def keep(self, other: "Handle") -> None:
        """From now on it borrows that one too."""
        self._resource.keep(other._resource)

    def hold(self, value: Any) -> None:
        """The value lives until the pointer is released."""
        self._resource.held.append(value)


_handles: "weakref.WeakSet[Handle]" = weakref.WeakSet()


def _leave_to_parent() -> None:
    """A process that was forked has copies of objects, without the threads that belong to them."""
    for handle in list(_handles):
        handle.lost = "belongs to the process that was forked: open it in this one"
        handle._resource.pointer.clear()


def _release_all() -> None:
    """At the end of the program.  A daemon thread may be in a call: then it is left as it is."""
    if any(one.daemon for one in threading.enumerate()):
        return
    for handle in list(_handles):
        handle.lost = "was closed at the end of the program"
        handle._finalizer()


os.register_at_fork(after_in_child=_leave_to_parent)
atexit.register(_release_all)


def create(destroy: Any, function: Any, *arguments: Any, keeps: Tuple[Handle, ...] = ()) -> Handle:
    """Calls function(*arguments, out, err), and owns what it makes, also if Ctrl-C comes then."""
    out = ctypes.c_void_p()
    made = Handle(out, destroy, keeps)
    call(function, *arguments, ctypes.byref(out))
    return made


class Owner:
    """Base of classes with one handle: closed explicitly, by `with`, or when they are collected."""

    _handle: Optional[Handle] = None

    def _live(self) -> Handle:
        handle = self._handle
        if handle is None:
            raise InvalidError(f"the {type(self).__name__.lower()} is closed")
        if handle.lost:
            raise InvalidError(f"the {type(self).__name__.lower()} {handle.lost}")
        return handle

    @property
    def closed(self) -> bool:
        return self._handle is None or bool(self._handle.lost)

    def close(self) -> None:
        """Releases the object; what was closed already stays closed."""
        self._handle = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
