"""Finding the place in a conversation up to which it was processed (memory-and-state §7, S4).

Only hashes of the last messages of finished blocks are kept. A hash alone does not tell one "ok"
from another, so the neighbours have to fit as well: blocks are of one size, and their ends stand
at that distance from each other.
"""

import json
from collections.abc import Sequence

from Middleware.core.messages import Message
from Middleware.memory.hashing import is_blank, message_hash, message_hashes, text_hash


def anchor_hash(message: Message) -> str:
    """The message's hash; of one that says nothing, that of its tool calls."""
    if not is_blank(message):
        return message_hash(message)
    calls = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    return text_hash(json.dumps([message.role, message.tool_call_id, calls]))


def messages_after(
    messages: Sequence[Message], done: Sequence[str], lookback: int, size: int
) -> Sequence[Message]:
    """The messages that are neither processed nor among the newest ``lookback``, oldest first.

    ``done`` are the hashes of the ends of blocks of ``size``, oldest first. When none of them is
    found again, everything is new.
    """
    end = max(0, len(messages) - lookback)
    place = _last_end(messages[: end + 1], done, size)
    return messages[place + 1 : end] if place is not None else messages[:end]


def _last_end(messages: Sequence[Message], done: Sequence[str], size: int) -> int | None:
    """Where the newest finished block ends."""
    hashes = [_anchors(message) for message in messages]
    for number in range(len(done) - 1, -1, -1):
        places = [place for place, known in enumerate(hashes) if done[number] in known]
        if not places:
            continue
        # Where the blocks began at the first message, this block's end stands here.
        expected = (number + 1) * size - 1
        return max(
            places,
            key=lambda place: (
                _fitting(hashes, done, number, place, size),
                -abs(place - expected),
                place,
            ),
        )
    return None


def _fitting(
    hashes: Sequence[frozenset[str]], done: Sequence[str], number: int, place: int, size: int
) -> int:
    """How many of the earlier ends stand where they should if block ``number`` ends here."""
    count = 0
    while number > 0 and place >= size:
        number, place = number - 1, place - size
        if done[number] not in hashes[place]:
            break
        count += 1
    return count


def _anchors(message: Message) -> frozenset[str]:
    return frozenset((anchor_hash(message),)) if is_blank(message) else message_hashes(message)
