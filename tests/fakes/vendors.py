"""What the model servers of every vendor send, byte for byte, and how they are asked.

    @pytest.mark.parametrize("vendor", VENDORS, ids=str)
    def test_something(vendor: Vendor, tmp_path: Path) -> None:
        with Upstream(vendor.answer(Said(("Hel", "lo")))) as server: ...

A ``Vendor`` is an API type as it ships, with a fake of the server behind it. Its parts can be taken
one by one, to leave some out or to put something between them: ``vendor.frames(said)``.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.upstream import LAST_CHUNK, Answer, Asked, Ending, Step, chunk, head, whole

SHIPPED = Path(__file__).resolve().parent.parent.parent / "Public/Configs/ApiTypes"


@dataclass(frozen=True)
class Call:
    name: str = "add"
    arguments: Mapping[str, Any] = field(default_factory=lambda: {"a": 2, "b": 3})
    id: str = "call_1"
    raw: str = ""
    """The arguments as text, where that is no JSON."""

    @property
    def text(self) -> str:
        return self.raw or json.dumps(self.arguments)


@dataclass(frozen=True)
class Said:
    """One answer of a model."""

    texts: tuple[str, ...] = ("Hel", "lo")
    """Pieces as they are streamed."""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    reason: str = "stop"
    """``stop`` or ``length``."""
    prompt_tokens: int = 5
    completion_tokens: int = 7

    @property
    def text(self) -> str:
        return "".join(self.texts)


@dataclass(frozen=True)
class Frames:
    """The bytes of a stream: the answer, the frame that says why it ends, and what follows."""

    body: tuple[bytes, ...]
    end: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()

    @property
    def all(self) -> tuple[bytes, ...]:
        return self.body + self.end + self.after


@dataclass(frozen=True)
class Vendor:
    id: str
    """Name of the shipped file in ``ApiTypes/``."""
    kind: str
    """``chat`` or ``text``."""
    path: str
    frames: Callable[[Said], Frames]
    reply: Callable[[Said], Any]
    stream_path: str = ""
    error: Any = None
    """The vendor's way to report ``boom`` inside of a stream or in place of an answer."""
    whole_error: Any = None
    """In place of an answer that is whole, where that is something else."""
    framing: str = "sse"
    """Or ``ndjson``."""
    tells: frozenset[str] = frozenset(("usage", "reasoning", "tools", "length"))
    """What its answers can hold. ``streamed usage`` where only streams lack it."""
    images: str = "urls"
    """``urls`` (data URIs and addresses), ``data`` (bare base64), or nothing."""
    setting: Mapping[str, Any] = field(default_factory=dict)
    """What an endpoint of it needs besides."""

    def __str__(self) -> str:
        return self.id

    @property
    def file(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((SHIPPED / f"{self.id}.json").read_text("utf-8"))
        return found

    @property
    def is_chat(self) -> bool:
        return self.kind == "chat"

    @property
    def always_streams(self) -> bool:
        return bool(self.file.get("alwaysStream"))

    def length_in(self, body: Any) -> int:
        """The longest answer that a request asks for."""
        length: int = body.get("options", body)[self.file["maxNewTokensPropertyName"]]
        return length

    def asks_for_stream(self, asked: Asked) -> bool:
        if self.stream_path:
            return asked.path == self.stream_path
        # Ollama streams unless it is told not to.
        return bool(asked.json.get("stream", self.id == "OllamaApiChat"))

    def answer(self, *said: Said) -> Callable[[Asked], list[Step]]:
        """Streamed or whole, as the request wants it."""
        (only,) = said

        def play(asked: Asked) -> list[Step]:
            if self.asks_for_stream(asked):
                return self.stream(*self.frames(only).all)
            return whole(self.reply(only))

        return play

    def stream(self, *pieces: bytes | Step) -> list[Step]:
        """A chunked stream of these pieces; without an ending it ends well."""
        kind = "application/x-ndjson" if self.framing == "ndjson" else "text/event-stream"
        steps: list[Step] = [head(headers={"Content-Type": kind}, chunked=True)]
        steps += [chunk(piece) if isinstance(piece, bytes) else piece for piece in pieces]
        if not (pieces and isinstance(pieces[-1], Ending)):
            steps.append(LAST_CHUNK)
        return steps

    @property
    def error_body(self) -> Any:
        return self.whole_error or self.error

    def error_frame(self) -> bytes:
        return self._frame(self.error)

    def _frame(self, payload: Any) -> bytes:
        return line(payload) if self.framing == "ndjson" else data(payload)


def raw(payload: Any) -> bytes:
    """Servers send UTF-8, not escapes."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def data(payload: Any, event: str = "") -> bytes:
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + (payload if isinstance(payload, bytes) else raw(payload)) + b"\n\n"


def line(payload: Any) -> bytes:
    return raw(payload) + b"\n"


DONE = data(b"[DONE]")


def _usage(said: Said) -> dict[str, int]:
    return {
        "prompt_tokens": said.prompt_tokens,
        "completion_tokens": said.completion_tokens,
        "total_tokens": said.prompt_tokens + said.completion_tokens,
    }


# ------------------------------------------------------------------------------- OpenAI's chats


def _chat_chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return data(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1796083701,
            "model": "m",
            "choices": [choice],
        }
    )


def _chat_calls(said: Said) -> list[dict[str, Any]]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.text},
        }
        for call in said.calls
    ]


def chat_frames(said: Said) -> Frames:
    body = [_chat_chunk({"role": "assistant", "content": None})]
    if said.reasoning:
        body.append(_chat_chunk({"reasoning_content": said.reasoning}))
    body += [_chat_chunk({"content": text}) for text in said.texts]
    body += [
        _chat_chunk({"tool_calls": [{"index": index, **call}]})
        for index, call in enumerate(_chat_calls(said))
    ]
    end = _chat_chunk({}, "tool_calls" if said.calls else said.reason)
    usage = data(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "choices": [],
            "usage": _usage(said),
        }
    )
    return Frames(tuple(body), (end,), (usage, DONE))


def chat_reply(said: Said) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.reasoning:
        message["reasoning_content"] = said.reasoning
    if said.calls:
        message["tool_calls"] = _chat_calls(said)
    reason = "tool_calls" if said.calls else said.reason
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1796083701,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": _usage(said),
    }


# ------------------------------------------------------------------------- OpenAI's completions


def _text_chunk(text: str, reason: str | None = None) -> bytes:
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}
    return data({"id": "cmpl-1", "object": "text_completion", "created": 1, "choices": [choice]})


def completions_frames(said: Said) -> Frames:
    usage = data({"id": "cmpl-1", "choices": [], "usage": _usage(said)})
    return Frames(
        tuple(map(_text_chunk, said.texts)), (_text_chunk("", said.reason),), (usage, DONE)
    )


def completions_reply(said: Said) -> Any:
    choice = {"text": said.text, "index": 0, "logprobs": None, "finish_reason": said.reason}
    return {"id": "cmpl-1", "object": "text_completion", "choices": [choice], "usage": _usage(said)}


# ---------------------------------------------------------------------------------------- Ollama


def _ollama(body: Mapping[str, Any], said: Said | None = None) -> dict[str, Any]:
    top: dict[str, Any] = {"model": "m", "created_at": "2026-11-30T10:00:00.123456789Z", **body}
    if said is None:
        return {**top, "done": False}
    return {
        **top,
        "done_reason": said.reason,
        "done": True,
        "total_duration": 1234567,
        "load_duration": 1234,
        "prompt_eval_count": said.prompt_tokens,
        "prompt_eval_duration": 12345,
        "eval_count": said.completion_tokens,
        "eval_duration": 123456,
    }


def _ollama_message(text: str = "", **others: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text, **others}}


def _ollama_calls(said: Said) -> list[dict[str, Any]]:
    return [{"function": {"name": call.name, "arguments": call.arguments}} for call in said.calls]


def ollama_chat_frames(said: Said) -> Frames:
    body = []
    if said.reasoning:
        body.append(line(_ollama(_ollama_message(thinking=said.reasoning))))
    body += [line(_ollama(_ollama_message(text))) for text in said.texts]
    if said.calls:
        body.append(line(_ollama(_ollama_message(tool_calls=_ollama_calls(said)))))
    return Frames(tuple(body), (line(_ollama(_ollama_message(), said)),))


def ollama_chat_reply(said: Said) -> Any:
    others: dict[str, Any] = {}
    if said.reasoning:
        others["thinking"] = said.reasoning
    if said.calls:
        others["tool_calls"] = _ollama_calls(said)
    return _ollama(_ollama_message(said.text, **others), said)


def ollama_generate_frames(said: Said) -> Frames:
    body = []
    if said.reasoning:
        body.append(line(_ollama({"response": "", "thinking": said.reasoning})))
    body += [line(_ollama({"response": text})) for text in said.texts]
    return Frames(tuple(body), (line(_ollama({"response": ""}, said)),))


def ollama_generate_reply(said: Said) -> Any:
    thought = {"thinking": said.reasoning} if said.reasoning else {}
    return _ollama({"response": said.text, **thought}, said)


# ------------------------------------------------------------------------------------- KoboldCpp


def _kobold(token: str, reason: str | None) -> bytes:
    return data({"token": token, "finish_reason": reason}, "message")


def kobold_frames(said: Said) -> Frames:
    body = tuple(_kobold(text, None) for text in said.texts)
    return Frames(body, (_kobold("", said.reason),))


def kobold_reply(said: Said) -> Any:
    result = {
        "text": said.text,
        "finish_reason": said.reason,
        "logprobs": None,
        "prompt_tokens": said.prompt_tokens,
        "completion_tokens": said.completion_tokens,
    }
    return {"results": [result]}


# ------------------------------------------------------------------------------------- Anthropic

_CLAUDE_REASONS = {"stop": "end_turn", "length": "max_tokens"}


def _claude(kind: str, **others: Any) -> bytes:
    return data({"type": kind, **others}, kind)


def _claude_block(index: int, block: Any, *deltas: Any) -> list[bytes]:
    return [
        _claude("content_block_start", index=index, content_block=block),
        *(_claude("content_block_delta", index=index, delta=delta) for delta in deltas),
        _claude("content_block_stop", index=index),
    ]


def _claude_reason(said: Said) -> str:
    return "tool_use" if said.calls else _CLAUDE_REASONS[said.reason]


def claude_frames(said: Said) -> Frames:
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": said.prompt_tokens, "output_tokens": 1},
    }
    body = [_claude("message_start", message=message), _claude("ping")]
    index = 0
    if said.reasoning:
        deltas = (
            {"type": "thinking_delta", "thinking": said.reasoning},
            {"type": "signature_delta", "signature": "EqQBCg=="},
        )
        body += _claude_block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas)
        index += 1
    if said.texts:
        pieces = [{"type": "text_delta", "text": text} for text in said.texts]
        body += _claude_block(index, {"type": "text", "text": ""}, *pieces)
        index += 1
    for call in said.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        half, rest = _halves(call.text)
        pieces = [{"type": "input_json_delta", "partial_json": part} for part in ("", half, rest)]
        body += _claude_block(index, block, *pieces)
        index += 1
    end = _claude(
        "message_delta",
        delta={"stop_reason": _claude_reason(said), "stop_sequence": None},
        usage={"output_tokens": said.completion_tokens},
    )
    return Frames(tuple(body), (end,), (_claude("message_stop"),))


def claude_reply(said: Said) -> Any:
    content: list[dict[str, Any]] = []
    if said.reasoning:
        content.append({"type": "thinking", "thinking": said.reasoning, "signature": "EqQBCg=="})
    if said.text:
        content.append({"type": "text", "text": said.text})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in said.calls
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": _claude_reason(said),
        "stop_sequence": None,
        "usage": {"input_tokens": said.prompt_tokens, "output_tokens": said.completion_tokens},
    }


# ------------------------------------------------------------------------------ OpenAI's Responses


def _response(said: Said, output: Sequence[Any], status: str) -> dict[str, Any]:
    cut = {"reason": "max_output_tokens"} if said.reason == "length" else None
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1796083701,
        "status": status,
        "incomplete_details": cut if status == "incomplete" else None,
        "model": "m",
        "output": list(output),
        "usage": {
            "input_tokens": said.prompt_tokens,
            "output_tokens": said.completion_tokens,
            "total_tokens": said.prompt_tokens + said.completion_tokens,
        },
    }


def _response_items(said: Said) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if said.reasoning:
        summary = [{"type": "summary_text", "text": said.reasoning}]
        items.append({"id": "rs_1", "type": "reasoning", "summary": summary})
    if said.text:
        part = {"type": "output_text", "text": said.text, "annotations": []}
        items.append(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    items += [
        {
            "id": f"fc_{call.id}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.text,
        }
        for call in said.calls
    ]
    return items


def responses_frames(said: Said) -> Frames:
    frames: list[bytes] = []

    def add(kind: str, **others: Any) -> None:
        frames.append(data({"type": kind, "sequence_number": len(frames), **others}, kind))

    items = _response_items(said)
    add("response.created", response=_response(said, (), "in_progress"))
    add("response.in_progress", response=_response(said, (), "in_progress"))
    for index, item in enumerate(items):
        where = {"output_index": index, "item_id": item["id"]}
        add("response.output_item.added", output_index=index, item=_begun(item))
        if item["type"] == "reasoning":
            add("response.reasoning_summary_text.delta", delta=said.reasoning, **where)
        elif item["type"] == "message":
            for text in said.texts:
                add("response.output_text.delta", content_index=0, delta=text, **where)
            add("response.output_text.done", content_index=0, text=said.text, **where)
        else:
            for part in _halves(item["arguments"]):
                add("response.function_call_arguments.delta", delta=part, **where)
            done = item["arguments"]
            add("response.function_call_arguments.done", arguments=done, **where)
        add("response.output_item.done", output_index=index, item=item)
    status = "incomplete" if said.reason == "length" else "completed"
    add(f"response.{status}", response=_response(said, items, status))
    return Frames(tuple(frames[:-1]), (frames[-1],))


def responses_reply(said: Said) -> Any:
    status = "incomplete" if said.reason == "length" else "completed"
    return _response(said, _response_items(said), status)


def _begun(item: Mapping[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"summary": [], "content": [], "arguments": ""}
    return {key: empty.get(key, value) for key, value in item.items()}


def _halves(text: str) -> tuple[str, str]:
    middle = len(text) // 2
    return text[:middle], text[middle:]


# ------------------------------------------------------------------------------------- the table

_TEXT = {"promptTemplate": "chatml", "addGenerationPrompt": True}
_ERROR = {"error": {"message": "boom", "type": "server_error", "code": 503}}

OPENAI_CHAT = Vendor(
    "Open-AI-API", "chat", "/v1/chat/completions", chat_frames, chat_reply, error=_ERROR
)
LLAMA_CPP = Vendor(
    "LlamaCppServer", "chat", "/v1/chat/completions", chat_frames, chat_reply, error=_ERROR
)
WEB_UI = Vendor(
    "Text-Generation-WebUI", "chat", "/v1/chat/completions", chat_frames, chat_reply, error=_ERROR
)
MLX = Vendor("mlx-lm", "chat", "/v1/chat/completions", chat_frames, chat_reply, error=_ERROR)
OLLAMA_CHAT = Vendor(
    "OllamaApiChat",
    "chat",
    "/api/chat",
    ollama_chat_frames,
    ollama_chat_reply,
    error={"error": "boom"},
    framing="ndjson",
    images="data",
)
CLAUDE = Vendor(
    "Claude",
    "chat",
    "/v1/messages",
    claude_frames,
    claude_reply,
    error={"type": "error", "error": {"type": "overloaded_error", "message": "boom"}},
)
RESPONSES = Vendor(
    "OpenAI-Responses",
    "chat",
    "/v1/responses",
    responses_frames,
    responses_reply,
    error={"type": "error", "code": "server_overloaded", "message": "boom", "param": None},
    whole_error=_ERROR,
)
COMPLETIONS = Vendor(
    "OpenAI-Compatible-Completions",
    "text",
    "/v1/completions",
    completions_frames,
    completions_reply,
    error=_ERROR,
    tells=frozenset(("usage", "length")),
    images="",
    setting=_TEXT,
)
OLLAMA_GENERATE = Vendor(
    "OllamaApiGenerate",
    "text",
    "/api/generate",
    ollama_generate_frames,
    ollama_generate_reply,
    error={"error": "boom"},
    framing="ndjson",
    tells=frozenset(("usage", "reasoning", "length")),
    images="data",
    setting=_TEXT,
)
KOBOLD = Vendor(
    "KoboldCpp",
    "text",
    "/api/v1/generate",
    kobold_frames,
    kobold_reply,
    stream_path="/api/extra/generate/stream",
    error={"detail": {"msg": "boom", "type": "service_unavailable"}},
    tells=frozenset(("whole usage", "length")),
    images="data",
    setting=_TEXT,
)

VENDORS: Sequence[Vendor] = (
    OPENAI_CHAT,
    LLAMA_CPP,
    WEB_UI,
    MLX,
    OLLAMA_CHAT,
    CLAUDE,
    RESPONSES,
    COMPLETIONS,
    OLLAMA_GENERATE,
    KOBOLD,
)
CHATS = tuple(vendor for vendor in VENDORS if vendor.is_chat)
TEXTS = tuple(vendor for vendor in VENDORS if not vendor.is_chat)

__all__ = ["CHATS", "DONE", "TEXTS", "VENDORS", "Answer", "Call", "Frames", "Said", "Vendor"]
