"""``POST /api/workflows/{path}/test``: the test runner (design §5). Streams what happens in the
run as ``/api/runs/{id}/events`` does, and ends with its context. Closing the stream stops the run.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from flask import Blueprint, Response, request

from Middleware.api.admission import ENVIRON_CALLER
from Middleware.api.background import Background, Task
from Middleware.api.errors import ENVIRON_REQUEST_ID
from Middleware.api.event_stream import Places, frame
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import MalformedRequest, RunCancelled
from Middleware.core.messages import Caller, Message
from Middleware.runs.errors import UnknownRun
from Middleware.runs.happenings import Happened
from Middleware.runs.run_log import RunLog
from Middleware.wire.bodies import parse_json_object
from Middleware.wire.openai_messages import parse_messages
from Middleware.workflows.managers.request_runner import RequestInfo, RequestRunner, StartedRun
from Middleware.workflows.models.workflow_call import CLEAR_CONVERSATION, WorkflowCall

PREFIX = "/api/workflows"
_FIELDS = {
    "message": str,
    "messages": list,
    "globalVariables": dict,
    "clearConversation": bool,
    "pinned": dict,
    "node": str,
}
_KINDS = {str: "text", list: "a list", dict: "an object", bool: "true or false"}
_BEAT_SECONDS = 5.0
_START_SECONDS = 10.0


def workflows_door(
    runner: RequestRunner, log: RunLog, background: Background, places: Places | None = None
) -> Blueprint:
    """Slashes of a folder are ``/`` or ``%2F``; a shared workflow goes by its name alone."""
    door = Blueprint("workflows", __name__, url_prefix=PREFIX)
    places = places or Places()

    @door.post("/<path:workflow>/test")
    def test(workflow: str) -> Response:
        """Run a workflow and stream what happens in it; leaving stops it."""
        asked = _checked(parse_json_object(request.environ["wsgi.input"].read()))
        caller = request.environ.get(ENVIRON_CALLER)
        info = RequestInfo(
            door="test",
            request_id=request.environ[ENVIRON_REQUEST_ID],
            cancel=CancelToken(),
            caller=caller if isinstance(caller, Caller) else None,
        )
        started = runner.start_workflow(workflow, _call(asked), info)
        background.submit(Task(info.request_id, lambda: _drain(started), info.cancel))
        response = places.stream(_frames(log, started, info))
        response.headers["X-Run-Id"] = started.id
        return response

    return door


def _checked(body: Mapping[str, Any]) -> Mapping[str, Any]:
    given = {name: value for name, value in body.items() if value is not None}
    for name, value in given.items():
        kind = _FIELDS.get(name)
        if kind is None:
            raise MalformedRequest(name, f"is not known here; there are {', '.join(_FIELDS)}")
        if not isinstance(value, kind):
            raise MalformedRequest(name, f"must be {_KINDS[kind]}")
    if ("message" in given) == ("messages" in given):
        raise MalformedRequest("message", "or `messages` must be given, one of both")
    return given


def _call(asked: Mapping[str, Any]) -> WorkflowCall:
    if "message" in asked:
        messages: tuple[Message, ...] = (Message("user", asked["message"]),)
    else:
        messages = parse_messages(asked["messages"])
    return WorkflowCall(
        workflow="",
        messages=messages,
        streaming=True,
        globals={
            **asked.get("globalVariables", {}),
            CLEAR_CONVERSATION: asked.get("clearConversation", False),
        },
        pinned=asked.get("pinned", {}),
        only=asked.get("node"),
    )


def _drain(started: StartedRun) -> None:
    for _ in started.events:
        pass


def _frames(log: RunLog, started: StartedRun, info: RequestInfo) -> Iterator[bytes]:
    """Until the run has ended. A reader that leaves before stops it."""
    try:
        beat_at = time.monotonic() + _BEAT_SECONDS
        for portion in _followed(log, started.id, info.caller):
            if portion:
                yield b"".join(frame(name, data) for name, data in portion)
            elif time.monotonic() >= beat_at:
                yield b": waiting\n\n"
            else:
                continue
            beat_at = time.monotonic() + _BEAT_SECONDS
    finally:
        info.cancel.cancel(RunCancelled("The test was stopped."))


def _followed(log: RunLog, run_id: str, caller: Caller | None) -> Iterator[list[Happened]]:
    """The run begins on another thread: the log hears of it a moment later."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return log.follow(run_id, caller)
        except UnknownRun:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
