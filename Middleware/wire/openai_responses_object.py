"""The response object of the Responses interface, its output items, and lists of items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from Middleware.core.errors import BackendRejected, MalformedRequest, MiddlewareError
from Middleware.core.events import FinishReason, Reply, Usage
from Middleware.core.messages import ToolCall
from Middleware.wire.openai_responses_request import ResponsesRequest
from Middleware.wire.openai_responses_tools import ToolNames

Status: TypeAlias = Literal[
    "queued", "in_progress", "completed", "incomplete", "failed", "cancelled"
]

INCOMPLETE_REASONS: Final[Mapping[FinishReason, str]] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
}
"""Finish reasons that leave an answer incomplete."""

_OMITTED: Final[Mapping[str, Any]] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "background": False,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""What a field means that the request left out."""

_CONTEXT_WORDS: Final = (
    "context length",
    "context_length",
    "context window",
    "context size",
    "prompt is too long",
)
_LONGEST_PAGE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    """What all forms of one response share."""

    id: str
    """``resp_`` and what makes it unique."""
    created_at: int
    """Seconds since 1970."""
    model: str
    asked: ResponsesRequest
    conversation: str | None = None
    """The id of the conversation that it became part of."""

    @property
    def stem(self) -> str:
        """What the ids of its items are made of."""
        return self.id.removeprefix("resp_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How far a response has come."""

    status: Status = "in_progress"
    output: Sequence[Mapping[str, Any]] = ()
    usage: Usage | None = None
    error: MiddlewareError | None = None
    reason: str | None = None
    """Why it is incomplete."""


def encode_response(head: ResponseHead, outcome: Outcome) -> dict[str, Any]:
    """The response object. What the request said is told again."""
    error, usage = outcome.error, outcome.usage
    conversation = head.conversation or head.asked.conversation
    return {
        "id": head.id,
        "object": "response",
        "created_at": head.created_at,
        "status": outcome.status,
        "error": None if error is None else encode_failure(error),
        "incomplete_details": None if outcome.reason is None else {"reason": outcome.reason},
        "model": head.model,
        "output": list(outcome.output),
        "usage": None if usage is None else encode_usage(usage),
        "conversation": None if conversation is None else {"id": conversation},
        **_OMITTED,
        **head.asked.repeated,
    }


def outcome_of(reply: Reply, head: ResponseHead) -> Outcome:
    """How a response stands whose answer came whole."""
    reason = INCOMPLETE_REASONS.get(reply.finish_reason)
    output = output_items(reply, head.stem, head.asked.names)
    if reason is not None:
        output[-1]["status"] = "incomplete"
    return Outcome(
        status="completed" if reason is None else "incomplete",
        output=output,
        usage=reply.usage,
        reason=reason,
    )


def output_items(reply: Reply, stem: str, names: ToolNames) -> list[dict[str, Any]]:
    """The items of an answer; at least one, for clients that read the first without looking."""
    items: list[dict[str, Any]] = []
    if reply.reasoning:
        items.append(reasoning_item(f"rs_{stem}_0", reply.reasoning))
    if reply.text or not reply.tool_calls:
        items.append(message_item(f"msg_{stem}_{len(items)}", reply.text))
    for call in reply.tool_calls:
        items.append(call_item(f"fc_{stem}_{len(items)}", call, names))
    return items


def message_item(id: str, text: str, status: str = "completed") -> dict[str, Any]:
    return {
        "id": id,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [text_part(text)],
    }


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def reasoning_item(id: str, text: str, status: str = "completed") -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}]
    return {"id": id, "type": "reasoning", "summary": summary, "status": status}


def call_item(
    id: str, call: ToolCall, names: ToolNames, status: str = "completed"
) -> dict[str, Any]:
    """A tool call under the names that the client knows. Without arguments it gets an object."""
    arguments = call.arguments
    if status == "completed" and not arguments.strip():
        arguments = "{}"
    return {
        "id": id,
        "type": "function_call",
        "status": status,
        "arguments": arguments,
        "call_id": call.id,
        **names.parted(call.name),
    }


def encode_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def encode_failure(error: MiddlewareError) -> dict[str, str]:
    """The error of a failed response. Codex goes by the code: ``rate_limit_exceeded`` and
    ``server_error`` are tried again, the others are final (clients §2.4).
    """
    return {"code": failure_code(error), "message": error.message}


def failure_code(error: MiddlewareError) -> str:
    if isinstance(error, BackendRejected) and error.status in (400, 413, 422):
        said = error.text.lower()
        if error.status == 413 or any(words in said for words in _CONTEXT_WORDS):
            return "context_length_exceeded"
    if error.status == 429:
        return "rate_limit_exceeded"
    if error.status < 500 or error.should_retry is False:
        return "invalid_prompt"
    return "server_is_overloaded" if error.status == 503 else "server_error"


def encode_deleted(id: str) -> dict[str, Any]:
    return {"id": id, "object": "response", "deleted": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of a list is wanted."""

    after: str | None = None
    limit: int = 20
    newest_first: bool = True


def parse_page(query: Mapping[str, str]) -> Page:
    """The query of a list; raises MalformedRequest."""
    order = query.get("order") or "desc"
    if order not in ("asc", "desc"):
        raise MalformedRequest("order", "must be `asc` or `desc`")
    limit = query.get("limit") or "20"
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit) <= _LONGEST_PAGE:
        raise MalformedRequest("limit", f"must be a number from 1 to {_LONGEST_PAGE}")
    return Page(after=query.get("after") or None, limit=int(limit), newest_first=order == "desc")


def encode_items(items: Sequence[Mapping[str, Any]], page: Page) -> dict[str, Any]:
    """One page of items that are given oldest first; raises MalformedRequest when the page is to
    begin after an item that is none of them.
    """
    ordered = list(reversed(items)) if page.newest_first else list(items)
    start = 0
    if page.after is not None:
        places = [index for index, item in enumerate(ordered) if item.get("id") == page.after]
        if not places:
            raise MalformedRequest("after", "names no item of this list")
        start = places[0] + 1
    shown = ordered[start : start + page.limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0].get("id") if shown else None,
        "last_id": shown[-1].get("id") if shown else None,
        "has_more": start + page.limit < len(ordered),
    }
