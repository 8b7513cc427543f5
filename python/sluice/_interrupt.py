"""Long calls that Ctrl-C ends."""

import threading
from typing import Any, Callable, List, Optional, TypeVar

T = TypeVar("T")


class _Work:
    """Work in a thread of its own, which does not begin after it was given up."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Optional[Callable[[], Any]] = work
        self._lock = threading.Lock()
        self._begun = self._given_up = False
        self._ended = threading.Event()
        self.results: List[Any] = []
        self.problems: List[BaseException] = []

    def run(self) -> None:
        with self._lock:
            if self._given_up or self._work is None:
                return
            self._begun = True
        try:
            self.results.append(self._work())
        except BaseException as error:  # raised again in the thread that waits
            self.problems.append(error)
        finally:
            self._work = None  # what it refers to is free when the wait ends
            self._ended.set()

    def give_up(self) -> bool:
        """Whether it has not begun, and never will."""
        with self._lock:
            self._given_up = True
            return not self._begun

    def start_and_wait(self) -> None:
        thread = threading.Thread(target=self.run, name="sluice")
        thread.start()
        self._ended.wait()

    def wait(self) -> None:
        self._ended.wait()


def cancellable(cancel: Callable[[], Any], work: Callable[[], T]) -> T:
    """Does the work; what a signal raises meanwhile cancels it, and is raised when it has ended.

    Python runs signal handlers in the main thread, between its instructions: there, the work is
    done in another thread, for which the main thread waits.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    run = _Work(work)
    interrupt: Optional[BaseException] = None
    try:
        waits: Callable[[], None] = run.start_and_wait
        while True:
            try:
                waits()
                break
            except BaseException as error:
                interrupt = interrupt or error
                waits = run.wait
                if run.give_up():
                    break
                cancel()
        if interrupt is not None:
            raise interrupt
        if run.problems:
            raise run.problems.pop()
        result: T = run.results.pop()
        return result
    finally:  # an exception would refer to itself through these
        run.problems.clear()
        del interrupt
