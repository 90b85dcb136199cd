"""From a parsed request to its response: what is the same at every door."""

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from flask import Response, request

from Middleware.api.active import ActiveRequest
from Middleware.api.admission import ENVIRON_CALLER, presented_keys
from Middleware.api.answers import Answer, AnswerFormat, Answers, Encoder
from Middleware.api.background import Background, Task
from Middleware.api.errors import ENVIRON_REQUEST_ID, JSON, internal_error
from Middleware.api.front_ends import front_end_id, is_told_in_stream, session_of
from Middleware.api.gate import GatedAnswer, RequestGate, Slot
from Middleware.api.headers import clean, decode_id
from Middleware.api.pulse import Pulse
from Middleware.api.running import Running, plain_key, scope_of
from Middleware.api.streaming import StreamedResponse, Streaming, answer_headers
from Middleware.api.trace_context import trace_context_of
from Middleware.api.twins import SharedAnswer, SharedRun, TwinKey, Twins
from Middleware.core.errors import BackendError, MiddlewareError, RunCancelled
from Middleware.core.events import Finish, Reply, ReplyBuilder
from Middleware.core.messages import ChatRequest
from Middleware.workflows.managers.request_runner import RequestInfo

logger = logging.getLogger(__name__)

_CLIENT_GONE = "waitress.client_disconnected"
_LONGEST_ID = 500

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Work:
    """One request, and what is to be given back when nothing of it runs any more."""

    active: ActiveRequest
    releases: list[Callable[[], None]] = field(default_factory=list)

    def over(self) -> None:
        while self.releases:
            self.releases.pop()()

    def rest(self, answer: Answer) -> None:
        try:
            answer.rest()
        finally:
            self.over()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Has requests answered and sends the answers, streamed or whole."""

    answers: Answers
    pulse: Pulse
    background: Background
    gate: RequestGate | None = None
    """None where any number of runs may go on at once."""
    running: Running = field(default_factory=Running)
    twins: Twins | None = None

    def send(self, asked: ChatRequest, written: AnswerFormat) -> Response:
        """The response to ``asked``. Call it in a view; raises MiddlewareError."""
        environ = request.environ
        active = self.pulse.watch(environ[ENVIRON_REQUEST_ID], environ.get(_CLIENT_GONE))
        work = _Work(active)
        try:
            answer = self._answer(asked, written, work)
            if asked.stream:
                return self._streamed(asked, written, work, answer)
            return self._whole(asked, written, work, answer)
        except BaseException:
            self.pulse.release(active)
            work.over()
            raise

    def launch(self, asked: ChatRequest, written: AnswerFormat) -> None:
        """Have a request answered though nobody waits: its encoder gets a heartbeat when the run
        begins, then its events. Call it in a view; raises what is known before that."""
        environ = request.environ
        active = ActiveRequest(environ[ENVIRON_REQUEST_ID], None)
        work = _Work(active)
        handle = self.running.add(active.id, scope_of(environ), active.cancel)
        work.releases.append(partial(self.running.forget, handle))
        try:
            info = _info(environ, written.name, active)
            answer = self._begun(asked, info, work.releases)
            encoder = _encoder(asked, written, active, answer)
        except BaseException:
            work.over()
            raise
        task = Task(active.id, partial(_work_off, work, answer, encoder), active.cancel)
        self.background.submit(task)

    def run(self, door: str, work: Callable[[RequestInfo], T]) -> T:
        """Do something short for a client, which is not a chat. Call it in a view."""
        environ = request.environ
        active = self.pulse.watch(environ[ENVIRON_REQUEST_ID], environ.get(_CLIENT_GONE))
        slot: Slot | None = None
        try:
            slot = self.gate.enter(active.cancel) if self.gate else None
            return work(_info(environ, door, active))
        finally:
            self.pulse.release(active)
            if slot is not None:
                slot.release()

    def cancel(self, request_id: str) -> bool:
        """Stop a request of whoever asks now; False when they have none with this id."""
        return self.running.cancel(request_id, scope_of(request.environ))

    def _answer(self, asked: ChatRequest, written: AnswerFormat, work: _Work) -> Answer:
        environ, active = request.environ, work.active
        scope = scope_of(environ)
        # Before the gate: a twin that waits in front of it would wait for the one it displaces.
        displacing = plain_key(environ.get("HTTP_X_IDEMPOTENCY_KEY"))
        handle = self.running.add(active.id, scope, active.cancel, displacing)
        work.releases.append(partial(self.running.forget, handle))
        info = _info(environ, written.name, active)
        key = plain_key(environ.get("HTTP_IDEMPOTENCY_KEY"))
        if key is None or self.twins is None:
            return self._begun(asked, info, work.releases)
        fresh = SharedRun(active.id, hashlib.sha256(repr(asked).encode()).digest())

        def start(run: SharedRun) -> Answer:
            return self._begun(asked, replace(info, cancel=run.cancel), run.releases)

        shared = self.twins.answer(TwinKey(scope, written.name, key), fresh, start, active.cancel)
        work.releases.append(shared.release)
        return shared

    def _begun(
        self, asked: ChatRequest, info: RequestInfo, releases: list[Callable[[], None]]
    ) -> Answer:
        answer = self.answers.answer(asked, info)
        if self.gate is None:
            return answer
        gated = GatedAnswer(answer, self.gate, info.cancel)
        releases.append(gated.release)
        return gated

    def _streamed(
        self, asked: ChatRequest, written: AnswerFormat, work: _Work, answer: Answer
    ) -> Response:
        active = work.active
        parts = Streaming(
            active=active,
            answer=answer,
            format=written,
            encoder=_encoder(asked, written, active, answer),
            unsent_bytes=_unsent_bytes(request.environ.get(_CLIENT_GONE)),
            is_told_in_stream=partial(is_told_in_stream, request.environ),
            on_end=partial(self._end, work, answer),
        )
        return StreamedResponse(parts)

    def _whole(
        self, asked: ChatRequest, written: AnswerFormat, work: _Work, answer: Answer
    ) -> Response:
        active = work.active
        encoder = _encoder(asked, written, active, answer)
        try:
            reply = _collect(answer)
        except RunCancelled as error:
            if not active.gone:
                raise
            logger.info("client left request=%s", active.id)
            self._end(work, answer, complete=False)
            # Nobody reads it; Flask wants a response.
            return Response(written.error_body(error), error.status, content_type=JSON)
        # Before a byte is sent: a client that hangs up as soon as it has its answer must not
        # cancel what goes on after it.
        self.pulse.release(active)
        response = Response(encoder.reply(reply), 200, answer_headers(answer), content_type=JSON)
        response.call_on_close(partial(self._end, work, answer, complete=True))
        return response

    def _end(self, work: _Work, answer: Answer, complete: bool) -> None:
        """The answer has been sent, or given up."""
        active = work.active
        self.pulse.release(active)
        if complete and answer.has_rest():
            self.background.submit(Task(active.id, partial(work.rest, answer), active.cancel))
        elif complete:
            work.rest(answer)
        else:
            work.over()
        took_ms = (time.monotonic() - active.since) * 1000
        if complete:
            logger.info("answered request=%s model=%s ms=%d", active.id, answer.model, took_ms)
        ignored = answer.ignored()
        if ignored:
            logger.info("ignored fields: %s request=%s", clean(", ".join(ignored)), active.id)


def _encoder(
    asked: ChatRequest, written: AnswerFormat, active: ActiveRequest, answer: Answer
) -> Encoder:
    # Twins get the same answer, so ids in it are made of the first one's.
    request_id = answer.request_id if isinstance(answer, SharedAnswer) else active.id
    return written.encoder(asked, request_id=request_id, model=answer.model)


def _work_off(work: _Work, answer: Answer, encoder: Encoder) -> None:
    try:
        encoder.heartbeat()
        for event in answer.events:
            encoder.event(event)
            if isinstance(event, Finish):
                break
        else:
            raise BackendError("The answer ended without saying why.")
    except MiddlewareError as error:
        encoder.failure(error)
        work.over()
    # The outermost guard of the run; internal_error() logs the traceback.
    except Exception as error:  # noqa: BLE001
        encoder.failure(internal_error(error, work.active.id))
        work.over()
    else:
        work.rest(answer)


def _collect(answer: Answer) -> Reply:
    """The reply up to Finish; the nodes behind it are not waited for."""
    builder = ReplyBuilder()
    for event in answer.events:
        builder.add(event)
        if builder.finish is not None:
            return builder.build()
    raise BackendError("The answer ended without saying why.")


def _info(environ: dict[str, Any], door: str, active: ActiveRequest) -> RequestInfo:
    keys = presented_keys(environ)
    return RequestInfo(
        door=door,
        request_id=active.id,
        cancel=active.cancel,
        conversation_id=_conversation_id(environ),
        front_end_id=front_end_id(environ),
        idempotency_key=plain_key(environ.get("HTTP_IDEMPOTENCY_KEY")),
        session=session_of(environ),
        trace_context=trace_context_of(environ),
        caller=environ.get(ENVIRON_CALLER),
        api_key=keys[0] if keys else None,
    )


def _conversation_id(environ: dict[str, Any]) -> str | None:
    """The first source of decisions §9; the others are found in the request itself."""
    given = decode_id(environ.get("HTTP_X_CONVERSATION_ID", ""))
    return given[:_LONGEST_ID] or None


def _unsent_bytes(client_gone: Any) -> Callable[[], int] | None:
    """What the server has not been able to send on this connection, where it tells.

    waitress counts it on the channel whose method ``client_gone`` is.
    """
    channel = getattr(client_gone, "__self__", None)
    if channel is None or not hasattr(channel, "total_outbufs_len"):
        return None
    return lambda: int(channel.total_outbufs_len)
