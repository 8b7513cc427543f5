"""The server of `sluice serve` on plain sockets: malformed requests, who may ask, limits, slow and
vanishing clients, the end."""
import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(__file__))
from support import CHAT, PROGRAM, SLOW, Server, chat, check, events, finish, head, read_answer  # noqa: E402

QUESTION = "What is 17 + 25?"

# (name, path, body, status, part of the message)
MALFORMED = [
    ("no body", CHAT, b"", 400, "no body"),
    ("no JSON", CHAT, b"hello", 400, "not valid JSON"),
    ("cut JSON", CHAT, b'{"messages": [', 400, "not valid JSON"),
    ("a list", CHAT, b"[1]", 400, "not a JSON object"),
    ("bad UTF-8", CHAT, b'{"messages": "\xff"}', 400, "not valid JSON"),
    ("deep JSON", CHAT, b"[" * 10000, 400, "not valid JSON"),
    ("deep object", CHAT, b'{"a":' * 10000, 400, "not valid JSON"),
    ("huge number", CHAT, b'{"seed": 99999999999999999999}', 400, "not valid JSON"),
    ("no messages", CHAT, {}, 400, "messages"),
    ("empty messages", CHAT, {"messages": []}, 400, "messages"),
    ("messages are a text", CHAT, {"messages": "hi"}, 400, "messages"),
    ("message is a text", CHAT, {"messages": ["hi"]}, 400, "messages[0].role"),
    ("unknown role", CHAT, {"messages": [{"role": "king", "content": "x"}]}, 400, "role"),
    ("no content", CHAT, {"messages": [{"role": "user"}]}, 400, "content"),
    ("content is a number", CHAT, {"messages": [{"role": "user", "content": 5}]}, 400, "content"),
    ("an image", CHAT, {"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:x"}}]}]}, 400, "image_url"),
    ("two assistants at the end", CHAT, {"messages": [{"role": "assistant", "content": "a"}] * 2},
     400, "last two"),
    ("bad calls", CHAT, {"messages": [{"role": "assistant", "tool_calls": [{}]}]}, 400, "tool_calls"),
    ("model is a number", CHAT, chat("x", model=5), 400, "model"),
    ("stream is a text", CHAT, chat("x", stream="yes"), 400, "stream"),
    ("temperature is a text", CHAT, chat("x", temperature="hot"), 400, "temperature"),
    ("negative temperature", CHAT, chat("x", temperature=-1), 400, "temperature"),
    ("top_p above 1", CHAT, chat("x", top_p=1.5), 400, "top_p"),
    ("negative top_k", CHAT, chat("x", top_k=-5), 400, "top_k"),
    ("n is 0", CHAT, chat("x", n=0), 400, "n:"),
    ("n is 1000", CHAT, chat("x", n=1000), 400, "n:"),
    ("max_tokens is a text", CHAT, chat("x", max_tokens="many"), 400, "max_tokens"),
    ("max_tokens is -7", CHAT, chat("x", max_tokens=-7), 400, "max_tokens"),
    ("stop is a number", CHAT, chat("x", stop=5), 400, "stop"),
    ("stop has a number", CHAT, chat("x", stop=["a", 5]), 400, "stop"),
    ("too many stops", CHAT, chat("x", stop=["a"] * 100), 400, "stop"),
    ("top_logprobs alone", CHAT, chat("x", top_logprobs=3), 400, "logprobs"),
    ("many top_logprobs", CHAT, chat("x", logprobs=True, top_logprobs=30), 400, "top_logprobs"),
    ("bias of a word", CHAT, chat("x", logit_bias={"one": 1}), 400, "logit_bias"),
    ("bias of no token", CHAT, chat("x", logit_bias={"999999": 1}), 400, "logit_bias"),
    ("bias is a text", CHAT, chat("x", logit_bias="all"), 400, "logit_bias"),
    ("tools are a text", CHAT, chat("x", tools="all"), 400, "tools"),
    ("tool without a name", CHAT, chat("x", tools=[{"type": "function", "function": {}}]), 400, "name"),
    ("required without tools", CHAT, chat("x", tool_choice="required"), 400, "no tools"),
    ("unknown tool", CHAT, chat("x", tool_choice={"type": "function", "function": {"name": "q"}}),
     400, "no such tool"),
    ("unknown format", CHAT, chat("x", response_format={"type": "poem"}), 400, "response_format"),
    ("no schema", CHAT, chat("x", response_format={"type": "json_schema", "json_schema": {}}), 400,
     "schema"),
    ("schema is a number", CHAT, chat("x", response_format={
        "type": "json_schema", "json_schema": {"schema": 5}}), 400, "schema"),
    ("unsupported keyword", CHAT, chat("x", response_format={"type": "json_schema", "json_schema": {
        "schema": {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}}}),
     400, "uniqueItems"),
    ("bad regex", CHAT, chat("x", structured_outputs={"regex": "(("}), 400, ""),
    ("bad grammar", CHAT, chat("x", grammar="root ::= ("), 400, ""),
    ("unknown effort", CHAT, chat("x", reasoning_effort="much"), 400, "reasoning_effort"),
    ("kwargs are a list", CHAT, chat("x", chat_template_kwargs=[1]), 400, "chat_template_kwargs"),
    ("too long", CHAT, chat("word " * 9000), 400, "context"),
    ("no prompt", "/v1/completions", {}, 400, "prompt"),
    ("empty prompt", "/v1/completions", {"prompt": ""}, 400, "prompt"),
    ("mixed prompt", "/v1/completions", {"prompt": [1, "a"]}, 400, "prompt"),
    ("id beyond the vocabulary", "/v1/completions", {"prompt": [1, 99999]}, 400, "token id"),
    ("suffix", "/v1/completions", {"prompt": "a", "suffix": "b"}, 400, "suffix"),
    ("no input", "/v1/responses", {}, 400, "input"),
    ("item of no role", "/v1/responses", {"input": [{"content": "x"}]}, 400, "role"),
    ("call without a name", "/v1/responses", {"input": [{"type": "function_call"}]}, 400, "call_id"),
    ("unknown previous response", "/v1/responses", {"input": "x", "previous_response_id": "resp_q"},
     400, "previous_response_id"),
    ("conversation", "/v1/responses", {"input": "x", "conversation": "c"}, 400, "conversation"),
    ("no max_tokens", "/v1/messages", chat("x"), 400, "max_tokens"),
    ("unknown block", "/v1/messages", {"max_tokens": 5, "messages": [
        {"role": "user", "content": [{"type": "image"}]}]}, 400, "image"),
    ("result of no call", "/v1/messages", {"max_tokens": 5, "messages": [
        {"role": "user", "content": [{"type": "tool_result"}]}]}, 400, "tool_use_id"),
    ("tool without a schema", "/v1/messages", chat("x", max_tokens=5, tools=[{"name": "a"}]), 400,
     "input_schema"),
    ("budget beyond max_tokens", "/v1/messages", chat("x", max_tokens=5, thinking={
        "type": "enabled", "budget_tokens": 2000}), 400, "budget_tokens"),
    ("embedding of nothing", "/v1/embeddings", {}, 400, "input"),
    ("embedding of another size", "/v1/embeddings", {"input": "a", "dimensions": 3}, 400, "dimensions"),
    ("unknown encoding", "/v1/embeddings", {"input": "a", "encoding_format": "hex"}, 400,
     "encoding_format"),
    ("tokenize a number", "/tokenize", {"content": 5}, 400, "content"),
    ("detokenize a word", "/detokenize", {"tokens": ["a"]}, 400, "tokens"),
    ("ids and texts", "/v1/embeddings", {"input": [1, "a"]}, 400, "token id"),
    ("texts within ids", "/v1/embeddings", {"input": [["a"]]}, 400, "token id"),
    ("answers to many prompts", "/v1/completions", {"prompt": ["a"] * 64, "n": 3}, 400, "n:"),
    ("arguments that are nested deep", CHAT, {"messages": [{"role": "user", "content": "x"}, {
        "role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments":
                                             '{"a":' + "[" * 2046 + "]" * 2046 + "}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "x"}]}, 400, "deep"),
    ("arguments that are nested less", CHAT, {"messages": [{"role": "user", "content": "x"}, {
        "role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments":
                                             '{"a":' + "[" * 1000 + "]" * 1000 + "}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "x"}]}, 400, "deep"),
    ("a deep schema", CHAT, ('{"messages":[{"role":"user","content":"x"}],"json_schema":' + '{"items":' * 1500 + "{}"
                             + "}" * 1500 + "}").encode(), 400, "deep"),
    ("a deep regex", CHAT, chat("x", structured_outputs={"regex": "(" * 2000 + "a" + ")" * 2000}), 400, "deep"),
    ("a bias for each token, twice", CHAT, chat("x", logit_bias=[[1, 1]] * 9000), 400, "more items"),
    ("an endless bias", CHAT, chat("x", logit_bias={"5": 1e300}), 400, "logit_bias"),
    ("a long stop", CHAT, chat("x", stop="a" * 100000), 400, "stop"),
    ("a grammar of messages", "/v1/messages", chat("x", max_tokens=5, grammar="root ::= ("), 400, ""),
    ("a regex of responses", "/v1/responses", {"input": "x", "structured_outputs": {"regex": "(("}}, 400, ""),
    ("template variables of messages", "/v1/messages", chat("x", max_tokens=5, chat_template_kwargs=5), 400,
     "chat_template_kwargs"),
    ("no such endpoint", "/v1/nothing", {}, 404, "no such endpoint"),
]


def test_malformed(server):
    for name, path, body, status, message in MALFORMED:
        got, answer = server.json("POST", path, body)
        error = answer.get("error", {})
        shape = (answer.get("type") == "error" and "request_id" in answer
                 if path == "/v1/messages" else
                 sorted(error) == ["code", "message", "param", "type"])
        check(f"malformed: {name}", got == status and message in error.get("message", "") and shape,
              f"{got} {answer}")


def test_answers(server):
    got, answer = server.json("POST", CHAT, chat(QUESTION))
    check("answer", got == 200 and answer["choices"][0]["message"]["content"] == "17 + 25 = 42.", answer)
    check("usage", answer["usage"]["completion_tokens"] == 12, answer["usage"])
    _, headers, body = server.request("POST", CHAT, chat(QUESTION, stream=True))
    data = [d for _, d in events(body)]
    check("stream ends", data[-1] == "[DONE]" and headers["content-type"].startswith("text/event-stream"))
    text = "".join(json.loads(d)["choices"][0]["delta"].get("content") or "" for d in data[:-1])
    check("streamed text", text == "17 + 25 = 42.", text)
    check("one id", len({json.loads(d)["id"] for d in data[:-1]}) == 1)
    # a half of a surrogate pair and a NUL are replaced
    got, answer = server.json("POST", CHAT, b'{"messages":[{"role":"user","content":"a\\ud83d\\u0000b"}],'
                              b'"max_tokens":1}')
    check("cut emoji", got == 200, answer)
    got, answer = server.json("POST", "/apply-template", b'{"messages":[{"role":"user","content":"a\\ud83d"}]}')
    check("cut emoji becomes U+FFFD", "a\ufffd" in answer.get("prompt", ""), answer)
    got, answer = server.json("POST", "/tokenize", {"content": "Hello, fox"})
    _, back = server.json("POST", "/detokenize", {"tokens": answer["tokens"]})
    check("tokenize and back", back["content"] == "Hello, fox", back)
    for stop, wanted in (["= 4"], "17 + 25 "), ("25 =", "17 + "), ("nothing", "17 + 25 = 42."):
        _, answer = server.json("POST", CHAT, chat(QUESTION, stop=stop))
        check(f"stop {stop}", answer["choices"][0]["message"]["content"] == wanted, answer)
    _, answer = server.json("POST", "/v1/messages", chat(QUESTION, max_tokens=40, stop_sequences=["= 4"]))
    check("stop_sequence", (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "= 4"), answer)
    _, answer = server.json("POST", CHAT, chat(QUESTION, max_tokens=0))
    check("max_tokens 0", answer["choices"][0]["message"]["content"] == "" and
          answer["choices"][0]["finish_reason"] == "length", answer)
    _, answer = server.json("POST", CHAT, chat(QUESTION, n=3, temperature=1, seed=5))
    check("n", [c["index"] for c in answer["choices"]] == [0, 1, 2], answer)
    _, again = server.json("POST", CHAT, chat(QUESTION, n=3, temperature=1, seed=5))
    check("seed", answer["choices"] == again["choices"], again)
    for fields in ({"dry_sequence_breakers": ["a"], "dry_multiplier": 1}, {"mirostat": 2, "temperature": 1},
                   {"min_p": 0.1, "typ_p": 0.9, "xtc_probability": 0.5, "temperature": 1}, {"min_tokens": 3},
                   {"samplers": ["top_k", "temperature"], "top_k": 1, "temperature": 1}, {"seed": -1},
                   {"repetition_penalty": 1.01, "frequency_penalty": 0.01}):
        got, answer = server.json("POST", CHAT, chat(QUESTION, max_tokens=20, **fields))
        check(f"samplers: {sorted(fields)}", got == 200 and answer["usage"]["completion_tokens"] > 2, answer)
    _, answer = server.json("POST", CHAT, chat(QUESTION, logit_bias=[["42", False]]))
    check("a text that is banned", "42" not in answer["choices"][0]["message"]["content"], answer)
    _, _, body = server.request("POST", "/v1/completions", {
        "prompt": ["Once upon", "The brave fox"], "n": 2, "echo": True, "logprobs": 1, "max_tokens": 2, "stream": True})
    echoes = {}
    for choice in (json.loads(d)["choices"][0] for _, d in events(body) if d != "[DONE]"):
        echoes.setdefault(choice["index"], choice)
    check("echo: each stream begins with its prompt", [echoes[i]["text"] for i in range(4)] ==
          ["Once upon"] * 2 + ["The brave fox"] * 2, echoes)
    check("echo: with all log-probabilities of it", all(
        "".join(c["logprobs"]["tokens"]) == c["text"] and None not in c["logprobs"]["token_logprobs"][1:]
        for c in echoes.values()), echoes)
    # An agent: a long prompt, twenty tools, streamed; the second turn reuses the first.
    tools = [{"type": "function", "function": {
        "name": f"tool_{i}", "description": "Does something. " * 4, "strict": False, "parameters": {
            "type": "object", "properties": {"path": {"type": "string", "pattern": "^/"},
                                             "mode": {"enum": ["a", "b"]}}, "required": ["path"]}}}
        for i in range(20)]
    messages = [{"role": "system", "content": "You are an agent. " * 300}, {"role": "user", "content": QUESTION}]
    request = {"messages": messages, "tools": tools, "stream": True, "stream_options": {"include_usage": True}}
    got, _, body = server.request("POST", CHAT, request)
    check("agent: first turn", got == 200 and events(body)[-1][1] == "[DONE]", body[-300:])
    request["messages"] = messages + [{"role": "assistant", "content": "17 + 25 = 42."},
                                      {"role": "user", "content": "And 1 + 1?"}]
    _, _, body = server.request("POST", CHAT, request)
    usage = json.loads(events(body)[-2][1])["usage"]
    check("agent: the second turn reuses the first",
          usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] / 2, usage)
    for path in "/health", "/v1/models", "/props", "/stats", "/stats/experts":
        got, answer = server.json("GET", path)
        check(f"GET {path}", got == 200 and isinstance(answer, dict), answer)
    got, headers, body = server.request("GET", "/metrics")
    check("metrics", b"sluice_generated_tokens_total" in body and headers["content-type"].startswith("text/plain"))
    got, answer = server.json("GET", "/v1/models/nothing")
    check("unknown model", got == 404 and answer["error"]["code"] == "model_not_found", answer)
    _, answer = server.json("GET", "/v1/models", headers={"anthropic-version": "2023-06-01"})
    check("models for Anthropic's clients", answer["data"][0]["type"] == "model", answer)


def test_who(server):
    for host, wanted in ("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:8080", 200), ("evil.example", 403), \
            ("localhost.evil.example", 403), ("127.0.0.1.evil.example", 403), ("a.localhost", 200):
        got, _, _ = server.request("GET", "/health", headers={"Host": host})
        check(f"host {host}", got == wanted, got)
    own = f"http://127.0.0.1:{server.port}"
    for origin, wanted in (own, 200), ("https://evil.example", 403), ("null", 403), ("https://chat.example", 200):
        got, headers, _ = server.request("POST", CHAT, chat(QUESTION, max_tokens=1), {"Origin": origin})
        check(f"origin {origin}", got == wanted, got)
        listed = origin == "https://chat.example"
        check(f"CORS for {origin}", headers.get("access-control-allow-origin") == (origin if listed else None), headers)
    got, headers, _ = server.request("OPTIONS", CHAT, headers={
        "Origin": "https://chat.example", "Access-Control-Request-Method": "POST"})
    check("preflight", got == 204 and "POST" in headers.get("access-control-allow-methods", ""), headers)


def test_keys():
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("# keys\nsecond-key\n")
        file.flush()
        with Server("--api-key", "first-key,third-key", "--api-key-file", file.name, "--quiet") as server:
            cases = [({}, 401), ({"Authorization": "Bearer first-key"}, 200), ({"X-Api-Key": "second-key"}, 200),
                     ({"Authorization": "Bearer third-key"}, 200), ({"Authorization": "Bearer first-ke"}, 401),
                     ({"Authorization": "Bearer first-keyy"}, 401), ({"Authorization": "Bearer "}, 401),
                     ({"Authorization": "Basic first-key"}, 401), ({"X-Api-Key": "# keys"}, 401)]
            for headers, wanted in cases:
                got, answer = server.json("GET", "/v1/models", headers=headers)
                check(f"key {headers}", got == wanted, answer)
            for path in "/health", "/":
                check(f"{path} needs no key", server.request("GET", path)[0] == 200)
            got, answer = server.json("POST", "/v1/messages", chat("x", max_tokens=1))
            check("401 in Anthropic's form", got == 401 and answer["error"]["type"] == "authentication_error", answer)
            got, headers, _ = server.request("GET", "/v1/models")
            check("WWW-Authenticate", headers.get("www-authenticate") == "Bearer", headers)
            key = {"Authorization": "Bearer first-key", "Host": "name.example"}
            check("any host with a key", server.request("GET", "/v1/models", headers=key)[0] == 200)
            # What one key has stored, another does not find.
            key = {"Authorization": "Bearer first-key"}
            _, made = server.json("POST", "/v1/responses", {"input": QUESTION}, key)
            path = "/v1/responses/" + made["id"]
            check("stored response", server.request("GET", path, headers=key)[0] == 200)
            check("not for another key", server.request("GET", path, headers={"X-Api-Key": "second-key"})[0] == 404)
            check("nothing of prompts is printed", not any("17" in line for line in server.log), server.log)


def open_stream(server, body):
    """A socket whose stream has begun."""
    s = server.connect()
    data = json.dumps(body).encode()
    s.sendall(head(f"POST {CHAT} HTTP/1.1", "Host: localhost", f"Content-Length: {len(data)}") + data)
    return s


def requests_now(server):
    return server.json("GET", "/stats")[1]["requests"]


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds * SLOW
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


LONG = chat("Tell me a story about a brave fox.", stream=True, max_tokens=3500, ignore_eos=True)


def test_vanishing(folder):
    """One session: one stream is computed, others wait.  fable is too quick for it."""
    model = os.path.join(folder, "model.sluice")
    subprocess.run([PROGRAM, "synth", "--shape", "small", "--layers", "4", "--quiet", model], check=True)
    with Server("--parallel", "1", "--queue", "2", "--quiet", model=model) as server:
        first = open_stream(server, LONG)
        wait_until(lambda: requests_now(server)["live"] == 1)
        second, third = open_stream(server, LONG), open_stream(server, LONG)
        check("two wait", wait_until(lambda: [requests_now(server)[k] for k in ("live", "queued")] == [1, 2]),
              requests_now(server))
        got, headers, body = server.request("POST", CHAT, chat(QUESTION))
        check("the queue is full", got == 429 and int(headers.get("retry-after", 0)) > 0, (got, headers))
        check("429 in its form", json.loads(body)["error"]["type"] == "rate_limit_exceeded", body)
        second.close()
        check("gone while it waits", wait_until(lambda: requests_now(server)["queued"] == 1), requests_now(server))
        alive = first.recv(1000)
        check("another stream goes on", len(alive) > 0)
        first.close()
        check("gone in decode", wait_until(lambda: requests_now(server)["cancelled"] >= 2), requests_now(server))
        third.settimeout(20 * SLOW)
        seen = b""
        while b'"content"' not in seen and (piece := third.recv(4000)):
            seen += piece
        check("the next one begins", b'"content"' in seen, seen)
        third.close()
        check("nothing is left", wait_until(lambda: requests_now(server)["live"] == 0), requests_now(server))
        got, answer = server.json("POST", CHAT, chat(QUESTION, max_tokens=5))
        check("then it answers as before", got == 200, answer)
        prefills = open_stream(server, chat("word " * 800, stream=True, max_tokens=5))
        check("a long prompt begins", wait_until(lambda: requests_now(server)["live"] == 1))
        prefills.close()
        check("gone in prefill", wait_until(lambda: requests_now(server)["live"] == 0), requests_now(server))
        waits = open_stream(server, chat(QUESTION, max_tokens=5))
        waits.close()
        check("gone at once", wait_until(lambda: requests_now(server)["live"] == 0), requests_now(server))


TEMPLATE = """{%- if tools %}{{- '<|im_start|>system\nTools, with <tool_call>: ' }}{%- for tool in tools %}{{- tool | tojson }}
{%- endfor %}{{- '<|im_end|>\n' }}{%- endif %}{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' }}
{%- if message.reasoning_content %}{{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}{%- endif %}
{{- message.content }}{%- for call in message.tool_calls %}
{{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}{{- call.function.arguments | tojson }}
{{- '}\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is not defined or enable_thinking %}{{- '<think>\n' }}
{%- else %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}"""


def test_thinking(folder):
    """fable with a chat template that begins with a thought, which only a budget ends."""
    shared = os.path.join(os.environ.get("SLUICE_SHARED", "../shared"), "models/fable")
    if not os.path.exists(shared):
        print("skipped - thinking: there are no shared models")
        return
    model = os.path.join(folder, "thinker")
    shutil.copytree(shared, model)
    with open(os.path.join(model, "chat_template.jinja"), "w") as file:
        file.write(TEMPLATE)
    schema = {"type": "object", "properties": {"warm": {"type": "boolean"}}, "required": ["warm"]}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    with Server("--quiet", model=model) as server:
        def ask(**more):
            got, answer = server.json("POST", CHAT, chat(QUESTION, max_tokens=120, temperature=0, **more))
            return answer["choices"][0]["message"], answer["usage"]["completion_tokens_details"]["reasoning_tokens"]

        message, tokens = ask()
        check("a thought is no content", message["reasoning_content"] and tokens > 0, message)
        message, tokens = ask(reasoning_effort="none")
        check("no thought", "reasoning_content" not in message and message["content"] and tokens == 0, message)
        _, answer = server.json("POST", CHAT, {"max_tokens": 20, "temperature": 0, "messages": [
            {"role": "user", "content": QUESTION}, {"role": "assistant", "content": "17 + 25"}]})
        message = answer["choices"][0]["message"]
        check("what is continued is no thought", "reasoning_content" not in message and message["content"], message)
        message, tokens = ask(reasoning_budget_tokens=4, response_format=form)
        check("a schema after a thought", message["reasoning_content"] and
              isinstance(json.loads(message["content"])["warm"], bool), message)
        for more in {"tool_choice": "required"}, {"response_format": form}:
            message, tokens = ask(reasoning_budget_tokens=4, tools=tools, **more)
            calls = message.get("tool_calls")
            text = calls[0]["function"]["arguments"] if calls else message["content"]
            check(f"tools with {more}", message["reasoning_content"] and "warm" in json.loads(text), message)
        _, answer = server.json("POST", "/v1/messages", chat(QUESTION, max_tokens=60, thinking={
            "type": "enabled", "budget_tokens": 5}))
        check("a thought in a block", [b["type"] for b in answer["content"]][:1] == ["thinking"], answer)
        _, _, body = server.request("POST", "/v1/messages", chat(QUESTION, max_tokens=60, stream=True, thinking={
            "type": "enabled", "budget_tokens": 5}))
        deltas = [json.loads(d)["delta"]["type"] for n, d in events(body) if n == "content_block_delta"]
        check("a thought streamed, and signed", "thinking_delta" in deltas and "signature_delta" in deltas, deltas)
        _, _, body = server.request("POST", "/v1/responses", {"input": QUESTION, "stream": True,
                                                              "thinking_budget": 5, "max_output_tokens": 60})
        check("a thought as an item", "response.reasoning_text.delta" in [n for n, _ in events(body)], body)


def test_slow_reader():
    with Server("--quiet") as server:
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.connect(("127.0.0.1", server.port))
        data = json.dumps(dict(LONG, n=8, logprobs=True, top_logprobs=20)).encode()
        s.sendall(head(f"POST {CHAT} HTTP/1.1", "Host: localhost", f"Content-Length: {len(data)}") + data)
        began = time.monotonic()
        got, answer = server.json("POST", CHAT, chat(QUESTION))
        check("a slow reader does not stop others", got == 200 and time.monotonic() - began < 10 * SLOW)
        check("a slow reader is dropped", wait_until(lambda: requests_now(server)["live"] == 0, 60), requests_now(server))
        s.close()


def test_half_requests():
    with Server("--quiet", "--body-limit", "100kB") as server:
        idle = [server.connect() for _ in range(64)]
        half = server.connect()
        half.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Le")
        got, answer = server.json("POST", CHAT, chat(QUESTION))
        check("64 idle connections", got == 200, answer)
        for s in idle + [half]:
            s.close()
        # a connection that is reset
        s = server.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.sendall(head(f"POST {CHAT} HTTP/1.1", "Host: localhost", "Content-Length: 50"))
        s.close()
        check("it still answers", server.request("GET", "/health")[0] == 200)


def test_embeddings(folder):
    """One session: texts of one request between requests that generate, which do not wait for all of them."""
    with Server("--parallel", "1", "--quiet", model=os.path.join(folder, "model.sluice")) as server:
        texts = [f"text {i} " + "word " * 40 for i in range(30)]
        done = []

        def embed():
            got, answer = server.json("POST", "/v1/embeddings", {"input": texts})
            done.append((got, [d["embedding"] for d in answer.get("data", [])]))

        thread = threading.Thread(target=embed)
        thread.start()
        time.sleep(0.2 * SLOW)
        got, answer = server.json("POST", CHAT, chat(QUESTION, max_tokens=2))
        check("a question beside embeddings", got == 200 and not done, (answer, len(done)))
        thread.join()
        got, answer = server.json("POST", "/v1/embeddings", {"input": texts[7], "encoding_format": "float"})
        alone = answer["data"][0]["embedding"]
        check("embeddings beside a question are those of alone", done[0][0] == 200 and len(done[0][1]) == 30 and
              max(abs(a - b) for a, b in zip(alone, done[0][1][7])) < 1e-6, done[0][0])
        s = server.connect()
        data = json.dumps({"input": texts * 8}).encode()
        s.sendall(head("POST /v1/embeddings HTTP/1.1", "Host: localhost", f"Content-Length: {len(data)}") + data)
        time.sleep(0.1)
        s.close()
        began = time.monotonic()
        got, answer = server.json("POST", "/v1/embeddings", {"input": "a"})
        check("embeddings end when their client goes", got == 200 and time.monotonic() - began < 5 * SLOW, answer)


def test_turns(folder):
    """One session and two keys: who has asked for little does not wait for who has asked for much."""
    model = os.path.join(folder, "model.sluice")
    with Server("--parallel", "1", "--api-key", "busy,rare", "--quiet", model=model) as server:
        ended = []

        def ask(key, **more):
            status, answer = server.json("POST", CHAT, chat(QUESTION, max_tokens=120, ignore_eos=True, **more),
                                         {"X-Api-Key": key})
            ended.append(key if status == 200 else answer)

        threads = [threading.Thread(target=ask, args=("busy",)) for _ in range(6)]
        for thread in threads:
            thread.start()
        key = {"X-Api-Key": "rare"}
        wait_until(lambda: server.json("GET", "/stats", headers=key)[1]["requests"]["queued"] >= 4)
        ask("rare")
        for thread in threads:
            thread.join()
        check("keys take turns", ended.count("busy") == 6 and ended.index("rare") <= 3, ended)
    with Server("--timeout", "4", "--quiet", model=model) as server:
        began = time.monotonic()
        status, answer = server.json("POST", CHAT, chat(QUESTION, max_tokens=3900, ignore_eos=True))
        check("a limit of time", status == 200 and answer["choices"][0]["finish_reason"] == "length" and
              (answer["usage"]["completion_tokens"] < 3900 or time.monotonic() - began < 4), answer["usage"])


def test_models(folder):
    """A folder with two models, of which one is loaded at a time."""
    models = os.path.join(folder, "models")
    os.mkdir(models)
    shutil.copy("models/fable/fable.sluice", os.path.join(models, "a.sluice"))
    os.symlink(os.path.join(folder, "model.sluice"), os.path.join(models, "b.sluice"))
    with open(os.path.join(models, "broken.gguf"), "w") as file:
        file.write("no model")
    with Server("--models", models, "--quiet", model=None) as server:
        _, answer = server.json("GET", "/v1/models")
        check("models of a folder", sorted(m["id"] for m in answer["data"]) == ["a", "b", "broken"], answer)

        def ask(name, **more):
            return server.json("POST", CHAT, chat(QUESTION, model=name, max_tokens=20, **more))

        for name in "a", "b", "b", "a":
            got, answer = ask(name)
            check(f"model {name}", got == 200 and answer["model"] == name, answer)
        check("the answer of the first", answer["choices"][0]["message"]["content"] == "17 + 25 = 42.", answer)
        got, answer = ask("c")
        check("a model that is not there", got == 404 and answer["error"]["code"] == "model_not_found", answer)
        got, answer = ask("broken")
        check("a model that is broken", got == 400 and answer["error"]["param"] == "model", answer)
        check("no model is loaded then", server.request("GET", "/props")[0] == 503)
        got, answer = server.json("GET", "/v1/models")
        check("models where none is loaded", got == 200 and
              [m["status"] for m in answer["data"]] == ["unloaded"] * 3, answer)
        got, answer = server.json("GET", "/v1/models/b")
        check("one that is not loaded", got == 200 and answer["status"] == "unloaded", answer)
        # Who only looks does not bring back what is being replaced.
        ask("a")
        looks, seen = threading.Event(), []

        def look():
            while not looks.wait(0.002):
                seen.append(server.request("GET", "/stats")[0])

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        got, answer = ask("b")
        looks.set()
        for thread in threads:
            thread.join()
        _, answer = server.json("GET", "/v1/models")
        check("looking does not load", got == 200 and set(seen) == {200} and answer["data"][0]["id"] == "b" and
              "status" not in answer["data"][0], answer)
        results = []
        threads = [threading.Thread(target=lambda n=n: results.append((n, ask(n)[1].get("model"))))
                   for n in ["a", "b"] * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check("two models at once", all(a == b for a, b in results), results)
        # A client that goes away while it waits for a model does not load it.
        busy = open_stream(server, dict(LONG, model="b"))
        busy.recv(200)
        waits = open_stream(server, dict(LONG, model="a"))
        time.sleep(0.3)
        began = time.monotonic()
        check("looking does not wait either", requests_now(server)["live"] == 1 and time.monotonic() - began < 2 * SLOW)
        waits.close()
        time.sleep(1)
        busy.close()
        wait_until(lambda: requests_now(server)["live"] == 0)
        time.sleep(0.3)
        _, answer = server.json("GET", "/v1/models")
        check("gone while it waits for a model", answer["data"][0]["id"] == "b", answer)
        check("SIGTERM with several models", server.stop() == 0)


def entries(folder):
    return [name for name in os.listdir(folder) if name.endswith(".kv")] if os.path.isdir(folder) else []


def test_memory(folder):
    """Keys and values for one context, and no prefixes in memory: idle sessions give theirs up."""
    words = "Tell me about the number "
    with Server("--parallel", "4", "--context", "1024", "--kv-memory", "1200kB", "--prefix-cache", "100kB",
                "--quiet") as server:
        got, answer = server.json("POST", CHAT, chat("Four times: " + words * 20, max_tokens=5, n=4))
        check("four sessions have a part", got == 200 and len(answer.get("choices", [])) == 4, answer)
        got, answer = server.json("POST", CHAT, chat(words * 90, max_tokens=5))
        tokens = answer.get("usage", {}).get("prompt_tokens", 0)
        check("another one takes the most of it", got == 200 and tokens > 600, answer)
    kv = os.path.join(folder, "kv")
    with Server("--kv-disk", kv, "--quiet") as server:
        got, answer = server.json("POST", CHAT, chat(words * 60, max_tokens=5))
        check("what was computed is written while the server is idle",
              got == 200 and wait_until(lambda: entries(kv)), answer)


def test_end(folder):
    with Server("--quiet") as server:
        stream = open_stream(server, dict(LONG, max_tokens=400))
        stream.recv(200)
        result = []
        thread = threading.Thread(target=lambda: result.append(read_answer(stream, True)))
        thread.start()
        code = server.stop()
        thread.join(30 * SLOW)
        check("SIGTERM: a stream comes to its end", result and b"[DONE]" in result[0][2], result)
        check("SIGTERM: exit status 0", code == 0, code)
    with Server(model=os.path.join(folder, "model.sluice")) as server:
        stream = open_stream(server, LONG)
        stream.recv(200)
        server.process.terminate()
        wait_until(lambda: any("come to their end" in line for line in server.log))
        server.process.terminate()
        code = server.process.wait(30 * SLOW)
        check("a second SIGTERM ends at once", code == 130, code)
        stream.close()
    with Server("--quiet") as server:
        again = subprocess.run([PROGRAM, "serve", "-m", "models/fable",
                                "--port", str(server.port)], capture_output=True, text=True)
        check("a port in use", again.returncode == 1 and "cannot listen" in again.stderr, again.stderr)


def main():
    with Server("--cors", "https://chat.example", "--queue", "100") as server:
        test_answers(server)
        test_malformed(server)
        test_who(server)
        check("a line for each request", any("POST /v1/chat/completions 200" in line for line in server.log))
        check("no prompts in the log", not any("17 + 25" in line for line in server.log))
        check("SIGTERM when idle", server.stop() == 0)
    test_keys()
    with tempfile.TemporaryDirectory() as folder:
        test_vanishing(folder)
        test_embeddings(folder)
        test_turns(folder)
        test_models(folder)
        test_end(folder)
        test_thinking(folder)
        test_memory(folder)
    test_slow_reader()
    test_half_requests()
    finish()


main()
