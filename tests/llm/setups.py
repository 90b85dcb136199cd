"""Endpoints and API types as a test wants them."""

import threading
from collections.abc import Callable
from typing import Any

from Middleware.config.models import ApiType, Endpoint
from Middleware.core.cancellation import CancelToken
from Middleware.core.messages import Message
from Middleware.llm.addresses import parse_address
from Middleware.llm.backend import BackendSetup, ModelRequest
from Middleware.llm.connections import Connections, TimeLimits
from Middleware.llm.transport import Transport
from Middleware.wire.backend_errors import BackendVoice

HI = (Message("user", "hi"),)
DEADLINE = 10.0
"""Seconds that anything may take before the test is broken."""


def endpoint(url: str = "http://127.0.0.1:1", **keys: Any) -> Endpoint:
    """``keys`` are those of the file."""
    return Endpoint.model_validate(
        {
            "name": "fast",
            "file": "Endpoints/fast.json",
            "endpoint": url,
            "modelNameToSendToAPI": "m",
            **keys,
        }
    )


def api_type(**keys: Any) -> ApiType:
    return ApiType.model_validate(
        {
            "name": "Open-AI-API",
            "type": "openAIChatCompletion",
            "maxNewTokensPropertyName": "max_tokens",
            "streamPropertyName": "stream",
            **keys,
        }
    )


def setup(
    connections: Connections,
    url: str = "http://127.0.0.1:1",
    *,
    limits: TimeLimits | None = None,
    type_keys: dict[str, Any] | None = None,
    **keys: Any,
) -> BackendSetup:
    return BackendSetup(
        endpoint=endpoint(url, **keys),
        api_type=api_type(**(type_keys or {})),
        connections=connections,
        limits=limits or TimeLimits(connect=DEADLINE, silence=DEADLINE),
    )


def ask(*, stream: bool = True, **others: Any) -> ModelRequest:
    return ModelRequest(**{"messages": HI, "stream": stream, **others})


class Background:
    """Runs something that blocks on another thread; gives what it returned or raised."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._result: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        # Whatever it is, the test wants to look at it.
        except Exception as error:  # noqa: BLE001
            self._result = error

    def result(self) -> Any:
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive(), "it still blocks"
        return self._result


LIMITS = TimeLimits(connect=DEADLINE, silence=DEADLINE)


def transport(connections: Connections, url: str, limits: TimeLimits = LIMITS) -> Transport:
    """Posts to ``/v1/x`` as the endpoint ``fast``, with the key ``sk-canary-123``."""
    voice = BackendVoice("fast", ("sk-canary-123",))
    address = parse_address(url, "/v1/x", file="Endpoints/fast.json")
    return Transport(voice, address, {"Authorization": "Bearer sk-canary-123"}, limits, connections)


def fetch(line: Transport, cancel: CancelToken | None = None, body: bytes = b"{}") -> bytes:
    with line.post(body, cancel or CancelToken()) as answer:
        return answer.rest()
