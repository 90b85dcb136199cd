"""Durable conversations as objects of the Conversations interface (specification §20)."""

from collections.abc import Mapping
from typing import Any, Final

from Middleware.api.doors.durable_view import input_item, transcript_items
from Middleware.api.durable_access import SignalRefused, lets_read, profile_of, require, sender
from Middleware.conversations.models import Receipt, Refusal
from Middleware.conversations.profiles import require_profile
from Middleware.conversations.service import Conversations
from Middleware.core.errors import MalformedRequest, RequestError
from Middleware.wire.openai_conversations import encode_conversation, user_text

_PROFILE: Final = "profile"
_CLOSE_SECONDS: Final = 10.0


class StillClosing(RequestError):
    status = 409
    code = "conversation_closing"
    should_retry = True

    def __init__(self) -> None:
        super().__init__("The conversation is being cancelled; delete it again in a moment.")


class DurableConversations:
    """See :class:`Middleware.api.doors.conversations.SomeConversations`."""

    def __init__(self, conversations: Conversations) -> None:
        self._talks = conversations

    def create(
        self, items: tuple[Mapping[str, Any], ...], metadata: Mapping[str, str]
    ) -> dict[str, Any] | None:
        name = metadata.get(_PROFILE)
        if name is None:
            return None
        from Middleware.conversations.inbox import Start

        profile = require_profile(self._talks.profiles, name)
        require(profile.lets_send)
        labels = {key: value for key, value in metadata.items() if key != _PROFILE}
        started = self._talks.start(
            Start(
                profile=profile.name,
                options=profile.options,
                message=user_text(items) if items else None,
                sender=sender(),
                asked={},
                metadata=labels,
            )
        )
        if isinstance(started, Refusal):
            raise SignalRefused(started)
        return self.show(started.state.id)

    def show(self, id: str) -> dict[str, Any] | None:
        state = self._talks.reader.state(id) if self._talks.exists else None
        if state is None or not lets_read(self._talks, state.profile):
            return None
        labels = self._talks.segments.labels(id)
        metadata = {**labels, _PROFILE: state.profile}
        return encode_conversation(id, int(state.created_at), metadata)

    def label(self, id: str, metadata: Mapping[str, str]) -> dict[str, Any] | None:
        if self.show(id) is None:
            return None
        self._require_sender(id)
        labels = {key: value for key, value in metadata.items() if key != _PROFILE}
        self._talks.label(id, labels)
        return self.show(id)

    def delete(self, id: str) -> bool | None:
        if self.show(id) is None:
            return None
        self._require_sender(id)
        self._talks.cancel(id)
        for _ in self._talks.watch(id, _CLOSE_SECONDS):
            state = self._talks.reader.state(id)
            if state is None or state.closed:
                break
        if not self._talks.remove(id):
            raise StillClosing
        return True

    def items(self, id: str) -> list[dict[str, Any]] | None:
        if self.show(id) is None:
            return None
        segments = self._talks.segments.of_conversation(id)
        return [item for segment in segments for item in transcript_items(segment)]

    def add(self, id: str, items: tuple[Mapping[str, Any], ...]) -> list[dict[str, Any]] | None:
        if self.show(id) is None:
            return None
        from Middleware.conversations.inbox import Send

        self._require_sender(id)
        send = Send(name="message", arguments={"text": user_text(items)}, sender=sender(), asked={})
        answer = self._talks.send(id, send)
        if not isinstance(answer, Receipt):
            raise SignalRefused(answer)
        segment = self._talks.segments.find(answer.signal_id)
        assert segment is not None
        return [input_item(segment)]

    def remove(self, id: str, item_id: str) -> dict[str, Any] | None:
        if self.show(id) is None:
            return None
        raise MalformedRequest(None, "What was said in a durable conversation stays")

    def _require_sender(self, id: str) -> None:
        profile = profile_of(self._talks, id)
        if profile is not None:
            require(profile.lets_send)
