"""What every step of the cleaning of an answer can do, and how a stream is given back."""

from collections.abc import Iterator
from typing import Protocol

from Middleware.core.events import Event


class TextFilter(Protocol):
    """Changes the text of one answer while it arrives. Belongs to one answer.

    The text that comes out in all is the same however the text that goes in was cut. After
    ``done`` everything passes unchanged, and nobody need call any more.
    """

    done: bool

    def feed(self, text: str) -> str:
        """What may go on now that ``text`` has arrived; what is undecided is held."""
        ...

    def before_tool_call(self) -> str:
        """What must go on before a tool call does. Held text is decided as at the end; a filter
        that holds nothing that can be seen stays as it is, so that text after the call is treated
        as the beginning that it is.
        """
        ...

    def end(self) -> str:
        """What is left to say now that no text follows."""
        ...


def close(events: Iterator[Event]) -> None:
    """Tell whoever makes the events that nobody reads on: a model call stops there and then,
    not when the garbage is collected.
    """
    stop = getattr(events, "close", None)
    if stop is not None:
        stop()
