"""The server of `sluice serve` and requests whose parts end in more than one way, with which others are
smuggled past a proxy; and what else is wrong with lines and headers.

A request is refused if it is not clear where it ends, and nothing that may be its body or another
request is answered after it.  Bytes of NUL in lines, and lines that end in LF alone, are understood by
libmicrohttpd before the server sees them: a proxy does not pass them on."""
import contextlib
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(__file__))
from support import CHAT, Server, chat, check, finish, head, read_answer  # noqa: E402

HOST = "Host: localhost"
POST = f"POST {CHAT} HTTP/1.1"
BODY = json.dumps(chat("What is 17 + 25?", max_tokens=1)).encode()
LENGTH = f"Content-Length: {len(BODY)}"
SMUGGLED = b"GET /props HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = "Transfer-Encoding: chunked"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)

# (name, bytes, status, part of the message or None: libmicrohttpd answers in HTML)
SMUGGLING = [
    ("length and encoding", head(POST, HOST, LENGTH, CHUNKED) + b"0\r\n\r\n", 400, "more than once"),
    ("encoding and length", head(POST, HOST, CHUNKED, LENGTH) + b"0\r\n\r\n", 400, "more than once"),
    ("two lengths", head(POST, HOST, LENGTH, "Content-Length: 0") + BODY, 400, "more than once"),
    ("two lengths, the first 0", head(POST, HOST, "Content-Length: 0", LENGTH) + BODY, 400, "more than once"),
    ("the same length twice", head(POST, HOST, LENGTH, LENGTH) + BODY, 400, "more than once"),
    ("lengths in two cases", head(POST, HOST, LENGTH, LENGTH.upper()) + BODY, 400, "more than once"),
    ("a list of lengths", head(POST, HOST, "Content-Length: 5, 5") + b"hello", 400, None),
    ("a length with a sign", head(POST, HOST, "Content-Length: +5") + b"hello", 400, None),
    ("a negative length", head(POST, HOST, "Content-Length: -5"), 400, None),
    ("a hexadecimal length", head(POST, HOST, "Content-Length: 0x5") + b"hello", 400, None),
    ("an octal length", head(POST, HOST, "Content-Length: 5_0") + b"hello", 400, None),
    ("an empty length", head(POST, HOST, "Content-Length:"), 400, None),
    ("a length with a space in it", head(POST, HOST, "Content-Length: 5 5") + b"hello", 400, None),
    ("a length in quotes", head(POST, HOST, 'Content-Length: "5"') + b"hello", 400, None),
    ("a length beyond 64 bits", head(POST, HOST, "Content-Length: 18446744073709551621") + b"hello", 413, None),
    ("a huge length", head(POST, HOST, "Content-Length: 99999999999"), 413, "at most"),
    ("a space before the colon of a length", head(POST, HOST, "Content-Length : 5") + b"hello", 400, "name"),
    ("a space before the colon of an encoding", head(POST, HOST, "Transfer-Encoding : chunked") + CHUNKS, 400, "name"),
    ("a folded length", head(POST, HOST, "Content-Length:\r\n 5") + b"hello", 400, "name"),
    ("a length that goes on", head(POST, HOST, "Content-Length: 5\r\n 0") + b"hello", 400, "name"),
    ("a folded encoding", head(POST, HOST, "Transfer-Encoding:\r\n chunked") + CHUNKS, 400, "name"),
    ("a header that is folded into another", head(POST, HOST, "X: a\r\n Content-Length: 5") + b"hello", 400, "name"),
    ("a host that is folded", head(POST, HOST, LENGTH, "Host:\r\n evil.example") + BODY, 400, "name"),
    ("a vertical tab before an encoding", head(POST, HOST, "Transfer-Encoding: \x0bchunked") + CHUNKS, 400, "chunked"),
    ("a vertical tab before a name", head(POST, HOST, "\x0bTransfer-Encoding: chunked") + CHUNKS, 400, "name"),
    ("an unknown encoding", head(POST, HOST, "Transfer-Encoding: xchunked") + CHUNKS, 400, "chunked"),
    ("an encoding in quotes", head(POST, HOST, 'Transfer-Encoding: "chunked"') + CHUNKS, 400, "chunked"),
    ("identity as the encoding", head(POST, HOST, "Transfer-Encoding: identity") + BODY, 400, "chunked"),
    ("an empty encoding", head(POST, HOST, "Transfer-Encoding:"), 400, "chunked"),
    ("two encodings in a list", head(POST, HOST, "Transfer-Encoding: gzip, chunked") + CHUNKS, 400, "chunked"),
    ("chunked twice in a list", head(POST, HOST, "Transfer-Encoding: chunked, chunked") + CHUNKS, 400, "chunked"),
    ("chunked and identity", head(POST, HOST, CHUNKED, "Transfer-Encoding: identity") + CHUNKS, 400, "more than once"),
    ("chunked twice", head(POST, HOST, CHUNKED, CHUNKED) + CHUNKS, 400, "more than once"),
    ("chunked in HTTP/1.0", head(f"POST {CHAT} HTTP/1.0", HOST, CHUNKED) + CHUNKS, 400, "HTTP/1.1"),
    ("a chunk with a sign", head(POST, HOST, CHUNKED) + b"+5\r\nhello\r\n0\r\n\r\n", 400, None),
    ("a negative chunk", head(POST, HOST, CHUNKED) + b"-5\r\nhello\r\n0\r\n\r\n", 400, None),
    ("a chunk with a prefix", head(POST, HOST, CHUNKED) + b"0x5\r\nhello\r\n0\r\n\r\n", 400, None),
    ("a chunk that is no number", head(POST, HOST, CHUNKED) + b"zz\r\n", 400, None),
    ("a chunk that is longer than it says", head(POST, HOST, CHUNKED) + b"2\r\nhello\r\n0\r\n\r\n", 400, None),
    ("a chunk beyond 64 bits", head(POST, HOST, CHUNKED) + b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n", 413, None),
    ("two hosts", head(POST, HOST, "Host: evil.example", LENGTH) + BODY, 400, "Host"),
    ("the same host twice", head(POST, HOST, HOST, LENGTH) + BODY, 400, "Host"),
    ("no host", head("GET /health HTTP/1.1"), 400, None),
    ("a host in the line that is asked for", head("GET http://evil.example/health HTTP/1.1", HOST), 404, "no such"),
    ("a tunnel", head("CONNECT evil.example:443 HTTP/1.1", HOST), 404, "no such"),
]

LINES = [
    ("an escape in the path", head("GET /v1/%6dodels HTTP/1.1", HOST), 400, "path"),
    ("a NUL escape in the path", head("GET /health%00 HTTP/1.1", HOST), 400, "path"),
    ("a control character in the path", b"GET /hea\x01lth HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "path"),
    ("a byte above 127 in the path", b"GET /hea\x9blth HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, "path"),
    ("dots in the path", head("GET /../etc/passwd HTTP/1.1", HOST), 404, "no such"),
    ("a file in a folder", head("GET /web/index.html HTTP/1.1", HOST), 404, "no such"),
    ("a long path", head("GET /" + "a" * 5000 + " HTTP/1.1", HOST), 404, "too long"),
    ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 0, None),
    ("a line without a version", b"GET /health\r\n\r\n", 400, None),
    ("a version to come", head("GET /health HTTP/9.9", HOST), 505, None),
    ("a header without a colon", head("GET /health HTTP/1.1", HOST, "Foo"), 400, None),
    ("a name with a bracket", head("GET /health HTTP/1.1", HOST, "(X): a"), 400, "name"),
    ("large headers", head("GET /health HTTP/1.1", HOST, "X: " + "a" * 200000), 431, None),
    ("many headers", head("GET /health HTTP/1.1", HOST, *[f"X{i}: a" for i in range(9000)]), 431, None),
    ("a compressed body", head(POST, HOST, LENGTH, "Content-Encoding: gzip") + BODY, 415, "compressed"),
    ("a method in small letters", head("get /health HTTP/1.1", HOST), 405, "not allowed"),
    ("a method with an escape", head("G\x1b[31mET /health HTTP/1.1", HOST), 405, "not allowed"),
    ("TRACE", head("TRACE / HTTP/1.1", HOST), 405, "not allowed"),
]


def answers(data):
    """The statuses of the answers in what was received.  libmicrohttpd says 400 twice of some requests."""
    return [int(s) for s in re.findall(rb"HTTP/1\.[01] (\d+) ", data)]


def ask(server, data):
    with contextlib.closing(server.connect()) as s:
        with contextlib.suppress(OSError):
            s.sendall(data)
        received = b""
        with contextlib.suppress(OSError):
            while piece := s.recv(65536):
                received += piece
        return received


def test_refused(server, kind, cases):
    for name, data, status, message in cases:
        received = ask(server, data + SMUGGLED)
        statuses = answers(received)
        # Large headers may be met by a reset before the answer is read; 0 stands for no answer.
        good = set(statuses) == {status} or (not statuses and status in (0, 431))
        body = received.rpartition(b"\r\n\r\n")[2]
        if good and message is not None:
            error = json.loads(body)["error"]
            good = message in error["message"] and sorted(error) == ["code", "message", "param", "type"]
        check(f"{kind}: {name}", good, f"{statuses} {body[:200]}")
    check(f"{kind}: it still answers", server.request("GET", "/health")[0] == 200)


def test_understood(server):
    status, _, _ = server.raw(head(POST, HOST, CHUNKED, "Connection: close") + CHUNKS)
    check("a chunked body", status == 200, status)
    status, _, _ = server.raw(head(POST, HOST, CHUNKED.upper(), "Connection: close") + CHUNKS)
    check("a chunked body, in capitals", status == 200, status)
    parts = b"".join(b"%x;a=b\r\n%s\r\n" % (1, BODY[i:i + 1]) for i in range(len(BODY)))
    status, _, _ = server.raw(head(POST, HOST, CHUNKED, "Connection: close") + parts + b"0\r\nX: y\r\n\r\n")
    check("chunks of a byte, with extensions and a trailer", status == 200, status)
    status, _, _ = server.raw(head("HEAD / HTTP/1.1", HOST, "Connection: close"))
    check("HEAD /", status == 200, status)
    status, answer = server.json("GET", "/v1/models?beta=true&x=%00")
    check("a query is ignored", status == 200, answer)
    status, _, _ = server.raw(head(POST, HOST, LENGTH, "Expect: 100-continue", "Connection: close") + BODY)
    check("a client that expects 100", status in (100, 200), status)
    received = ask(server, head("GET /health HTTP/1.1", HOST) * 3 + head("GET /health HTTP/1.1", HOST, "Connection: close"))
    check("four requests at once", answers(received) == [200] * 4, received)
    received = ask(server, head("GET /health HTTP/1.1", HOST, "Content-Length: 5") + b"hello"
                   + head("GET /health HTTP/1.1", HOST, "Connection: close"))
    check("a body where none is wanted", answers(received) == [200, 200], received)
    status, headers, _ = server.request("PUT", CHAT, {})
    check("another method", status == 405 and headers.get("allow") == "POST", headers)
    status, headers, _ = server.request("GET", "/tokenize")
    check("another method of a short path", status == 405 and headers.get("allow") == "POST", headers)
    status, headers, _ = server.request("PUT", "/v1/responses/a")
    check("a path with two methods", status == 405 and headers.get("allow") == "GET, DELETE", headers)
    status, answer = server.json("POST", "/chat/completions", json.loads(BODY))
    check("paths without /v1", status == 200, answer)
    status, answer = server.json("POST", "/v1/nothing", {}, {"Anthropic-Version": "2023-06-01"})
    check("an unknown path in Anthropic's form", status == 404 and answer.get("type") == "error", answer)


def test_bodies(server):
    """Bodies that are too large, with and without a length."""
    check("a large body", server.request("POST", CHAT, b"x" * 200000)[0] in (413, 0))
    for chunks, wanted in (20, (413,)), (100, (413, 0)):
        with contextlib.closing(server.connect()) as s:
            with contextlib.suppress(OSError):
                s.sendall(head(POST, HOST, CHUNKED))
                for _ in range(chunks):
                    s.sendall(b"2000\r\n" + b"x" * 8192 + b"\r\n")
                s.sendall(b"0\r\n\r\n")
            status = read_answer(s, False)[0]
            check(f"a chunked body of {chunks} times 8 KiB", status in wanted, status)
    # Each counts until its request ends; what is cut does not stay counted.
    for _ in range(12):
        with contextlib.closing(server.connect()) as s:
            s.sendall(head(POST, HOST, "Content-Length: 99999") + b"x" * 90000)
    status, answer = server.json("POST", CHAT, json.loads(BODY))
    check("after bodies that were cut", status == 200, answer)


def main():
    with Server("--quiet", "--body-limit", "100kB") as server:
        test_refused(server, "smuggling", SMUGGLING)
        test_refused(server, "line", LINES)
        test_understood(server)
        test_bodies(server)
    finish()


main()
