"""Anthropic's messages interface."""

import logging
from typing import Any, ClassVar

from Middleware.config.models import Endpoint
from Middleware.llm.addresses import Address
from Middleware.llm.backend import BackendSetup, ModelRequest, backend_types
from Middleware.llm.backends.http_backend import Format, HttpBackend
from Middleware.llm.credentials import checked_key, plain_headers
from Middleware.llm.reading import Reading
from Middleware.wire import anthropic_call, anthropic_stream

logger = logging.getLogger(__name__)


@backend_types.register("claudeMessages")
class ClaudeBackend(HttpBackend):
    format: ClassVar[Format] = Format(
        kind="chat",
        path=anthropic_call.PATH,
        accepts=anthropic_call.ACCEPTS,
        encode=anthropic_call.encode_request,
        reading=Reading(
            parser=anthropic_stream.StreamParser, parse_reply=anthropic_stream.parse_reply
        ),
    )

    def __init__(self, setup: BackendSetup) -> None:
        super().__init__(setup)
        self._told: set[str] = set()

    def headers(self, endpoint: Endpoint, address: Address) -> dict[str, str]:
        """The key has a header of its own here; there is no ``Authorization``."""
        headers = {**plain_headers(), "anthropic-version": anthropic_call.VERSION}
        key = checked_key(endpoint, file=self.file)
        if key:
            headers["x-api-key"] = key
        return headers

    def payload(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        for name in anthropic_call.unusable(request.parameters):
            if name not in self._told:
                self._told.add(name)
                logger.warning(
                    "Endpoint %r: `%s` is left out: Claude's interface refuses fields that it "
                    "does not know.",
                    self.endpoint.name,
                    name,
                )
        return super().payload(request, stream=stream)
