"""Group chats: who speaks (workflow-engine §11, front-doors §10).

A front end asks for one speaker by ending the conversation with a cue such as ``Roland:``. If the
cleaned answer does not name a speaker itself, the cue and a space are put in front of it.

One rule, streamed and whole (workflow-engine S18): an answer names a speaker if a ``:`` stands
among its first ``len(cue) + 10`` characters, other than as the very first. So names of several
words are seen, and an answer passes as soon as the question is settled. An empty answer becomes the
cue and a space, unless it called a tool.
"""

from collections.abc import Sequence

from Middleware.core.messages import Message
from Middleware.memory.timestamps import generation_prompt

_ROOM_FOR_A_NAME = 10


def speaker_cue(messages: Sequence[Message]) -> str | None:
    """The last message, trimmed, if it is 1 to 99 characters long and ends with a colon."""
    return generation_prompt(messages)


class SpeakerFilter:
    """Puts the cue in front of an answer that names no speaker."""

    __slots__ = ("_called_tool", "_cue", "_held", "_reach", "done")

    def __init__(self, cue: str) -> None:
        self._cue = cue
        self._reach = len(cue) + _ROOM_FOR_A_NAME
        self._held = ""
        self._called_tool = False
        self.done = False

    def feed(self, text: str) -> str:
        self._held += text
        if self._names_speaker() or len(self._held) >= self._reach:
            return self._release()
        return ""

    def before_tool_call(self) -> str:
        self._called_tool = True
        return self._release() if self._held else ""

    def end(self) -> str:
        if self._called_tool and not self._held:
            self.done = True
            return ""
        return self._release()

    def _names_speaker(self) -> bool:
        return self._held.find(":", 1, self._reach) > 0

    def _release(self) -> str:
        self.done = True
        text = self._held if self._names_speaker() else f"{self._cue} {self._held}"
        self._held = ""
        return text
