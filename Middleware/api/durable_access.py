"""What all doors to conversations share: who may do what, and what a refusal is over HTTP."""

from collections.abc import Callable, Mapping
from typing import Final

from flask import request

from Middleware.api.admission import ENVIRON_CALLER
from Middleware.conversations.models import Refusal
from Middleware.conversations.profiles import Profile
from Middleware.conversations.service import Conversations
from Middleware.core.errors import KeyNotAllowed, RequestError
from Middleware.core.messages import Caller

_STATUSES: Final[Mapping[str, int]] = {
    "request_id_conflict": 409,
    "rejected_not_started": 404,
    "rejected_not_current": 409,
    "rejected_not_active": 409,
    "rejected_unknown_run": 404,
    "rejected_unknown_signal": 404,
    "rejected_invalid_arguments": 422,
    "rejected_duplicate": 409,
}
NEVER_RETRY: Final = {"x-should-retry": "false"}
"""Client libraries repeat 408, 409, 429 and 5xx by themselves; a refusal is definite (HTTP-3)."""

_NOT_ALLOWED: Final = "This key may not do that in conversations of this profile."

_TEXTS: Final[Mapping[str, str]] = {
    "request_id_conflict": "This idempotency key was used for another input.",
    "rejected_not_started": "There is no such conversation.",
    "rejected_not_active": "This conversation has ended; start a new one.",
    "rejected_duplicate": "There is a conversation with this id already.",
}


def status_of(refusal: Refusal) -> int:
    """The HTTP status of a refusal (HTTP-1)."""
    status = _STATUSES.get(refusal.outcome)
    if status is None:
        return 413 if "payload" in refusal.errors else 429
    return status


class SignalRefused(RequestError):
    """A refusal as an error object, for doors whose answers have that shape."""

    should_retry = False

    def __init__(self, refusal: Refusal) -> None:
        told = "; ".join(f"{place} {problem}" for place, problem in refusal.errors.items())
        message = _TEXTS.get(refusal.outcome) or f"The input was refused: {told or refusal.reason}."
        super().__init__(message)
        self.status = status_of(refusal)
        self.code = refusal.outcome


class UnknownConversation(RequestError):
    status = 404
    code = "conversation_not_found"

    def __init__(self, id: str) -> None:
        super().__init__(f"There is no conversation {id[:128]!r} here.")
        self.param = "conversation"


def caller_now() -> Caller | None:
    caller = request.environ.get(ENVIRON_CALLER)
    return caller if isinstance(caller, Caller) else None


def key_name(caller: Caller | None) -> str | None:
    """What `maySend` and `mayApprove` name."""
    return caller.key_name if caller else None


def name_of(caller: Caller | None) -> str | None:
    """Who was authenticated: that is the evidence, whatever `reviewer` says (DEC-8)."""
    return None if caller is None else f"{caller.user}/{caller.key_name}"


def sender() -> str | None:
    """:func:`name_of` who asks now."""
    return name_of(caller_now())


def require(allowed: Callable[[str | None], bool]) -> None:
    """Raise KeyNotAllowed unless the key of who asks now is one of them."""
    if not allowed(key_name(caller_now())):
        raise KeyNotAllowed(_NOT_ALLOWED)


class ProfileGone(RequestError):
    """With its profile a conversation loses the lists of who may do what: nobody may, then."""

    status = 403
    code = "profile_gone"
    should_retry = False

    def __init__(self, conversation_id: str, profile: str) -> None:
        super().__init__(
            f"The profile {profile!r} of conversation {conversation_id!r} is gone, and with it who"
            f" may send and approve. Bring back `Conversations/{profile}.json` and send again;"
            f" `POST /durable/v1/conversations/{conversation_id}/cancel` ends it without."
        )
        self.param = "profile"


def require_reader(conversations: Conversations, profile: str) -> None:
    """Raise KeyNotAllowed where :func:`lets_read` says no."""
    if not lets_read(conversations, profile):
        raise KeyNotAllowed(_NOT_ALLOWED)


def lets_read(conversations: Conversations, profile: str) -> bool:
    """Whether who asks now may see conversations of a profile. One that is gone says nothing about
    that: whoever may use the server may see what it left, and end it.
    """
    found = conversations.profiles.find(profile)
    return found is None or found.lets_read(key_name(caller_now()))


def hidden_profiles(conversations: Conversations) -> tuple[str, ...]:
    """Those whose conversations no list may show to who asks now."""
    return tuple(
        name for name in conversations.profiles.names() if not lets_read(conversations, name)
    )


def profile_of(conversations: Conversations, conversation_id: str) -> Profile | None:
    """None when the conversation does not exist. Raises ProfileGone."""
    state = conversations.reader.state(conversation_id)
    if state is None:
        return None
    profile = conversations.profiles.find(state.profile)
    if profile is None:
        raise ProfileGone(state.id, state.profile)
    return profile
