"""Long calls that Ctrl-C ends."""

import threading
from typing import Any, Callable, List, Optional, TypeVar

T = TypeVar("T")


def cancellable(cancel: Callable[[], Any], work: Callable[[], T]) -> T:
    """Does the work; what a signal raises meanwhile cancels it, and is raised when it has ended.

    Python runs signal handlers in the main thread, between its instructions: there, the work is
    done in another thread, for which the main thread waits.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: List[T] = []
    problem: List[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again in the thread that waits
            problem.append(error)

    worker = threading.Thread(target=run, name="sluice")
    worker.start()
    interrupt = _wait(worker, cancel)
    if interrupt is not None:
        raise interrupt
    if problem:
        raise problem[0]
    return results[0]


def _wait(worker: threading.Thread, cancel: Callable[[], Any]) -> Optional[BaseException]:
    """Until the worker has ended; the first exception that a signal raised meanwhile."""
    interrupt: Optional[BaseException] = None
    while worker.is_alive():
        try:
            worker.join()
        except BaseException as error:
            interrupt = interrupt or error
            cancel()
    return interrupt
