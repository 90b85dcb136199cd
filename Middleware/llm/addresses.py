"""Base URLs as people write them -> where to connect and what to ask for (case C-34)."""

import base64
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from Middleware.core.errors import ConfigError
from Middleware.llm.connections import Origin

_PORTS: Final = {"http": 80, "https": 443}
_REMEDY: Final = "Write the base URL of the server, such as http://127.0.0.1:8080."


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One path of one server. Nothing of it may appear in a message for clients."""

    origin: Origin
    target: str
    """Path and query, percent-encoded."""
    host: str
    """For the ``Host`` header."""
    credentials: str | None
    """User and password of the URL, as the value of an ``Authorization`` header."""
    secrets: tuple[str, ...]
    """What must never be quoted: values of the query, the password."""


def parse_address(base: str, path: str, *, file: str) -> Address:
    """Where ``path`` (``/v1/chat/completions``, ``/api/chat``) lies on the server at ``base``.

    ``base`` may end in a slash, in ``/v1``, or in the whole path. Raises ConfigError naming
    ``file`` and what is wrong, without quoting the URL: keys hide in some.
    """
    text = base.strip()
    if not text:
        raise _wrong("is missing", file)
    if re.search(r"[\x00-\x20\x7f]", text):
        raise _wrong("contains a space or a control character", file)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
        host_name = (host or "").encode("ascii" if ":" in (host or "") else "idna").decode("ascii")
    except ValueError as error:
        raise _wrong("is not a URL", file) from error
    if parts.scheme not in _PORTS:
        raise _wrong("does not start with http:// or https://", file)
    if not host:
        raise _wrong("names no host", file)
    origin = Origin(parts.scheme == "https", host_name, port or _PORTS[parts.scheme])
    bracketed = f"[{host_name}]" if ":" in host_name else host_name
    target = _encoded(f"{_prefix(parts.path, path)}{path}")
    return Address(
        origin=origin,
        target=f"{target}?{_encoded(parts.query)}" if parts.query else target,
        host=bracketed if origin.port == _PORTS[parts.scheme] else f"{bracketed}:{origin.port}",
        credentials=_credentials(parts.username, parts.password),
        secrets=(
            *(value for _, value in parse_qsl(parts.query)),
            *filter(None, (parts.query, parts.password and unquote(parts.password))),
        ),
    )


def _prefix(written: str, path: str) -> str:
    """What stands before the API's own path: ``written`` may already hold a part of it."""
    parts, own = written.rstrip("/").split("/"), path.split("/")[1:]
    for count in range(len(own), 0, -1):
        if parts[-count:] == own[:count]:
            parts = parts[:-count]
            break
    return "/".join(parts).rstrip("/").removesuffix("/v1")


def _credentials(user: str | None, password: str | None) -> str | None:
    if user is None:
        return None
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _encoded(text: str) -> str:
    """Characters that a request line cannot hold, percent-encoded; the rest as written."""
    return "".join(
        character if character.isascii() else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in text
    )


def _wrong(problem: str, file: str) -> ConfigError:
    return ConfigError(f"The base URL {problem}.", file=file, where="endpoint", remedy=_REMEDY)
