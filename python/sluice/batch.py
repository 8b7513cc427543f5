"""Several texts at the same time, by the scheduler of the library."""

import codecs
import ctypes
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict, List, Optional, Sequence, Tuple

from . import _declarations as d
from ._handle import Handle, create
from ._library import call, fill, lib
from .errors import error_of
from .generation import Completion, Options, Run, Stops
from .session import Session

if TYPE_CHECKING:
    from .model import Model

_REASONS = {d.SL_END_STOP: "stop", d.SL_END_COUNT: "length", d.SL_END_CONTEXT: "context"}


class _Request:
    """A text that is being continued."""

    def __init__(self, model: "Model", session: Session, prompt: List[int], given: Dict[str, Any]):
        self.model, self.session = model, session
        self.run = Run(model, session, Options(given), len(prompt))
        self.ticket: Optional[Handle] = None
        self.problem: Optional[BaseException] = None
        self._stops = Stops(self.run.options.stop) if self.run.options.stop else None
        self._said: List[bytes] = []
        self._prompt = (d.sl_token * len(prompt))(*prompt)
        self._ends = (d.sl_token * len(model._end_tokens))(*model._end_tokens)
        self.request = self._make_request()

    def _make_request(self) -> Any:
        request = fill(d.sl_request)
        request.session = self.session._live()._as_parameter_
        request.prompt, request.prompt_count = ctypes.addressof(self._prompt), len(self._prompt)
        request.stops, request.stop_count = ctypes.addressof(self._ends), len(self._ends)
        request.most_tokens = self.run.options.max_tokens or 0
        request.whole = 1
        request.sampler = self.run.sampler._live()._as_parameter_
        if self.run.constraint is not None:
            request.grammar = self.run.constraint.state._as_parameter_
        if self._stops is not None or self.run.logprobs is not None:
            request.token = type(request.token)(self._take)
        return request

    def submit(self, scheduler: Handle) -> None:
        self.ticket = create(
            lib.sl_ticket_release,
            lib.sl_scheduler_submit,
            scheduler,
            ctypes.byref(self.request),
            keeps=(scheduler,),
        )

    def _take(self, _: Any, ticket: Any, token: int) -> int:
        """Called with each token; nonzero ends the text."""
        try:
            if self.model._ends[token]:
                return 1
            if self.run.logprobs is not None:
                self.run.logprobs.append(self.run._read_logprobs(self.run.sampler._live()))
            if self._stops is None:
                return 0
            piece = self.model._texts[token]
            self._said.append(
                self._stops.push(piece if isinstance(piece, bytes) else piece.encode())
            )
            return int(self._stops.found)
        except BaseException as error:  # raised again when the step has returned
            self.problem = error
            return 1

    def ended(self) -> bool:
        state = fill(d.sl_ticket_state)
        call(lib.sl_ticket_look, self.ticket, ctypes.byref(state))
        if state.phase != d.SL_TICKET_ENDED:
            return False
        error = d.sl_error()
        status = lib.sl_ticket_status(self.ticket, ctypes.byref(error))
        problem, self.problem = self.problem, None
        if problem is not None:
            raise problem
        if status:
            raise error_of(status, error)
        self._read(state)
        return True

    def _read(self, state: Any) -> None:
        out = (d.sl_token * state.tokens)()
        count = lib.sl_ticket_tokens(self.ticket, 0, out, state.tokens)
        self.run.tokens = list(out[:count])
        self.run.finish_reason = _REASONS.get(state.end, "stop")
        if self.run.tokens and self.model._ends[self.run.tokens[-1]]:
            self.run.tokens.pop()

    def close(self) -> None:
        """Takes back what the scheduler has borrowed."""
        self.ticket = self.request = None

    def completion(self) -> Completion:
        if self._stops is not None:
            data = b"".join([*self._said, self._stops.finish()])
        else:
            pieces = (self.model._texts[token] for token in self.run.tokens)
            data = b"".join(one if isinstance(one, bytes) else one.encode() for one in pieces)
        return Completion(codecs.decode(data, "utf-8", "replace"), self.run)


def run_batch(
    model: "Model", prompts: Sequence[List[int]], options: Dict[str, Any]
) -> List[Completion]:
    """Completions of prompts, in their order."""
    if Options(options).max_tokens == 0:  # which is no limit for the scheduler
        return [model.generate(prompt, **options) for prompt in prompts]
    found: Dict[int, Completion] = {}
    sessions = model._pool.take(model, len(prompts))
    try:
        waiting = deque(enumerate(prompts))
        how = fill(d.sl_scheduler_options)
        how.queue_length = how.most_live = len(sessions)
        scheduler = create(
            lib.sl_scheduler_destroy,
            lib.sl_scheduler_create,
            model._live(),
            ctypes.byref(how),
            keeps=(model._live(),),
        )
        _run_all(model, scheduler, waiting, list(sessions), options, found)
    finally:
        model._pool.give_back(sessions)
    return [found[index] for index in range(len(prompts))]


def _run_all(
    model: "Model",
    scheduler: Handle,
    waiting: Deque[Tuple[int, List[int]]],
    free: List[Session],
    options: Dict[str, Any],
    found: Dict[int, Completion],
) -> None:
    """Each session takes another prompt when it has finished one."""
    live: Dict[int, _Request] = {}
    left = ctypes.c_uint32()
    try:
        while live or waiting:
            while waiting and free:
                index, prompt = waiting.popleft()
                live[index] = _Request(model, free.pop(), prompt, options)
                live[index].submit(scheduler)
            call(lib.sl_scheduler_step, scheduler, ctypes.byref(left))
            if left.value == len(live):
                continue
            for index in [index for index, request in live.items() if request.ended()]:
                request = live.pop(index)
                found[index] = request.completion()
                request.close()
                free.append(request.session)
    finally:
        for request in live.values():
            request.close()
