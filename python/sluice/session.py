"""Sessions: the state of one conversation."""

import ctypes
import os
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _declarations as d
from ._handle import Handle, Owner, create
from ._interrupt import cancellable
from ._library import call, fill, lib
from .errors import CancelledError, InvalidError, error_of
from .sampling import Sampler, allowed_words, as_count, text, token_array

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .model import Model

# Bytes of logits that are computed at once, and the rows: multiples of 64, so that no bit depends
# on them.
_LOGIT_BYTES = 64 << 20
_LEAST_ROWS, _MOST_ROWS = 64, 256


class SyncReport(NamedTuple):
    """What `Session.sync` reused."""

    tokens: int
    reused: int
    same: int
    source: str
    text: str


class Session(Owner):
    """One sequence of tokens of a model, with everything that was computed of it.

    A session is used by one thread at a time; only `cancel` may be called from others.

    >>> with model.session() as session:
    ...     session.extend(model.tokenize("Once upon a time"))
    ...     for _ in range(20):
    ...         print(model.detokenize([session.next(temperature=0)]), end="")
    """

    def __init__(self, model: "Model", *, chunk_tokens: int = 0, checkpoints: int = 0) -> None:
        options = fill(d.sl_session_options)
        options.chunk_tokens = as_count("chunk_tokens", chunk_tokens)
        options.checkpoints = as_count("checkpoints", checkpoints)
        self._adopt(model, model._make_session(options))

    @classmethod
    def _of(cls, model: "Model", handle: Handle, stale: bool = False) -> "Session":
        made = object.__new__(cls)
        made._adopt(model, handle)
        made._stale = stale
        return made

    def _adopt(self, model: "Model", handle: Handle) -> None:
        self.model = model
        self._handle = handle
        self._samplers: Dict[Tuple[Tuple[str, Any], ...], Sampler] = {}
        # Perhaps a cancel was sent to a call that had ended, and not every call ends by one.
        self._stale = False
        self._token, self._error = d.sl_token(), d.sl_error()
        model._pool.add(self)

    def close(self) -> None:
        self._samplers.clear()
        super().close()

    # ---- calls that compute ----

    def _compute(self, function: Any, *arguments: Any, long: bool = True) -> None:
        """function(session, *arguments, err); Ctrl-C cancels it if it is long."""
        self._live()
        stale, interrupted = self._stale, False

        # No frame keeps the handle: tracebacks live long in notebooks, and would keep the session.
        def work() -> None:
            nonlocal stale
            while True:
                try:
                    call(function, self._live(), *arguments)
                    return
                except CancelledError:
                    if interrupted or not stale:
                        raise
                    stale = self._stale = False

        def cancel() -> None:
            nonlocal interrupted
            interrupted = True
            lib.sl_session_cancel(self._live())
            self._stale = True  # perhaps; a mark too many is harmless

        if long:
            cancellable(cancel, work)
        else:
            work()

    def extend(self, tokens: Sequence[int]) -> None:
        """Appends tokens and computes the logits after the last one."""
        self._compute(lib.sl_session_extend, token_array(tokens), len(tokens), long=len(tokens) > 8)

    def extend_all(self, tokens: Sequence[int], *, hidden: bool = False) -> Any:
        """The same, with the logits after every token: an array [tokens, vocab].

        hidden: returns (logits, hidden states after the final norm [tokens, hidden]).
        """
        import numpy as np

        logits, states = [], []
        for rows, last in self._rows(tokens, hidden):
            logits.append(rows.copy())
            states.append(last)
        info = self.model.info
        all_logits = np.concatenate(logits) if logits else np.empty((0, info.vocab), np.float32)
        if not hidden:
            return all_logits
        none = np.empty((0, info.hidden), np.float32)
        return all_logits, (np.concatenate(states) if states else none)

    def _rows(self, tokens: Sequence[int], hidden: bool) -> Any:
        """(logits, hidden states or None) of parts; the logits last until the next part."""
        import numpy as np

        info = self.model.info
        most = _LOGIT_BYTES // (4 * info.vocab) // _LEAST_ROWS * _LEAST_ROWS
        most = min(max(most, _LEAST_ROWS), _MOST_ROWS)
        logits = np.empty((min(most, len(tokens)), info.vocab), np.float32)
        for start in range(0, len(tokens), most):
            part = token_array(tokens[start : start + most])
            states = np.empty((len(part), info.hidden), np.float32) if hidden else None
            self._compute(
                lib.sl_session_extend_all,
                part,
                len(part),
                logits.ctypes.data,
                None if states is None else states.ctypes.data,
            )
            yield logits[: len(part)], states

    def sync(self, tokens: Sequence[int]) -> SyncReport:
        """Makes the session consist of exactly these tokens, by the cheapest way.

        It keeps what it has of them, or takes more from the caches of the model, and computes the
        rest.
        """
        report = fill(d.sl_sync_report)
        self._compute(
            lib.sl_session_sync, token_array(tokens), len(tokens), None, ctypes.byref(report)
        )
        return SyncReport(
            report.tokens, report.reused, report.same, text(report.source), text(report.text)
        )

    def end_turn(self) -> None:
        """An answer is complete: what was computed goes into the caches of the model."""
        call(lib.sl_session_end_turn, self._live())

    def rewind(self, length: int) -> None:
        """Truncates the sequence to its first `length` tokens."""
        self._compute(lib.sl_session_rewind, as_count("length", length))

    def cancel(self) -> None:
        """Ends the running call with CancelledError; if none is running, the next one."""
        lib.sl_session_cancel(self._live())

    # ---- choosing ----

    def _sampler(self, sampler: Optional[Sampler], options: Dict[str, Any]) -> Sampler:
        if sampler is not None:
            if options:
                raise TypeError("give a sampler or options, not both")
            return sampler
        key = tuple(sorted(options.items()))
        try:
            found = self._samplers.get(key)
        except TypeError:  # an option that is a list
            return Sampler(self.model, **options)
        if found is None:
            found = self._samplers[key] = Sampler(self.model, **options)
        return found

    def sample(
        self, sampler: Optional[Sampler] = None, *, allowed: Any = None, **options: Any
    ) -> int:
        """Chooses a token from the logits; the session stays as it is."""
        return self._choose(lib.sl_session_sample_by, sampler, allowed, options)

    def next(
        self, sampler: Optional[Sampler] = None, *, allowed: Any = None, **options: Any
    ) -> int:
        """Chooses a token and appends it.

        allowed: a boolean array [vocab] that says which tokens are possible.
        """
        return self._choose(lib.sl_session_next_by, sampler, allowed, options)

    def _choose(
        self, function: Any, sampler: Optional[Sampler], allowed: Any, options: Dict[str, Any]
    ) -> int:
        words = None if allowed is None else allowed_words(allowed, self.model._vocab)
        mask = None if words is None else words.ctypes.data
        chosen = sampler if sampler is not None and not options else self._sampler(sampler, options)
        token, error, handle = self._token, self._error, chosen._live()
        status = function(self._live(), handle, mask, ctypes.byref(token), ctypes.byref(error))
        if status == d.SL_CANCELLED and self._stale:
            self._stale = False
            status = function(self._live(), handle, mask, ctypes.byref(token), ctypes.byref(error))
        if status:
            raise error_of(status, error)
        return int(token.value)

    # ---- what it has ----

    @property
    def logits(self) -> "Optional[NDArray[np.float32]]":
        """The logits after the last token, a view of the session's memory: copy it to keep it.

        Its numbers change with the next call.  None before the first `extend` and after `next`.
        """
        import numpy as np

        count = ctypes.c_size_t()
        handle = self._live()
        address = lib.sl_session_logits(handle, ctypes.byref(count))
        if not address:
            return None
        memory: Any = (ctypes.c_float * count.value).from_address(address)
        memory._owner = handle  # the memory lives as long as any view of it
        view: NDArray[np.float32] = np.frombuffer(memory, np.float32)
        view.flags.writeable = False
        return view

    @property
    def tokens(self) -> List[int]:
        """The tokens of the sequence."""
        return tokens_in(self._live())

    def __len__(self) -> int:
        return int(lib.sl_session_length(self._live()))

    @property
    def stats(self) -> Dict[str, Any]:
        """The fields of sl_stats in sluice.h: expert hits, bytes read, decode seconds and so on."""
        out = fill(d.sl_stats)
        call(lib.sl_session_stats, self._live(), ctypes.byref(out))
        return {name: getattr(out, name) for name, _ in out._fields_[1:]}

    # ---- copies and files ----

    def fork(self) -> "Session":
        """Another session in the same state; both can go on from there."""
        self.model._pool.make_room()
        keeps = (self.model._live(),)
        handle = create(lib.sl_session_destroy, lib.sl_session_fork, self._live(), keeps=keeps)
        return Session._of(self.model, handle)

    def save(self, path: "Union[str, os.PathLike[str]]", note: bytes = b"") -> None:
        """Writes the session, with everything that was computed, and a note of your own."""
        call(lib.sl_session_save, self._live(), os.fsencode(path), note or None, len(note))

    def load(self, path: "Union[str, os.PathLike[str]]") -> bytes:
        """Replaces what the session holds by what a file has; returns the note."""
        note, count = ctypes.c_void_p(), ctypes.c_size_t()
        call(
            lib.sl_session_load,
            self._live(),
            os.fsencode(path),
            ctypes.byref(note),
            ctypes.byref(count),
        )
        try:
            return ctypes.string_at(note.value, count.value) if note.value else b""
        finally:
            lib.sl_free(note)


def tokens_in(session: Handle) -> List[int]:
    """The tokens of a session."""
    out = ctypes.c_void_p()
    count = lib.sl_session_tokens(session, ctypes.byref(out))
    return list((d.sl_token * count).from_address(out.value or 0)) if count else []


def row_logprobs(rows: Any, tokens: Sequence[int], top: int) -> List[List[Tuple[int, float]]]:
    """For each row and its token: (token, log-probability), then those of the most likely."""
    count = rows.shape[1]
    if rows.dtype != "float32" or not rows.flags.c_contiguous:
        raise InvalidError("logits are float32 and contiguous")
    out = (d.sl_logprob * (1 + top))()
    found = []
    for row, token in zip(rows, tokens):
        call(lib.sl_logprobs_compute, row.ctypes.data, count, token, top, out)
        found.append([(one.token, one.logprob) for one in out[: 1 + min(top, count)]])
    return found
