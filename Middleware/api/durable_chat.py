"""Profiles as models of every chat door (specification §21): an answer is a turn's reply."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from Middleware.api.answers import Answer, Answers
from Middleware.api.doors.durable_responses import Places
from Middleware.api.doors.durable_view import live_text
from Middleware.api.durable_access import SignalRefused, key_name, name_of
from Middleware.api.durable_events import TooManyReaders
from Middleware.config.user import User
from Middleware.conversations.chat import (
    BEHIND,
    Chats,
    Said,
    final_text,
    usable_id,
    waits_behind_decision,
)
from Middleware.conversations.profiles import Profile
from Middleware.conversations.segments import Segment
from Middleware.conversations.service import Conversations
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import KeyNotAllowed, MalformedRequest, MiddlewareError
from Middleware.core.events import Event, Finish, TextDelta, Usage
from Middleware.core.messages import ChatRequest
from Middleware.workflows.managers.chores import is_chore
from Middleware.workflows.managers.conversation_intake import is_safe_id, take_in
from Middleware.workflows.managers.request_runner import RequestInfo

_BEGUN_ANEW = "\n\n(The answer was begun anew.)\n\n"


class TurnNotDone(MiddlewareError):
    """RESP-2, for chats."""

    status = 504
    code = "turn_timeout"
    should_retry = False

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The reply was not there within {seconds:g} s. The turn goes on: send the same "
            "messages again to see it."
        )


class TurnAnswer:
    """See :class:`Middleware.api.answers.Answer`. Nothing has happened until events are read."""

    def __init__(self, said: Said, events: Iterator[Event], user: User) -> None:
        self.model = said.profile.name
        self.events = events
        self.heartbeat_seconds = user.heartbeat_seconds
        self.conversation_id: str | None = said.conversation_id
        self.unused: tuple[str, ...] = ()

    def has_rest(self) -> bool:
        return False

    def rest(self) -> None:
        """A turn has no rest: what is behind its reply belongs to the worker."""

    def clamped(self) -> int:
        return 0

    def ignored(self) -> tuple[str, ...]:
        return self.unused


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileAnswers:
    """Answers of profiles where a profile is named, else those of ``others``."""

    others: Answers
    conversations: Conversations
    user: Callable[[], User]
    """Whose settings hold for conversations."""
    places: Places

    def answer(self, asked: ChatRequest, info: RequestInfo) -> Answer:
        """See :class:`Middleware.api.answers.Answers`."""
        profile = self.conversations.model(asked.model)
        if profile is None:
            return self.others.answer(asked, info)
        if is_chore(asked):
            # No turn of a conversation: the user's own routing, or ``choreWorkflow``, does it.
            return self.others.answer(replace(asked, model=self.user().name), info)
        if not profile.lets_send(key_name(info.caller)):
            raise KeyNotAllowed("This key may not do that in conversations of this profile.")
        said = self._said(asked, info, profile)
        answer = TurnAnswer(said, iter(()), self.user())
        answer.unused = _unused(asked)
        answer.events = self._events(said, info.cancel, answer)
        return answer

    def _said(self, asked: ChatRequest, info: RequestInfo, profile: Profile) -> Said:
        user = self.user()
        given = asked.metadata.get("conversation_id")
        named = info.conversation_id or (given if isinstance(given, str) else None)
        if not named and user.conversation_id_from_front_end and info.front_end_id:
            tagged = take_in(asked.messages, _unchanged(user), None).discussion_id
            named = tagged or (info.front_end_id if is_safe_id(info.front_end_id) else None)
        taken = take_in(asked.messages, _unchanged(user), named)
        texts = tuple(one.content.strip() for one in taken.messages if one.role == "user")
        if not texts:
            raise MalformedRequest("messages", "hold nothing that a user said")
        found = taken.discussion_id
        return Said(
            profile=profile,
            texts=texts,
            conversation_id=usable_id(found) if found else self._new_id(info),
            named=found is not None,
            request_id=info.idempotency_key,
            sender=name_of(info.caller),
            key=key_name(info.caller),
        )

    def _new_id(self, info: RequestInfo) -> str:
        """A repeated key finds the conversation that it began."""
        if info.idempotency_key is None:
            return f"conv-{uuid.uuid4().hex}"
        return usable_id(f"{name_of(info.caller)} {info.idempotency_key}")

    def _events(self, said: Said, cancel: CancelToken, answer: TurnAnswer) -> Iterator[Event]:
        waits = self.places.waits
        if not waits.enter():
            raise TooManyReaders
        try:
            yield from self._told(said, cancel, answer)
        finally:
            waits.leave()

    def _told(self, said: Said, cancel: CancelToken, answer: TurnAnswer) -> Iterator[Event]:
        taken = Chats(self.conversations).take(said)
        answer.conversation_id = taken.conversation_id
        if taken.refusal is not None:
            raise SignalRefused(taken.refusal)
        if taken.signal_id is None:
            yield TextDelta(taken.notice)
        else:
            yield from self._reply(taken.conversation_id, taken.signal_id, said, cancel)
        yield Finish("stop", Usage())

    def _reply(
        self, conversation_id: str, signal_id: str, said: Said, cancel: CancelToken
    ) -> Iterator[Event]:
        told = ""
        for _ in self.conversations.watch(conversation_id, self.places.seconds):
            cancel.check()
            segment = self.conversations.segments.find(signal_id)
            if segment is None:
                raise MalformedRequest(None, "The conversation was deleted")
            if segment.done:
                yield TextDelta(_rest_of(told, segment, said))
                return
            if waits_behind_decision(segment):
                yield TextDelta(BEHIND)
                return
            text = self._live(segment)
            if text.startswith(told) and len(text) > len(told):
                yield TextDelta(text[len(told) :])
                told = text
        raise TurnNotDone(self.places.seconds)

    def _live(self, segment: Segment) -> str:
        return live_text(segment, self.conversations) if segment.phase == "thinking" else ""


def _rest_of(told: str, segment: Segment, said: Said) -> str:
    """What is left to be said; the words of an attempt that was lost cannot be taken back."""
    final = final_text(segment, said.profile, said.key)
    if final.startswith(told):
        return final[len(told) :]
    return (_BEGUN_ANEW if segment.status == "completed" else "\n\n") + final


def _unchanged(user: User) -> User:
    """Without the settings that put words into what was said."""
    return user.model_copy(update={"chat_complete_add_user_assistant": False})


def _unused(asked: ChatRequest) -> tuple[str, ...]:
    tools = [
        name
        for name, value in (("tools", asked.tools), ("tool_choice", asked.tool_choice))
        if value
    ]
    return (*asked.parameters, *tools, *asked.unknown_fields)
