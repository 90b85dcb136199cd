"""What a client says of the trace that its request belongs to (W3C Trace Context)."""

from collections.abc import Mapping
from typing import Any, Final

_LONGEST: Final = 512
_NOTHING: Final[Mapping[str, str]] = {}


def trace_context_of(environ: Mapping[str, Any]) -> Mapping[str, str]:
    """The headers as they came, for whoever understands them; empty without ``traceparent``."""
    parent = environ.get("HTTP_TRACEPARENT")
    if not parent or len(parent) > _LONGEST:
        return _NOTHING
    state = environ.get("HTTP_TRACESTATE", "")
    if not state or len(state) > _LONGEST:
        return {"traceparent": parent}
    return {"traceparent": parent, "tracestate": state}
