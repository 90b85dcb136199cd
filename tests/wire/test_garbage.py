"""Whatever somebody sends: an error of ours or an answer, never a fault."""

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.core.errors import BackendError, MalformedRequest
from Middleware.core.events import Event, Finish
from Middleware.wire import (
    anthropic_messages,
    koboldcpp,
    ollama_chat,
    ollama_embed,
    ollama_generate,
    openai_completions,
    openai_embeddings,
    openai_responses,
)
from Middleware.wire.payload_parser import PayloadParser, parse_payloads
from tests.wire import test_anthropic_request as anthropic_requests
from tests.wire import test_ollama_request as ollama_requests
from tests.wire import test_openai_completions as completions
from tests.wire import test_openai_embeddings as embeddings
from tests.wire import test_openai_responses_request as responses_requests
from tests.wire.answers import VOICE

_WORDS = (
    *("type", "role", "content", "text", "model", "messages", "input", "system", "prompt", "name"),
    *("user", "assistant", "tool", "message", "tool_use", "tool_result", "tool_calls", "function"),
    *("function_call", "function_call_output", "arguments", "call_id", "id", "output", "item"),
    *("index", "output_index", "delta", "choices", "finish_reason", "usage", "done", "thinking"),
    *("done_reason", "response", "error", "code", "content_block", "partial_json", "token"),
    *("input_json_delta", "text_delta", "results", "image", "image_url", "source", "data", "url"),
    *("input_text", "input_image", "options", "format", "tools", "tool_choice", "namespace"),
    *("response.output_item.added", "response.output_item.done", "response.completed"),
    *("response.output_text.delta", "response.function_call_arguments.delta", "stop_reason"),
    *("response.function_call_arguments.done", "response.failed", "content_block_start"),
    *("content_block_delta", "content_block_stop", "message_start", "message_delta", "embedding"),
    *("embeddings", "reasoning", "output_config", "images", "stop", "think", "conversation"),
    *("instructions", "tool_use_id", "tool_name", "tool_call_id", "summary", "description"),
)
_words = st.sampled_from(_WORDS)
_leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
_json = st.recursive(
    _leaves | _words | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=5),
    max_leaves=12,
)
_objects = st.dictionaries(_words, _json, max_size=6)

Parse = Callable[[Mapping[str, Any]], object]

_REQUESTS: list[tuple[Parse, list[dict[str, Any]]]] = [
    (ollama_chat.parse_request, [case.body for case in ollama_requests.CHATS]),
    (ollama_generate.parse_request, [case.body for case in ollama_requests.GENERATES]),
    (anthropic_messages.parse_request, [case.body for case in anthropic_requests.ACCEPTS]),
    (openai_completions.parse_request, [case.body for case in completions.ACCEPTS]),
    (openai_responses.parse_request, [case.body for case in responses_requests.ACCEPTS]),
    *((case.parse, [case.body]) for case in embeddings.ACCEPTS),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something could be replaced."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [path] + [
        place
        for key, item in inner
        for place in (
            places(item, (*path, key)) if isinstance(item, dict | list) else [(*path, key)]
        )
    ]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = replaced(value[path[0]], path[1:], new)
    return copied


@pytest.mark.parametrize(("parse", "bodies"), _REQUESTS)
@given(data=st.data())
def test_a_request_is_read_or_refused(
    parse: Parse, bodies: list[dict[str, Any]], data: st.DataObject
) -> None:
    body = data.draw(st.sampled_from(bodies))
    place = data.draw(st.sampled_from(places(body)))
    new = data.draw(_objects if not place else _json)

    with contextlib.suppress(MalformedRequest):
        parse(replaced(body, place, new))


_STREAMS: list[type[PayloadParser]] = [
    ollama_chat.StreamParser,
    anthropic_messages.StreamParser,
    openai_completions.StreamParser,
    openai_responses.StreamParser,
    koboldcpp.StreamParser,
]


@pytest.mark.parametrize("parser", _STREAMS, ids=lambda parser: parser.__module__)
@given(payloads=st.lists(_json, max_size=6))
def test_a_stream_ends_with_one_finish_or_with_an_error(
    parser: type[PayloadParser], payloads: list[Any]
) -> None:
    events: list[Event] = []
    with contextlib.suppress(BackendError):
        lines = [json.dumps(payload).encode() for payload in payloads]
        events += parse_payloads(lines, parser(VOICE))
        assert [type(event) for event in events].index(Finish) == len(events) - 1


_REPLIES: list[Callable[[bytes], object]] = [
    lambda body: ollama_chat.parse_reply(body, VOICE),
    lambda body: anthropic_messages.parse_reply(body, VOICE),
    lambda body: openai_completions.parse_reply(body, VOICE),
    lambda body: openai_responses.parse_reply(body, VOICE),
    lambda body: koboldcpp.parse_reply(body, VOICE),
    lambda body: openai_embeddings.parse_reply(body, 1, VOICE),
    lambda body: ollama_embed.parse_reply(body, 1, VOICE),
]


@pytest.mark.parametrize("parse", _REPLIES)
@given(body=_json.map(json.dumps).map(str.encode) | st.binary(max_size=20))
def test_a_whole_answer_is_read_or_refused(parse: Callable[[bytes], object], body: bytes) -> None:
    with contextlib.suppress(BackendError):
        parse(body)
