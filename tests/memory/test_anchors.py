from dataclasses import dataclass

import pytest

from Middleware.core.messages import Message, ToolCall
from Middleware.memory.anchors import anchor_hash, messages_after


def talk(texts: str) -> list[Message]:
    """One message a letter."""
    return [Message("user", letter) for letter in texts]


@dataclass(frozen=True)
class Case:
    id: str
    texts: str
    done: str
    """The last messages of finished blocks of three."""
    expected: str
    lookback: int = 2


CASES = [
    Case("nothing was processed", "abcdefg", "", "abcde"),
    Case("one block was", "abcdefgh", "c", "def"),
    Case("two blocks were", "abcdefghij", "cf", "gh"),
    Case("everything was", "abcdefgh", "cf", ""),
    Case("the boundary has slid by one", "abcdefg", "f", ""),
    Case("the boundary itself was the last", "abcde", "c", ""),
    Case("only the newest of them is needed", "efghijk", "zf", "ghi"),
    Case("the newest was edited away, the one before is found", "abcdeXghij", "cf", "deXgh"),
    Case("none is found again", "uvwxyz", "cf", "uvwx"),
    Case("fewer messages than are left alone", "ab", "", "", 4),
    Case("nothing is left alone", "abcd", "c", "d", 0),
    Case("a word that is said again hides nothing", "abokcdoxy", "o", "kcdo", 2),
    Case("neighbours tell which of two it is", "xyoabokcdoxyz", "oo", "kcdox"),
    Case("a history that lost its beginning", "oxyz", "aao", "x"),
    Case("where neighbours tell more than the place", "bAxyopoqrst", "Ao", "poqr"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES])
def test_what_is_new(case: Case) -> None:
    done = [anchor_hash(message) for message in talk(case.done)]

    fresh = messages_after(talk(case.texts), done, case.lookback, 3)

    assert "".join(message.content for message in fresh) == case.expected


def test_a_tool_call_is_told_from_another() -> None:
    one, other = (
        Message("assistant", tool_calls=(ToolCall(id=name, name="f", arguments="{}"),))
        for name in "ab"
    )
    messages = [*talk("ab"), one, *talk("cd"), other, *talk("ef")]

    fresh = messages_after(messages, [anchor_hash(one)], 2, 3)

    assert list(fresh) == [*talk("cd"), other]
