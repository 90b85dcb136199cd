"""What a plain front end's list of messages asks of a durable conversation (specification §21).

Such a front end sends everything each time, and knows no ids of signals. The last user message
becomes a signal, once; texts that only tell how things stand are notices: no turns, and in no
transcript.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from Middleware.conversations import rules
from Middleware.conversations.models import Receipt, Refusal, State
from Middleware.conversations.profiles import Profile

if TYPE_CHECKING:
    from Middleware.conversations.segments import Proposal, Segment
    from Middleware.conversations.service import Conversations

DOOR = "chat"
"""Marks messages that came in this way: what other doors send is in no front end's list."""
_SHORT = 8
_SHORTEST = 4

NO_ID = (
    "(Your front end does not say which conversation this is, so nothing was sent. Let it send "
    "the header X-Conversation-Id, or write [DiscussionId]a-name-of-yours[/DiscussionId] into the "
    "system prompt or the first message, and start anew.)"
)
ENDED = "(This conversation has ended.)"
OVER = "(This conversation has ended. Start a new chat, with a new conversation id, to go on.)"
CLOSED = "(The conversation was closed before this message had its turn.)"
DIVERGED = (
    "(An earlier message was edited or removed, but this conversation is kept as it was said; "
    "nothing was sent. Undo the change, or start a new chat.)"
)
NOTHING_PENDING = "(Nothing waits for a decision. Nothing was sent.)"
OTHER_PENDING = "(That is not what waits for a decision. Nothing was sent.)"
MAY_NOT = "(This key may not decide here. Nothing was sent.)"
WITHDRAWN = "(This message was taken back.)"
EXPIRED = "(This reply is not kept any more.)"
BEHIND = "(Your message is kept, and is queued behind the decision that is waited for.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One request of a front end."""

    profile: Profile
    texts: tuple[str, ...]
    """Of all user messages, oldest first; never empty."""
    conversation_id: str
    named: bool
    """Whether the front end named the conversation."""
    request_id: str | None = None
    """An explicit key."""
    sender: str | None = None
    key: str | None = None
    """The name of the key that was shown, for `mayApprove`."""

    @property
    def text(self) -> str:
        return self.texts[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of it: a signal whose segment is to be told, or a notice."""

    conversation_id: str
    signal_id: str | None = None
    notice: str = ""
    refusal: Refusal | None = None
    """For a fault of the request itself."""


@dataclass(frozen=True, slots=True)
class _Command:
    approved: bool
    proposal: str
    """The id that was written behind it, or a part."""


class Chats:
    """Takes messages in."""

    def __init__(self, conversations: "Conversations") -> None:
        self._talks = conversations

    def take(self, said: Said) -> Taken:
        """CHAT-1 to CHAT-4 and CHAT-6. Raises nothing but failures of the store."""
        if not said.named and len(said.texts) > 1 and said.request_id is None:
            return Taken(conversation_id=said.conversation_id, notice=NO_ID)
        state = self._talks.reader.state(said.conversation_id) if self._talks.exists else None
        if state is None:
            return self._begin(said)
        if state.profile != said.profile.name:
            refusal = Refusal(
                outcome="rejected_invalid_arguments",
                errors={"model": f"must be {state.profile!r} in this conversation"},
            )
            return Taken(conversation_id=state.id, refusal=refusal)
        return self._go_on(said, state)

    def _begin(self, said: Said, summary: str = "") -> Taken:
        from Middleware.conversations.inbox import Start

        if _command(said) is not None or said.text.strip() == rules.IS_END:
            return Taken(conversation_id=said.conversation_id, notice=NOTHING_PENDING)
        started = self._talks.start(
            Start(
                profile=said.profile.name,
                options=said.profile.options,
                conversation_id=said.conversation_id,
                message=said.text,
                request_id=_request_id(said),
                # Another request of the same front end may just have begun it.
                return_existing_active=True,
                sender=said.sender,
                asked={"door": DOOR},
                summary=summary,
            )
        )
        if isinstance(started, Refusal):
            return _refused(said, started)
        assert started.signal is not None
        return Taken(conversation_id=said.conversation_id, signal_id=started.signal.signal_id)

    def _go_on(self, said: Said, state: State) -> Taken:
        known = self._talks.segments.by_request(state.id, _request_id(said))
        command = _command(said)
        if command is not None:
            return self._decide(said, state, command, known)
        accepted = self._talks.segments.texts(state.id, DOOR)
        kept = [text for sequence, text in accepted if not known or sequence < known.sequence]
        if said.profile.on_divergence != "continue" and _diverges(said, kept):
            return self._diverged(said, state, [text for _, text in accepted])
        if known is not None:
            return Taken(conversation_id=state.id, signal_id=known.signal_id)
        return self._send(said, "message", {"text": said.text})

    def _send(self, said: Said, name: str, arguments: dict[str, object]) -> Taken:
        from Middleware.conversations.inbox import Send

        send = Send(
            name=name,
            arguments=arguments,
            request_id=_request_id(said),
            sender=said.sender,
            asked={"door": DOOR},
        )
        answer = self._talks.send(said.conversation_id, send)
        if isinstance(answer, Receipt):
            return Taken(conversation_id=said.conversation_id, signal_id=answer.signal_id)
        return _refused(said, answer)

    def _decide(
        self, said: Said, state: State, command: _Command, known: "Segment | None"
    ) -> Taken:
        """CHAT-6."""
        if not said.profile.lets_approve(said.key):
            return Taken(conversation_id=state.id, notice=MAY_NOT)
        if known is not None and known.name == "decision":
            return Taken(conversation_id=state.id, signal_id=known.signal_id)
        pending = state.proposal_id
        if pending is None:
            return Taken(conversation_id=state.id, notice=OVER if state.closed else NOTHING_PENDING)
        if not _names(command.proposal, pending):
            return Taken(conversation_id=state.id, notice=OTHER_PENDING)
        reviewer = said.sender or "anonymous"
        arguments = {"proposalId": pending, "approved": command.approved, "reviewer": reviewer}
        return self._send(said, "decision", dict(arguments))

    def _diverged(self, said: Said, state: State, accepted: Sequence[str]) -> Taken:
        """CHAT-4. A branch has an id that follows from where it branches, so that the front end,
        which goes on naming the old conversation, finds it again."""
        if said.profile.on_divergence == "notice":
            return Taken(conversation_id=state.id, notice=DIVERGED)
        listed = _messages(said, said.texts)
        pairs = enumerate(zip(listed, map(_plain, accepted), strict=False))
        place = next((at for at, (new, old) in pairs if new != old), len(listed) - 1)
        branch = f"fork-{_digest(state.id, place, listed[place])}"
        there = replace(said, conversation_id=branch, named=True)
        known = self._talks.reader.state(branch)
        return self._begin(there, state.summary) if known is None else self._go_on(there, known)


def _refused(said: Said, refusal: Refusal) -> Taken:
    if refusal.outcome in ("rejected_not_active", "rejected_duplicate"):
        return Taken(conversation_id=said.conversation_id, notice=OVER)
    return Taken(conversation_id=said.conversation_id, refusal=refusal)


def _request_id(said: Said) -> str:
    """CHAT-3."""
    if said.request_id is not None:
        return said.request_id
    return f"chat-{_digest(said.conversation_id, len(said.texts), said.text)}"


def usable_id(given: str) -> str:
    """A conversation id for whatever name a front end has."""
    return given if rules.is_conversation_id(given) else f"chat-{_digest(given)}"


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _command(said: Said) -> _Command | None:
    return _parsed(said.profile, said.text)


def _parsed(profile: Profile, text: str) -> _Command | None:
    word, _, rest = text.strip().partition(" ")
    if word and word in (profile.approve_command, profile.decline_command):
        return _Command(word == profile.approve_command, rest.strip())
    return None


def _names(given: str, proposal_id: str) -> bool:
    """Whether a proposal is meant: by nothing, its id, or the beginning of that."""
    if not given:
        return True
    return len(given) >= _SHORTEST and (
        proposal_id.startswith(given) or proposal_id.removeprefix("prop-").startswith(given)
    )


def _plain(text: str) -> str:
    return text.strip()


def _messages(said: Said, texts: Sequence[str]) -> list[str]:
    """Those that are in a transcript; commands are not."""
    plain = map(_plain, texts)
    return [text for text in plain if text != rules.IS_END and not _parsed(said.profile, text)]


def _diverges(said: Said, kept: Sequence[str]) -> bool:
    """Whether what was kept is not the end of what the front end thinks was said. It may know of
    more before: somebody may have turned to this model in the middle of a chat."""
    earlier = _messages(said, said.texts[:-1])
    expected = _messages(said, kept)
    return earlier[len(earlier) - len(expected) :] != expected if expected else False


def proposal_text(proposal: "Proposal", profile: Profile, key: str | None) -> str:
    """CHAT-6: what would be done, and how to answer."""
    arguments = json.dumps(dict(proposal.arguments), ensure_ascii=False)
    short = proposal.id.removeprefix("prop-")[:_SHORT]
    text = f"**{proposal.action}** is proposed, with `{arguments}`."
    commands = [name for name in (profile.approve_command, profile.decline_command) if name]
    if commands and profile.lets_approve(key):
        choices = " or ".join(f"`{name} {short}`" for name in commands)
        return f"{text}\n\nReply {choices}."
    return f"{text}\n\nIt waits for a decision ({short})."


def final_text(segment: "Segment", profile: Profile, key: str | None) -> str:
    """The words of an answer to a segment that is done."""
    if segment.proposal is not None:
        return proposal_text(segment.proposal, profile, key)
    if segment.is_end and segment.status == "completed":
        return ENDED
    if segment.mismatched:
        return OTHER_PENDING
    if segment.status == "incomplete":
        return CLOSED
    if segment.status == "cancelled" and segment.text is None:
        return WITHDRAWN
    return EXPIRED if segment.text is None else segment.text


def waits_behind_decision(segment: "Segment") -> bool:
    """CHAT-7."""
    unapplied = segment.status == "queued" and segment.name == "message"
    return unapplied and segment.phase == "awaiting_approval" and not segment.decided
