"""``/api/runs``: what has run, what runs, and what happens in it (decisions §7)."""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from typing import Final

import orjson
from flask import Blueprint, Response, request

from Middleware.api.admission import ENVIRON_CALLER
from Middleware.api.errors import JSON
from Middleware.api.event_stream import Places, frame
from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import Caller
from Middleware.runs.happenings import Happened
from Middleware.runs.history import owners_seen_by
from Middleware.runs.reader import Query
from Middleware.runs.records import Record
from Middleware.runs.run_log import RunLog

PREFIX: Final = "/api/runs"
STATUSES: Final = ("running", "succeeded", "failed", "cancelled", "interrupted")
_MOST_LISTED: Final = 500
_BEAT_SECONDS: Final = 5.0


def runs_door(log: RunLog, places: Places | None = None) -> Blueprint:
    """With keys everybody sees runs of their own only; those of others do not exist for them."""
    door = Blueprint("runs", __name__, url_prefix=PREFIX)
    places = places or Places()

    @door.get("")
    def newest() -> Response:
        """What has run and what runs, newest first."""
        return _json(log.newest(_query(_caller())).to_dict())

    @door.get("/<run_id>")
    def one(run_id: str) -> Response:
        """One run: its context with all steps, and the runs that it started."""
        return _json(log.find(run_id, _caller()))

    @door.get("/<run_id>/events")
    def events(run_id: str) -> Response:
        """What happens in a run, as server-sent events; of one that is over, from its record."""
        return places.stream(_frames(log.follow(run_id, _caller())))

    @door.delete("/<run_id>")
    def delete(run_id: str) -> Response:
        """Delete a run that is over, with the runs that it started."""
        log.delete(run_id, _caller())
        return _json({"id": run_id, "deleted": True})

    return door


def _frames(portions: Iterable[list[Happened]]) -> Iterator[bytes]:
    beat_at = time.monotonic()
    for portion in portions:
        now = time.monotonic()
        if portion:
            yield b"".join(frame(name, data) for name, data in portion)
        elif now >= beat_at:
            # Also how a reader that has left is noticed.
            yield b": waiting\n\n"
        else:
            continue
        beat_at = now + _BEAT_SECONDS


def _query(caller: Caller | None) -> Query:
    given = request.args
    status = given.get("status") or None
    if status not in (None, *STATUSES):
        raise MalformedRequest("status", f"must be one of {', '.join(STATUSES)}")
    return Query(
        workflow=given.get("workflow") or None,
        status=status,
        session=given.get("session") or None,
        since=_moment(given.get("since") or None),
        limit=min(_number("limit", given.get("limit") or "50", least=1), _MOST_LISTED),
        before=_number("after", given["after"], least=0) if given.get("after") else None,
        owners=owners_seen_by(caller),
    )


def _number(name: str, text: str, *, least: int) -> int:
    if not (text.isascii() and text.isdecimal() and least <= int(text) < 1 << 63):
        raise MalformedRequest(name, f"must be a whole number of at least {least}")
    return int(text)


def _moment(text: str | None) -> float | None:
    if text is None:
        return None
    with suppress(ValueError):
        if isfinite(seconds := float(text)):
            return seconds
    # The second for a plus sign that an address has turned into a blank.
    for written in (text, text.replace(" ", "+")):
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(written)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    raise MalformedRequest(
        "since", "must be a time like 2026-01-31T09:00:00Z, or seconds since 1970"
    )


def _caller() -> Caller | None:
    caller = request.environ.get(ENVIRON_CALLER)
    return caller if isinstance(caller, Caller) else None


def _json(body: Record) -> Response:
    return Response(orjson.dumps(body), content_type=JSON, headers={"Cache-Control": "no-store"})
