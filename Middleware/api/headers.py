"""Names of response headers, and values that are safe to put into one."""

from urllib.parse import quote, unquote

from Middleware.core.errors import MiddlewareError

REQUEST_ID = "X-Request-Id"
CLAMPED = "X-Headrace-Clamped"
IGNORED = "X-Headrace-Ignored"
CONVERSATION_ID = "X-Conversation-Id"

Headers = list[tuple[str, str]]

_LONGEST = 1000
_KEPT_IN_IDS = " !#$&'()*+,-./:;<=>?@[]^_`{|}~"
"""All printable ASCII but the sign of the encoding itself, and marks that end a text."""


def clean(value: str) -> str:
    """Text of others (field names, ids) as a header value or as part of a log line.

    A line break would end the header or the line, and anything beyond Latin-1 cannot be sent.
    """
    if _is_plain(value) and len(value) <= _LONGEST:
        return value
    kept = (char if " " <= char <= "~" else "?" for char in value[:_LONGEST])
    return "".join(kept)


def encode_id(id: str) -> str:
    """An id of a conversation as a header can carry it, whole: what is no printable ASCII is
    percent-encoded UTF-8. :func:`decode_id` makes the same id of it.
    """
    return id if _is_plain(id) else quote(id, safe=_KEPT_IN_IDS)


def decode_id(given: str) -> str:
    """An id from a header, where WSGI hands bytes over as Latin-1 and clients mean UTF-8.

    Percent-encoding is only read where a plain id cannot be meant.
    """
    text = given.strip()
    if not text.isascii():
        return text.encode("latin-1").decode("utf-8", "replace")
    meant = unquote(text)
    return text if meant.isascii() else meant


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def error_headers(error: MiddlewareError) -> Headers:
    """The headers that belong to an error answer, beside its body."""
    headers: Headers = []
    if error.retry_after is not None:
        headers.append(("Retry-After", clean(error.retry_after)))
    if error.should_retry is False:
        headers.append(("x-should-retry", "false"))
    if error.allow:
        headers.append(("Allow", ", ".join(error.allow)))
    if error.status == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    return headers
