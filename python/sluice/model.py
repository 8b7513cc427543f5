"""Models."""

import ctypes
import json
import os
import re
import weakref
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Union,
)

from . import _declarations as d
from ._handle import Handle, Owner, create
from ._library import call, fill, lib, take_text
from .aio import in_thread, iterate_in_thread
from .batch import run_batch
from .chat import ChatStream, Delta, Message, Messages, as_messages
from .errors import InvalidError
from .generation import Completion, Logprob, Options, TokenLogprobs, tokens_of
from .pool import SessionPool
from .records import Record
from .sampling import as_bytes, as_count
from .session import Session, row_logprobs
from .stream import Stream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Prompt = Union[str, Sequence[int]]
Size = Union[int, float, str]

_UNITS = {
    "": 1,
    "B": 1,
    "K": 1000,
    "KB": 1000,
    "KIB": 1 << 10,
    "M": 10**6,
    "MB": 10**6,
    "MIB": 1 << 20,
    "G": 10**9,
    "GB": 10**9,
    "GIB": 1 << 30,
    "T": 10**12,
    "TB": 10**12,
    "TIB": 1 << 40,
}


def parse_size(name: str, size: Size) -> "tuple[int, float]":
    """(bytes, share), one of which is 0: of 8589934592, "8GiB", "25%" or 0.25."""
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*|%)\s*", size)
        if match and match.group(2) == "%":
            size = float(match.group(1)) / 100
        elif match and match.group(2).upper() in _UNITS:
            size = int(float(match.group(1)) * _UNITS[match.group(2).upper()])
        else:
            raise ValueError(f"{name}: expected bytes, '8GiB' or '25%', got {size!r}")
    if isinstance(size, float):
        if not 0 < size <= 1:
            raise ValueError(f"{name}: a share is above 0 and at most 1, got {size}")
        return 0, size
    return as_count(name, size, 1, 2**63 - 1), 0.0


class ExpertUses(NamedTuple):
    """How often each expert was used since the model was opened: arrays [layers, experts]."""

    uses: "NDArray[np.uint32]"
    misses: "NDArray[np.uint32]"
    in_memory: "NDArray[np.bool_]"
    totals: Record


class _Texts(Dict[int, Union[str, bytes]]):
    """The text of each token, made when it is first needed: bytes if it is no whole UTF-8."""

    def __init__(self, read: Callable[[int], bytes], special: Callable[[int], bool]) -> None:
        super().__init__()
        self._read, self._special = read, special

    def __missing__(self, token: int) -> Union[str, bytes]:
        data = b"" if self._special(token) else self._read(token)
        text: Union[str, bytes]
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data
        self[token] = text
        return text


class _Ends(Dict[int, bool]):
    """Whether a token ends an answer."""

    def __init__(self, handle: "weakref.ref[Handle]") -> None:
        super().__init__()
        self._handle = handle

    def __missing__(self, token: int) -> bool:
        found = self[token] = bool(lib.sl_model_token_ends(self._handle(), token))
        return found


class Model(Owner):
    """A language model: a Hugging Face or MLX folder, a sluice pack or a GGUF file.

    path: the model.
    budget: memory for experts, in bytes, as "8GiB", or as a share of all experts ("25%", 0.25).
    context: tokens of each session.
    threads: default one per core.
    device: "cpu", "cuda", "auto"; `sluice.devices()` lists them.
    sessions: how many there can be at the same time; default 1.
    kv: element type of the KV cache: "i16", "f16", "f32", "auto".
    prefix_cache: memory for the beginnings of conversations ("1GiB"), so that they are not
    computed again.
    prefix_folder: a folder where they are kept for later runs.
    device_budget: GPU memory for experts.
    exact: activations and KV cache in 32 bits.
    progress: called as progress(what, done, total) while weights are loaded; a true result cancels.

    A model may be used by several threads; each answer takes one of its sessions, and waits for
    one if all are in use.

    >>> with sluice.Model("models/fable") as model:
    ...     print(model.chat("What is 17 + 25?").content)
    17 + 25 = 42.
    """

    def __init__(
        self,
        path: "Union[str, os.PathLike[str]]",
        *,
        budget: Optional[Size] = None,
        context: Optional[int] = None,
        threads: Optional[int] = None,
        device: Optional[str] = None,
        sessions: int = 1,
        kv: Optional[str] = None,
        prefix_cache: Optional[Size] = None,
        prefix_folder: "Optional[Union[str, os.PathLike[str]]]" = None,
        device_budget: Optional[Size] = None,
        isa: Optional[str] = None,
        reader: Optional[str] = None,
        exact: bool = False,
        pin_threads: bool = False,
        progress: Optional[Callable[[str, int, int], Any]] = None,
    ) -> None:
        options = fill(d.sl_model_options)
        options.max_sessions = as_count("sessions", sessions, 1)
        for name, value in (("device", device), ("kv", kv), ("isa", isa), ("reader", reader)):
            if value is not None:
                setattr(options, name, as_bytes(name, value))
        options.threads = as_count("threads", threads or 0)
        options.context_tokens = as_count("context", context or 0)
        options.pin_threads = pin_threads
        options.compile = b"exact" if exact else None
        if budget is not None:
            options.expert_budget_bytes, options.expert_budget_share = parse_size("budget", budget)
        if device_budget is not None:
            options.device_budget_bytes, options.device_budget_share = parse_size(
                "device_budget", device_budget
            )
        if prefix_cache is not None:
            options.prefix_cache_bytes, share = parse_size("prefix_cache", prefix_cache)
            if share:
                raise ValueError("prefix_cache: expected bytes or '1GiB', not a share")
        problem: List[BaseException] = []
        options.progress = _progress(progress or _look_for_signals, problem)
        self.path = os.fspath(path)
        try:
            self._handle = create(
                lib.sl_model_close, lib.sl_model_open, os.fsencode(path), ctypes.byref(options)
            )
        finally:
            if problem:
                raise problem.pop()
        if prefix_folder is not None:
            disk = fill(d.sl_disk_cache_options)
            disk.folder = os.fsencode(prefix_folder)
            call(lib.sl_model_cache_on_disk, self._live(), ctypes.byref(disk))
        self._prepare(sessions)

    def _prepare(self, sessions: int) -> None:
        info = self.info
        self._vocab: int = info.vocab
        self._context: int = info.context_tokens
        handle = weakref.ref(self._live())
        self._texts = _Texts(
            lambda token: _token_bytes(handle(), token),
            lambda token: bool(lib.sl_model_token_special(handle(), token)),
        )
        self._ends = _Ends(handle)
        self._all_ends: Optional[List[int]] = None
        self._grammar: Optional[Handle] = None
        self._pool = SessionPool(sessions)

    def close(self) -> None:
        """Closes the model and its sessions; arrays that still show their memory stay valid."""
        self._pool.close()
        self._grammar = None
        super().close()

    def __repr__(self) -> str:
        return f"<sluice.Model {self.path!r}{' (closed)' if self.closed else ''}>"

    # ---- what it is ----

    @property
    def info(self) -> Record:
        """Dimensions, types, bytes: the fields of sl_model_info in sluice.h."""
        out = fill(d.sl_model_info)
        call(lib.sl_model_describe, self._live(), ctypes.byref(out))
        return Record(out)

    @property
    def memory(self) -> Record:
        """Host memory in bytes, part by part: the fields of sl_memory_use in sluice.h."""
        out = fill(d.sl_memory_use)
        call(lib.sl_model_memory, self._live(), ctypes.byref(out))
        return Record(out)

    @property
    def sampling(self) -> Record:
        """The sampling that the model was published with."""
        out = fill(d.sl_sampling)
        call(lib.sl_model_sampling, self._live(), ctypes.byref(out))
        return Record(out)

    def expert_uses(self) -> ExpertUses:
        """How often each expert was used and missed, as arrays [layers, experts].

        >>> model.expert_uses().uses.sum(axis=1)      # of each layer
        """
        import numpy as np

        totals = fill(d.sl_expert_totals)
        call(lib.sl_model_expert_uses, self._live(), None, 0, ctypes.byref(totals))
        rows = np.zeros((totals.layers, totals.experts, 3), np.uint32)
        call(
            lib.sl_model_expert_uses,
            self._live(),
            rows.ctypes.data_as(ctypes.POINTER(d.sl_expert_use)),
            totals.layers * totals.experts,
            ctypes.byref(totals),
        )
        return ExpertUses(
            rows[..., 0].copy(), rows[..., 1].copy(), rows[..., 2] != 0, Record(totals)
        )

    # ---- text ----

    def tokenize(self, text: str) -> List[int]:
        """The tokens of a text, in which special tokens such as <|im_end|> are recognised."""
        data, count = text.encode(), ctypes.c_size_t()
        room = len(data) + 8
        while True:
            out = (d.sl_token * room)()
            call(
                lib.sl_model_tokenize, self._live(), data, len(data), out, room, ctypes.byref(count)
            )
            if count.value <= room:
                return list(out[: count.value])
            room = count.value

    def detokenize(self, tokens: Iterable[int]) -> str:
        """The text of tokens, special ones included."""
        handle = self._live()
        data = b"".join(_token_bytes(handle, token) for token in tokens)
        spaces = lib.sl_model_strip_start(handle)
        while spaces and data.startswith(b" "):
            data, spaces = data[1:], spaces - 1
        return data.decode("utf-8", "replace")

    def _text_of(self, token: int) -> str:
        return _token_bytes(self._live(), token).decode("utf-8", "replace")

    @property
    def begin_tokens(self) -> List[int]:
        """The tokens to put before a text that is used without a chat template (BOS)."""
        out = ctypes.c_void_p()
        count = lib.sl_model_begin_tokens(self._live(), ctypes.byref(out))
        return list((d.sl_token * count).from_address(out.value)) if count and out.value else []

    def is_end(self, token: int) -> bool:
        """Whether a token ends an answer."""
        return bool(lib.sl_model_token_ends(self._live(), token))

    @property
    def _end_tokens(self) -> List[int]:
        if self._all_ends is None:
            self._all_ends = [token for token in range(self._vocab) if self.is_end(token)]
        return self._all_ends

    @property
    def has_chat_template(self) -> bool:
        return bool(lib.sl_model_has_chat_template(self._live()))

    def _template_variables(
        self,
        messages: Messages,
        tools: Optional[Sequence[Mapping[str, Any]]],
        variables: Mapping[str, Any],
    ) -> bytes:
        fit = ctypes.c_void_p()
        given = json.dumps(as_messages(messages)).encode()
        call(lib.sl_messages_for_template, self._live(), given, ctypes.byref(fit))
        whole: Dict[str, Any] = {
            "messages": json.loads(take_text(fit)),
            "add_generation_prompt": True,
        }
        if tools:
            whole["tools"] = list(tools)
        whole["now"] = datetime.now().strftime("%Y-%m-%dT%H:%M:%S")
        whole.update(variables)
        return json.dumps(whole).encode()

    def render(
        self,
        messages: Messages,
        *,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        **variables: Any,
    ) -> str:
        """The text that the model's chat template makes of messages.

        >>> model.render("Hello!", enable_thinking=False)
        """
        out = ctypes.c_void_p()
        call(
            lib.sl_model_render_chat,
            self._live(),
            self._template_variables(messages, tools, variables),
            None,
            ctypes.byref(out),
        )
        return take_text(out)

    def tokenize_chat(
        self,
        messages: Messages,
        *,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        **variables: Any,
    ) -> List[int]:
        """The tokens of a conversation; special tokens in messages are ordinary text."""
        given = self._template_variables(messages, tools, variables)
        count, room = ctypes.c_size_t(), len(given) + 64
        while True:
            out = (d.sl_token * room)()
            call(lib.sl_model_tokenize_chat, self._live(), given, out, room, ctypes.byref(count))
            if count.value <= room:
                return list(out[: count.value])
            room = count.value

    # ---- sessions ----

    def session(self, *, chunk_tokens: int = 0, checkpoints: int = 0) -> Session:
        """A new session of your own; one of those that `sessions` allows."""
        return Session(self, chunk_tokens=chunk_tokens, checkpoints=checkpoints)

    def _make_session(self, options: Any) -> Handle:
        self._pool.make_room()
        return create(
            lib.sl_session_destroy,
            lib.sl_session_create,
            self._live(),
            ctypes.byref(options),
            keeps=(self._live(),),
        )

    def _grammar_vocabulary(self) -> Handle:
        if self._grammar is None:
            self._grammar = create(
                lib.sl_grammar_vocabulary_close,
                lib.sl_grammar_vocabulary_of_model,
                self._live(),
                keeps=(self._live(),),
            )
        return self._grammar

    # ---- answers ----

    def stream(self, prompt: Prompt, **options: Any) -> Stream:
        """Continues a text, piece by piece; options as in `generate`.

        >>> for piece in model.stream("Once upon a time", max_tokens=50):
        ...     print(piece, end="", flush=True)
        """
        return Stream(self, self._prompt(prompt), Options(options))

    def generate(self, prompt: Prompt, **options: Any) -> Completion:
        """Continues a text, or tokens.

        max_tokens: how many at most; default: until the context is full.
        stop: a text or several that end the answer.
        json_schema (a dict or a pydantic model), regex, grammar (GBNF), choices: what the text
        follows.
        logprobs: log-probabilities of each token, and of that many of the most likely ones.
        Other options choose tokens: temperature, top_k, top_p, min_p, seed, repeat_penalty and so
        on (docs/sampling.md, `sluice.OPTIONS`).

        >>> model.generate("Once upon a time", max_tokens=30, temperature=0.7, seed=1)
        >>> model.generate("Is water wet? ", choices=["yes", "no"])
        """
        return self.stream(prompt, **options).result

    def chat(
        self,
        messages: Messages,
        *,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        template: Optional[Mapping[str, Any]] = None,
        **options: Any,
    ) -> Message:
        """Answers a conversation: a text, or messages as the OpenAI API has them.

        tools: what the model may call, in the form of the OpenAI API; calls are in `tool_calls`.
        template: variables of the chat template, such as {"enable_thinking": False}.
        Other options as in `generate`; a grammar holds from the end of the thoughts on.

        >>> class Sum(pydantic.BaseModel):
        ...     total: int
        >>> total = model.chat("What is 17 + 25?", json_schema=Sum).parsed.total
        """
        return self.chat_stream(messages, tools=tools, template=template, **options).result

    def chat_stream(
        self,
        messages: Messages,
        *,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        template: Optional[Mapping[str, Any]] = None,
        **options: Any,
    ) -> ChatStream:
        """The same, piece by piece.

        >>> for delta in model.chat_stream("Tell me a story."):
        ...     print(delta.content, end="", flush=True)
        """
        variables = dict(template or {})
        tokens = self.tokenize_chat(messages, tools=tools, **variables)
        self._check_prompt(tokens)
        prompt = self.render(messages, tools=tools, **variables)
        return ChatStream(self, tokens, prompt, tools, Options(options))

    def batch(self, prompts: Sequence[Prompt], **options: Any) -> List[Completion]:
        """Continues several texts at the same time; weights are read once for all of them.

        As many are computed together as `sessions` of the model allows, the others follow.
        Options as in `generate`.

        >>> model = sluice.Model("models/fable", sessions=8)
        >>> model.batch(["One, two,", "Red, green,"], max_tokens=5, temperature=0)
        """
        return run_batch(self, [self._prompt(prompt) for prompt in prompts], options)

    def _prompt(self, prompt: Prompt) -> List[int]:
        tokens = tokens_of(self, prompt)
        self._check_prompt(tokens)
        return tokens

    def _check_prompt(self, tokens: Sequence[int]) -> None:
        if not tokens:
            raise InvalidError("the prompt is empty")
        if len(tokens) > self._context:
            raise InvalidError(
                f"the prompt has {len(tokens)} tokens, the context holds {self._context}"
            )

    # ---- asynchronous forms ----

    async def agenerate(self, prompt: Prompt, **options: Any) -> Completion:
        """`generate` in a thread; cancelling the task cancels the session."""
        stream = self.stream(prompt, **options)
        return await in_thread(lambda: stream.result, stream.cancel)

    async def achat(self, messages: Messages, **options: Any) -> Message:
        """`chat` in a thread; cancelling the task cancels the session."""
        stream = self.chat_stream(messages, **options)
        return await in_thread(lambda: stream.result, stream.cancel)

    def astream(self, prompt: Prompt, **options: Any) -> AsyncIterator[str]:
        """`stream` in a thread.

        >>> async for piece in model.astream("Once upon a time"):
        ...     print(piece, end="", flush=True)
        """
        return iterate_in_thread(self.stream(prompt, **options))

    def achat_stream(self, messages: Messages, **options: Any) -> AsyncIterator[Delta]:
        """`chat_stream` in a thread."""
        return iterate_in_thread(self.chat_stream(messages, **options))

    # ---- scores and embeddings ----

    def embed(
        self, texts: Union[str, Sequence[Prompt]], pooling: str = "mean"
    ) -> "NDArray[np.float32]":
        """Hidden states after the final norm, pooled: an array [texts, hidden].

        pooling: "mean" of all tokens, or "last".

        >>> a, b = model.embed(["a red fox", "a blue bird"])
        """
        import numpy as np

        if pooling not in ("mean", "last"):
            raise ValueError(f"pooling is {pooling!r}, wanted 'mean' or 'last'")
        prompts = [self._prompt(p) for p in ([texts] if isinstance(texts, str) else texts)]
        found = np.empty((len(prompts), self.info.hidden), np.float32)
        for row, tokens in zip(found, prompts):
            with self._pool.borrow(self) as session:
                session.rewind(0)
                total = np.zeros(len(row), np.float64)
                for _, states in session._rows(tokens, hidden=True):
                    total = (
                        states[-1].astype(np.float64)
                        if pooling == "last"
                        else total + states.sum(0)
                    )
                row[:] = total if pooling == "last" else total / len(tokens)
        return found

    def logprobs(self, text: Prompt, top: int = 0) -> List[TokenLogprobs]:
        """The log-probability of each token of a text but the first, given those before it.

        >>> [item.logprob for item in model.logprobs("Once upon a time")]
        """
        tokens = self._prompt(text)
        found: List[TokenLogprobs] = []
        with self._pool.borrow(self) as session:
            session.rewind(0)
            for rows, _ in session._rows(tokens, hidden=False):
                following = tokens[len(found) + 1 : len(found) + 1 + len(rows)]
                for scores in row_logprobs(rows[: len(following)], following, top):
                    named = [Logprob(token, self._text_of(token), score) for token, score in scores]
                    found.append(TokenLogprobs(*named[0], top=tuple(named[1:])))
        return found

    def perplexity(self, text: Prompt) -> float:
        """e to the mean of the negative log-probabilities of `logprobs`."""
        import math

        scores = [item.logprob for item in self.logprobs(text)]
        if not scores:
            raise InvalidError("perplexity: the text has 1 token, wanted at least 2")
        return math.exp(-math.fsum(scores) / len(scores))


def _token_bytes(handle: Optional[Handle], token: int) -> bytes:
    count = ctypes.c_size_t()
    address = lib.sl_model_token_text(handle, token, ctypes.byref(count))
    return ctypes.string_at(address, count.value) if address else b""


def _look_for_signals(*_: object) -> None:
    """Python runs signal handlers, such as that of Ctrl-C, when it is called."""


def _progress(function: Callable[[str, int, int], Any], problem: List[BaseException]) -> Any:
    """A callback for the library; an exception cancels, and is kept in `problem`."""

    def report(_: Any, what: bytes, done: int, total: int) -> int:
        try:
            return 1 if function(what.decode("utf-8", "replace"), done, total) else 0
        except BaseException as error:  # raised again when the call has returned
            problem.append(error)
            return 1

    return d.sl_progress_fn(report)


def devices() -> List[Record]:
    """The devices that this build knows: name, summary, whether it runs models."""
    found = []
    for index in range(lib.sl_device_count()):
        item = fill(d.sl_device_item)
        call(lib.sl_device_at, index, ctypes.byref(item))
        found.append(Record(item))
    return found
