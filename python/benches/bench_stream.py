#!/usr/bin/env python3
"""Decode speed from Python and in C, by turns.

Usage: bench_stream.py [MODEL [TOKENS [ROUNDS [THREADS]]]]

Prints tokens per second of a loop over sl_session_next_by in C, of `Session.next` and of
`Model.stream`, all in this process, and of `sluice bench`, which is a process of its own; and the
median of the ratios to the loop in C, round by round.  `chrt -f 50` in front makes the figures
quiet.  Needs a C compiler.
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import sluice
from sluice._library import lib

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SLUICE_PROGRAM", str(ROOT / "build" / "sluice"))
PROMPT = "Tell me a story about a brave fox."
LOOP = """
int loop(int (*next)(void *, void *, void *, int *, void *), void *session, void *sampler, int n) {
    int token, status = 0;
    while (n-- > 0 && !status) status = next(session, sampler, 0, &token, 0);
    return status;
}
"""


def compile_loop() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "loop.c").write_text(LOOP)
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(path / "loop.so")]
        subprocess.run([*command, str(path / "loop.c")], check=True)
        return ctypes.CDLL(str(path / "loop.so")).loop


def in_c(model: sluice.Model, count: int, loop: Any) -> float:
    with model.session() as session, sluice.Sampler(model, temperature=0) as sampler:
        session.extend(model.tokenize_chat(PROMPT))
        session.next(sampler)
        start = time.perf_counter()
        assert loop(lib.sl_session_next_by, session._live(), sampler._live(), count) == 0
        return count / (time.perf_counter() - start)


def by_session(model: sluice.Model, count: int) -> float:
    """Tokens alone."""
    with model.session() as session, sluice.Sampler(model, temperature=0) as sampler:
        session.extend(model.tokenize_chat(PROMPT))
        session.next(sampler)
        start = time.perf_counter()
        for _ in range(count):
            session.next(sampler)
        return count / (time.perf_counter() - start)


def by_stream(model: sluice.Model, count: int) -> float:
    """Pieces of text, as a program shows them; an answer that ends earlier is counted so far."""
    tokens = model.tokenize_chat(PROMPT)
    with model.stream(tokens, max_tokens=count, temperature=0) as pieces:
        next(pieces)
        before, start = len(pieces.tokens), time.perf_counter()
        for _ in pieces:
            pass
        return (len(pieces.tokens) - before) / (time.perf_counter() - start)


def by_program(path: str, count: int, prompt_tokens: int, threads: int) -> float:
    words = ["-p", str(prompt_tokens), "-n", str(count)]
    words += ["--threads", str(threads)] if threads else []
    command = [PROGRAM, "bench", path, "--json", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return float(json.loads(done.stdout)["runs"][0]["decode"]["median_tokens_per_second"])


def main() -> None:
    given = dict(enumerate(sys.argv))
    path = given.get(1, str(ROOT / "models" / "fable"))
    count, rounds, threads = (int(given.get(i, usual)) for i, usual in ((2, 120), (3, 50), (4, 0)))
    loop = compile_loop()
    with sluice.Model(path, threads=threads or None, context=64 + count) as model:
        prompt_tokens = len(model.tokenize_chat(PROMPT))
        ways: Dict[str, Callable[[], float]] = {
            "loop in C": lambda: in_c(model, count, loop),
            "next": lambda: by_session(model, count),
            "stream": lambda: by_stream(model, count),
        }
        found: Dict[str, List[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                found[name].append(way())
    found["bench"] = [by_program(path, count, prompt_tokens, threads) for _ in range(5)]
    for name, rates in found.items():
        ratios = [rate / base for rate, base in zip(rates, found["loop in C"])]
        ratio = f", ratio {statistics.median(ratios):.3f}" if name != "bench" else ""
        print(
            f"{name:9} median {statistics.median(rates):9.1f} tok/s, best {max(rates):9.1f}{ratio}"
        )


if __name__ == "__main__":
    main()
