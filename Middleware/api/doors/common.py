"""What all doors do alike."""

from collections.abc import Mapping
from typing import Any, Final

from flask import Response, request

from Middleware.api.catalogue import Catalogue
from Middleware.api.errors import JSON
from Middleware.core.messages import ChatRequest
from Middleware.wire.bodies import parse_json_object, write_json
from Middleware.workflows.managers.chores import selects_tools

EVENT_STREAM: Final = "text/event-stream; charset=utf-8"
"""Without exactly this type Open WebUI waits for ever (clients §2.1)."""


def json_body() -> dict[str, Any]:
    """The object that was posted, whatever its content type; raises MalformedRequest."""
    return parse_json_object(request.environ["wsgi.input"].read())


def json_response(body: Mapping[str, Any] | bytes) -> Response:
    data = body if isinstance(body, bytes) else write_json(body)
    return Response(data, content_type=JSON)


def wants_no_tools(asked: ChatRequest, catalogue: Catalogue) -> bool:
    """Whether Open WebUI's question which tools to call is answered without a workflow
    (``interceptOpenWebUIToolRequests``, front-doors §11.1).
    """
    if not selects_tools(asked.messages):
        return False
    return catalogue.owner(asked.model).intercept_open_web_ui_tool_requests
