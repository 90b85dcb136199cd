"""A configuration tree in a temporary folder, and a clock that goes when it is told to."""

import json
import os
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from Middleware.config.store import ConfigStore, Locations


class MovableClock:
    """Starts at the real time, because files carry it, and then moves only by hand."""

    def __init__(self) -> None:
        self.seconds = time.time()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds)

    def timestamp(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def new_id(self) -> str:
        return "0" * 32

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class Tree:
    """``Configs`` and ``Workflows`` below ``root``; files are written as of the clock's time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = MovableClock()
        self.configs = root / "Public" / "Configs"
        self.workflows = self.configs / "Workflows"
        self.workflows.mkdir(parents=True)

    def path(self, file: str) -> Path:
        return self.configs / file

    def write(self, file: str, content: Any) -> Path:
        """Text and bytes as they are, anything else as JSON."""
        path = self.path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(text, encoding="utf-8")
        for touched in (path, path.parent):
            os.utime(touched, (self.clock.seconds, self.clock.seconds))
        return path

    def store(self, users: Sequence[str] = ("bob",)) -> ConfigStore:
        locations = Locations.find(self.root, configs=str(self.configs))
        return ConfigStore(locations, tuple(users), clock=self.clock)


USER = {
    "chatCompleteAddUserAssistant": False,
    "chatCompletionAddMissingAssistantGenerator": False,
}
API_TYPE = {
    "type": "openAIChatCompletion",
    "presetType": "Chat",
    "maxNewTokensPropertyName": "max_tokens",
}
ENDPOINT = {"endpoint": "http://127.0.0.1:1", "apiTypeConfigFileName": "Chat"}
