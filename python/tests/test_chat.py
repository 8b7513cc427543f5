"""Conversations: messages, streams, tool calls, reuse."""

from pathlib import Path
from typing import Iterator

import pytest
import sluice
from sluice.chat import _Parser

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        },
    }
]


def test_an_answer(model: sluice.Model) -> None:
    found = model.chat("What is 17 + 25?", temperature=0)
    assert (found.role, found.content, found.finish_reason) == (
        "assistant",
        "17 + 25 = 42.",
        "stop",
    )
    assert str(found) == found.content == "17 + 25 = 42."
    assert found.to_dict() == {"role": "assistant", "content": "17 + 25 = 42."}


def test_a_conversation_reuses_what_was_computed(single: sluice.Model) -> None:
    messages = [{"role": "user", "content": "Tell me a story about a brave fox."}]
    first = single.chat(messages, temperature=0)
    messages += [first, {"role": "user", "content": "What is 17 + 25?"}]
    again = single.chat(messages, temperature=0)
    with single._pool.borrow(single) as session:
        computed = session.stats["prefill_tokens"]
    assert computed < again.prompt_tokens + 40  # the first turn was not computed twice


def test_deltas_are_the_message(model: sluice.Model) -> None:
    with model.chat_stream("Tell me a story.", temperature=0) as stream:
        said = "".join(delta.content for delta in stream)
    assert said == stream.result.content == model.chat("Tell me a story.", temperature=0).content


TEMPLATE = """\
{%- if tools %}<|im_start|>system\n{{ tools | tojson }}\n<tool_call></tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}
{%- for call in message.tool_calls %}<tool_call>
{{ call.function | tojson }}\n</tool_call>{% endfor -%}
<|im_end|>\n{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"""


@pytest.fixture(scope="module")
def caller(shared_fable: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sluice.Model]:
    """The model with a chat template that has tools and thoughts."""
    folder = tmp_path_factory.mktemp("caller")
    for path in shared_fable.iterdir():
        if path.suffix != ".jinja":
            (folder / path.name).symlink_to(path)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    with sluice.Model(folder) as opened:
        yield opened


def test_tool_calls(caller: sluice.Model) -> None:
    written = '<tool_call>\n{"name": "add", "arguments": {"a": 17, "b": 25}}\n</tool_call>'
    found = caller.chat("17 + 25?", tools=TOOLS, choices=[written])
    assert [one.name for one in found.tool_calls] == ["add"]
    assert found.tool_calls[0].arguments == {"a": 17, "b": 25}
    assert found.finish_reason == "tool_calls" and found.content == ""
    history = [{"role": "user", "content": "17 + 25?"}, found]
    history.append({"role": "tool", "tool_call_id": found.tool_calls[0].id, "content": "42"})
    rendered = caller.render(history, tools=TOOLS)
    assert '"a": 17' in rendered and "<|im_start|>tool\n42<|im_end|>" in rendered
    stream = caller.chat_stream("17 + 25?", tools=TOOLS, choices=[written])
    calls = [delta.tool_call for delta in stream if delta.tool_call]
    assert [one.raw_arguments for one in calls] == [found.tool_calls[0].raw_arguments]


def test_reasoning_is_apart(caller: sluice.Model) -> None:
    parser = _Parser(caller, caller.render("17 + 25?"), None)
    said = thought = ""
    reasons = set()
    for token in caller.tokenize("<think>\nhm\n</think>\n\n42"):
        for delta in parser.feed(token):
            said, thought = said + delta.content, thought + delta.reasoning
        reasons.add(parser.reasons)
    for delta in parser.finish():
        said, thought = said + delta.content, thought + delta.reasoning
    assert (said.strip(), thought.strip()) == ("42", "hm")
    assert reasons == {True, False}  # a grammar waits while it is true
    written = sluice.Message("assistant", "42", reasoning="hm").to_dict()
    assert written["reasoning_content"] == "hm"
