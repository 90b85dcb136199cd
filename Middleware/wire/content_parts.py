"""Single parts of a message's content, for doors whose parts are not all content."""

from dataclasses import dataclass, field
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.wire.openai_messages import parse_messages

_TEXT_TYPES: Final = ("text", "input_text", "output_text")


@dataclass(slots=True)
class Content:
    """Text and images of one message while its parts are read."""

    texts: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Texts of several parts are lines (front-doors §2.2)."""
        return "\n".join(self.texts)

    @property
    def empty(self) -> bool:
        return not self.texts and not self.images

    def add(self, part: Any, place: str) -> None:
        """A part in the shape of OpenAI's or Anthropic's interfaces: text, image or thought.

        Raises MalformedRequest, below ``place``, for anything else.
        """
        if isinstance(part, dict) and part.get("type") in _TEXT_TYPES:
            # By far the most parts are of this kind.
            text = part.get("text")
            if isinstance(text, str):
                self.texts.append(text)
                return
        try:
            (message,) = parse_messages([{"role": "user", "content": [part]}])
        except MalformedRequest as error:
            raise moved(error, "messages.0.content.0", place) from error
        if message.images:
            self.images += message.images
        elif not _is_thought(part):
            self.texts.append(message.content)

    def add_all(self, value: Any, place: str) -> None:
        """A whole content: nothing, a text, or a list of parts."""
        if isinstance(value, str):
            self.texts.append(value)
        elif isinstance(value, list):
            for index, part in enumerate(value):
                self.add(part, f"{place}.{index}")
        elif value is not None:
            raise MalformedRequest(place, "must be a text or a list of parts")


def moved(error: MalformedRequest, old: str, new: str) -> MalformedRequest:
    """The same complaint about the place ``new`` instead of ``old``."""
    param = error.param or ""
    problem = error.text.removeprefix(f"`{param}` ").removesuffix(".")
    return MalformedRequest(new + param.removeprefix(old), problem)


def _is_thought(part: Any) -> bool:
    # They are read without a word and say nothing.
    return isinstance(part, dict) and not any(
        key in part for key in ("text", "refusal", "image_url", "source")
    )
