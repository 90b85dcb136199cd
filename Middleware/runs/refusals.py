"""Requests that were answered with an error before a workflow ran: no run tells of them."""

import threading
from collections.abc import Mapping
from typing import Final

_ENDINGS: Final = (
    ("/chat/completions", "openaichatcompletion"),
    ("/completions", "openaicompletion"),
    ("/messages", "anthropicmessages"),
    ("/messages/count_tokens", "anthropicmessages"),
    ("/api/chat", "ollamaapichat"),
    ("/api/generate", "ollamagenerate"),
    ("/embeddings", "embeddings"),
    ("/api/embed", "embeddings"),
)
_BEGINNINGS: Final = (
    ("/v1/responses", "openairesponses"),
    ("/responses", "openairesponses"),
    ("/durable/", "durable"),
    ("/api/runs", "runs"),
    ("/api/workflows", "workflows"),
)
OTHER: Final = "other"


class Refusals:
    """Counts by door and status. Safe to use from any thread."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._without_run: set[str] = set()
        """Requests that are not answered, and of which no run has begun."""
        self._lock = threading.Lock()

    def arrived(self, request_id: str) -> None:
        self._without_run.add(request_id)

    def ran(self, request_id: str) -> None:
        """A run of the request has begun. On the request path."""
        self._without_run.discard(request_id)

    def answered(self, request_id: str, path: str, status: str) -> None:
        """``status`` is the line of the answer, as WSGI has it: ``404 Not Found``."""
        if request_id not in self._without_run:
            return
        self._without_run.discard(request_id)
        if status >= "4":
            key = (door_of(path), status[:3])
            with self._lock:
                self._counts[key] = self._counts.get(key, 0) + 1

    def counts(self) -> Mapping[tuple[str, str], int]:
        """By door and status."""
        with self._lock:
            return dict(self._counts)


def door_of(path: str) -> str:
    """The name of the door as runs have it; of what no door has, one for all, so that whoever
    tries paths makes no new names."""
    for ending, door in _ENDINGS:
        if path.endswith(ending):
            return door
    for beginning, door in _BEGINNINGS:
        if path.startswith(beginning):
            return door
    return OTHER
