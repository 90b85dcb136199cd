"""What model servers say when something is wrong, made into errors of ours (decisions.md §6)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from Middleware.core.errors import BackendBadReply, BackendRejected
from Middleware.wire.bodies import BadJson, clean_text, read_json_leniently

_SAID_MOST: Final = 300
"""Characters of a backend's own message that are passed on to the client."""
_QUOTED_MOST: Final = 200
"""Characters of nonsense that go to the log (case C-23)."""
_SECRET_LEAST: Final = 8
"""Shorter keys are placeholders (``ollama``, ``none``): hiding those words would garble texts."""

# Parts of an error's code or type -> the HTTP status that they stand for. The first match counts.
_STATUS_WORDS: Final = (
    ("rate_limit", 429),
    ("ratelimit", 429),
    ("too_many_requests", 429),
    ("quota", 429),
    ("overloaded", 503),
    ("unavailable", 503),
    ("authentication", 401),
    ("api_key", 401),
    ("unauthorized", 401),
    ("permission", 403),
    ("forbidden", 403),
    ("context_length", 400),
    ("context_size", 400),
    ("invalid_prompt", 400),
    ("invalid_request", 400),
    ("not_found", 404),
)

_MARKUP: Final = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class BackendVoice:
    """Speaks for one endpoint: makes errors that name it and that hold none of its secrets."""

    endpoint: str
    secrets: tuple[str, ...] = ()

    def refused(
        self, status: int, body: bytes, *, reason: str = "", retry_after: str | None = None
    ) -> BackendRejected:
        """The error of an answer with an error status. ``reason`` stands in for an empty body."""
        said = self.hide(message_in(body)) or reason
        return BackendRejected(
            self.endpoint, status, shorten(said, _SAID_MOST), retry_after=retry_after
        )

    def reported(self, error: Any) -> BackendRejected:
        """The error of an error object inside an answer that began well."""
        said = shorten(self.hide(_message_of(error)) or "no reason was given", _SAID_MOST)
        status = status_named_by(error)
        rejected = BackendRejected(self.endpoint, status or 502, said)
        if status is None:
            # No status was named: do not claim one that the backend never gave.
            rejected.text = f"Endpoint {self.endpoint!r} reported an error: {said}"
        return rejected

    def nonsense(self, problem: str, data: bytes = b"") -> BackendBadReply:
        """An answer that cannot be used; the beginning of ``data`` goes to the log."""
        return BackendBadReply(self.endpoint, problem, detail=self.quote(data) if data else None)

    def no_json(self, data: bytes) -> BackendBadReply:
        """An answer that should be JSON and is not (case C-23)."""
        instead = "." if data.strip() else " but with an empty answer."
        return self.nonsense(f"did not answer with JSON{instead}", data)

    def quote(self, data: bytes) -> str:
        """The beginning of what a backend sent, fit for a log."""
        return shorten(self.hide(data.decode("utf-8", "replace")), _QUOTED_MOST)

    def hide(self, text: str) -> str:
        """The text without this endpoint's keys (case C-39)."""
        for secret in self.secrets:
            if len(secret) >= _SECRET_LEAST:
                text = text.replace(secret, "***")
        return text


def shorten(text: str, most: int) -> str:
    """At most ``most`` characters on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def message_in(body: bytes) -> str:
    """What an error body says, whichever vendor's shape it has; else the body itself."""
    try:
        value = read_json_leniently(body)
    except BadJson:
        return _without_markup(body.decode("utf-8", "replace").strip())
    if isinstance(value, list) and value:
        # Google's servers wrap their error object in a list.
        value = value[0]
    if isinstance(value, Mapping):
        for key in ("error", "detail", "message", "errors"):
            if value.get(key):
                return _message_of(value[key])
    return _message_of(value)


def _without_markup(text: str) -> str:
    """The words of an error page: some front ends show markup as it is, others obey it."""
    if not text.startswith("<"):
        return text
    return " ".join(_MARKUP.sub(" ", text).split())


def status_named_by(error: Any) -> int | None:
    """The HTTP status that an error object's code, status or type stands for."""
    if not isinstance(error, Mapping):
        return None
    named = [error.get(key) for key in ("code", "status", "status_code", "type")]
    for value in named:
        number = _status_number(value)
        if number is not None:
            return number
    words = [value.lower() for value in named if isinstance(value, str)]
    for part, status in _STATUS_WORDS:
        if any(part in word for word in words):
            return status
    return None


def _status_number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:4])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 400 <= value <= 599 else None


def _message_of(error: Any) -> str:
    if isinstance(error, str):
        return clean_text(error).strip()
    if isinstance(error, Mapping):
        for key in ("message", "msg", "error", "detail", "type", "code"):
            if error.get(key):
                return _message_of(error[key])
        return ""
    if isinstance(error, list):
        return "; ".join(filter(None, (_message_of(item) for item in error[:3])))
    return "" if error is None else str(error)
