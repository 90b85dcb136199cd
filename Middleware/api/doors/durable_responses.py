"""Responses of durable conversations (specification §20): what a request asks of them."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from flask import Response, request

from Middleware.api.doors.background_responses import starting_after
from Middleware.api.doors.common import EVENT_STREAM, json_response
from Middleware.api.doors.durable_view import (
    ID_START,
    head_of,
    input_item,
    kept_with,
    response_of,
    signal_of,
    told_of,
)
from Middleware.api.durable_access import (
    SignalRefused,
    UnknownConversation,
    lets_read,
    require,
    sender,
)
from Middleware.api.durable_events import TooManyReaders, Waits
from Middleware.api.event_stream import Frames
from Middleware.api.headers import CONVERSATION_ID, IGNORED, clean
from Middleware.conversations.models import Refusal
from Middleware.conversations.profiles import Profile, require_profile
from Middleware.conversations.segments import Segment
from Middleware.conversations.service import Conversations
from Middleware.core.errors import MalformedRequest, MiddlewareError, RequestError, UnknownResponse
from Middleware.wire import openai_responses
from Middleware.wire.openai_responses import ResponsesRequest
from Middleware.wire.openai_responses_told import PROPOSAL, ToldStream

WAIT_SECONDS = 600.0
_CANCEL_SECONDS = 10.0
_BEAT_SECONDS = 1.0
_CLIENT_GONE = "waitress.client_disconnected"


class ApprovalNotPending(RequestError):
    """RESP-5."""

    code = "approval_not_pending"

    def __init__(self) -> None:
        super().__init__("This approval is not asked for: answered, timed out, or never was.")
        self.param = "input"


class StillRunning(MiddlewareError):
    """RESP-2."""

    status = 504
    code = "response_timeout"
    should_retry = False

    def __init__(self, id: str, seconds: float) -> None:
        super().__init__(
            f"Response {id!r} was not there within {seconds:g} s. It goes on: "
            f"GET /v1/responses/{id}."
        )
        self.param = id


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Waiting is bounded, in number and in time (MAP-8)."""

    waits: Waits
    seconds: float = WAIT_SECONDS


class ConversationResponses:
    """See :class:`Middleware.api.doors.responses.DurableResponses`."""

    def __init__(self, conversations: Conversations, places: Places) -> None:
        self._talks = conversations
        self._places = places

    def create(self, asked: ResponsesRequest) -> Response | None:
        """None when the request names neither profile, conversation nor response of ours."""
        conversation_id = self._named(asked)
        if conversation_id is None:
            return self._begin(asked)
        state = self._talks.reader.state(conversation_id)
        if state is None:
            raise UnknownConversation(conversation_id)
        if asked.chat.model not in ("", state.profile):
            raise MalformedRequest("model", f"must be {state.profile!r} in this conversation")
        profile = require_profile(self._talks.profiles, state.profile)
        return self._go_on(asked, profile, conversation_id)

    def show(self, id: str) -> Response | None:
        segment = self._find(id)
        if segment is None:
            return None
        if request.args.get("stream", "").lower() == "true":
            return self._stream(segment, after=starting_after())
        return json_response(response_of(segment))

    def items(self, id: str) -> Response | None:
        segment = self._find(id)
        if segment is None:
            return None
        page = openai_responses.parse_page(request.args)
        return json_response(openai_responses.encode_items([input_item(segment)], page))

    def delete(self, id: str) -> Response | None:
        if self._find(id) is None:
            return None
        raise MalformedRequest(None, "This response is part of a conversation: delete that one")

    def cancel(self, id: str) -> Response | None:
        segment = self._find(id)
        if segment is None:
            return None
        if not segment.asked.get("background"):
            raise MalformedRequest(None, "Only a background response can be cancelled")
        profile = self._talks.profiles.find(segment.profile)
        if profile is not None:
            require(profile.lets_send)
        if not segment.done and self._talks.withdraw(segment):
            segment = self._wait(segment, _CANCEL_SECONDS)
        return json_response(response_of(segment))

    # Which conversation

    def _named(self, asked: ResponsesRequest) -> str | None:
        """The durable conversation that a request goes on with."""
        if asked.conversation is not None:
            if self._talks.exists and self._talks.reader.state(asked.conversation) is not None:
                return asked.conversation
            if self._profile(asked.chat.model) is not None:
                raise UnknownConversation(asked.conversation)
            return None
        if asked.previous_response_id is not None:
            segment = self._find(asked.previous_response_id)
            return segment.conversation_id if segment else None
        for approval in asked.approvals:
            found = self._proposed_in(approval.request_id)
            if found is None and self._profile(asked.chat.model) is not None:
                raise ApprovalNotPending
            return found
        return None

    def _proposed_in(self, request_id: str) -> str | None:
        if not request_id.startswith(PROPOSAL) or not self._talks.exists:
            return None
        return self._talks.segments.proposed_in(request_id.removeprefix(PROPOSAL))

    def _profile(self, model: str) -> Profile | None:
        return self._talks.model(model)

    def _find(self, id: str) -> Segment | None:
        if not id.startswith(ID_START):
            return None
        found = self._talks.segments.find(signal_of(id)) if self._talks.exists else None
        if found is None or not lets_read(self._talks, found.profile):
            raise UnknownResponse(id)
        return found

    # What it sends

    def _begin(self, asked: ResponsesRequest) -> Response | None:
        profile = self._profile(asked.chat.model)
        if profile is None:
            return None
        from Middleware.conversations.inbox import Start

        require(profile.lets_send)
        text = _text(asked)
        with self._place(asked):
            started = self._talks.start(
                Start(
                    profile=profile.name,
                    options=profile.options,
                    message=text,
                    request_id=_request_id(asked),
                    sender=sender(),
                    asked=kept_with(asked),
                )
            )
            if isinstance(started, Refusal):
                raise SignalRefused(started)
            assert started.signal is not None
            return self._answer(asked, started.signal.signal_id)

    def _go_on(self, asked: ResponsesRequest, profile: Profile, conversation_id: str) -> Response:
        from Middleware.conversations.inbox import Send

        key = _request_id(asked)
        known = self._talks.segments.by_request(conversation_id, key) if key else None
        if known is None:
            self._check_latest(asked, conversation_id)
        if asked.approvals:
            require(profile.lets_approve)
            arguments = self._decision(asked, conversation_id, repeated=known is not None)
            name = "decision"
        else:
            require(profile.lets_send)
            name, arguments = "message", {"text": _text(asked)}
        send = Send(
            name=name,
            arguments=arguments,
            request_id=key,
            sender=sender(),
            asked=kept_with(asked),
        )
        with self._place(asked):
            receipt = self._talks.send(conversation_id, send)
            if isinstance(receipt, Refusal):
                raise SignalRefused(receipt)
            return self._answer(asked, receipt.signal_id)

    def _check_latest(self, asked: ResponsesRequest, conversation_id: str) -> None:
        previous = asked.previous_response_id
        if previous is None:
            return
        latest = self._talks.segments.latest(conversation_id)
        if latest is not None and latest.signal_id != signal_of(previous):
            raise MalformedRequest(
                "previous_response_id", "is not the latest of its conversation, which cannot branch"
            )

    def _decision(
        self, asked: ResponsesRequest, conversation_id: str, *, repeated: bool
    ) -> dict[str, object]:
        if len(asked.approvals) != 1 or any(m.role == "user" for m in asked.chat.messages):
            raise MalformedRequest("input", "must be one `mcp_approval_response` by itself")
        (answer,) = asked.approvals
        proposal = answer.request_id.removeprefix(PROPOSAL)
        state = self._talks.reader.state(conversation_id)
        if not repeated and (state is None or state.proposal_id != proposal):
            raise ApprovalNotPending
        reviewer = sender() or _label(asked) or "anonymous"
        return {"proposalId": proposal, "approved": answer.approve, "reviewer": reviewer}

    # What it answers

    def _place(self, asked: ResponsesRequest) -> "_Place":
        """Taken before anything is recorded: a request that cannot wait shall change nothing."""
        return _Place(self._places.waits, needed=not asked.background and not asked.chat.stream)

    def _answer(self, asked: ResponsesRequest, signal_id: str) -> Response:
        segment = self._talks.segments.find(signal_id)
        assert segment is not None
        if asked.chat.stream:
            response = self._stream(segment, after=-1)
        else:
            if not asked.background:
                segment = self._wait(segment, self._places.seconds)
                if not segment.done and not _gone():
                    raise StillRunning(head_of(segment).id, self._places.seconds)
            response = json_response(response_of(segment))
        ignored = _ignored(asked)
        if ignored:
            response.headers[IGNORED] = clean(", ".join(ignored))
        response.headers[CONVERSATION_ID] = segment.conversation_id
        return response

    def _wait(self, segment: Segment, seconds: float) -> Segment:
        for _ in self._talks.watch(segment.conversation_id, seconds):
            segment = self._talks.segments.find(segment.signal_id) or segment
            if segment.done or _gone():
                break
        return segment

    def _stream(self, segment: Segment, after: int) -> Response:
        if not self._places.waits.enter():
            raise TooManyReaders
        frames = Frames(self._frames(segment, after), self._places.waits.leave)
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return Response(frames, headers=headers, content_type=EVENT_STREAM)

    def _frames(self, segment: Segment, after: int) -> Iterator[bytes]:
        stream = ToldStream(f"msg_{head_of(segment).stem}_0", after)
        beat_at = time.monotonic() + _BEAT_SECONDS
        for _ in self._talks.watch(segment.conversation_id, self._places.waits.stream_seconds):
            segment = self._talks.segments.find(segment.signal_id) or segment
            told = told_of(segment, self._talks)
            data = stream.frames(told)
            if not data and time.monotonic() >= beat_at:
                data = b": waiting\n\n"
            if data:
                beat_at = time.monotonic() + _BEAT_SECONDS
                yield data
            if told.done:
                return


class _Place:
    """A place among those who wait, given back when the block ends."""

    def __init__(self, waits: Waits, *, needed: bool) -> None:
        self._waits = waits
        self._needed = needed

    def __enter__(self) -> None:
        if self._needed and not self._waits.enter():
            raise TooManyReaders

    def __exit__(self, *_: object) -> None:
        if self._needed:
            self._waits.leave()


def _gone() -> bool:
    """Whether the client has left; the turn goes on (CHAT-9)."""
    gone = request.environ.get(_CLIENT_GONE)
    return bool(gone and gone())


def _text(asked: ResponsesRequest) -> str:
    if not asked.store:
        raise MalformedRequest("store", "cannot be false: this model's conversations are kept")
    said = [message for message in asked.chat.messages if message.role == "user"]
    others = [m for m in asked.chat.messages if m.role not in ("user", "system", "developer")]
    if len(said) != 1 or others or asked.approvals:
        raise MalformedRequest("input", "must be a text or one user message")
    return said[0].content


def _request_id(asked: ResponsesRequest) -> str | None:
    """RESP-7."""
    header = request.headers.get("Idempotency-Key")
    if header:
        return header
    given = asked.chat.metadata.get("idempotency_key")
    if given is not None and not isinstance(given, str):
        raise MalformedRequest("metadata.idempotency_key", "must be a string")
    return given or None


def _label(asked: ResponsesRequest) -> str | None:
    """RESP-8: a label, never the evidence."""
    given = asked.repeated.get("safety_identifier") or asked.repeated.get("user")
    return given if isinstance(given, str) else None


def _ignored(asked: ResponsesRequest) -> list[str]:
    """RESP-9."""
    tools = ["tools"] if asked.chat.tools else []
    known = ("user", "safety_identifier")
    images = ["input.input_image"] if any(m.images for m in asked.chat.messages) else []
    named = (*asked.chat.parameters, *tools, *images, *asked.chat.unknown_fields)
    return [name for name in named if name not in known]
