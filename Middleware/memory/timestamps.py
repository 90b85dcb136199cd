"""When the messages of a conversation were sent (memory-and-state §16, workflow-engine §11).

``timestamps.json`` holds hash of a message -> ``(Monday, 2025-09-01 12:00:00)``, local time. The
first of several equal messages has the hash that the reference gives it; later ones have their
number behind it, so that each keeps a time of its own (workflow-engine S16).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from Middleware.core.messages import Message
from Middleware.memory.hashing import message_hash, message_hashes

FILE: Final = "timestamps.json"
PLACEHOLDER: Final = "PLACEHOLDER_TIMESTAMP_HASH_0000"
"""The key of a reply that the client has not sent back yet, so that its hash is not known."""

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_STAMP = re.compile(r"\(\w+, (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\)")
_STEP = timedelta(seconds=1)
_LONGEST_PROMPT: Final = 99
_WITHOUT_TIME = frozenset({"system", "developer", "systemMes", "systemmes"})

Stored = MutableMapping[str, Any]


def generation_prompt(messages: Sequence[Message]) -> str | None:
    """What asks for one speaker, like ``Roland:``: the last message, trimmed, if it is 1 to 99
    characters long and ends with a colon."""
    if not messages:
        return None
    text = messages[-1].content.strip()
    return text if text.endswith(":") and len(text) <= _LONGEST_PROMPT else None


def stamp_of(moment: datetime) -> str:
    """English whatever language the machine speaks."""
    return f"({_DAYS[moment.weekday()]}, {moment:%Y-%m-%d %H:%M:%S})"


def moment_of(stamp: Any) -> datetime | None:
    """The inverse; None for what is no such text."""
    found = _STAMP.fullmatch(stamp) if isinstance(stamp, str) else None
    if found is None:
        return None
    try:
        return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None


def span(since: datetime, now: datetime) -> str:
    """How long ago, without seconds; the future counts as now."""
    minutes = max(0, int((now - since).total_seconds())) // 60
    days, rest = divmod(minutes, 24 * 60)
    hours, minutes = divmod(rest, 60)
    parts = [
        f"{number} {word}" if number == 1 else f"{number} {word}s"
        for number, word in ((days, "day"), (hours, "hour"), (minutes, "minute"))
        if number
    ]
    return ", ".join(parts) or "less than a minute"


def track(messages: Sequence[Message], stored: Stored, now: datetime) -> None:
    """Give every message of a conversation its time, the newest first: what is known stays, and
    what is not was sent a second before the message behind it, or now.

    A waiting reply's time goes to the newest assistant message; it waits no more in any case.
    """
    keys = _keys(messages)
    last = len(messages) - (1 if generation_prompt(messages) else 0)
    _settle(messages[:last], keys, stored)
    anchor = now
    for message, known_as in zip(reversed(messages[:last]), reversed(keys[:last]), strict=True):
        if message.role in _WITHOUT_TIME:
            continue
        known = _known(stored, known_as)
        if known is None:
            stored[known_as[0]] = stamp_of(anchor)
        else:
            anchor = moment_of(known) or anchor
        anchor -= _STEP


def wait_for_reply(stored: Stored, now: datetime) -> None:
    """The reply that is about to be made has this time, whatever its text will be."""
    stored[PLACEHOLDER] = stamp_of(now)


def commit(messages: Sequence[Message], reply: Message, stored: Stored, now: datetime) -> None:
    """The reply is known: its waiting time becomes its own. An empty one has none."""
    waiting = stored.pop(PLACEHOLDER, None)
    if not reply.content.strip():
        return
    history = messages[:-1] if generation_prompt(messages) else messages
    known_as = _keys((*history, reply))[-1]
    if _known(stored, known_as) is None:
        stored[known_as[0]] = waiting or stamp_of(now)


def with_times(
    messages: Sequence[Message], stored: Mapping[str, Any], now: datetime | None = None
) -> tuple[Message, ...]:
    """The messages with their times in front, as far as those are known.

    ``now`` makes them distances (``[Sent 2 days ago]``).
    """
    return tuple(_timed(messages, stored, now))


def _timed(
    messages: Sequence[Message], stored: Mapping[str, Any], now: datetime | None
) -> Iterator[Message]:
    for message, known_as in zip(messages, _keys(messages), strict=True):
        stamp = _known(stored, known_as) if message.role not in _WITHOUT_TIME else None
        if stamp is not None and now is not None:
            moment = moment_of(stamp)
            stamp = f"[Sent {span(moment, now)} ago]" if moment else None
        if not stamp or message.content.startswith(stamp):
            yield message
        else:
            yield replace(message, content=f"{stamp} {message.content}")


def summary(stored: Mapping[str, Any], now: datetime) -> str:
    """``{time_context_summary}``: when the conversation began, and when it went on last."""
    times = [
        moment
        for key, stamp in stored.items()
        if key != PLACEHOLDER and (moment := moment_of(stamp)) is not None
    ]
    if not times:
        return ""
    first, last = min(times), max(times)
    if first == last:
        return f"[Time Context: The conversation started {span(first, now)} ago.]"
    return (
        f"[Time Context: This conversation started {span(first, now)} ago. "
        f"The most recent message was sent {span(last, now)} ago.]"
    )


def _settle(messages: Sequence[Message], keys: Sequence[tuple[str, ...]], stored: Stored) -> None:
    waiting = stored.pop(PLACEHOLDER, None)
    if waiting is None:
        return
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            if _known(stored, keys[index]) is None:
                stored[keys[index][0]] = waiting
            return


def _keys(messages: Iterable[Message]) -> list[tuple[str, ...]]:
    """For each message the keys that its time may stand under; a new one goes under the first."""
    seen: Counter[str] = Counter()
    keys: list[tuple[str, ...]] = []
    for message in messages:
        own = message_hash(message)
        if message.role not in _WITHOUT_TIME:
            seen[own] += 1
        number = seen[own]
        if number > 1:
            keys.append((f"{own}:{number}",))
        else:
            keys.append((own, *(message_hashes(message) - {own})))
    return keys


def _known(stored: Mapping[str, Any], known_as: tuple[str, ...]) -> str | None:
    return next((str(stored[key]) for key in known_as if key in stored), None)
