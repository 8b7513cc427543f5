"""Sends requests that were changed at random to a live server, which must refuse or answer each, and go on
answering others as before.

    socket_fuzz.py [SECONDS [SEED]]       10 minutes: socket_fuzz.py 600

A request is one of the seeds: its JSON is changed, or its bytes, or both; it is sent at once or in pieces,
followed by others or cut off.  What must hold: no answer has a status of 500 or above but 505, errors are
JSON of the vendor's form where the server itself made them, a question between them is answered as ever,
nothing is computed in the end, and the process ends with status 0."""
import contextlib
import copy
import json
import os
import random
import re
import struct
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(__file__))
from support import CHAT, SLOW, Server, chat, check, finish, is_complete  # noqa: E402

THREADS = 6
QUESTION = "What is 17 + 25?"
TOOLS = [{"type": "function", "function": {"name": "weather", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer"}},
    "required": ["city"]}}}]
SEEDS = [
    ("POST", CHAT, chat(QUESTION, max_tokens=8, stream=True, stream_options={"include_usage": True})),
    ("POST", CHAT, chat(QUESTION, max_tokens=8, n=2, temperature=1, seed=3, logprobs=True, top_logprobs=2,
                        stop=["= 4"], logit_bias={"5": -1})),
    ("POST", CHAT, chat(QUESTION, max_tokens=20, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)),
    ("POST", CHAT, chat(QUESTION, max_tokens=20, response_format={"type": "json_schema", "json_schema": {
        "name": "a", "schema": {"type": "object", "properties": {"a": {"type": "string", "maxLength": 4}}}}})),
    ("POST", CHAT, {"max_tokens": 8, "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function", "function": {
            "name": "weather", "arguments": "{\"city\":\"Rome\"}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "Sunny."}], "tools": TOOLS, "reasoning_effort": "low",
        "chat_template_kwargs": {"enable_thinking": False}}),
    ("POST", "/v1/completions", {"prompt": ["Once", [1, 2, 3]], "max_tokens": 4, "echo": True, "logprobs": 2}),
    ("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 4, "stream": True, "structured_outputs": {"regex": "[a-z]+"}}),
    ("POST", "/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_text", "text": QUESTION}]}],
                               "instructions": "Be brief.", "max_output_tokens": 8, "stream": True, "store": True,
                               "text": {"format": {"type": "json_object"}}, "reasoning": {"effort": "none"}}),
    ("POST", "/v1/responses", {"input": QUESTION, "max_output_tokens": 8, "previous_response_id": "resp_x"}),
    ("POST", "/v1/messages?beta=true", {"max_tokens": 8, "stream": True, "system": [{"type": "text", "text": "a"}],
                                        "thinking": {"type": "disabled"}, "messages": [
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": ""},
                                          {"type": "tool_use", "id": "a", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "auto"}}),
    ("POST", "/v1/messages/count_tokens", chat(QUESTION)),
    ("POST", "/v1/embeddings", {"input": ["a", "b"], "encoding_format": "base64"}),
    ("POST", "/tokenize", {"content": "a b", "with_pieces": True}),
    ("POST", "/detokenize", {"tokens": [1, 2, 3]}),
    ("POST", "/apply-template", chat(QUESTION)),
    ("GET", "/v1/models", None), ("GET", "/v1/models/fable", None), ("GET", "/metrics", None), ("GET", "/stats", None),
    ("GET", "/", None), ("GET", "/v1/responses/resp_x", None), ("DELETE", "/v1/responses/resp_x", None),
    ("OPTIONS", CHAT, None), ("HEAD", "/", None),
]
VALUES = [None, True, False, 0, 1, -1, 5.5, 1e300, 2**63 - 1, -2**63, 10**25, "", "x", "\u0000", "\ud83d", "none", "a" * 3000,
          [], {}, [[]], [None], {"": None}, {"type": "object"}, {"type": "text", "text": "x"}, ["a", 1], {"$ref": "#"}]
PIECES = [b"\r\n", b"\n", b"\r\n\r\n", b"\0", b" ", b":", b",", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n",
          b"Host: localhost\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"\xff", b"%00", b"{", b"[" * 500, b"\"",
          b"\\ud800", b"0\r\n\r\n", b"HTTP/1.0", b"99999999999999999999", b"-1", b"A" * 70000]


def places(value, found):
    """All (container, key) of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found.append((value, key))
        places(item, found)
    return found


def change_json(dice, body):
    body = copy.deepcopy(body)
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        found = places(body, [])
        if not found:
            break
        container, key = dice.choice(found)
        other, other_key = dice.choice(found)
        what = dice.randrange(5)
        if what < 2:
            container[key] = copy.deepcopy(dice.choice(VALUES))
        elif what == 2:
            del container[key]
        elif what == 3:
            container[key] = copy.deepcopy(other[other_key])
        elif isinstance(container, list):
            container.extend(copy.deepcopy(container[key]) for _ in range(dice.choice((1, 3, 200))))
        else:
            container[dice.choice(["stream", "n", "stop", "tools", "echo", "type", "x"])] = container.pop(key)
    return body


def change_bytes(dice, data):
    data = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4, 16))):
        at, end = sorted(dice.randrange(len(data) + 1) for _ in range(2))
        end = min(end, at + dice.choice((1, 4, 40)))
        what = dice.randrange(5)
        if what == 0 and at < len(data):
            data[at] ^= 1 << dice.randrange(8)
        elif what == 1:
            data[at:at] = dice.choice(PIECES)
        elif what == 2:
            del data[at:end]
        elif what == 3:
            data[at:at] = data[at:end]
        else:
            data[at:end] = dice.choice(PIECES)
    return bytes(data)


def chunks(dice, body):
    out = b""
    while body:
        count = dice.choice((1, 7, 100, 5000))
        out += b"%x\r\n%s\r\n" % (len(body[:count]), body[:count])
        body = body[count:]
    return out + b"0\r\n\r\n"


def make(dice):
    """The bytes of a request, most often one that is wrong."""
    method, path, body = dice.choice(SEEDS)
    if body is not None and dice.random() < 0.7:
        body = change_json(dice, body)
    payload = b"" if body is None else json.dumps(body).encode()
    if dice.random() < 0.1:
        payload = change_bytes(dice, payload or b"{}")
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += dice.sample(["Accept: */*", "Anthropic-Version: 2023-06-01", "X-Api-Key: k", "Content-Type: application/json",
                          "Origin: http://localhost", "Connection: close", "If-None-Match: \"a\"", "Range: bytes=0-1"],
                         dice.randrange(4))
    if payload and dice.random() < 0.2:
        lines.append("Transfer-Encoding: chunked")
        payload = chunks(dice, payload)
    elif payload or method == "POST":
        lines.append(f"Content-Length: {len(payload)}")
    data = ("\r\n".join(lines) + "\r\n\r\n").encode() + payload
    return change_bytes(dice, data) if dice.random() < 0.3 else data


def exchange(server, dice, data):
    """What the server sends back within a while."""
    received = b""
    with contextlib.closing(server.connect()) as s, contextlib.suppress(OSError):
        s.settimeout(0.2 * SLOW)
        if dice.random() < 0.1:
            data = data[:dice.randrange(len(data))]
        step = len(data) if dice.random() < 0.8 else 1 + len(data) // dice.randrange(2, 20)
        for at in range(0, len(data), step or 1):
            s.sendall(data[at:at + step])
        if dice.random() < 0.05:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return received
        while piece := s.recv(65536):
            received += piece
            if is_complete(received) or received.endswith(b"\r\n0\r\n\r\n"):
                s.settimeout(0.005)  # only what was sent at once follows
    return received


def wrong(received):
    """What is wrong with answers; None: nothing."""
    for found in re.finditer(rb"HTTP/1\.[01] (\d+) [^\r]*\r\n(.*?)\r\n\r\n", received, re.DOTALL):
        status, headers = int(found.group(1)), found.group(2).lower()
        if status >= 500 and status != 505:
            return f"status {status}"
        length = re.search(rb"content-length: (\d+)", headers)
        if status < 400 or b"application/json" not in headers or not length:
            continue
        body = received[found.end():found.end() + int(length.group(1))]
        if len(body) < int(length.group(1)) or not body:
            continue  # cut, or of HEAD
        error = json.loads(body).get("error")
        if not isinstance(error, dict) or not error.get("message"):
            return f"an error without a message: {body[:200]}"
    return None


class Run:
    def __init__(self, server, seconds, seed):
        self.server, self.end, self.seed = server, time.monotonic() + seconds, seed
        self.sent, self.failures, self.statuses = 0, [], {}
        self.lock = threading.Lock()

    def fail(self, what, data):
        with self.lock:
            self.failures.append((what, data))

    def ask(self, data):
        got, answer = self.server.json("POST", CHAT, chat(QUESTION))
        if got != 429 and answer.get("choices", [{}])[0].get("message", {}).get("content") != "17 + 25 = 42.":
            self.fail(f"the question was answered by {got} {answer}", data)

    def work(self, number):
        dice = random.Random(self.seed * THREADS + number)
        while time.monotonic() < self.end and len(self.failures) < 5:
            data = make(dice)
            try:
                received = exchange(self.server, dice, data)
            except OSError as e:
                self.fail(f"no connection: {e}", data)
                return
            if what := wrong(received):
                self.fail(what, data)
            with self.lock:
                self.sent += 1
                for status in re.findall(rb"HTTP/1\.[01] (\d+) ", received) or [b"none"]:
                    self.statuses[status.decode()] = self.statuses.get(status.decode(), 0) + 1
                asks = self.sent % 50 == 0
            if asks:
                self.ask(data)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    with Server("--quiet", "--parallel", "4", "--body-limit", "1MB", "--prefix-cache", "8MiB") as server:
        run = Run(server, seconds, seed)
        threads = [threading.Thread(target=run.work, args=(i,)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"{run.sent} requests in {seconds:g} s, seed {seed}, statuses {dict(sorted(run.statuses.items()))}")
        check("fuzz: requests were sent", run.sent > 0)
        for what, data in run.failures[:5]:
            check(f"fuzz: {what}", False, data[:4000])
        check("fuzz: the process lives", server.process.poll() is None, server.process.poll())
        run.ask(b"")
        check("fuzz: then it answers as before", not run.failures, [what for what, _ in run.failures])
        end = time.monotonic() + 40 * SLOW
        while (now := server.json("GET", "/stats")[1]["requests"])["live"] + now["queued"] and time.monotonic() < end:
            time.sleep(0.1)
        check("fuzz: nothing is left", now["live"] + now["queued"] == 0, now)
        check("fuzz: nothing failed inside", now["failed"] == 0, now)
        check("fuzz: SIGTERM", server.stop() == 0)
    finish()


main()
