"""What front ends say of themselves in headers of their own (clients §4-5, decisions §9)."""

from collections.abc import Mapping
from typing import Any, Final

_CHAT_ID: Final = "HTTP_X_OPENWEBUI_CHAT_ID"
"""Open WebUI's; it sends it with titles, tags and the like too."""
_SESSIONS: Final = (
    "HTTP_X_CLAUDE_CODE_SESSION_ID",
    "HTTP_SESSION_ID",
    "HTTP_THREAD_ID",
    "HTTP_X_SESSION_ID",
)
"""Claude Code, Codex (two names of one thing) and opencode. Their sub-agents share them."""
_LONGEST: Final = 200
_CODEX_BELIEVES: Final = (400, 429)


def front_end_id(environ: Mapping[str, Any]) -> str | None:
    """The conversation as the front end knows it, if it is one that names conversations."""
    return _text(environ.get(_CHAT_ID))


def session_of(environ: Mapping[str, Any]) -> str | None:
    """What groups the runs of a coding agent. No conversation: several are told under one."""
    found = (_text(environ.get(name)) for name in _SESSIONS)
    return next(filter(None, found), None)


def is_told_in_stream(environ: Mapping[str, Any], status: int) -> bool:
    """Whether a failure goes out as a failed answer, though nothing was streamed before it.

    Codex sends a request again, up to 30 times, when it gets another status than these, and heeds
    no header that forbids it. What a stream says is final, it shows once (clients §2.3-2.4).
    """
    codex = environ.get("HTTP_ORIGINATOR", "").lower().startswith("codex")
    return codex and status not in _CODEX_BELIEVES


def _text(value: str | None) -> str | None:
    text = (value or "").strip()
    return text if 0 < len(text) <= _LONGEST else None
