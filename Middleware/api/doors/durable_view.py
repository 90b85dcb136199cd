"""Segments of durable conversations as objects of the Responses interface. No routes."""

from collections.abc import Mapping
from typing import Any, Final

from Middleware.conversations.segments import Segment
from Middleware.conversations.service import Conversations
from Middleware.core.messages import ChatRequest
from Middleware.wire.openai_responses import (
    Outcome,
    ResponseHead,
    ResponsesRequest,
    encode_response,
)
from Middleware.wire.openai_responses_object import message_item
from Middleware.wire.openai_responses_told import (
    Told,
    approval_request,
    approval_response,
    user_item,
)

ID_START: Final = "resp_sig"
"""Ids of responses that are segments; what follows is the id of the signal."""

ENDED: Final = "The conversation has ended."
EXPIRED: Final = "(This reply is not kept any more.)"


def signal_of(response_id: str) -> str:
    return f"sig-{response_id.removeprefix(ID_START)}"


def response_id_of(signal_id: str) -> str:
    return ID_START + signal_id.removeprefix("sig-")


def kept_with(asked: ResponsesRequest) -> dict[str, Any]:
    """What the response object will want to know again of its request (RESP-1)."""
    kept: dict[str, Any] = {"repeated": dict(asked.repeated), "background": asked.background}
    if asked.instructions:
        kept["variables"] = {"instructions": asked.instructions}
    for approval in asked.approvals:
        kept["reason"] = approval.reason
    return kept


def head_of(segment: Segment) -> ResponseHead:
    chat = ChatRequest(model=segment.profile, messages=())
    return ResponseHead(
        id=response_id_of(segment.signal_id),
        created_at=int(segment.received_at),
        model=segment.profile,
        asked=ResponsesRequest(chat=chat, repeated=segment.asked.get("repeated", {})),
        conversation=segment.conversation_id,
    )


def response_of(segment: Segment) -> dict[str, Any]:
    """The response object of a segment, as it stands."""
    head = head_of(segment)
    reason = "conversation_closed" if segment.status == "incomplete" else None
    outcome = Outcome(status=segment.status, output=output_of(segment), reason=reason)
    response = encode_response(head, outcome)
    if segment.status == "failed":
        code = "approval_not_pending" if segment.mismatched else "server_error"
        message = segment.error or "The approval was not asked for any more."
        response["error"] = {"code": code, "message": message}
    return response


def output_of(segment: Segment) -> list[dict[str, Any]]:
    """The reply, or the proposal; nothing of what failed (RESP-4)."""
    if segment.status != "completed":
        return []
    if segment.proposal is not None:
        made = segment.proposal
        return [approval_request(made.id, made.action, made.arguments, segment.profile)]
    if segment.turn is None:
        return [message_item(reply_id_of(segment), ENDED)]
    return [message_item(reply_id_of(segment), EXPIRED if segment.text is None else segment.text)]


def reply_id_of(segment: Segment) -> str:
    return f"msg_{head_of(segment).stem}_0"


def input_item(segment: Segment) -> dict[str, Any]:
    """What was sent, as an item."""
    stem = head_of(segment).stem
    arguments: Mapping[str, Any] = segment.arguments
    if segment.name == "message":
        return user_item(f"msg_{stem}_in", arguments["text"])
    return approval_response(
        f"mcpa_{stem}_in",
        arguments["proposalId"],
        approve=arguments["approved"],
        reason=segment.asked.get("reason"),
    )


def transcript_items(segment: Segment) -> list[dict[str, Any]]:
    """What was said in it, question and answer (§20)."""
    items = [input_item(segment)]
    if segment.done:
        items += output_of(segment)
    if segment.status == "failed" and segment.text is not None:
        items.append(message_item(reply_id_of(segment), segment.text))
    if segment.proposal is not None and segment.late_text is not None:
        items.append(message_item(reply_id_of(segment), segment.late_text))
    return items


def told_of(segment: Segment, conversations: Conversations) -> Told:
    """How far it has come, for a stream."""
    response = response_of(segment)
    if segment.done or segment.phase != "thinking" or segment.turn is None:
        return Told(response)
    return Told(response, live_text(segment, conversations))


def live_text(segment: Segment, conversations: Conversations) -> str:
    """The words of the running attempt, as far as they will be the reply: where actions may be
    proposed, or the answer is an object, nobody knows before the end (MAP-3, MAP-6)."""
    profile = conversations.profiles.find(segment.profile)
    if profile is None or profile.actions or segment.turn is None:
        return ""
    state = conversations.reader.state(segment.conversation_id)
    live = conversations.live_text(state) if state and state.turn == segment.turn else None
    if live is None or live[1].lstrip()[:1] in ("", "{"):
        return ""
    return live[1]
