"""Fragments of tool calls as model servers really send them -> what clients can put together.

Clients want: a running index, an id and a name in the first fragment of a call and never again,
arguments as pieces of JSON text (clients §2.1). Servers leave the index out, say 0 for every
call, repeat names, invent no ids or send the arguments as an object (cases C-09 to C-13).
"""

import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from Middleware.core.events import ToolCallDelta
from Middleware.core.messages import ToolCall
from Middleware.wire.bodies import write_json

logger = logging.getLogger(__name__)


def new_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


@dataclass(slots=True)
class _Call:
    """One call while its fragments arrive."""

    index: int | None
    """None until its name is known: before that nothing of it can be sent on."""
    id: str | None
    key: int | None
    """The index that the server gave it."""
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    def arguments_are_complete(self) -> bool:
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        try:
            json.loads("".join(self.pieces))
        except ValueError:
            return False
        return True


class ToolCallRepair:
    """Gathers the calls of one answer. ``new_id`` makes up an id where a server sent none."""

    def __init__(self, new_id: Callable[[], str] = new_call_id) -> None:
        self._new_id = new_id
        self._calls: list[_Call] = []
        self._sent = 0

    @property
    def any_sent(self) -> bool:
        return self._sent > 0

    def feed(self, fragments: Any) -> list[ToolCallDelta]:
        """The ``tool_calls`` of one delta, repaired."""
        events: list[ToolCallDelta] = []
        if not isinstance(fragments, list):
            return events
        for place, fragment in enumerate(fragments):
            function = fragment.get("function") if isinstance(fragment, Mapping) else None
            if not isinstance(function, Mapping):
                continue
            name = _text(function.get("name"))
            arguments = arguments_text(function.get("arguments"))
            call = self._call_of(fragment, name, arguments, place if len(fragments) > 1 else None)
            event = self._advance(call, name, arguments)
            if event is not None:
                events.append(event)
        return events

    def close(self) -> list[ToolCallDelta]:
        """What is missing at the end: empty arguments become an empty object (C-12)."""
        events = []
        for call in self._calls:
            if call.index is None:
                logger.warning("A tool call without a name was left out.")
            elif not "".join(call.pieces).strip():
                events.append(ToolCallDelta(call.index, "{}"))
        return events

    def _call_of(
        self, fragment: Mapping[str, Any], name: str, arguments: str, place: int | None
    ) -> _Call:
        """The call that a fragment belongs to, a new one where it begins one."""
        key = fragment.get("index")
        key = key if isinstance(key, int) and not isinstance(key, bool) else None
        given = _text(fragment.get("id")) or None
        known = self._known(key, given, place)
        if known is None or _begins_anew(known, given, name, arguments):
            known = _Call(None, given, key)
            self._calls.append(known)
        return known

    def _known(self, key: int | None, given: str | None, place: int | None) -> _Call | None:
        """The newest call that has the fragment's index, or else its id."""
        if key is not None:
            same = (call for call in reversed(self._calls) if call.key == key)
        elif given is not None:
            same = (call for call in reversed(self._calls) if call.id == given)
        elif place is not None:
            # Several fragments without index or id in one list: told apart by their places.
            return self._calls[place] if place < len(self._calls) else None
        else:
            return self._calls[-1] if self._calls else None
        return next(same, None)

    def _advance(self, call: _Call, name: str, arguments: str) -> ToolCallDelta | None:
        """Add to a call; the event that tells of it, None while its name is unknown."""
        if arguments:
            call.pieces.append(arguments)
        if call.index is not None:
            return ToolCallDelta(call.index, arguments) if arguments else None
        if not name:
            return None
        call.name = name
        call.index = self._sent
        self._sent += 1
        taken = {other.id for other in self._calls if other is not call and other.index is not None}
        if call.id is None or call.id in taken:
            call.id = self._new_id()
        return ToolCallDelta(call.index, "".join(call.pieces), call.id, call.name)


def _begins_anew(known: _Call, given: str | None, name: str, arguments: str) -> bool:
    """Whether a fragment for a known index is in truth the first of another call."""
    if not name:
        # Some servers make up a new id for every fragment; a call without a name is none.
        return False
    if given is not None and known.id is not None and given != known.id:
        return True
    # Without an id to go by: a name comes again, and what has come so far is whole already.
    return given is None and bool(arguments) and known.arguments_are_complete()


def repair_whole(calls: Any, new_id: Callable[[], str] = new_call_id) -> tuple[ToolCall, ...]:
    """The ``tool_calls`` of an answer that came whole. Those without a name are left out."""
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        return ()
    repaired: list[ToolCall] = []
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        name = _text(function.get("name")) if isinstance(function, Mapping) else ""
        if not isinstance(function, Mapping) or not name:
            logger.warning("A tool call without a name was left out.")
            continue
        given = _text(call.get("id"))
        if not given or given in {other.id for other in repaired}:
            given = new_id()
        arguments = arguments_text(function.get("arguments"))
        repaired.append(
            ToolCall(id=given, name=name, arguments=arguments if arguments.strip() else "{}")
        )
    return tuple(repaired)


def arguments_text(value: Any) -> str:
    """Arguments as JSON text, whether they came as text, as an object or not at all."""
    if isinstance(value, str):
        return value
    return "" if value is None else write_json(value).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
