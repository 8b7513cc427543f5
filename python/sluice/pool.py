"""The sessions of a model: those of callers, and those that answers take by turns."""

import gc
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable, Iterator, List, Optional, Sequence, Tuple

from ._handle import Handle
from .errors import CancelledError, InvalidError
from .session import Session, tokens_in

if TYPE_CHECKING:
    from .model import Model


class SessionPool:
    """At most so many sessions at the same time.

    Idle ones are kept as handles, with whether a cancel waits in them: nothing here refers to the
    model, so that it is closed as soon as nobody has it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: weakref.WeakSet[Session] = weakref.WeakSet()
        self._idle: List[Tuple[Handle, bool]] = []
        # By the thread that each answer began in.  A session that nothing refers to is not in use,
        # whatever interrupted its return.
        self.borrowed: weakref.WeakKeyDictionary[Session, int] = weakref.WeakKeyDictionary()
        self._freed = threading.Condition()

    def add(self, session: Session) -> None:
        with self._freed:
            self._all.add(session)

    def close(self) -> None:
        """Closes all sessions."""
        with self._freed:
            for session in list(self._all):
                session.close()
            self._idle.clear()

    def make_room(self) -> None:
        """Closes an idle session if there can be no more."""
        with self._freed:
            if self._count() >= self._most and self._idle:
                del self._idle[0]
            elif self._count() >= self._most:
                gc.collect()  # it may have some that nobody uses
            if self._count() >= self._most:
                raise InvalidError(
                    f"all {self._most} sessions of the model are in use: close one, or open the"
                    " model with more `sessions`"
                )

    @contextmanager
    def borrow(
        self,
        model: "Model",
        tokens: Sequence[int] = (),
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[Session]:
        """A session for an answer: of the idle ones, that which has most of these tokens."""
        sessions = self.take(model, 1, tokens, cancelled)
        try:
            yield sessions[0]
        finally:
            self.give_back(sessions)

    def take(
        self,
        model: "Model",
        most: int,
        tokens: Sequence[int] = (),
        cancelled: Callable[[], bool] = lambda: False,
    ) -> List[Session]:
        """At least one session, for which it waits until it is cancelled, and at most so many."""
        found: List[Session] = []
        with self._freed:
            while len(found) < most:
                session = self._take_one(model, tokens)
                if session is not None:
                    self.borrowed[session] = threading.get_ident()
                    found.append(session)
                elif found:
                    break
                elif cancelled():
                    raise CancelledError("the answer was cancelled before it began")
                else:
                    self._wait()
        return found

    def _take_one(self, model: "Model", tokens: Sequence[int]) -> Optional[Session]:
        model._live()
        if self._idle:
            at = 0
            if len(self._idle) > 1:
                same = [_common(tokens_in(handle), tokens) for handle, _ in self._idle]
                at = same.index(max(same))
            return Session._of(model, *self._idle.pop(at))
        if self._count() < self._most or not self.borrowed:
            return Session(model)
        return None

    def _wait(self) -> None:
        if set(self.borrowed.values()) == {threading.get_ident()}:
            raise InvalidError(
                f"all {self._most} sessions are used by answers that this thread has not finished:"
                " close their streams, or open the model with more `sessions`"
            )
        self._freed.wait(0.1)  # in pieces, so that Ctrl-C and a cancel are seen

    def give_back(self, sessions: Sequence[Session]) -> None:
        with self._freed:
            for session in sessions:
                self.borrowed.pop(session, None)
                if not session.closed:
                    self._idle.append((session._live(), session._stale))
                    session.close()
            self._freed.notify_all()

    def _count(self) -> int:
        return len(self._idle) + sum(not session.closed for session in self._all)


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens both begin with."""
    count = 0
    for one, other in zip(first, second):
        if one != other:
            break
        count += 1
    return count
