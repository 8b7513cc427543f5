"""The server of `sluice serve` with the clients of OpenAI and Anthropic, in every way they ask."""
import asyncio
import json
import os
import sys
import warnings
from typing import Literal

import anthropic
import openai
from pydantic import BaseModel

sys.path.insert(0, os.path.dirname(__file__))
from support import SLOW, Server, check, finish  # noqa: E402

warnings.simplefilter("ignore")
QUESTION = "What is 17 + 25?"
ANSWER = "17 + 25 = 42."
ASKED = [{"role": "user", "content": QUESTION}]
WEATHER = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer"}},
           "required": ["city", "days"], "additionalProperties": False}


class Weather(BaseModel):
    warm: bool
    word: Literal["mild", "hot"]


def refused(call, kind):
    try:
        call()
    except kind as e:
        return e
    return None


# ---- chat completions

def test_chat(client):
    plain = client.chat.completions.create(model="fable", messages=ASKED)
    check("chat", plain.choices[0].message.content == ANSWER, plain)
    check("chat: usage", plain.usage.total_tokens == plain.usage.prompt_tokens + 12, plain.usage)
    chunks = list(client.chat.completions.create(model="fable", messages=ASKED, stream=True,
                                                 stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    check("chat: streamed", text == ANSWER and chunks[-1].usage.completion_tokens == 12, text)
    check("chat: one id", len({c.id for c in chunks}) == 1)
    with client.chat.completions.stream(model="fable", messages=ASKED) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    check("chat: stream helper", final.choices[0].message.content == ANSWER and "content.done" in kinds, kinds)
    many = client.chat.completions.create(model="fable", messages=ASKED, n=3, temperature=1, seed=3)
    again = client.chat.completions.create(model="fable", messages=ASKED, n=3, temperature=1, seed=3)
    check("chat: n and seed", len(many.choices) == 3 and
          [c.message.content for c in many.choices] == [c.message.content for c in again.choices])
    probs = client.chat.completions.create(model="fable", messages=ASKED, logprobs=True, top_logprobs=3)
    tokens = probs.choices[0].logprobs.content
    check("chat: logprobs of every token", "".join(t.token for t in tokens) == ANSWER and
          all(len(t.top_logprobs) == 3 and t.logprob <= 0 for t in tokens), tokens)
    chunks = client.chat.completions.create(model="fable", messages=ASKED, logprobs=True, top_logprobs=3, stream=True)
    streamed = [t for c in chunks if c.choices and c.choices[0].logprobs for t in c.choices[0].logprobs.content]
    check("chat: streamed logprobs", [t.logprob for t in streamed] == [t.logprob for t in tokens], streamed)
    stopped = client.chat.completions.create(model="fable", messages=ASKED, stop=["= 4", "never"])
    check("chat: stop", stopped.choices[0].message.content == "17 + 25 " and stopped.choices[0].finish_reason == "stop")
    short = client.chat.completions.create(model="fable", messages=ASKED, max_completion_tokens=3)
    check("chat: length", short.choices[0].finish_reason == "length" and short.usage.completion_tokens == 3)
    biased = client.chat.completions.create(model="fable", messages=ASKED, logit_bias={
        str(i): -100 for i in range(16, 20)}, max_tokens=4)
    check("chat: logit_bias", biased.choices[0].message.content[:1] not in "1234", biased)
    begun = client.chat.completions.create(model="fable", messages=ASKED + [{"role": "assistant", "content": "17 + 25"}])
    check("chat: goes on with the last message", begun.choices[0].message.content == " = 42.", begun)


def test_structured(client):
    parsed = client.chat.completions.parse(model="fable", messages=ASKED, response_format=Weather, max_tokens=300)
    check("chat: parsed", isinstance(parsed.choices[0].message.parsed, Weather), parsed)
    with client.chat.completions.stream(model="fable", messages=ASKED, response_format=Weather, max_tokens=300) as stream:
        final = stream.get_final_completion()
    check("chat: parsed from a stream", isinstance(final.choices[0].message.parsed, Weather), final)
    free = client.chat.completions.create(model="fable", messages=ASKED, max_tokens=60,
                                          response_format={"type": "json_object"})
    check("chat: JSON object", free.choices[0].message.content.strip()[:1] == "{", free)
    one = client.chat.completions.create(model="fable", messages=ASKED, extra_body={
        "structured_outputs": {"choice": ["yes", "no"]}})
    check("chat: one of two", one.choices[0].message.content in ("yes", "no"), one)


def test_tools(client):
    tools = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER, "strict": True}},
             {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}]
    named = {"type": "function", "function": {"name": "weather"}}
    whole = client.chat.completions.create(model="fable", messages=ASKED, tools=tools, tool_choice=named)
    call = whole.choices[0].message.tool_calls[0]
    arguments = json.loads(call.function.arguments)
    check("tools: named", call.function.name == "weather" and arguments["city"] in ("Paris", "Rome") and
          whole.choices[0].finish_reason == "tool_calls" and call.id.startswith("call_"), whole)
    any_tool = client.chat.completions.create(model="fable", messages=ASKED, tools=tools, tool_choice="required")
    check("tools: required", any_tool.choices[0].message.tool_calls[0].function.name in ("weather", "time"), any_tool)
    with client.chat.completions.stream(model="fable", messages=ASKED, tools=tools, tool_choice=named) as stream:
        events = [e for e in stream if e.type == "tool_calls.function.arguments.delta"]
        final = stream.get_final_completion().choices[0].message.tool_calls[0]
    check("tools: streamed arguments are those of the whole", len(events) > 1 and
          final.function.arguments == call.function.arguments, final)
    loop = ASKED + [whole.choices[0].message.model_dump(exclude_none=True),
                    {"role": "tool", "tool_call_id": call.id, "content": "Sunny."}]
    reply = client.chat.completions.create(model="fable", messages=loop, tools=tools)
    check("tools: the answer to a result", reply.choices[0].message.content is not None, reply)
    both = client.chat.completions.create(model="fable", messages=ASKED, tools=tools, max_tokens=300, response_format={
        "type": "json_schema", "json_schema": {"name": "w", "schema": Weather.model_json_schema()}})
    message = both.choices[0].message
    check("tools beside a schema", message.tool_calls or set(json.loads(message.content)) >= {"warm", "word"}, both)
    none = client.chat.completions.create(model="fable", messages=ASKED, tools=tools, tool_choice="none")
    check("tools: none", none.choices[0].message.content == ANSWER and not none.choices[0].message.tool_calls)


def test_errors(client):
    e = refused(lambda: client.chat.completions.create(model="fable", messages=[]), openai.BadRequestError)
    check("error: 400", e and e.param == "messages" and e.type == "invalid_request_error" and e.request_id, e)
    e = refused(lambda: client.chat.completions.create(model="fable", messages=[{"role": "user", "content": "a " * 9000}]),
                openai.BadRequestError)
    check("error: too long", e and e.code == "context_length_exceeded", e)
    e = refused(lambda: client.models.retrieve("nothing"), openai.NotFoundError)
    check("error: 404", e and e.code == "model_not_found", e)


# ---- completions, models, embeddings

def test_completions(client):
    echoed = client.completions.create(model="fable", prompt="Once upon a time", echo=True, logprobs=2, max_tokens=2)
    probs = echoed.choices[0].logprobs
    check("completions: echo", echoed.choices[0].text.startswith("Once upon a time") and
          probs.token_logprobs[0] is None and "".join(probs.tokens) == echoed.choices[0].text and
          len(probs.top_logprobs[1]) >= 2, echoed)
    check("completions: offsets", all(echoed.choices[0].text[o:].startswith(t)
                                      for o, t in zip(probs.text_offset, probs.tokens)), probs)
    scored = client.completions.create(model="fable", prompt="Once upon a time", echo=True, logprobs=1, max_tokens=0)
    check("completions: only the prompt", scored.choices[0].text == "Once upon a time" and
          len(scored.choices[0].logprobs.tokens) == 5, scored)
    two = client.completions.create(model="fable", prompt=["Once upon", "The fox"], n=2, max_tokens=3)
    check("completions: prompts and n", [c.index for c in two.choices] == [0, 1, 2, 3], two)
    chunks = list(client.completions.create(model="fable", prompt="Once upon", max_tokens=5, stream=True))
    check("completions: streamed", chunks[-1].choices[0].finish_reason in ("length", "stop") and
          chunks[0].object == "text_completion", chunks[-1])


def test_models(client, other):
    check("models", [m.id for m in client.models.list()] == ["fable"])
    check("model", client.models.retrieve("fable").id == "fable")
    check("models of Anthropic", [m.id for m in other.models.list()] == ["fable"])
    vectors = client.embeddings.create(model="fable", input=["Once upon a time", "The brave fox", "The brave fox"])
    floats = client.embeddings.create(model="fable", input="The brave fox", encoding_format="float")
    same = max(abs(a - b) for a, b in zip(vectors.data[1].embedding, floats.data[0].embedding))
    check("embeddings: base64 and float", len(floats.data[0].embedding) == 256 and same < 1e-6, same)
    check("embeddings: the same text", vectors.data[1].embedding == vectors.data[2].embedding)
    check("embeddings: unit length", abs(sum(x * x for x in floats.data[0].embedding) - 1) < 1e-4)
    last = client.embeddings.create(model="fable", input="The brave fox", extra_body={"pooling": "last"})
    check("embeddings: of the last token", last.data[0].embedding != floats.data[0].embedding)


# ---- responses

def test_responses(client):
    plain = client.responses.create(model="fable", input=QUESTION)
    check("responses", plain.output_text == ANSWER and plain.status == "completed", plain)
    check("responses: usage", plain.usage.output_tokens == 12 and plain.usage.input_tokens == 18, plain.usage)
    with client.responses.stream(model="fable", input=QUESTION) as stream:
        events = list(stream)
        final = stream.get_final_response()
    check("responses: stream helper", final.output_text == ANSWER, final)
    numbers = [e.sequence_number for e in events if hasattr(e, "sequence_number")]
    check("responses: numbers", numbers == list(range(len(numbers))), numbers)
    kinds = [e.type for e in events]
    check("responses: order of events", kinds[:4] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"] and
        kinds[-4:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done",
                       "response.completed"], kinds)
    kept = client.responses.retrieve(plain.id)
    check("responses: stored", kept.output_text == ANSWER)
    more = client.responses.create(model="fable", previous_response_id=plain.id, input="What is 1 + 1?")
    check("responses: continued", more.usage.input_tokens > plain.usage.total_tokens and
          more.previous_response_id == plain.id, more.usage)
    stored = client.responses.create(model="fable", input=QUESTION, store=False)
    e = refused(lambda: client.responses.retrieve(stored.id), openai.NotFoundError)
    check("responses: not stored", e is not None)
    client.responses.delete(plain.id)
    e = refused(lambda: client.responses.create(model="fable", previous_response_id=plain.id, input="x"),
                openai.BadRequestError)
    check("responses: deleted", e and e.param == "previous_response_id", e)
    short = client.responses.create(model="fable", input=QUESTION, max_output_tokens=3)
    check("responses: incomplete", short.status == "incomplete" and
          short.incomplete_details.reason == "max_output_tokens", short)
    parsed = client.responses.parse(model="fable", input=QUESTION, text_format=Weather, max_output_tokens=300)
    check("responses: parsed", isinstance(parsed.output_parsed, Weather), parsed)
    tools = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}]
    with client.responses.stream(model="fable", input=QUESTION, tools=tools, tool_choice="required") as stream:
        kinds = [e.type for e in stream]
        call = stream.get_final_response().output[0]
    check("responses: streamed call", call.type == "function_call" and json.loads(call.arguments)["city"] and
          "response.function_call_arguments.delta" in kinds, call)
    loop = [{"role": "user", "content": QUESTION}, call.model_dump(include={
        "type", "call_id", "name", "arguments"}), {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny"}]
    reply = client.responses.create(model="fable", input=loop, tools=tools)
    check("responses: the answer to a result", reply.status == "completed", reply)


# ---- messages

def test_messages(client):
    plain = client.messages.create(model="fable", max_tokens=50, messages=ASKED)
    check("messages", plain.content[0].text == ANSWER and plain.stop_reason == "end_turn", plain)
    check("messages: usage", plain.usage.input_tokens + plain.usage.cache_read_input_tokens == 18 and
          plain.usage.output_tokens == 12, plain.usage)
    with client.messages.stream(model="fable", max_tokens=50, messages=ASKED) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    check("messages: stream helper", final.content[0].text == ANSWER and final.stop_reason == "end_turn", final)
    check("messages: order of events", kinds[0] == "message_start" and kinds[1] == "content_block_start" and
          kinds[-1] == "message_stop", kinds)
    short = client.messages.create(model="fable", max_tokens=3, messages=ASKED)
    check("messages: max_tokens", short.stop_reason == "max_tokens", short)
    stopped = client.messages.create(model="fable", max_tokens=50, messages=ASKED, stop_sequences=["= 4"])
    check("messages: stop_sequence", stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == "= 4")
    tokens = client.messages.count_tokens(model="fable", messages=ASKED, system="Be brief.")
    check("messages: count_tokens", tokens.input_tokens > 18, tokens)
    tools = [{"name": "weather", "description": "Tells the weather", "input_schema": WEATHER}]
    choice = {"type": "tool", "name": "weather"}
    whole = client.messages.create(model="fable", max_tokens=100, messages=ASKED, tools=tools, tool_choice=choice)
    use = whole.content[0]
    check("messages: tool", whole.stop_reason == "tool_use" and use.type == "tool_use" and
          use.id.startswith("toolu_") and use.input["city"] in ("Paris", "Rome"), whole)
    with client.messages.stream(model="fable", max_tokens=100, messages=ASKED, tools=tools, tool_choice=choice) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    check("messages: streamed tool", final.content[0].input == use.input and "input_json" in kinds, final)
    loop = ASKED + [{"role": "assistant", "content": [use.model_dump(include={"type", "id", "name", "input"})]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "Sunny"},
                                                 {"type": "text", "text": "And now?"}]}]
    reply = client.messages.create(model="fable", max_tokens=50, messages=loop, tools=tools)
    check("messages: the answer to a result", reply.type == "message", reply)
    system = [{"type": "text", "text": "x-anthropic-billing-header: cch=1;"}, {"type": "text", "text": "Be brief."}]
    blocks = client.messages.count_tokens(model="fable", messages=ASKED, system=system)
    check("messages: a billing header is no part of the prompt", blocks.input_tokens == tokens.input_tokens, blocks)
    e = refused(lambda: client.messages.create(model="fable", max_tokens=5, messages=[]), anthropic.BadRequestError)
    check("messages: error", e and e.body["error"]["type"] == "invalid_request_error" and e.request_id, e)


# ---- many at once

async def ask(client, number):
    text = ""
    stream = await client.chat.completions.create(
        model="fable", messages=[{"role": "user", "content": f"What is {number} + 2?"}], stream=True)
    async for chunk in stream:
        text += chunk.choices[0].delta.content or ""
    return text


async def test_many(url):
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", timeout=60 * SLOW) as client:
        alone = [await ask(client, i) for i in range(1, 9)]
        together = await asyncio.gather(*(ask(client, 1 + i % 8) for i in range(32)))
        check("many at once: as alone", together == [alone[i % 8] for i in range(32)], together)
        stream = await client.chat.completions.create(model="fable", messages=ASKED, stream=True)
        async for _ in stream:
            break
        await stream.close()
        check("after a stream that was closed", await ask(client, 17) == "17 + 2 = 19.")


def main():
    with Server("--quiet", "--parallel", "4") as server:
        options = {"api_key": "none", "timeout": 60 * SLOW, "max_retries": 0}
        client = openai.OpenAI(base_url=server.url + "/v1", **options)
        other = anthropic.Anthropic(base_url=server.url, **options)
        test_chat(client)
        test_structured(client)
        test_tools(client)
        test_errors(client)
        test_completions(client)
        test_models(client, other)
        test_responses(client)
        test_messages(other)
        asyncio.run(test_many(server.url))
    finish()


main()
