"""mock.py - A server that speaks what the page needs, with answers that are known beforehand.

Which answer comes is decided by a word in the last message: see ANSWERS.  `python3 mock.py [PORT]` serves
the page for a look at it.
"""
import contextlib
import http.server
import json
import pathlib
import random
import sys
import threading
import time

WEB = pathlib.Path(__file__).resolve().parents[2] / "apps/server/web"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
LAYERS, EXPERTS, PER_TOKEN = 24, 64, 4
EXPERT_BYTES = 2_800_000

HOSTILE = ("<script>window.hacked = 1</script> <img src=x onerror='window.hacked = 1'>\n\n"
           "[link](javascript:window.hacked=1) ![picture](https://elsewhere.example/x.png)\n\n"
           "```html\n<script>window.hacked = 1</script>\n```\n")

SHOW = """## Why the sky is blue

Sunlight is scattered by molecules that are **much smaller than its wavelength**. The strength of
Rayleigh scattering grows with the fourth power of the frequency:

$$
I \\propto \\frac{1}{\\lambda^4}
$$

| colour | wavelength | scattered, relative to red |
|:--|--:|--:|
| blue | 450 nm | 5.8 |
| green | 550 nm | 2.6 |
| red | 700 nm | 1.0 |

1. Blue light is scattered *about six times* as much as red light.
2. Violet is scattered more still, but
   - the sun emits less of it,
   - our eyes see it less.

```python
def scattered(wavelength, reference=700e-9):
    \"\"\"Relative to the reference.\"\"\"
    return (reference / wavelength) ** 4  # Rayleigh

print(f"{scattered(450e-9):.1f}")
```

> At sunset the path through the air is longer, and most of the blue is gone: what is left looks red.
"""


def words(text):
    """The text in pieces of a word, spaces kept."""
    out = [""]
    for one in text:
        out[-1] += one
        if one in " \n":
            out.append("")
    return [piece for piece in out if piece]


class Experts:
    """Counts of experts as a model would make them: some are used much more often than others."""

    def __init__(self):
        self.random = random.Random(7)
        self.uses = [0] * (LAYERS * EXPERTS)
        self.misses = [0] * (LAYERS * EXPERTS)
        self.memory = [0] * (LAYERS * EXPERTS)
        self.order = [self.random.sample(range(EXPERTS), EXPERTS) for _ in range(LAYERS)]
        self.slots = LAYERS * EXPERTS * 2 // 5

    def token(self):
        """Routes one token; returns how many experts were read."""
        missed = 0
        for layer in range(LAYERS):
            for _ in range(PER_TOKEN):
                rank = min(EXPERTS - 1, int(self.random.expovariate(1 / 11)))
                i = layer * EXPERTS + self.order[layer][rank]
                self.uses[i] += 1
                if not self.memory[i]:
                    missed += 1
                    self.misses[i] += 1
                    self.memory[i] = 1
                    self.evict(i)
        return missed

    def evict(self, kept):
        if sum(self.memory) > self.slots:
            there = [i for i, here in enumerate(self.memory) if here and i != kept]
            self.memory[min(there, key=lambda i: self.uses[i])] = 0


class Mock(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port=0, key=None, token_seconds=0.004):
        super().__init__(("127.0.0.1", port), Handler)
        self.key, self.token_seconds = key, token_seconds
        self.lock = threading.Lock()
        self.began = time.monotonic()
        self.bodies = []      # of chat requests
        self.paths = []       # of all requests
        self.foreign = []     # requests that name another host
        self.answers = 0
        self.stopped = 0      # answers whose reader went away
        self.live = 0
        self.experts = Experts()
        self.counts = {"prompt": 0, "reused": 0, "generated": 0}
        self.bytes_read = 0
        self.stall = 0.0
        self.times = []       # when tokens were generated
        self.reuse = "nothing was asked yet"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def token(self):
        """Generates one: the counts change."""
        with self.lock:
            missed = self.experts.token()
            self.counts["generated"] += 1
            self.bytes_read += missed * EXPERT_BYTES
            self.stall += missed * 0.0004
            self.times.append(time.monotonic())
        time.sleep(self.token_seconds)
        return missed

    def stats(self):
        with self.lock:
            now = time.monotonic()
            self.times = [at for at in self.times if at > now - 2]
            uses, misses = sum(self.experts.uses), sum(self.experts.misses)
            return {
                "model": "mock-30b-a3b", "uptime_seconds": now - self.began, "version": "0.0-mock",
                "requests": {"live": self.live, "queued": 0, "finished": self.answers, "cancelled": self.stopped, "failed": 0},
                "tokens": self.counts,
                "rates": {"generated_per_second": len(self.times) / 2, "prefilled_per_second": 412.0 if self.live else 0},
                "experts": {"layers": LAYERS, "experts": EXPERTS, "slots": self.experts.slots,
                            "budget_bytes": self.experts.slots * EXPERT_BYTES, "total_bytes": LAYERS * EXPERTS * EXPERT_BYTES,
                            "hits": uses - misses, "misses": misses, "first_reads": min(misses, LAYERS * EXPERTS),
                            "bytes_read": self.bytes_read, "read_seconds": self.bytes_read / 3.1e9, "stall_seconds": self.stall},
                "memory": {"weights": 1_240_000_000, "experts": 1_720_000_000, "state": 410_000_000, "checkpoints": 96_000_000,
                           "sessions": 31_000_000, "workspace": 148_000_000, "programs": 61_000_000, "text": 12_000_000,
                           "files": 3_000_000, "loading": 0, "process": 24_000_000, "prefixes": 268_000_000, "promised": 4_013_000_000},
                "prefix": {"queries": self.answers, "tokens": self.counts["prompt"], "reused": self.counts["reused"],
                           "last_text": self.reuse},
                "context_tokens": 8192, "sessions": 2,
            }

    def expert_stats(self):
        with self.lock:
            return {"layers": LAYERS, "experts": EXPERTS, "uses": self.experts.uses, "misses": self.experts.misses,
                    "in_memory": self.experts.memory}


class Gone(Exception):
    """The reader of an answer went away."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *args):
        pass

    # ---- Replies ----

    def reply(self, status, kind, data, **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", "default-src 'self'")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data)

    def json(self, value, status=200, **headers):
        self.reply(status, "application/json", json.dumps(value).encode(), **headers)

    def error(self, status, message, **headers):
        self.json({"error": {"message": message, "type": "x", "param": None, "code": None}}, status, **headers)

    def allowed(self):
        return self.server.key in (None, self.headers.get("Authorization", "").removeprefix("Bearer "))

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()

    def event(self, value):
        try:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            self.wfile.write(f"data: {text}\n\n".encode())
        except OSError:
            raise Gone from None

    def delta(self, **fields):
        self.event({"id": "chatcmpl-1", "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": fields, "finish_reason": None}]})

    def text(self, text, name="content"):
        for piece in words(text):
            self.server.token()
            self.generated += 1
            self.delta(**{name: piece})

    # ---- GET ----

    def do_GET(self):
        server, path = self.server, self.path.split("?")[0]
        server.paths.append(path)
        if self.headers.get("Host") != server.address.removeprefix("http://"):
            server.foreign.append(self.headers.get("Host"))
        name = "index.html" if path == "/" else path[1:]
        data = {"/v1/models": lambda: {"object": "list", "data": [{"id": "mock-30b-a3b", "object": "model"}]},
                "/props": lambda: {"default_generation_settings": {"params": {"temperature": 0.7, "top_k": 20}}},
                "/stats": server.stats, "/stats/experts": server.expert_stats}.get(path)
        if data is None and (WEB / name).is_file() and "/" not in name:
            self.reply(200, TYPES[pathlib.Path(name).suffix], (WEB / name).read_bytes(), Cache_Control="no-cache")
        elif data is None:
            self.error(404, f"no {path}")
        elif not self.allowed():
            self.error(401, "wrong API key")
        else:
            self.json(data())

    # ---- POST ----

    def do_POST(self):
        server = self.server
        server.paths.append(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            self.error(401, "wrong API key")
            return
        server.bodies.append(body)
        last = body["messages"][-1]
        self.question, self.generated, self.body = last["content"], 0, body
        self.missed, self.read, self.stalled = sum(server.experts.misses), server.bytes_read, server.stall
        self.uses = sum(server.experts.uses)
        answer = Handler.told if last["role"] == "tool" else next(
            (answer for word, answer in ANSWERS.items() if word in self.question), Handler.plain)
        server.live += 1
        self.began = time.monotonic()
        try:
            answer(self)
            server.answers += 1
        except Gone:
            server.stopped += 1
        finally:
            server.live -= 1

    def answer(self, content="", thoughts="", calls=(), prompt=40):
        self.begin_stream()
        self.delta(role="assistant", content="")
        self.progress(prompt)
        self.text(thoughts, "reasoning_content")
        self.text(content)
        for index, (name, arguments) in enumerate(calls):
            self.delta(tool_calls=[{"index": index, "id": f"call{index}", "type": "function",
                                    "function": {"name": name, "arguments": ""}}])
            for piece in words(arguments):
                self.server.token()
                self.generated += 1
                self.delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])
        self.end("tool_calls" if calls else "stop", prompt)

    def progress(self, prompt, steps=1, pause=0):
        for step in range(steps):
            self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": None}], "prompt_progress": {
                "total": prompt, "cache": prompt // 4, "processed": prompt * (step + 1) // steps, "time_ms": 100 * step}})
            time.sleep(pause)

    def end(self, reason, prompt):
        server = self.server
        turns = len(self.body["messages"])
        reused = prompt // 4 if turns > 1 else 0
        server.counts["prompt"] += prompt
        server.counts["reused"] += reused
        server.reuse = "the prompt is new" if turns == 1 else "the message after token 10 was edited"
        seconds = time.monotonic() - self.began
        missed, uses = sum(server.experts.misses) - self.missed, sum(server.experts.uses) - self.uses
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        self.event({"choices": [], "usage": {
            "prompt_tokens": prompt, "completion_tokens": self.generated, "total_tokens": prompt + self.generated,
            "prompt_tokens_details": {"cached_tokens": reused}},
            "timings": {"cache_n": reused, "prompt_n": prompt - reused, "prompt_ms": 97.0, "predicted_n": self.generated,
                        "predicted_ms": seconds * 1000, "predicted_per_second": self.generated / seconds},
            "sluice": {"stall_ms": (server.stall - self.stalled) * 1000, "bytes_read": server.bytes_read - self.read,
                       "hits": uses - missed, "misses": missed, "reuse": server.reuse}})
        self.event("[DONE]")

    def plain(self):
        self.answer(f"Answer {self.server.answers + 1} to: {self.question}")

    def slow(self):
        self.answer("".join(f"word{i} " for i in range(4000)))

    def think(self):
        self.answer("The answer is 42.", "I should think about this. " * 5)

    def tool(self):
        self.answer("", "", [("weather", '{"city": "Oslo", "days": 2}'), ("clock", '{"zone": "UTC"}')])

    def told(self):
        results = [message["content"] for message in self.body["messages"] if message["role"] == "tool"]
        self.answer(f"The tools said: {', '.join(results)}.")

    def drop(self):
        self.begin_stream()
        self.text("This is only the beginning ")

    def broken(self):
        self.begin_stream()
        self.text("Some text ")
        self.event({"error": {"message": "the disk cannot be read", "type": "server_error"}})

    def busy(self):
        self.error(429, "the queue is full", Retry_After="2")

    def long(self):
        self.begin_stream()
        self.progress(4000, 20, 0.08)
        self.text("Done.")
        self.end("stop", 4000)

    def hostile(self):
        self.answer(HOSTILE)

    def show(self):
        self.answer(SHOW, "The user asks about Rayleigh scattering. A table and a formula will help.", prompt=1480)


ANSWERS = {"slowly": Handler.slow, "think": Handler.think, "tool": Handler.tool, "drop": Handler.drop, "broken": Handler.broken,
           "busy": Handler.busy, "long prompt": Handler.long, "hostile": Handler.hostile, "sky": Handler.show}


if __name__ == "__main__":
    served = Mock(int(sys.argv[1]) if len(sys.argv) > 1 else 0, token_seconds=0.03)
    print(served.address, flush=True)
    threading.Event().wait()
