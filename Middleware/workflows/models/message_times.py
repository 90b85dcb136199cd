"""The times of a conversation's messages, as one request knows and notes them.

One object a request owns the waiting reply (memory-and-state S40): the first run that has a node
with times settles the one before, whichever run answers begins the next.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from Middleware.core.clock import Clock
from Middleware.core.messages import Message
from Middleware.memory import timestamps
from Middleware.storage.discussions import DiscussionFolder

logger = logging.getLogger(__name__)


class MessageTimes:
    """Made for every request; costs nothing as long as no node asks for times."""

    __slots__ = ("_committed", "_lock", "_stored", "_tracked")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tracked = False
        self._committed = False
        self._stored: dict[str, Any] = {}

    def track(self, folder: DiscussionFolder, messages: Sequence[Message], clock: Clock) -> None:
        """Before the first node of a run with times: note what is new. Once a request."""
        with self._lock:
            if not self._tracked:
                now = clock.now()
                self._change(folder, lambda stored: timestamps.track(messages, stored, now))
                self._tracked = True

    def stamped(
        self, messages: Sequence[Message], relative_to: datetime | None
    ) -> tuple[Message, ...]:
        """The messages with their times in front."""
        return timestamps.with_times(messages, self._stored, relative_to)

    def reply_begins(self, folder: DiscussionFolder, clock: Clock) -> None:
        """The time of the answer is that of its beginning."""
        now = clock.now()
        with self._lock:
            self._change(folder, lambda stored: timestamps.wait_for_reply(stored, now))

    def reply_ended(
        self,
        folder: DiscussionFolder,
        messages: Sequence[Message],
        reply: Message,
        clock: Clock,
    ) -> None:
        """Of a group chat: the next request may come before the client sends the reply back."""
        now = clock.now()
        with self._lock:
            if not self._committed:
                self._committed = True
                self._change(folder, lambda stored: timestamps.commit(messages, reply, stored, now))

    def _change(self, folder: DiscussionFolder, change: Callable[[dict[str, Any]], None]) -> None:
        with folder.locks.hold(folder.path):
            before = folder.read_object(timestamps.FILE)
            after = dict(before)
            change(after)
            self._stored = after
            if after == before:
                return
            try:
                folder.write(timestamps.FILE, after)
            except OSError as error:
                # The answer matters more than its time.
                logger.error("times of messages could not be stored: %s", error)
