"""What `conversation` prints: text for people, or JSON lines for programs."""

import json
from collections.abc import Mapping
from typing import Any, Protocol, TextIO


class Output(Protocol):
    def started(self, conversation_id: str, generation: int, *, resumed: bool) -> None: ...

    def accepted(self, sequence: int, text: str, generation: int) -> None: ...

    def proposal(self, proposal: Mapping[str, Any], generation: int) -> None: ...

    def decided(self, proposal_id: str, generation: int, *, approved: bool) -> None: ...

    def reply(self, turn: Mapping[str, Any]) -> None: ...

    def continued(self, generation: int) -> None: ...

    def ended(self, status: Mapping[str, Any]) -> None: ...


class JsonOutput:
    """One object a line; nothing else on the same stream (decisions §7)."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def _say(self, type_: str, **data: Any) -> None:
        self._out.write(json.dumps({"type": type_, **data}, ensure_ascii=False) + "\n")
        self._out.flush()

    def started(self, conversation_id: str, generation: int, *, resumed: bool) -> None:
        self._say(
            "conversation_started",
            conversation_id=conversation_id,
            generation=generation,
            resumed=resumed,
        )

    def accepted(self, sequence: int, text: str, generation: int) -> None:
        self._say("message_accepted", sequence=sequence, text=text, generation=generation)

    def proposal(self, proposal: Mapping[str, Any], generation: int) -> None:
        names = ("id", "action", "arguments", "turn")
        shown = {name: proposal[name] for name in names}
        self._say("proposal", **shown, generation=generation)

    def decided(self, proposal_id: str, generation: int, *, approved: bool) -> None:
        self._say("decision", proposalId=proposal_id, approved=approved, generation=generation)

    def reply(self, turn: Mapping[str, Any]) -> None:
        self._say(
            "reply",
            turn=turn["turn"],
            generation=turn["generation"],
            text=turn["reply"],
            outcome=turn["outcome"],
            reference=turn["reference"],
        )

    def continued(self, generation: int) -> None:
        self._say("continued", generation=generation)

    def ended(self, status: Mapping[str, Any]) -> None:
        self._say(
            "ended",
            turn_count=status["turn_count"],
            generation=status["generation"],
            reason=status["closed_reason"],
        )


class TextOutput:
    def __init__(self, out: TextIO) -> None:
        self._out = out

    def _say(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()

    def started(self, conversation_id: str, generation: int, *, resumed: bool) -> None:
        how = f"goes on in generation {generation}" if resumed else "has begun"
        self._say(f"Conversation {conversation_id} {how}. `/end` ends it.")

    def accepted(self, sequence: int, text: str, generation: int) -> None:
        self._say(f"> {text}")

    def proposal(self, proposal: Mapping[str, Any], generation: int) -> None:
        arguments = json.dumps(proposal["arguments"], ensure_ascii=False)
        self._say(f"Proposal of turn {proposal['turn']}: {proposal['action']} {arguments}")

    def decided(self, proposal_id: str, generation: int, *, approved: bool) -> None:
        self._say("Approved." if approved else "Declined.")

    def reply(self, turn: Mapping[str, Any]) -> None:
        text = turn["reply"] if turn["reply"] is not None else "(the reply is not kept any more)"
        self._say(f"[turn {turn['turn']}, generation {turn['generation']}] {text}")

    def continued(self, generation: int) -> None:
        self._say(f"Generation {generation} begins.")

    def ended(self, status: Mapping[str, Any]) -> None:
        self._say(
            f"Ended ({status['closed_reason']}): {status['turn_count']} turns, "
            f"{status['generation']} generations."
        )
