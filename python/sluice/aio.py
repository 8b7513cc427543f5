"""Asynchronous forms: the work is done in a thread, and cancelling the task cancels the session."""

import asyncio
import threading
from typing import Any, AsyncIterator, Callable, Iterator, Protocol, Tuple, TypeVar

from .errors import CancelledError

T = TypeVar("T")


class _Cancellable(Protocol):
    def __iter__(self) -> Iterator[Any]: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...


async def in_thread(work: Callable[[], T], cancel: Callable[[], Any]) -> T:
    """The result of work; if the task is cancelled, work is told so and waited for."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        cancel()
        await asyncio.wait([future])
        future.exception()  # is that of the cancelled call
        raise


async def iterate_in_thread(stream: _Cancellable) -> AsyncIterator[Any]:
    """What a stream yields.  If the caller stops early, the stream is cancelled and closed."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Tuple[str, Any]] = asyncio.Queue()
    stopped = threading.Event()

    def put(kind: str, value: Any) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, (kind, value))

    def work() -> None:
        try:
            for piece in stream:
                if stopped.is_set():
                    break
                put("piece", piece)
            stream.close()
            put("end", None)
        except CancelledError as error:
            put("end" if stopped.is_set() else "error", error)
        except BaseException as error:  # raised again in the task
            put("error", error)

    thread = threading.Thread(target=work, name="sluice", daemon=True)
    thread.start()
    kind = "piece"
    try:
        while True:
            kind, value = await queue.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        stopped.set()
        while kind == "piece":
            stream.cancel()
            kind, _ = await asyncio.shield(queue.get())
