"""What the readers of all vendors' streams have in common."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from Middleware.core.events import Event
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.bodies import BadJson, read_json_leniently

logger = logging.getLogger(__name__)

_CUT_OFF: Final = "closed the connection in the middle of its answer."


class PayloadParser(ABC):
    """Makes events of the payloads of one stream, one JSON object each.

    A stream that just ends, without its vendor's sign that the answer is complete, was cut off
    and never counts as a stop (case C-02).
    """

    def __init__(self, voice: BackendVoice) -> None:
        self.voice = voice
        self.done = False
        """Whether the last payload was seen: nothing more will come."""
        self.heard = False
        """Whether anything came that belongs to such a stream."""

    @property
    def complete(self) -> bool:
        """Whether the answer is whole, though something may still follow."""
        return self.done

    def feed(self, payload: bytes) -> list[Event]:
        """Raises BackendRejected when the payload reports an error."""
        if self.done:
            return []
        try:
            said = read_json_leniently(payload)
        except BadJson:
            logger.warning(
                "Endpoint %r sent a line that is no JSON; it was skipped: %s",
                self.voice.endpoint,
                self.voice.quote(payload),
            )
            return []
        if not isinstance(said, dict):
            return []
        self.heard = True
        return self.take(said)

    def finish(self) -> list[Event]:
        """The last events, Finish at their end; raises BackendBadReply when it was cut off."""
        if not self.complete:
            raise self.voice.nonsense(_CUT_OFF)
        return self.last_events()

    @abstractmethod
    def take(self, said: Mapping[str, Any]) -> list[Event]:
        """The events of one payload."""

    @abstractmethod
    def last_events(self) -> list[Event]:
        """The events at the end of a complete answer."""


def parse_payloads(payloads: Iterable[bytes], parser: PayloadParser) -> Iterator[Event]:
    """All events of a stream whose payloads are at hand."""
    for payload in payloads:
        yield from parser.feed(payload)
        if parser.done:
            break
    yield from parser.finish()


def parse_body(body: bytes, voice: BackendVoice) -> Mapping[str, Any]:
    """The object that an answer consists of; raises BackendBadReply when it is none."""
    try:
        whole = read_json_leniently(body)
    except BadJson as error:
        raise voice.no_json(body) from error
    if not isinstance(whole, dict):
        raise voice.no_json(body)
    return whole


def count_in(holder: Any, name: str) -> int | None:
    """A number of tokens, where one was told."""
    value = holder.get(name) if isinstance(holder, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return int(value)


def text_of(holder: Mapping[str, Any], name: str) -> str:
    """A text; empty where there is none."""
    value = holder.get(name)
    return value if isinstance(value, str) else ""


def index_in(holder: Mapping[str, Any], name: str) -> int | None:
    """A place in a list; None where none was told."""
    value = holder.get(name)
    return value if isinstance(value, int) else None
