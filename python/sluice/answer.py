"""Answers that are being generated: what streams of text and of messages share."""

from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generator,
    Generic,
    Iterator,
    Optional,
    Sequence,
    TypeVar,
)

from ._library import lib
from .errors import CancelledError
from .generation import Options, Run
from .session import Session

if TYPE_CHECKING:
    from .model import Model

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class State(Generic[Result]):
    """What a generator tells its stream, to which it has no reference: both are freed at once."""

    session: Optional[Session] = None
    run: Optional[Run] = None
    result: Optional[Result] = None
    cancelled: bool = False


def generate(
    state: State[Result],
    model: "Model",
    tokens: Sequence[int],
    options: Options,
    pieces: Callable[[Run], Iterator[Piece]],
    finish: Callable[[Run], Result],
) -> Generator[Piece, None, None]:
    """Borrows a session, brings it to the prompt, and yields the pieces of the answer."""
    with model._pool.borrow(model, tokens, lambda: state.cancelled) as session:
        state.session = session
        try:
            if state.cancelled:  # while it waited
                raise CancelledError("the answer was cancelled before it began")
            state.run = run = Run(model, session, options, len(tokens))
            run.cancelled = lambda: state.cancelled
            session.sync(tokens)
            if state.cancelled:
                raise CancelledError("the answer was cancelled")
            yield from pieces(run)
            session.end_turn()
        finally:
            state.session = None
            session._stale |= state.cancelled  # perhaps after the last call
    state.result = finish(run)


class Answer(Generic[Piece, Result]):
    """An iterator over the pieces of an answer."""

    def __init__(self, state: State[Result], pieces: Generator[Piece, None, None]) -> None:
        self._state, self._pieces = state, pieces

    def __iter__(self) -> Iterator[Piece]:
        return self._pieces

    def __next__(self) -> Piece:
        return next(self._pieces)

    @property
    def result(self) -> Result:
        """The whole answer; what is still missing is generated."""
        for _ in self._pieces:
            pass
        if self._state.result is None:
            raise RuntimeError("the stream was closed before its end")
        return self._state.result

    @property
    def tokens(self) -> "list[int]":
        """The tokens so far."""
        return self._state.run.tokens if self._state.run is not None else []

    def cancel(self) -> None:
        """Ends what runs in another thread, or has not begun, with CancelledError."""
        self._state.cancelled = True
        session = self._state.session
        handle = session._handle if session is not None else None
        if handle is not None:
            lib.sl_session_cancel(handle)

    def close(self) -> None:
        """Ends the answer; the session is free for others."""
        self._pieces.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
