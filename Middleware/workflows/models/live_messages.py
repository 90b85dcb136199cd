"""The conversation of a run, and how a node adds to it (nodes §14, workflow-engine S14).

Messages are values and lists of them tuples: nobody edits a list that another run looks at. A
node says what it wants inserted, and the run it belongs to takes a new list from then on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from Middleware.core.messages import Message


@dataclass(frozen=True, slots=True)
class MessagesInserted:
    """Pairs of a place and a message. The message goes in front of what stands at that place in
    the list before any of them is inserted; the length of the list means its end."""

    insertions: tuple[tuple[int, Message], ...]

    def into(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        result = list(messages)
        # From the end, so that earlier places stay what they are; of one place in order.
        for place, message in reversed(sorted(self.insertions, key=lambda pair: pair[0])):
            result.insert(place, message)
        return tuple(result)


class LiveMessages:
    """One a run and the sub-workflows that work on the same conversation."""

    __slots__ = ("messages",)

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages

    def apply(self, inserted: MessagesInserted | None) -> None:
        """Nodes that start from now on see the new list."""
        if inserted is not None and inserted.insertions:
            self.messages = inserted.into(self.messages)
