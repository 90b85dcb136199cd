"""Whatever a client or a model server sends: an answer or an error of ours, never a fault."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.core.errors import BackendError, MalformedRequest
from Middleware.core.events import Finish
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.bodies import parse_json_object, write_json
from Middleware.wire.framing import SseDecoder
from Middleware.wire.openai_chat import parse_request
from Middleware.wire.openai_chat_stream import parse_reply, parse_stream
from tests.fakes.upstream import delta, frame, reply, usage_of

VOICE = BackendVoice("fast", ("sk-canary-123",))
CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
REQUEST = {
    "model": "m",
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://p"}}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "u"}}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "5", "name": "f", "images": []},
    ],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "temperature": 1,
    "stop": ["x"],
    "response_format": {"type": "json_object"},
    "metadata": {},
}
CHUNK = {
    **delta("x", "stop", tool_calls=[CALL], reasoning="hm", function_call=CALL["function"]),
    "usage": usage_of(1, 2),
    "error": None,
}
WHOLE = reply("x", tool_calls=[CALL], reasoning_content="hm", function_call=CALL["function"])
ERROR = {"error": {"message": "m", "type": "x", "code": 500}}

_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "user", "text", "function", "error", "f", "stop", "none", "\ufffd"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "text", "message", "code"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places_in(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [place, *(found for key, item in items for found in places_in(item, (*place, key)))]


@st.composite
def spoilt(draw: st.DrawFn, value: Any) -> Any:
    """A good value in which one or two places hold something else."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from([place for place in places_in(value) if place]))
        inner = value
        for step in way:
            inner = inner[step]
        inner[last] = draw(_values)
    return value


@given(spoilt(REQUEST))
def test_a_request_is_understood_or_refused(body: Any) -> None:
    with contextlib.suppress(MalformedRequest):
        parse_request(body)


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_an_object_or_refused(data: bytes) -> None:
    with contextlib.suppress(MalformedRequest):
        parse_json_object(data)


@pytest.mark.parametrize("good", [CHUNK, ERROR], ids=["chunk", "error"])
@given(data=st.data())
def test_a_stream_is_understood_or_an_error(good: Any, data: st.DataObject) -> None:
    chunks = [data.draw(spoilt(good)) for _ in range(2)]

    with contextlib.suppress(BackendError):
        events = list(parse_stream([*map(write_json, chunks), b"[DONE]"], VOICE))
        assert [isinstance(event, Finish) for event in events] == [False] * (len(events) - 1) + [
            True
        ]


@pytest.mark.parametrize("good", [WHOLE, ERROR], ids=["reply", "error"])
@given(data=st.data())
def test_a_whole_answer_is_understood_or_an_error(good: Any, data: st.DataObject) -> None:
    with contextlib.suppress(BackendError):
        parse_reply(write_json(data.draw(spoilt(good))), VOICE)


@given(st.binary() | st.binary().map(frame), st.integers(1, 9))
def test_any_bytes_are_a_stream_or_an_error(data: bytes, size: int) -> None:
    decoder = SseDecoder()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    payloads = [payload for piece in pieces for payload in decoder.feed(piece)]

    with contextlib.suppress(BackendError):
        list(parse_stream([*payloads, *decoder.close()], VOICE))
