"""A client of ``/v1/chat/completions`` that forgives nothing (clients §2.1-2.3).

    heard = hear(live.chat(model="assistant", stream=True))
    assert (heard.text, heard.finish_reason) == ("Hello", "stop")

``hear`` reads an answer, streamed or whole, and insists on everything that some client of today
needs: frames that are comments, JSON or ``[DONE]``; a first chunk with the role; one id, model and
time; deltas whose content is text; exactly one finish reason, and none after an error; errors of
OpenAI's shape; an end that is marked in the stream and in the connection.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.live_site import Received

DONE = "data: [DONE]"


@dataclass(kw_only=True)
class Heard:
    """What a client made of an answer."""

    status: int
    text: str = ""
    reasoning: str = ""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    """``id``, ``name`` and ``arguments`` of each."""
    finish_reason: str | None = None
    usage: dict[str, int] | None = None
    error: dict[str, Any] | None = None
    chunks: list[dict[str, Any]] = field(default_factory=list)
    """Of a streamed answer; the error frame is not among them."""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def said(self) -> tuple[str, str | None]:
        """The text and how it ended."""
        return self.text, self.finish_reason


def hear(received: Received) -> Heard:
    """Raises AssertionError for whatever some client would stumble over."""
    assert received.complete, "the connection was cut"
    heard = Heard(status=received.status, headers=received.headers)
    kind = received.headers["content-type"]
    if kind.startswith("text/event-stream"):
        assert received.status == 200
        _hear_stream(received.frames, heard)
        return heard
    assert kind == "application/json"
    if received.status == 200:
        _hear_whole(received.json, heard)
    else:
        heard.error = _checked_error(received.json)
    return heard


def _hear_stream(frames: list[str], heard: Heard) -> None:
    assert frames[-1] == DONE
    for payload in _payloads(frames[:-1]):
        assert heard.error is None, "something came after the error"
        if "error" in payload:
            heard.error = _checked_error(payload)
        else:
            _take_chunk(payload, heard)
    _check_chunks(heard)


def _payloads(frames: list[str]) -> Iterator[dict[str, Any]]:
    for frame in frames:
        if frame.startswith(":"):
            continue
        assert frame.startswith("data: {"), frame
        assert "\n" not in frame, frame
        yield json.loads(frame.removeprefix("data: "))


def _take_chunk(chunk: dict[str, Any], heard: Heard) -> None:
    assert heard.usage is None, "something came after the usage"
    assert chunk["object"] == "chat.completion.chunk"
    heard.chunks.append(chunk)
    if not chunk["choices"]:
        heard.usage = _checked_usage(chunk["usage"])
        return
    assert not chunk.get("usage")
    (choice,) = chunk["choices"]
    assert choice["index"] == 0
    delta = choice["delta"]
    assert heard.finish_reason is None, "something came after the finish reason"
    heard.text += _text(delta.get("content", ""))
    heard.reasoning += _text(delta.get("reasoning_content", ""))
    for fragment in delta.get("tool_calls", ()):
        _take_fragment(fragment, heard.tool_calls)
    heard.finish_reason = choice["finish_reason"]


def _take_fragment(fragment: dict[str, Any], calls: list[dict[str, Any]]) -> None:
    function = fragment["function"]
    if fragment["index"] == len(calls):
        assert fragment["id"]
        assert fragment["type"] == "function"
        assert function["name"]
        calls.append({"id": fragment["id"], "name": function["name"], "arguments": ""})
    else:
        assert fragment.keys() == {"index", "function"}
        assert function.keys() == {"arguments"}
    calls[fragment["index"]]["arguments"] += _text(function["arguments"])


def _check_chunks(heard: Heard) -> None:
    shared = {(chunk["id"], chunk["created"], chunk["model"]) for chunk in heard.chunks}
    assert len(shared) <= 1
    if heard.chunks:
        assert heard.chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    if heard.error is None:
        assert heard.finish_reason in ("stop", "length", "tool_calls", "content_filter")
    else:
        assert heard.finish_reason is None, "an answer that failed claims to be finished"
    for call in heard.tool_calls if heard.error is None else ():
        json.loads(call["arguments"])


def _hear_whole(body: dict[str, Any], heard: Heard) -> None:
    assert body["object"] == "chat.completion"
    assert body["id"]
    assert body["model"]
    assert isinstance(body["created"], int)
    (choice,) = body["choices"]
    message = choice["message"]
    assert choice["index"] == 0
    assert message["role"] == "assistant"
    assert isinstance(message["content"], str) or message["tool_calls"]
    heard.text = message["content"] or ""
    heard.reasoning = message.get("reasoning_content", "")
    for call in message.get("tool_calls", ()):
        assert call["type"] == "function"
        function = call["function"]
        json.loads(function["arguments"])
        heard.tool_calls.append(
            {"id": call["id"], "name": function["name"], "arguments": function["arguments"]}
        )
    heard.finish_reason = choice["finish_reason"]
    heard.usage = _checked_usage(body["usage"])


def _checked_usage(usage: dict[str, int]) -> dict[str, int]:
    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"]
    return usage


def _checked_error(body: dict[str, Any]) -> dict[str, Any]:
    assert body.keys() == {"error"}
    error = body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    assert error["type"]
    assert isinstance(error["code"], str)
    for trace in ("Traceback", "NoneType", "Exception", 'File "', "object at 0x"):
        assert trace not in error["message"]
    assert isinstance(error, dict)
    return error


def _text(value: Any) -> str:
    assert isinstance(value, str)
    return value
