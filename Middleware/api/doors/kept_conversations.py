"""Conversations of ordinary workflows: lists of items that requests add to and begin with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from flask import request

from Middleware.api.running import scope_of
from Middleware.core.clock import Clock
from Middleware.core.errors import StorageUnavailable
from Middleware.storage.responses import KeptResponse, ResponseStore
from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable
from Middleware.wire.openai_conversations import encode_conversation
from Middleware.wire.openai_responses import stored_items

_APART: Final = "conversations of "
"""They lie beside responses, whose ids nobody must find them under."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptConversations:
    """See :class:`Middleware.api.doors.conversations.SomeConversations`. Call it in a view, but
    for :meth:`append`. They are kept as long as responses are, from their last change on.
    """

    store: ResponseStore
    clock: Clock

    def create(
        self, items: Sequence[Mapping[str, Any]], metadata: Mapping[str, str]
    ) -> dict[str, Any]:
        stem = self.clock.new_id()
        now = int(self.clock.timestamp())
        body = encode_conversation(f"conv_{stem}", now, metadata)
        with reachable():
            self.store.put(
                KeptResponse(
                    id=body["id"],
                    scope=_scope(),
                    created_at=now,
                    body=body,
                    items=stored_items(items, stem),
                )
            )
        return body

    def show(self, id: str) -> dict[str, Any] | None:
        found = self._get(id)
        return dict(found.body) if found else None

    def items(self, id: str) -> list[dict[str, Any]] | None:
        found = self._get(id)
        return [dict(item) for item in found.items] if found else None

    def label(self, id: str, metadata: Mapping[str, str]) -> dict[str, Any] | None:
        def change(kept: KeptResponse) -> KeptResponse:
            return replace(kept, body={**kept.body, "metadata": dict(metadata)})

        changed = self._change(_scope(), id, change)
        return dict(changed.body) if changed else None

    def delete(self, id: str) -> bool:
        with reachable():
            return self.store.delete(_scope(), id)

    def add(self, id: str, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
        stored = stored_items(items, self.clock.new_id())
        added = self.append(scope_of(request.environ), id, stored)
        return stored if added else None

    def remove(self, id: str, item_id: str) -> dict[str, Any] | None:
        def change(kept: KeptResponse) -> KeptResponse:
            return replace(kept, items=[one for one in kept.items if one.get("id") != item_id])

        changed = self._change(_scope(), id, change)
        return dict(changed.body) if changed else None

    def append(self, scope: str, id: str, items: Sequence[Mapping[str, Any]]) -> bool:
        """Add items behind all others, for a caller; False when the conversation is not there."""

        def change(kept: KeptResponse) -> KeptResponse:
            return replace(kept, items=[*kept.items, *items])

        return self._change(_APART + scope, id, change) is not None

    def _get(self, id: str) -> KeptResponse | None:
        with reachable():
            return self.store.get(_scope(), id)

    def _change(
        self, scope: str, id: str, change: Callable[[KeptResponse], KeptResponse]
    ) -> KeptResponse | None:
        now = int(self.clock.timestamp())
        with reachable():
            return self.store.change(scope, id, lambda kept: replace(change(kept), created_at=now))


def _scope() -> str:
    return _APART + scope_of(request.environ)


@contextmanager
def reachable() -> Iterator[None]:
    """Failures of the database as an error of ours."""
    try:
        yield
    except (DatabaseBusy, DatabaseUnavailable) as error:
        raise StorageUnavailable("kept responses", detail=str(error)) from error
