"""What the tests of the server share: starting it, raw requests, and counting what holds."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

PROGRAM = os.environ.get("SLUICE_PROGRAM", "build/sluice")
MODEL = os.environ.get("SLUICE_SERVED", "models/fable")
SLOW = 8 if os.environ.get("SLUICE_SANITIZED") else 1
CHAT = "/v1/chat/completions"
failures = []


def check(name, good, detail=""):
    print(("ok - " if good else "not ok - ") + name + ("" if good else f"  # {detail}"), flush=True)
    if not good:
        failures.append(name)


def finish():
    print(f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


class Server:
    """sluice serve at a free port, with what it prints."""

    def __init__(self, *args, model=MODEL):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_M")}
        self.process = subprocess.Popen(
            [PROGRAM, "serve", *(["-m", model] if model else []), "--port", "0", *args], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=environment)
        self.log = []
        line = self.process.stdout.readline()
        found = re.search(r"http://\[?([^\s]*?)\]?:(\d+)\s", line)
        if not found:
            raise SystemExit(f"the server did not start: {line}{self.process.stderr.read()}")
        self.port = int(found.group(2))
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)

    def stop(self, signals=1):
        for _ in range(signals):
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60 * SLOW)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    # ---- requests

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30 * SLOW)

    def raw(self, data, close=True):
        """Sends bytes and reads until the server closes, or until one answer is complete."""
        with contextlib.closing(self.connect()) as s:
            s.sendall(data)
            return read_answer(s, close)

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body)"""
        payload = b""
        if body is not None:
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = {"Host": f"127.0.0.1:{self.port}", "Connection": "close", **(headers or {})}
        if body is not None:
            lines.setdefault("Content-Length", str(len(payload)))
            lines.setdefault("Content-Type", "application/json")
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
        return self.raw(head.encode() + b"\r\n" + payload)

    def json(self, method, path, body=None, headers=None):
        status, _, text = self.request(method, path, body, headers)
        try:
            return status, json.loads(text)
        except ValueError:
            return status, {"text": text.decode(errors="replace")}


def read_answer(s, until_close):
    data = b""
    while True:
        try:
            piece = s.recv(65536)
        except (ConnectionResetError, TimeoutError):
            break
        if not piece:
            break
        data += piece
        if not until_close and is_complete(data):
            break
    return parse(data)


def is_complete(data):
    head, _, body = data.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head.lower())
    return bool(found) and len(body) >= int(found.group(1))


def parse(data):
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode(errors="replace").split("\r\n")
    if not lines[0].startswith("HTTP/"):
        return 0, {}, data
    headers = {}
    for line in lines[1:]:
        key, _, value = line.partition(":")
        headers[key.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = unchunk(body)
    return int(lines[0].split()[1]), headers, body


def unchunk(body):
    out = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        try:
            count = int(size, 16)
        except ValueError:
            break
        if count == 0:
            break
        out += rest[:count]
        body = rest[count + 2:]
    return out


def events(body):
    """The events of a stream: (name or None, data)."""
    found = []
    for block in body.decode().split("\n\n"):
        name, data = None, None
        for line in block.split("\n"):
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data = line[6:]
        if data is not None:
            found.append((name, data))
    return found


def chat(text, **more):
    return {"messages": [{"role": "user", "content": text}], **more}


def head(*lines):
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
