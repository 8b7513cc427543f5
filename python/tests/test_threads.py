"""Threads, tasks, signals, and what is left behind."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import List

import pytest
import sluice
from sluice import _handle

STORY = "Tell me a story about a brave fox."


def test_threads_share_a_model(model: sluice.Model) -> None:
    wanted = [model.chat(STORY, seed=seed, max_tokens=20).content for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda s: model.chat(STORY, seed=s, max_tokens=20).content, range(8)))
    assert found == wanted


def test_calls_release_the_gil(model: sluice.Model) -> None:
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    with model.session() as session:
        thread.start()
        before = ticks
        session._compute(sluice._library.lib.sl_session_extend, *_tokens(1500), long=False)
        during = ticks - before
        done.set()
    thread.join()
    assert during > 10


def _tokens(count: int) -> tuple:
    return sluice.sampling.token_array([5] * count), count


def test_tasks(model: sluice.Model) -> None:
    async def pieces() -> str:
        return "".join([one async for one in model.astream(model.render(STORY), temperature=0)])

    async def main() -> List[str]:
        message = model.achat(STORY, temperature=0)
        text = model.agenerate(model.render(STORY), temperature=0)
        deltas = "".join([one.content async for one in model.achat_stream(STORY, temperature=0)])
        return [deltas, await pieces(), (await message).content, await text]

    assert set(asyncio.run(main())) == {model.chat(STORY, temperature=0).content}


def test_errors_of_tasks_are_raised_there(model: sluice.Model) -> None:
    async def main() -> None:
        with pytest.raises(sluice.InvalidError, match="top_p"):
            await model.agenerate("x", top_p=3)
        with pytest.raises(sluice.InvalidError, match="top_p"):
            async for _ in model.astream("x", top_p=3):
                pass

    asyncio.run(main())


def test_a_cancelled_task_frees_its_session(single: sluice.Model) -> None:
    endless = {"ignore_eos": True, "temperature": 1.0}

    async def main() -> None:
        task = asyncio.create_task(single.agenerate("Once", **endless))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stream = single.astream("Once", **endless)
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(main())
    assert not single._pool.borrowed
    assert single.chat("What is 17 + 25?", temperature=0).content == "17 + 25 = 42."


def test_a_cancel_reaches_a_call_of_another_thread(single: sluice.Model) -> None:
    with single.session() as session:
        timer = threading.Timer(0.05, session.cancel)
        timer.start()
        with pytest.raises(sluice.CancelledError):
            while True:
                session.rewind(0)
                session.extend([5] * 4000)
        timer.join()
        session.rewind(0)
        session.extend([5] * 10)
        assert len(session) == 10


def test_a_cancel_before_the_beginning(single: sluice.Model) -> None:
    stream = single.stream("Once", ignore_eos=True)
    stream.cancel()
    with pytest.raises(sluice.CancelledError, match="before it began"):
        _ = stream.result
    assert single.chat("What is 17 + 25?", temperature=0).content == "17 + 25 = 42."


def test_a_wait_for_a_session_ends_with_its_task(single: sluice.Model) -> None:
    async def main() -> None:
        busy = single.astream("Once", ignore_eos=True)
        await busy.__anext__()
        start = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(single.agenerate("Twice", max_tokens=5), 0.1)
        assert time.monotonic() - start < 0.6  # the first answer takes longer
        await busy.aclose()

    asyncio.run(main())


def test_errors_do_not_keep_a_session(single: sluice.Model) -> None:
    gc.collect()
    gc.disable()
    kept = []
    try:
        session = single.session()
        for call in (
            lambda: session.extend([10**6]),
            lambda: session.extend([5] * 5000),
            lambda: session.rewind(10),
            lambda: session.next(),
        ):
            with pytest.raises(sluice.InvalidError) as caught:
                call()
            kept.append(caught.value)  # as a notebook keeps the last one
        session.close()
        assert single.generate("Once", max_tokens=1).tokens
    finally:
        gc.enable()


FORK = """
import os, sys
import numpy
import sluice
model, session = sluice.Model(sys.argv[1], sessions=2), None
session = model.session()
session.extend([5])
graph = sluice.Graph()
graph.output("y", graph.input("x", (2,)) + 1.0)
f = graph.compile()
sluice.ops.add([1.0], [2.0])
child = os.fork()
if child:
    status = os.waitpid(child, 0)[1]
    assert session.next(temperature=0) >= 0 and (f([1.0, 2.0]) == [2, 3]).all()
    assert model.chat("What is 17 + 25?", temperature=0).content == "17 + 25 = 42."
    sys.exit(os.waitstatus_to_exitcode(status))
for use in (lambda: model.generate("Once"), lambda: session.next(), lambda: f([1.0, 2.0])):
    try:
        use()
    except sluice.InvalidError as error:
        assert "belongs to the process that was forked" in str(error), error
    else:
        raise SystemExit("a copy of a parent's object was used")
assert sluice.ops.add([1.0], [2.0]) == 3
with sluice.Model(sys.argv[1]) as own:
    assert own.chat("What is 17 + 25?", temperature=0).content == "17 + 25 = 42."
"""

END = """
import atexit, sys, threading, time
import sluice
model = sluice.Model(sys.argv[1])
def work():
    while True:
        model.generate("Once", max_tokens=200, ignore_eos=True)
def late():
    try:
        model.tokenize("Once")
    except sluice.InvalidError as error:
        assert "at the end of the program" in str(error), error
    else:
        assert sys.argv[2] == "daemon"
atexit.unregister(sluice._handle._release_all)
atexit.register(late)
atexit.register(sluice._handle._release_all)
if sys.argv[2] == "daemon":
    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.3)
"""


@pytest.mark.parametrize("script", [[FORK], [END, "daemon"], [END, "plain"]])
def test_processes_end_well(fable: str, script: List[str]) -> None:
    quiet = ["-W", "ignore::DeprecationWarning"]  # of os.fork, since Python 3.12
    command = [sys.executable, *quiet, "-c", script[0], fable, *script[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


SCRIPT = """
import signal, sys, time
import sluice
model = sluice.Model(sys.argv[1], sessions=2)
print("ready", flush=True)
try:
    while True:
        {work}
except KeyboardInterrupt:
    start = time.monotonic()
    assert model.chat("What is 17 + 25?", temperature=0).content == "17 + 25 = 42."
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "work",
    [
        "model.generate('Once', ignore_eos=True, seed=1)",
        "model.perplexity([5] * 4000)",
        "model.batch(['Once', 'Twice'], ignore_eos=True)",
    ],
)
def test_an_interrupt_is_raised_promptly(fable: str, work: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(work=work), fable],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    start = time.monotonic()
    os.kill(child.pid, signal.SIGINT)
    assert child.stdout.readline() == "interrupted\n"
    assert time.monotonic() - start < 5  # a forward pass and an answer take a fraction of it
    assert child.wait(20) == 0


STORM = """
import random, signal, sys, threading
import sluice
model = sluice.Model(sys.argv[1])
def interrupt(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
random.seed(2)
count = 0
for turn in range(160):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.02))
            if turn % 2:
                model.perplexity([5] * 1500)
            else:
                model.generate("Once", max_tokens=100, ignore_eos=True)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        count += 1
    if turn % 40 == 39:
        assert model.chat("What is 17 + 25?", temperature=0).content == "17 + 25 = 42."
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join(20)  # of one that was given up before it began
print(count > 40, threading.active_count())
"""


def test_interrupts_at_any_moment_leave_the_model_usable(fable: str) -> None:
    command = [sys.executable, "-c", STORM, fable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "True 1\n"), done.stderr


def use_everything(path: str) -> None:
    with sluice.Model(path, sessions=2) as model:
        model.generate("Once", max_tokens=3, regex="[a-z]+", stop=["q"], logprobs=1)
        model.chat("Hello!", max_tokens=3)
        model.batch(["a", "b"], max_tokens=2)
        next(model.stream("Once"))  # is left to the collector
        session = model.session()
        session.extend([5])
        sluice.ops.add([1.0], [2.0])
    graph = sluice.Graph()
    x = graph.input("x", (2,))
    graph.output("y", graph.custom(abs, x, results=[("f32", (2,))]) + 1.0)
    graph.compile()([1.0, 2.0])


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_nothing_is_left_open(fable: str) -> None:
    use_everything(fable)
    gc.collect()
    before, memory = dict(_handle.live), 0
    for turn in range(12):
        use_everything(fable)
        gc.collect()
        if turn == 3:
            memory = resident_bytes()
    assert dict(_handle.live) == before
    assert resident_bytes() - memory < 16 << 20  # one model has more


def test_objects_are_released_in_any_order(fable: str) -> None:
    gc.collect()
    before = dict(_handle.live)
    model = sluice.Model(fable)
    session = model.session()
    session.extend([5])
    view = session.logits
    sampler = sluice.Sampler(model)
    del model, session
    gc.collect()
    assert view is not None and view[0] == view[0]
    sampler.close()
    assert _handle.live["sl_model_close"] == before.get("sl_model_close", 0) + 1
    del view, sampler
    gc.collect()
    left = {kind: count for kind, count in _handle.live.items() if count}
    assert left == {kind: count for kind, count in before.items() if count}
