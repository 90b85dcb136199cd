"""Names of response headers, and values that are safe to put into one."""

from Middleware.core.errors import MiddlewareError

REQUEST_ID = "X-Request-Id"
CLAMPED = "X-Headrace-Clamped"
IGNORED = "X-Headrace-Ignored"
CONVERSATION_ID = "X-Conversation-Id"

Headers = list[tuple[str, str]]

_LONGEST = 1000


def clean(value: str) -> str:
    """Text of others (field names, ids) as a header value or as part of a log line.

    A line break would end the header or the line, and anything beyond Latin-1 cannot be sent.
    """
    if value.isascii() and value.isprintable() and len(value) <= _LONGEST:
        return value
    kept = (char if " " <= char <= "~" else "?" for char in value[:_LONGEST])
    return "".join(kept)


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
