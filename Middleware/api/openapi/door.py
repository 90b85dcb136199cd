"""``GET /openapi.json``: what this server takes and gives, for programs."""

from functools import cache
from typing import Any

from flask import Blueprint, Response, current_app

from Middleware.api.doors.common import json_response
from Middleware.api.errors import ErrorShapes
from Middleware.api.openapi.document import document_of


def openapi_door(shapes: ErrorShapes, version: str) -> Blueprint:
    """With a key where keys are demanded, as everything else."""
    door = Blueprint("openapi", __name__)

    @cache
    def document() -> dict[str, Any]:
        # Routes do not change once there was a request.
        return document_of(current_app, shapes, version)

    @door.get("/openapi.json")
    def show() -> Response:
        """Every route with its fields, as an OpenAPI 3.1 document."""
        return json_response(document())

    return door
