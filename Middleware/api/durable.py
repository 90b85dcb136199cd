"""Durable conversations over HTTP, native (specification §19): routes only."""

from collections.abc import Mapping
from typing import Any

import orjson
from flask import Blueprint, Response, request

from Middleware.api.durable_access import (
    NEVER_RETRY,
    hidden_profiles,
    profile_of,
    require,
    require_reader,
    sender,
    status_of,
)
from Middleware.api.durable_events import EventStreams, Waits, changed_status
from Middleware.api.errors import JSON
from Middleware.conversations.models import Options, Receipt, Refusal
from Middleware.conversations.page import Page
from Middleware.conversations.profiles import FAKE, require_profile
from Middleware.conversations.service import Conversations
from Middleware.core.errors import MalformedRequest, UnknownRoute
from Middleware.wire.bodies import parse_json_object

PREFIX = "/durable/v1"

_START_FIELDS = {
    "profile": str,
    "conversation_id": str,
    "message": str,
    "request_id": str,
    "return_existing_active": bool,
    "options": dict,
}


def durable_door(conversations: Conversations, waits: Waits | None = None) -> Blueprint:
    """All of ``/durable/v1``."""
    door = Blueprint("durable", __name__, url_prefix=PREFIX)
    waits = waits or Waits()

    @door.before_request
    def only_those_with_a_part_in_it() -> None:
        conversation_id = (request.view_args or {}).get("conversation_id")
        state = conversations.reader.state(conversation_id) if conversation_id else None
        if state is not None:
            require_reader(conversations, state.profile)

    _add_changes(door, conversations)
    _add_views(door, conversations, waits)
    _add_lists(door, conversations)
    _add_operator(door, conversations)
    return door


def _add_changes(door: Blueprint, conversations: Conversations) -> None:
    @door.post("/conversations")
    def start() -> Response:
        """Begin a conversation that lasts."""
        from Middleware.conversations.inbox import Start

        body = _checked(parse_json_object(request.get_data()), _START_FIELDS)
        profile = require_profile(conversations.profiles, body.get("profile", FAKE))
        require(profile.lets_send)
        started = conversations.start(
            Start(
                profile=profile.name,
                options=Options.parse(body.get("options", {}), profile.options),
                conversation_id=body.get("conversation_id"),
                message=body.get("message"),
                request_id=_request_id(body),
                return_existing_active=body.get("return_existing_active", False),
                sender=sender(),
            )
        )
        if isinstance(started, Refusal):
            return _refused(started)
        state = started.state
        answer: dict[str, Any] = {
            "conversation_id": state.id,
            "run_id": state.run_id,
            "generation": state.generation,
            "status": conversations.reader.status(state.id),
        }
        if started.signal is not None:
            answer["signal"] = started.signal.to_dict()
        return _json(answer, 201 if started.new else 200)

    def signal(conversation_id: str, name: str, run_id: str | None) -> Response:
        from Middleware.conversations.inbox import Send

        body = parse_json_object(request.get_data())
        profile = profile_of(conversations, conversation_id)
        if profile is not None:
            require(profile.lets_approve if name == "decision" else profile.lets_send)
        send = Send(
            name=name,
            arguments=body.get("arguments", {}),
            request_id=_request_id(body),
            target_run=run_id,
            sender=sender(),
        )
        answer = conversations.send(conversation_id, send)
        if isinstance(answer, Receipt):
            return _json(answer.to_dict(), 202)
        return _refused(answer)

    @door.post("/conversations/<conversation_id>/signals/<name>")
    def to_conversation(conversation_id: str, name: str) -> Response:
        """Send a signal to a conversation."""
        return signal(conversation_id, name, None)

    @door.post("/conversations/<conversation_id>/runs/<run_id>/signals/<name>")
    def to_run(conversation_id: str, run_id: str, name: str) -> Response:
        """The same, to one of its generations only."""
        return signal(conversation_id, name, run_id)


def _add_views(door: Blueprint, conversations: Conversations, waits: Waits) -> None:
    streams = EventStreams(conversations, waits)

    @door.get("/conversations/<conversation_id>")
    def describe(conversation_id: str) -> Response:
        """One conversation."""
        return _found(conversations.reader.describe(conversation_id))

    @door.get("/conversations/<conversation_id>/status")
    def status(conversation_id: str) -> Response:
        """How it stands; with `If-None-Match` and `Prefer: wait=30` once that has changed."""
        return changed_status(
            conversations, waits, conversation_id, _found_status(conversations, conversation_id)
        )

    @door.get("/conversations/<conversation_id>/runs/<run_id>/status")
    def run_status(conversation_id: str, run_id: str) -> Response:
        """How one generation stands, or ended."""
        return _found(conversations.reader.status(conversation_id, run_id))

    @door.get("/conversations/<conversation_id>/records/<int:turn>")
    def record(conversation_id: str, turn: int) -> Response:
        """What was decided and done in one turn."""
        return _found(conversations.reader.record(conversation_id, turn))

    @door.get("/conversations/<conversation_id>/export")
    def export(conversation_id: str) -> Response:
        """Everything that is kept of it."""
        return _found(conversations.reader.export(conversation_id))

    @door.get("/conversations/<conversation_id>/events")
    def events(conversation_id: str) -> Response:
        """What happens in it, as server-sent events; `Last-Event-ID` goes on behind one."""
        _found_status(conversations, conversation_id)
        return streams.open(conversation_id, request.headers.get("Last-Event-ID", ""))


def _add_lists(door: Blueprint, conversations: Conversations) -> None:
    def page() -> Page:
        limit = request.args.get("limit", "100")
        if not limit.isdecimal() or not int(limit):
            raise MalformedRequest("limit", "must be a whole number of at least 1")
        return Page(limit=int(limit), after=request.args.get("after"))

    @door.get("/conversations")
    def conversations_() -> Response:
        """The conversations there are."""
        status = request.args.get("status")
        if status not in (None, "running", "completed", "failed"):
            raise MalformedRequest("status", "must be `running`, `completed` or `failed`")
        profile = request.args.get("profile")
        found = conversations.reader.conversations(
            page(), status=status, profile=profile, hidden=hidden_profiles(conversations)
        )
        return _json(found)

    @door.get("/conversations/<conversation_id>/signals")
    def signals(conversation_id: str) -> Response:
        """The signals it was sent."""
        return _found(conversations.reader.signals(conversation_id, page()))

    @door.get("/conversations/<conversation_id>/signals/<signal_id>")
    def signal(conversation_id: str, signal_id: str) -> Response:
        """What became of one signal."""
        return _found(conversations.reader.signal(conversation_id, signal_id))

    @door.get("/conversations/<conversation_id>/transcript")
    def transcript(conversation_id: str) -> Response:
        """What was said, turn by turn."""
        return _found(conversations.reader.transcript(conversation_id, page()))

    @door.get("/conversations/<conversation_id>/history")
    def history(conversation_id: str) -> Response:
        """All that has happened in it."""
        run_id = request.args.get("run")
        return _found(conversations.reader.history(conversation_id, page(), run_id))


def _add_operator(door: Blueprint, conversations: Conversations) -> None:
    @door.post("/conversations/<conversation_id>/cancel")
    def cancel(conversation_id: str) -> Response:
        """End it."""
        answer = conversations.cancel(conversation_id)
        if isinstance(answer, Refusal):
            return _refused(answer)
        return _json(conversations.reader.status(conversation_id), 202)

    @door.post("/conversations/<conversation_id>/repair")
    def repair(conversation_id: str) -> Response:
        """Look whether it is stuck, and get it going again."""
        outcome = conversations.repairer.repair(conversation_id, request.args.get("run"))
        if outcome is None:
            return _refused(Refusal(outcome="rejected_not_started"))
        return _json({"outcome": outcome}, 409 if outcome.startswith("rejected") else 200)

    @door.post("/repair-pass")
    def repair_pass() -> Response:
        """The same for all conversations."""
        return _json({"repaired": conversations.repairer.run()})


def _request_id(body: Mapping[str, Any]) -> str | None:
    """HTTP-2."""
    header = request.headers.get("Idempotency-Key")
    if header:
        return header
    value = body.get("request_id")
    if value is not None and not isinstance(value, str):
        raise MalformedRequest("request_id", "must be a string")
    return value


def _checked(body: dict[str, Any], fields: Mapping[str, type]) -> dict[str, Any]:
    """The fields that were given; null is "not given"."""
    for name, value in body.items():
        kind = fields.get(name)
        if kind is None:
            raise MalformedRequest(name, "is not a field of this request")
        if value is not None and type(value) is not kind:
            raise MalformedRequest(name, f"must be of type {kind.__name__}")
    return {name: value for name, value in body.items() if value is not None}


def _found_status(conversations: Conversations, conversation_id: str) -> dict[str, Any]:
    status = conversations.reader.status(conversation_id)
    if status is None:
        raise UnknownRoute(f"There is no conversation {conversation_id[:128]!r}.")
    return status


def _found(value: dict[str, Any] | None) -> Response:
    if value is None:
        raise UnknownRoute(f"{request.path} does not exist.")
    return _json(value)


def _refused(refusal: Refusal) -> Response:
    return _json(refusal.to_dict(), status_of(refusal), NEVER_RETRY)


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, content_type=JSON)
