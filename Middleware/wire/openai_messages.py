"""Messages of a conversation as OpenAI's clients write them -> ours."""

from collections.abc import Mapping
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import Message, ToolCall
from Middleware.wire.bodies import BadJson, checked_json, write_json

ROLES: Final = frozenset(
    ("system", "developer", "user", "assistant", "tool", "function", "systemMes")
)
NEED_CONTENT: Final = frozenset(("system", "developer", "user", "systemMes"))
"""Roles whose messages must have the key ``content``, though it may be null (decisions §6)."""

_TEXT_KEYS: Final = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
}
NOT_REPLAYED: Final = frozenset(("thinking", "redacted_thinking", "reasoning"))
"""What a model thought in earlier turns is no part of what was said; backends do not want it."""


def parse_messages(value: Any) -> tuple[Message, ...]:
    """Raises MalformedRequest naming the first place that is wrong, as ``messages.0.role``."""
    if not isinstance(value, list):
        raise MalformedRequest("messages", "must be a list of messages")
    if not value:
        raise MalformedRequest("messages", "must not be empty")
    return tuple([_message(raw, index) for index, raw in enumerate(value)])


def _message(raw: Any, index: int) -> Message:
    if not isinstance(raw, dict):
        raise MalformedRequest(f"messages.{index}", "must be an object with `role` and `content`")
    role = raw.get("role")
    # A list or an object cannot be looked up in a set.
    if not isinstance(role, str) or role not in ROLES:
        problem = "is missing" if role is None else f"must be one of {', '.join(sorted(ROLES))}"
        raise MalformedRequest(f"messages.{index}.role", problem)
    content = raw.get("content")
    if isinstance(content, str):
        if len(raw) == 2:
            return Message(role, content)
        images: tuple[str, ...] = ()
    else:
        if content is None and role in NEED_CONTENT and "content" not in raw:
            raise MalformedRequest(f"messages.{index}.content", "is missing")
        content, images = _content(content, f"messages.{index}.content")
    return Message(
        role,
        content,
        images + _loose_images(raw.get("images")),
        _tool_calls(raw.get("tool_calls"), index),
        _text_or_none(raw, "tool_call_id", index),
        _text_or_none(raw, "name", index),
    )


def _content(value: Any, place: str) -> tuple[str, tuple[str, ...]]:
    """The text, parts of it on lines of their own, and the images (front-doors §2.2, §8)."""
    if value is None:
        return "", ()
    if not isinstance(value, list):
        raise MalformedRequest(place, "must be a text, null or a list of parts")
    texts: list[str] = []
    images: list[str] = []
    for index, part in enumerate(value):
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, dict):
            raise MalformedRequest(f"{place}.{index}", "must be an object with a `type`")
        else:
            _part(part, f"{place}.{index}", texts, images)
    return "\n".join(texts), tuple(images)


def _part(part: Mapping[str, Any], place: str, texts: list[str], images: list[str]) -> None:
    kind = part.get("type")
    key = _TEXT_KEYS.get(kind) if isinstance(kind, str) else None
    if key is not None:
        text = part.get(key)
        if text is None and key in part:
            text = ""
        if not isinstance(text, str):
            raise MalformedRequest(f"{place}.{key}", "must be a text")
        texts.append(text)
    elif kind in ("image_url", "input_image", "image"):
        image = _image(part, kind, place)
        if image:
            images.append(image)
    elif not isinstance(kind, str) or kind not in NOT_REPLAYED:
        raise MalformedRequest(
            f"{place}.type",
            "is missing" if kind is None else f"{kind!r} is not a kind of part that can be used",
        )


def _image(part: Mapping[str, Any], kind: str, place: str) -> str:
    if kind == "image":
        source = part.get("source")
        if isinstance(source, dict):
            if source.get("type") == "url" and isinstance(source.get("url"), str):
                return str(source["url"])
            if isinstance(source.get("data"), str):
                return f"data:{source.get('media_type') or 'image/png'};base64,{source['data']}"
        raise MalformedRequest(f"{place}.source", "must hold a base64 `data` or a `url`")
    url = part.get("image_url")
    if isinstance(url, dict):
        url = url.get("url")
    if not isinstance(url, str):
        raise MalformedRequest(f"{place}.image_url", "must hold a `url`")
    return url


def _loose_images(value: Any) -> tuple[str, ...]:
    """Ollama's way to attach images; some clients send it here too, mostly as an empty list."""
    if not isinstance(value, list):
        return ()
    return tuple(image for image in value if isinstance(image, str) and image)


def _tool_calls(value: Any, index: int) -> tuple[ToolCall, ...]:
    if not value:
        return ()
    place = f"messages.{index}.tool_calls"
    if not isinstance(value, list):
        raise MalformedRequest(place, "must be a list")
    return tuple([_tool_call(call, f"{place}.{at}", index, at) for at, call in enumerate(value)])


def _tool_call(call: Any, place: str, message: int, at: int) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise MalformedRequest(f"{place}.function", "must be an object with a `name`")
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise MalformedRequest(f"{place}.function.name", "must be a text")
    identity = call.get("id")
    return ToolCall(
        # A backend wants an id even where the client's history has lost it.
        id=identity if isinstance(identity, str) and identity else f"call_{message}_{at}",
        name=name,
        arguments=_arguments(function.get("arguments"), f"{place}.function.arguments"),
    )


def _arguments(value: Any, place: str) -> str:
    """JSON text. Nothing, and empty text, mean no arguments (C-12); nonsense is refused (C-10)."""
    if value is None:
        return "{}"
    if not isinstance(value, str):
        return write_json(value).decode()
    if not value.strip():
        return "{}"
    try:
        return checked_json(value)
    except BadJson as error:
        raise MalformedRequest(place, f"is not valid JSON: {error}") from error


def _text_or_none(raw: Mapping[str, Any], key: str, index: int) -> str | None:
    value = raw.get(key)
    if value is None or isinstance(value, str):
        return value
    raise MalformedRequest(f"messages.{index}.{key}", "must be a text")
