"""Conversations: messages, reasoning and tool calls."""

import codecs
import ctypes
import json
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Union,
)

from . import _declarations as d
from ._handle import create
from ._library import call, fill, lib, take_text
from .answer import Answer, State, generate
from .generation import Options, Run, Stops, TokenLogprobs

if TYPE_CHECKING:
    from .model import Model


@dataclass
class ToolCall:
    """A call of a tool that the model asks for."""

    id: str
    name: str
    #: The JSON text of the arguments.
    raw_arguments: str = ""

    @property
    def arguments(self) -> Any:
        """The arguments as a Python object."""
        return json.loads(self.raw_arguments) if self.raw_arguments else {}


@dataclass
class Message:
    """A message of a conversation, and of an answer what is known about it."""

    role: str
    content: str = ""
    reasoning: str = ""
    tool_calls: List[ToolCall] = field(default_factory=list)
    #: As of a Completion; also "tool_calls": the answer has some.
    finish_reason: str = ""
    tokens: List[int] = field(default_factory=list, repr=False)
    prompt_tokens: int = 0
    seed: int = 0
    logprobs: Optional[List[TokenLogprobs]] = field(default=None, repr=False)
    parsed: Any = None

    def to_dict(self) -> Dict[str, Any]:
        """The message in the form of the OpenAI API."""
        made: Dict[str, Any] = {"role": self.role, "content": self.content}
        if self.reasoning:
            made["reasoning_content"] = self.reasoning
        if self.tool_calls:
            made["tool_calls"] = [
                {
                    "id": one.id,
                    "type": "function",
                    "function": {"name": one.name, "arguments": one.raw_arguments},
                }
                for one in self.tool_calls
            ]
        return made

    def __str__(self) -> str:
        return self.content


@dataclass
class Delta:
    """A piece of an answer: some content, some reasoning, or a whole call."""

    content: str = ""
    reasoning: str = ""
    tool_call: Optional[ToolCall] = None


Messages = Union[str, Sequence[Union[Message, Mapping[str, Any]]]]


def as_messages(messages: Messages) -> List[Dict[str, Any]]:
    """A text is the message of a user."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    if isinstance(messages, (bytes, Mapping)) or not isinstance(messages, Iterable):
        kind = type(messages).__name__
        raise TypeError(f"messages: expected a text or a list of messages, got {kind}")
    made = []
    for one in messages:
        if not isinstance(one, (Message, Mapping)):
            raise TypeError(f"messages: expected a Message or a dict, got {one!r}")
        made.append(one.to_dict() if isinstance(one, Message) else dict(one))
    return made


class _Parser:
    """Takes the tokens of an answer apart."""

    def __init__(
        self, model: "Model", prompt: str, tools: Optional[Sequence[Mapping[str, Any]]]
    ) -> None:
        self._model = model
        options = fill(d.sl_message_parser_options)
        options.family = lib.sl_message_family_of(model._live())
        options.prompt = prompt.encode()
        options.tools_json = json.dumps(list(tools)).encode() if tools else None
        options.whole_calls = 1
        self._handle = create(
            lib.sl_message_parser_destroy, lib.sl_message_parser_create, ctypes.byref(options)
        )
        self._event = fill(d.sl_message_event)
        self._call: Optional[ToolCall] = None

    @property
    def reasons(self) -> bool:
        """Whether what comes next is reasoning, or a tag around it."""
        return bool(lib.sl_message_parser_is_reasoning(self._handle))

    def feed(self, token: int) -> Iterator[Delta]:
        call(lib.sl_message_parser_feed_token, self._handle, self._model._live(), token)
        return self._deltas()

    def finish(self) -> Iterator[Delta]:
        call(lib.sl_message_parser_finish, self._handle)
        return self._deltas()

    def _deltas(self) -> Iterator[Delta]:
        event = self._event
        while lib.sl_message_parser_next(self._handle, ctypes.byref(event)):
            text = ctypes.string_at(event.text, event.bytes).decode() if event.text else ""
            if event.kind == d.SL_MESSAGE_CONTENT:
                yield Delta(content=text)
            elif event.kind == d.SL_MESSAGE_REASONING:
                yield Delta(reasoning=text)
            elif event.kind == d.SL_MESSAGE_CALL:
                self._call = ToolCall(event.id.decode(), event.name.decode())
            elif event.kind == d.SL_MESSAGE_ARGUMENTS and self._call is not None:
                self._call.raw_arguments += text
            elif event.kind == d.SL_MESSAGE_CALL_END and self._call is not None:
                yield Delta(tool_call=self._call)

    def message(self) -> Dict[str, Any]:
        """The whole answer, with reasoning and content trimmed as the parser says."""
        out = ctypes.c_void_p()
        call(lib.sl_message_parser_json, self._handle, ctypes.byref(out))
        found: Dict[str, Any] = json.loads(take_text(out))
        return found


class ChatStream(Answer[Delta, Message]):
    """Pieces of an answer that is being generated; `result` is the message at the end.

    >>> with model.chat_stream("Tell me a story.") as stream:
    ...     for delta in stream:
    ...         print(delta.content, end="", flush=True)
    >>> messages.append(stream.result)
    """

    def __init__(
        self,
        model: "Model",
        tokens: Sequence[int],
        prompt: str,
        tools: Optional[Sequence[Mapping[str, Any]]],
        options: Options,
    ) -> None:
        parser = _Parser(model, prompt, tools)
        said: List[str] = []
        calls: List[ToolCall] = []

        def deltas(run: Run) -> Iterator[Delta]:
            run.constrained = lambda: not parser.reasons
            for delta in _until_stop(_feed(run, parser), run):
                said.append(delta.content)
                if delta.tool_call is not None:
                    calls.append(delta.tool_call)
                yield delta

        def finish(run: Run) -> Message:
            return _make_message(run, parser, "".join(said), calls)

        state = State[Message]()
        super().__init__(state, generate(state, model, tokens, options, deltas, finish))


def _feed(run: Run, parser: _Parser) -> Iterator[Delta]:
    for token in run.choose():
        yield from parser.feed(token)
    yield from parser.finish()


def _until_stop(deltas: Iterator[Delta], run: Run) -> Iterator[Delta]:
    """Ends before a stop text in the content."""
    if not run.options.stop:
        yield from deltas
        return
    stops, decode = Stops(run.options.stop), codecs.getincrementaldecoder("utf-8")("replace")
    for delta in deltas:
        if delta.content:
            delta.content = decode.decode(stops.push(delta.content.encode()))
        if delta.content or delta.reasoning or delta.tool_call:
            yield delta
        if stops.found:
            run.finish_reason = "stop"
            return
    rest = decode.decode(stops.finish(), True)
    if rest:
        yield Delta(content=rest)


def _make_message(run: Run, parser: _Parser, said: str, calls: List[ToolCall]) -> Message:
    reason = "tool_calls" if calls and run.finish_reason == "stop" else run.finish_reason
    return Message(
        role="assistant",
        content=said,
        reasoning=parser.message().get("reasoning_content") or "",
        tool_calls=calls,
        finish_reason=reason,
        tokens=run.tokens,
        prompt_tokens=run.prompt_tokens,
        seed=run.seed,
        logprobs=run.logprobs,
        parsed=run.parse(said),
    )
