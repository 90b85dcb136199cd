"""Every door that answers with a text, and a strict reading of what it answers.

    @every_door
    def test_something(door: Door, tmp_path: Path) -> None:
        with answered(...) as live:
            told = door.ask(live, stream=True)
            assert (told.text, told.finish) == ("Hello", "stop")

``Told`` holds answers of all doors in the same words, so that one table serves them all.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.live_site import Client, Live, Received

MODEL = "tester:assistant"


@dataclass(kw_only=True)
class Told:
    """What a client of one door made of an answer."""

    status: int
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    """Name and arguments, read."""
    finish: str | None = None
    """In our words."""
    usage: tuple[int, int] | None = None
    """Prompt and completion."""
    error: str | None = None
    """The message."""
    error_body: Any = None
    signs: int = 0
    """Heartbeats."""
    ended: bool = False
    """Whether the stream's own end marker came."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """Of an answer that was not streamed."""


@dataclass(frozen=True)
class Door:
    id: str
    path: str
    make: Callable[[str], dict[str, Any]]
    """The fields of a request that says a text."""
    read: Callable[[Received, Told], None]
    read_stream: Callable[[Received, Told], None]
    read_error: Callable[[Any], str]
    has_tools: bool = True
    cancels: bool = False
    """Whether its streams name the request's id."""

    def __str__(self) -> str:
        return self.id

    def body(self, text: str = "hi", *, stream: bool = False, **fields: Any) -> dict[str, Any]:
        return {"model": MODEL, "stream": stream, **self.make(text), **fields}

    def ask(self, live: Live, text: str = "hi", *, stream: bool, **fields: Any) -> Told:
        headers = fields.pop("headers", {})
        body = self.body(text, stream=stream, **fields)
        return self.hear(live.ask("POST", self.path, body, **headers))

    def send(self, client: Client, text: str = "hi", *, stream: bool, **fields: Any) -> None:
        headers = fields.pop("headers", {})
        client.send("POST", self.path, self.body(text, stream=stream, **fields), **headers)

    def hear(self, received: Received) -> Told:
        """Raises AssertionError for whatever a client of this door would stumble over."""
        assert received.complete, "the connection was cut"
        told = Told(status=received.status, headers=received.headers)
        kind = received.headers["content-type"]
        if received.status != 200:
            assert kind == "application/json"
            told.error_body = received.json
            told.error = self.read_error(received.json)
            assert "Traceback" not in told.error
            return told
        if kind == "application/json":
            told.body = received.json
            self.read(received, told)
        else:
            self.read_stream(received, told)
        return told


# OpenAI's chat and text completions


def _openai_error(body: Any) -> str:
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    message = body["error"]["message"]
    assert isinstance(message, str)
    return message


def _openai_usage(usage: Any) -> tuple[int, int] | None:
    return (usage["prompt_tokens"], usage["completion_tokens"]) if usage else None


def _read_choice(received: Received, told: Told) -> None:
    body = received.json
    (choice,) = body["choices"]
    told.finish, told.usage = choice["finish_reason"], _openai_usage(body.get("usage"))
    message = choice.get("message", choice)
    told.text = message.get("content", message.get("text")) or ""
    told.reasoning = message.get("reasoning_content", "")
    for call in message.get("tool_calls", ()):
        told.calls.append((call["function"]["name"], json.loads(call["function"]["arguments"])))


def _read_chunks(received: Received, told: Told) -> None:
    fragments: list[list[str]] = []
    for frame in received.frames:
        assert not told.ended, "something came after the end"
        if frame.startswith(":"):
            told.signs += 1
        elif frame == "data: [DONE]":
            told.ended = True
        else:
            assert frame.startswith("data: {")
            _read_chunk(json.loads(frame[6:]), told, fragments)
    told.calls = [(name, json.loads(arguments)) for name, arguments in fragments]


def _read_chunk(chunk: Any, told: Told, fragments: list[list[str]]) -> None:
    assert told.error is None, "something came after the error"
    if "error" in chunk:
        told.error = _openai_error(chunk)
        return
    told.usage = _openai_usage(chunk.get("usage")) or told.usage
    for choice in chunk["choices"]:
        delta = choice.get("delta", choice)
        told.text += delta.get("content", delta.get("text")) or ""
        told.reasoning += delta.get("reasoning_content", "")
        for fragment in delta.get("tool_calls", ()):
            if fragment["index"] == len(fragments):
                fragments.append([fragment["function"]["name"], ""])
            fragments[fragment["index"]][1] += fragment["function"]["arguments"]
        told.finish = choice["finish_reason"] or told.finish


# OpenAI's Responses

_STATUSES = {"completed": "stop", "incomplete": "length", "failed": None, "cancelled": None}


def _read_response(received: Received, told: Told) -> None:
    _take_response(received.json, told)


def _take_response(response: Any, told: Told) -> None:
    assert response["object"] == "response"
    usage = response["usage"]
    told.usage = (usage["input_tokens"], usage["output_tokens"]) if usage else None
    told.finish = _STATUSES[response["status"]]
    told.text = told.reasoning = ""
    for item in response["output"]:
        if item["type"] == "message":
            told.text += "".join(part["text"] for part in item["content"])
        elif item["type"] == "reasoning":
            told.reasoning += "".join(part["text"] for part in item["summary"])
        else:
            told.calls.append((item["name"], json.loads(item["arguments"])))
    if told.calls and told.finish == "stop":
        told.finish = "tool_calls"
    told.error = (response["error"] or {}).get("message")


def _read_events(received: Received, told: Told) -> None:
    deltas, last = "", None
    for number, frame in enumerate(received.frames):
        assert last is None, "something came after the end"
        name, data = frame.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        assert payload["sequence_number"] == number
        match payload["type"]:
            case "response.in_progress":
                told.signs += number > 1
            case "response.output_text.delta":
                deltas += payload["delta"]
            case "response.completed" | "response.incomplete" | "response.failed":
                last = payload["response"]
            case _:
                pass
    assert last is not None, "the stream has no last event"
    _take_response(last, told)
    told.ended = True
    assert told.text == deltas


# Anthropic's messages

_STOPS = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls"}


def _anthropic_error(body: Any) -> str:
    assert body.keys() == {"type", "error"}
    assert body["type"] == "error"
    assert body["error"].keys() == {"type", "message"}
    message = body["error"]["message"]
    assert isinstance(message, str)
    return message


def _read_message(received: Received, told: Told) -> None:
    body = received.json
    assert (body["type"], body["role"]) == ("message", "assistant")
    told.usage = (body["usage"]["input_tokens"], body["usage"]["output_tokens"])
    told.finish = _STOPS[body["stop_reason"]]
    for block in body["content"]:
        if block["type"] == "text":
            told.text += block["text"]
        elif block["type"] == "thinking":
            told.reasoning += block["thinking"]
        else:
            told.calls.append((block["name"], block["input"]))


def _read_blocks(received: Received, told: Told) -> None:
    blocks: dict[int, dict[str, Any]] = {}
    for number, frame in enumerate(received.frames):
        assert not told.ended, "something came after the end"
        name, data = frame.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        assert (number == 0) == (payload["type"] == "message_start")
        _take_block_event(payload, told, blocks)
    for block in blocks.values():
        if block["type"] == "tool_use":
            told.calls.append((block["name"], json.loads(block["pieces"] or "{}")))
        elif block["type"] == "text":
            told.text += block["pieces"]
        else:
            told.reasoning += block["pieces"]


def _take_block_event(payload: Any, told: Told, blocks: dict[int, dict[str, Any]]) -> None:
    match payload["type"]:
        case "ping":
            told.signs += 1
        case "content_block_start":
            blocks[payload["index"]] = {**payload["content_block"], "pieces": ""}
        case "content_block_delta":
            (piece,) = (v for k, v in payload["delta"].items() if k != "type")
            if payload["delta"]["type"] != "signature_delta":
                blocks[payload["index"]]["pieces"] += piece
        case "message_delta":
            told.finish = _STOPS[payload["delta"]["stop_reason"]]
            usage = payload["usage"]
            told.usage = (usage["input_tokens"], usage["output_tokens"])
        case "error":
            told.error, told.ended = _anthropic_error(payload), True
        case "message_stop":
            told.ended = True
        case _:
            pass


# Ollama


def _ollama_error(body: Any) -> str:
    assert body.keys() == {"error"}
    assert isinstance(body["error"], str)
    return str(body["error"])


def _read_line(received: Received, told: Told) -> None:
    assert received.json["done"]
    _take_line(received.json, told)
    told.ended = False


def _read_lines(received: Received, told: Told) -> None:
    assert received.headers["content-type"] == "application/x-ndjson"
    for line in received.body.decode().removesuffix("\n").split("\n"):
        assert not told.ended, "something came after the end"
        _take_line(json.loads(line), told)


def _take_line(line: Any, told: Told) -> None:
    if "error" in line:
        told.error = _ollama_error(line)
        return
    if "message" in line:
        message = line["message"]
        assert message["role"] == "assistant"
        text = message["content"]
        for call in message.get("tool_calls", ()):
            told.calls.append((call["function"]["name"], call["function"]["arguments"]))
    else:
        message, text = line, line["response"]
    told.text += text
    told.reasoning += message.get("thinking", "")
    if line["done"]:
        told.ended = True
        if line["done_reason"] != "error":
            told.finish = "tool_calls" if told.calls else line["done_reason"]
            told.usage = (line["prompt_eval_count"], line["eval_count"])
    elif not text and not message.get("thinking"):
        told.signs += 1


def _messages(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


CHAT = Door("chat", "/v1/chat/completions", _messages, _read_choice, _read_chunks, _openai_error)
COMPLETIONS = Door(
    "completions",
    "/v1/completions",
    lambda text: {"prompt": text},
    _read_choice,
    _read_chunks,
    _openai_error,
    has_tools=False,
)
RESPONSES = Door(
    "responses",
    "/v1/responses",
    lambda text: {"input": text},
    _read_response,
    _read_events,
    _openai_error,
)
MESSAGES = Door(
    "messages",
    "/v1/messages",
    lambda text: {**_messages(text), "max_tokens": 1000},
    _read_message,
    _read_blocks,
    _anthropic_error,
)
OLLAMA_CHAT = Door(
    "ollama-chat", "/api/chat", _messages, _read_line, _read_lines, _ollama_error, cancels=True
)
OLLAMA_GENERATE = Door(
    "ollama-generate",
    "/api/generate",
    lambda text: {"prompt": text},
    _read_line,
    _read_lines,
    _ollama_error,
    has_tools=False,
    cancels=True,
)

DOORS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES, OLLAMA_CHAT, OLLAMA_GENERATE)

every_door = pytest.mark.parametrize("door", DOORS, ids=str)
every_tool_door = pytest.mark.parametrize(
    "door", [door for door in DOORS if door.has_tools], ids=str
)
