"""Reads the answer of a model server, streamed or whole, in whatever format it comes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from Middleware.core.errors import BackendError
from Middleware.core.events import Event, Reply, replay
from Middleware.llm.transport import Answer
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.framing import SseDecoder
from Middleware.wire.openai_chat_stream import looks_whole

_PATIENCE_SECONDS: Final = 2.0
"""How long token counts and the end marker may take once the answer itself is complete."""


class Decoder(Protocol):
    """Cuts bytes into payloads."""

    def feed(self, chunk: bytes, /) -> list[bytes]: ...

    def close(self) -> list[bytes]: ...


class Parser(Protocol):
    """Makes events of the payloads of one stream."""

    @property
    def done(self) -> bool: ...

    @property
    def heard(self) -> bool: ...

    @property
    def complete(self) -> bool: ...

    def feed(self, payload: bytes, /) -> list[Event]: ...

    def finish(self) -> list[Event]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the answers of one format are read."""

    parser: Callable[[BackendVoice], Parser]
    parse_reply: Callable[[bytes, BackendVoice], Reply]
    decoder: Callable[[], Decoder] = SseDecoder
    objects_are_frames: bool = False
    """Whether a stream consists of bare JSON objects, so that one is no answer in its place."""
    says_its_end: bool = True
    """Whether a complete answer is known to be complete before the body ends."""


def whole_events(answer: Answer, voice: BackendVoice, reading: Reading) -> Iterator[Event]:
    return replay(reading.parse_reply(answer.rest(), voice))


def stream_events(answer: Answer, voice: BackendVoice, reading: Reading) -> Iterator[Event]:
    """Events as their bytes arrive, also when the server sends one JSON text in place of them."""
    data = answer.read()
    while data and data.isspace():
        data = answer.read()
    if not reading.objects_are_frames and looks_whole(data):
        yield from replay(reading.parse_reply(data + answer.rest(), voice))
        return
    decoder, parser, beginning = reading.decoder(), reading.parser(voice), data
    says_its_end = reading.says_its_end
    while data:
        for payload in decoder.feed(data):
            yield from parser.feed(payload)
        if parser.done:
            answer.drain()
            break
        data = _late(answer) if says_its_end and parser.complete else answer.read()
    for payload in decoder.close():
        yield from parser.feed(payload)
    if not parser.heard:
        raise voice.no_json(beginning)
    yield from parser.finish()


def _late(answer: Answer) -> bytes:
    """What still comes after the answer is complete. Nothing that goes wrong now can spoil it."""
    answer.hurry(_PATIENCE_SECONDS)
    try:
        return answer.read()
    except BackendError:
        return b""
