"""Generating tokens, and their text."""

import codecs
import ctypes
import random
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from . import _declarations as d
from ._handle import Handle, create
from ._library import lib, next_by
from .errors import error_of
from .grammar import KEYWORDS, Constraint, Grammar, grammar_of
from .sampling import Sampler, as_bytes, as_count, check_names
from .session import Session

if TYPE_CHECKING:
    from .model import Model

#: Keywords of functions that generate, beside the sampling options.
MORE = (*KEYWORDS, "max_tokens", "stop")


class Logprob(NamedTuple):
    """The log-probability of a token."""

    token: int
    text: str
    logprob: float


class TokenLogprobs(NamedTuple):
    """The log-probability of the token that was chosen, and of the most likely ones."""

    token: int
    text: str
    logprob: float
    top: Tuple[Logprob, ...]


class Completion(str):
    """A generated text, with what is known about it.  It is a str."""

    #: The generated tokens; a stop text is among them.
    tokens: List[int]
    #: "stop": the model or a stop text ended it; "length": max_tokens; "context": the context is
    #: full.
    finish_reason: str
    prompt_tokens: int
    #: The seed that gives the same text again.
    seed: int
    #: One for each token, with the option `logprobs`.
    logprobs: Optional[List[TokenLogprobs]]
    #: With json_schema: the value, or an object of the pydantic model; None if the text is not
    #: complete.
    parsed: Any

    def __new__(cls, text: str, run: "Optional[Run]" = None) -> "Completion":
        made = super().__new__(cls, text)
        if run is None:  # a copy, which gets its attributes by itself
            return made
        made.tokens, made.finish_reason = run.tokens, run.finish_reason
        made.prompt_tokens, made.seed, made.logprobs = run.prompt_tokens, run.seed, run.logprobs
        made.parsed = run.parse(text)
        return made


class Options:
    """The keywords of a function that generates."""

    def __init__(self, options: Dict[str, Any]) -> None:
        options = dict(options)
        check_names(options, MORE)
        self.grammar: Optional[Grammar] = grammar_of(options)
        self.max_tokens: Optional[int] = options.pop("max_tokens", None)
        if self.max_tokens is not None:
            self.max_tokens = as_count("max_tokens", self.max_tokens)
        stop = options.pop("stop", None) or ()
        self.stop = [as_bytes("stop", one) for one in _list_of("stop", stop)]
        options["seed"] = random.getrandbits(31) if options.get("seed") is None else options["seed"]
        self.sampling: Dict[str, Any] = options
        self.logprobs: Optional[int] = options.get("logprobs")


def _list_of(name: str, texts: Any) -> Sequence[Any]:
    """A text or several."""
    if isinstance(texts, str):
        return [texts]
    if not isinstance(texts, Iterable):
        raise TypeError(f"{name}: expected a text or several, got {texts!r}")
    return list(texts)


class Stops:
    """Removes stop texts, and holds back what may begin one."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        array = (ctypes.c_char_p * len(texts))(*texts)
        self._stops = create(lib.sl_stops_destroy, lib.sl_stops_create, array, len(texts))
        self._held = lib.sl_stops_held_bytes(self._stops)
        self._stream = d.sl_stop_stream()

    @property
    def found(self) -> bool:
        return bool(self._stream.found)

    def push(self, data: bytes) -> bytes:
        out = ctypes.create_string_buffer(len(data) + self._held)
        count = lib.sl_stops_push(self._stops, ctypes.byref(self._stream), data, len(data), out)
        return out.raw[:count]

    def finish(self) -> bytes:
        out = ctypes.create_string_buffer(self._held + 1)
        return out.raw[: lib.sl_stops_finish(self._stops, ctypes.byref(self._stream), out)]


class Run:
    """One answer: the session has the prompt, and gets tokens until something ends it."""

    def __init__(
        self, model: "Model", session: Session, options: Options, prompt_tokens: int
    ) -> None:
        self.model, self.session, self.options = model, session, options
        self.sampler = Sampler(model, **options.sampling)
        self.seed = self.sampler.seed
        self.prompt_tokens = prompt_tokens
        self.tokens: List[int] = []
        self.finish_reason = ""
        self.logprobs: Optional[List[TokenLogprobs]] = None if options.logprobs is None else []
        self.constraint: Optional[Constraint] = None
        if options.grammar is not None:
            self.constraint = Constraint(options.grammar, model._grammar_vocabulary(), model._vocab)
        # Whether the grammar holds for the next token; chat waits for the end of the thoughts.
        self.constrained: Callable[[], bool] = lambda: True
        self.cancelled: Callable[[], bool] = lambda: False

    def choose(self) -> Iterator[int]:
        """The tokens of the answer without the one that ends it."""
        room = self.model._context - len(self.session)
        limit = self.options.max_tokens
        left = room + 1 if limit is None else limit
        session, sampler, ends = self.session._live(), self.sampler._live(), self.model._ends
        pointers = session._as_parameter_, sampler._as_parameter_
        plain = self.constraint is None and self.logprobs is None
        token, error = d.sl_token(), d.sl_error()
        at, problem = ctypes.byref(token), ctypes.byref(error)
        append = self.tokens.append
        while left > 0:
            if plain and room > 0:
                status = next_by(*pointers, None, at, problem)
                forced: Sequence[int] = ()
            else:
                status, forced = self._choose_one(session, sampler, token, error, min(room, left))
            if status:
                self._fail(status, error)
                continue
            one = token.value
            if ends[one]:
                self.finish_reason = "stop"
                return
            append(one)
            yield one
            for more in forced:
                append(more)
                yield more
            if room <= 0:
                self.finish_reason = "context"
                return
            room -= 1 + len(forced)
            left -= 1 + len(forced)
        self.finish_reason = "length"

    def _fail(self, status: int, error: Any) -> None:
        """Raises, except for a cancel that was meant for an earlier call."""
        if status != d.SL_CANCELLED or not self.session._stale or self.cancelled():
            raise error_of(status, error)
        self.session._stale = False

    def _choose_one(
        self, session: Handle, sampler: Handle, token: Any, error: Any, room: int
    ) -> Tuple[int, List[int]]:
        """A token with a mask or log-probabilities, or one for which the context has no room."""
        constraint = self.constraint if self.constraint is not None and self.constrained() else None
        mask = constraint.mask() if constraint is not None else None
        function = lib.sl_session_next_by if room > 0 else lib.sl_session_sample_by
        status = function(session, sampler, mask, ctypes.byref(token), ctypes.byref(error))
        if status:
            return status, []
        if self.logprobs is not None and not self.model._ends[token.value]:
            self.logprobs.append(self._read_logprobs(sampler))
        if constraint is None:
            return 0, []
        forced = constraint.take(token.value, 0 if self.logprobs is not None else room - 1)
        if forced:
            self.sampler.accept(forced)
            self.session.extend(forced)
        return 0, forced

    def _read_logprobs(self, sampler: Handle) -> TokenLogprobs:
        count = ctypes.c_uint32()
        address = lib.sl_sampler_logprobs(sampler, ctypes.byref(count))
        rows = ctypes.cast(address, ctypes.POINTER(d.sl_logprob))
        found = [
            Logprob(rows[i].token, self.model._text_of(rows[i].token), rows[i].logprob)
            for i in range(count.value)
        ]
        return TokenLogprobs(*found[0], top=tuple(found[1:]))

    def parse(self, text: str) -> Any:
        """The value of a complete text of a JSON schema."""
        grammar = self.options.grammar
        if grammar is None or grammar.parse is None or self.constraint is None:
            return None
        return grammar.parse(text) if self.constraint.satisfied else None

    def pieces(self) -> Iterator[str]:
        """The text of the answer, as it comes; no piece ends within a character."""
        if self.options.stop:
            yield from self._pieces_before(Stops(self.options.stop))
            return
        decode = codecs.getincrementaldecoder("utf-8")("replace")
        texts, pending = self.model._texts, False
        for token in self.choose():
            piece = texts[token]
            if pending or isinstance(piece, bytes):
                piece = decode.decode(piece if isinstance(piece, bytes) else piece.encode())
                pending = bool(decode.getstate()[0])
            if piece:
                yield piece
        rest = decode.decode(b"", True)
        if rest:
            yield rest

    def _pieces_before(self, stops: Stops) -> Iterator[str]:
        """The same, up to the first stop text."""
        decode = codecs.getincrementaldecoder("utf-8")("replace")
        texts = self.model._texts
        for token in self.choose():
            piece = texts[token]
            passed = stops.push(piece if isinstance(piece, bytes) else piece.encode())
            text = decode.decode(passed)
            if text:
                yield text
            if stops.found:
                self.finish_reason = "stop"
                break
        rest = decode.decode(stops.finish(), True)
        if rest:
            yield rest


def tokens_of(model: "Model", prompt: Any) -> List[int]:
    """A text as the model's own begin, or tokens as they are."""
    if not isinstance(prompt, str):
        if isinstance(prompt, (bytes, Mapping)) or not isinstance(prompt, Iterable):
            raise TypeError(f"prompt: expected a text or tokens, got {type(prompt).__name__}")
        return [as_count("token", token, 0, 2**31 - 1) for token in prompt]
    tokens = model.tokenize(prompt)
    begin = model.begin_tokens
    return tokens if not begin or tokens[:1] == begin[:1] else begin + tokens
