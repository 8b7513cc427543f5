"""Streams of text."""

from typing import TYPE_CHECKING, Iterator, List, Sequence

from .answer import Answer, State, generate
from .generation import Completion, Options, Run

if TYPE_CHECKING:
    from .model import Model


class Stream(Answer[str, Completion]):
    """Pieces of a text that is being generated; `result` is complete at the end.

    >>> with model.stream("Once upon a time") as stream:
    ...     for piece in stream:
    ...         print(piece, end="", flush=True)
    >>> stream.result.finish_reason
    'stop'
    """

    def __init__(self, model: "Model", tokens: Sequence[int], options: Options) -> None:
        self._parts: List[str] = []
        parts, state = self._parts, State[Completion]()

        def pieces(run: Run) -> Iterator[str]:
            for piece in run.pieces():
                parts.append(piece)
                yield piece

        def finish(run: Run) -> Completion:
            return Completion("".join(parts), run)

        super().__init__(state, generate(state, model, tokens, options, pieces, finish))

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._parts)
