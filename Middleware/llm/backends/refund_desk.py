"""The fake model of durable conversations: a pure function, without clock, chance or state.

A text that asks for a refund gets a reply and a proposed action, any other a reply alone. It
serves the script ``refund-desk`` of scripted endpoints and conversations without a workflow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SUMMARY_CHARS = 400
ACTION = "refund"


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeReply:
    reply: str
    action: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    replies: Mapping[str, str] = field(default_factory=dict)
    """Texts for ``approved``, ``declined`` and ``timed_out``."""
    summary: str = ""


def refund_desk(text: str, turn: int, summary: str = "") -> FakeReply:
    """``summary`` is what earlier turns gave; the oldest of it falls out first."""
    line = f"Turn {turn}: {text}"
    kept = f"{summary}\n{line}" if summary else line
    kept = kept[-SUMMARY_CHARS:]
    if ACTION not in text.lower():
        return FakeReply(reply=f"Turn {turn}: you said {text!r}.", summary=kept)
    return FakeReply(
        reply=f"Turn {turn}: a refund was proposed for {text!r}.",
        action=ACTION,
        arguments={"request": text},
        replies={
            "approved": f"Turn {turn}: the refund was approved and issued for {text!r}.",
            "declined": f"Turn {turn}: the refund was declined for {text!r}.",
            "timed_out": f"Turn {turn}: nobody decided about the refund for {text!r} in time.",
        },
        summary=kept,
    )
