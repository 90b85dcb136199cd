"""KoboldCpp's own interface."""

import logging
import secrets
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import BackendError, MiddlewareError, RunCancelled
from Middleware.core.events import Event
from Middleware.llm.backend import BackendSetup, ModelRequest, backend_types
from Middleware.llm.backends.http_backend import Format, HttpBackend
from Middleware.llm.reading import Reading
from Middleware.wire import koboldcpp
from Middleware.wire.bodies import write_json
from Middleware.wire.framing import SseDecoder

logger = logging.getLogger(__name__)

_ABORT_SECONDS: Final = 5.0
_KEY_PREFIX: Final = "KCPP"
"""As KoboldCpp's own front end has it."""


class _MessageDecoder:
    """The payloads of events that are named ``message``: KoboldCpp tells its words in these."""

    def __init__(self) -> None:
        self._events = SseDecoder()

    def feed(self, chunk: bytes) -> list[bytes]:
        return [event.data for event in self._events.feed_events(chunk) if event.name == "message"]

    def close(self) -> list[bytes]:
        return self._events.close()


@backend_types.register("koboldCppGenerate", "koboldCppGenerateImageSpecific")
class KoboldCppBackend(HttpBackend):
    """Hanging up does not stop a KoboldCpp that has not begun to answer, so it is told.

    It knows whose answer is to end by the key that came with the request; without one it ends
    whatever it is at, or nothing at all where it serves several at once.
    """

    takes_image_addresses = False
    format: ClassVar[Format] = Format(
        kind="text",
        path=koboldcpp.PATH,
        stream_path=koboldcpp.STREAM_PATH,
        accepts=koboldcpp.ACCEPTS,
        encode=koboldcpp.encode_request,
        reading=Reading(
            parser=koboldcpp.StreamParser,
            parse_reply=koboldcpp.parse_reply,
            decoder=_MessageDecoder,
            says_its_end=False,
        ),
    )

    def __init__(self, setup: BackendSetup) -> None:
        super().__init__(setup)
        self._abort = self.transport_to(koboldcpp.ABORT_PATH)
        self._stream_key = setup.api_type.stream_property_name

    def payload(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        body = super().payload(request, stream=stream)
        # The path decides; the field is sent because presets and proxies may look at it.
        if self._stream_key is not None:
            body[self._stream_key] = stream
        return body

    def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
        key = request.parameters.get("genkey")
        if not (isinstance(key, str) and key):
            key = f"{_KEY_PREFIX}{secrets.token_hex(8)}"
            request = replace(request, parameters={**request.parameters, "genkey": key})
        try:
            yield from super().complete(request, cancel)
        except BackendError:
            # The server said so itself, or nobody is there.
            raise
        except (MiddlewareError, GeneratorExit):
            self._stop(key)
            raise

    def _stop(self, key: str) -> None:
        """Tell the server to end what it is doing for us, without waiting for that."""
        body = write_json({"genkey": key})
        name = f"abort {self.endpoint.name}"
        threading.Thread(target=self._post_abort, args=(body,), name=name, daemon=True).start()

    def _post_abort(self, body: bytes) -> None:
        token = CancelToken()
        try:
            with (
                token.limited(_ABORT_SECONDS, RunCancelled()) as limited,
                self._abort.post(body, limited) as answer,
            ):
                answer.drain()
        except MiddlewareError as error:
            logger.info("Endpoint %r could not be told to stop: %s", self.endpoint.name, error)
