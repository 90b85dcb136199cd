"""From a parsed request to its response: what is the same at every door."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from flask import Response, request

from Middleware.api.active import ActiveRequest
from Middleware.api.admission import ENVIRON_CALLER, presented_keys
from Middleware.api.answers import Answer, AnswerFormat, Answers
from Middleware.api.background import Background, Task
from Middleware.api.errors import ENVIRON_REQUEST_ID, JSON
from Middleware.api.headers import clean
from Middleware.api.pulse import Pulse
from Middleware.api.streaming import StreamedResponse, Streaming, answer_headers
from Middleware.core.errors import BackendError, RunCancelled
from Middleware.core.events import Reply, ReplyBuilder
from Middleware.core.messages import ChatRequest
from Middleware.workflows.managers.request_runner import RequestInfo

logger = logging.getLogger(__name__)

_CLIENT_GONE = "waitress.client_disconnected"
_LONGEST_ID = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Has requests answered and sends the answers, streamed or whole."""

    answers: Answers
    pulse: Pulse
    background: Background

    def send(self, asked: ChatRequest, written: AnswerFormat) -> Response:
        """The response to ``asked``. Call it in a view; raises MiddlewareError."""
        environ = request.environ
        client_gone = environ.get(_CLIENT_GONE)
        active = self.pulse.watch(environ[ENVIRON_REQUEST_ID], client_gone)
        try:
            answer = self.answers.answer(asked, _info(environ, written.name, active))
            if asked.stream:
                return self._streamed(asked, written, active, answer)
            return self._whole(asked, written, active, answer)
        except BaseException:
            self.pulse.release(active)
            raise

    def _streamed(
        self, asked: ChatRequest, written: AnswerFormat, active: ActiveRequest, answer: Answer
    ) -> Response:
        parts = Streaming(
            active=active,
            answer=answer,
            format=written,
            encoder=written.encoder(asked, request_id=active.id, model=answer.model),
            unsent_bytes=_unsent_bytes(request.environ.get(_CLIENT_GONE)),
            on_end=partial(self._end, active, answer),
        )
        return StreamedResponse(parts)

    def _whole(
        self, asked: ChatRequest, written: AnswerFormat, active: ActiveRequest, answer: Answer
    ) -> Response:
        try:
            reply = _collect(answer)
        except RunCancelled as error:
            if not active.gone:
                raise
            logger.info("client left request=%s", active.id)
            self._end(active, answer, complete=False)
            # Nobody reads it; Flask wants a response.
            return Response(written.error_body(error), error.status, content_type=JSON)
        # Before a byte is sent: a client that hangs up as soon as it has its answer must not
        # cancel what goes on after it.
        self.pulse.release(active)
        encoder = written.encoder(asked, request_id=active.id, model=answer.model)
        response = Response(encoder.reply(reply), 200, answer_headers(answer), content_type=JSON)
        response.call_on_close(partial(self._end, active, answer, complete=True))
        return response

    def _end(self, active: ActiveRequest, answer: Answer, complete: bool) -> None:
        """The answer has been sent, or given up."""
        self.pulse.release(active)
        if complete and answer.has_rest():
            self.background.submit(Task(active.id, answer.rest, active.cancel))
        elif complete:
            answer.rest()
        took_ms = (time.monotonic() - active.since) * 1000
        if complete:
            logger.info("answered request=%s model=%s ms=%d", active.id, answer.model, took_ms)
        ignored = answer.ignored()
        if ignored:
            logger.info("ignored fields: %s request=%s", clean(", ".join(ignored)), active.id)


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
        caller=environ.get(ENVIRON_CALLER),
        api_key=keys[0] if keys else None,
    )


def _conversation_id(environ: dict[str, Any]) -> str | None:
    """The first source of decisions §9; the others are found in the request itself."""
    given: str = environ.get("HTTP_X_CONVERSATION_ID", "").strip()
    return given[:_LONGEST_ID] or None


def _unsent_bytes(client_gone: Any) -> Callable[[], int] | None:
    """What the server has not been able to send on this connection, where it tells.

    waitress counts it on the channel whose method ``client_gone`` is.
    """
    channel = getattr(client_gone, "__self__", None)
    if channel is None or not hasattr(channel, "total_outbufs_len"):
        return None
    return lambda: int(channel.total_outbufs_len)
