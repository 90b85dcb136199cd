"""Runs and steps as rows of the tables in ``migrations.py``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from Middleware.core.messages import Caller

Row = tuple[Any, ...]

RUN_COLUMNS: Final = (
    "number",
    "id",
    "parent_id",
    "root",
    "owner",
    "user",
    "name",
    "workflow",
    "folder",
    "status",
    "door",
    "request_id",
    "started_at",
    "duration_ms",
    "first_token_ms",
    "prompt_tokens",
    "completion_tokens",
    "estimated",
    "cost",
    "process",
    "bytes",
    "error",
    "partial_text",
    "context",
)
_CHANGING: Final = (
    "status",
    "duration_ms",
    "first_token_ms",
    "prompt_tokens",
    "completion_tokens",
    "estimated",
    "cost",
    "bytes",
    "error",
    "partial_text",
    "context",
)
STEP_COLUMNS: Final = (
    "run",
    "position",
    "node",
    "type",
    "title",
    "started_at",
    "duration_ms",
    "first_token_ms",
    "endpoint",
    "model",
    "prompt_tokens",
    "completion_tokens",
    "estimated",
    "cost",
    "child_id",
    "error",
    "body",
)


def _marks(columns: tuple[str, ...]) -> str:
    return f"({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


WRITE_RUN: Final = (
    f"INSERT INTO runs {_marks(RUN_COLUMNS)} ON CONFLICT (number) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in _CHANGING)
    # Should another process have given the same number to a run of its own.
    + " WHERE id = excluded.id"
)
WRITE_STEP: Final = f"INSERT OR REPLACE INTO steps {_marks(STEP_COLUMNS)}"
CUT_STEPS: Final = "DELETE FROM steps WHERE run = ? AND position >= ?"

_LARGEST: Final = (1 << 63) - 1
ENTRY: Final = "_DefaultWorkflow"
_ROW_BYTES: Final = 300
"""About what a row takes beside its long texts, its places in the indexes included."""


@dataclass(slots=True)
class Sums:
    """Tokens and cost of several calls."""

    prompt: int = 0
    completion: int = 0
    estimated: bool = False
    cost: float | None = None
    calls: int = 0

    def add_tokens(self, tokens: Mapping[str, Any] | None, cost: float | None) -> None:
        """``tokens`` as a run or a step shows them."""
        if tokens:
            self.calls += 1
            self.prompt += tokens["prompt"]
            self.completion += tokens["completion"]
            self.estimated = self.estimated or tokens["estimated"]
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def add(self, other: "Sums") -> None:
        self.calls += other.calls
        self.prompt += other.prompt
        self.completion += other.completion
        self.estimated = self.estimated or other.estimated
        if other.cost is not None:
            self.cost = (self.cost or 0.0) + other.cost

    def columns(self) -> Row:
        """Nothing is known where nothing was called."""
        if not self.calls:
            return None, None, None, self.cost
        return self.prompt, self.completion, int(self.estimated), self.cost


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """What the log knows of a run beside what the run tells itself."""

    number: int
    root: int
    owner: str
    process: str
    first_token_ms: float | None
    steps_bytes: int


def run_row(
    run: Mapping[str, Any], place: RunPlace, started_at: float, sums: Sums
) -> tuple[Row, int]:
    """``run`` is its ``to_dict()`` without steps. The row, and about how many bytes it takes."""
    context = to_json({key: run["context"][key] for key in _CONTEXT_KEYS})
    partial_text = _text(run["partialText"])
    size = _ROW_BYTES + len(context) + len(partial_text)
    row = (
        place.number,
        run["id"],
        run["parentId"],
        place.root,
        place.owner,
        run["user"],
        called(run["workflow"], run["folder"]),
        run["workflow"],
        run["folder"],
        run["status"],
        run["door"],
        run["requestId"],
        started_at,
        run["durationMs"],
        place.first_token_ms,
        *sums.columns(),
        place.process,
        size + place.steps_bytes,
        _text(run["error"]),
        partial_text,
        context,
    )
    return row, size


_CONTEXT_KEYS: Final = (
    "workflowRecord",
    "globalVariables",
    "clearConversation",
    "currentStepNodeId",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlace:
    """What the log knows of a step beside what the step tells itself."""

    run: int
    position: int
    started_at: float | None
    model: str | None


def step_row(step: Mapping[str, Any], place: StepPlace) -> tuple[Row, int]:
    """``step`` is its ``to_dict()``. The row, and about how many bytes it takes."""
    meta = step["meta"]
    tokens = meta.get("tokens") or _NO_TOKENS
    body = to_json(step)
    row = (
        place.run,
        place.position,
        step["nodeName"],
        meta["module_type"],
        _text(meta.get("title")),
        place.started_at,
        step["processingTimeMs"],
        meta.get("firstTokenMs"),
        meta.get("endpoint"),
        place.model,
        tokens["prompt"],
        tokens["completion"],
        tokens["estimated"],
        step["cost"],
        meta.get("childRunId"),
        _text(meta.get("error")),
        body,
    )
    return row, _ROW_BYTES + len(body)


_NO_TOKENS: Final[Mapping[str, Any]] = {"prompt": None, "completion": None, "estimated": None}


def first_number(started_at: float) -> int:
    """The smallest number of a run that began at that time."""
    return min(int(max(started_at, 0.0) * 1_000_000) << 10, _LARGEST)


def called(workflow: str, folder: str) -> str:
    """What clients call a workflow: shared ones are known by their folder."""
    return folder.rpartition("/")[2] if workflow == ENTRY and folder else workflow


def owner_of(caller: Caller | None, user: str) -> str:
    """Whose run it is: an authenticated user is user file + key name (decisions §8). A run that
    nobody's key started belongs to the user file."""
    return f"{caller.user}/{caller.key_name}" if caller and caller.user else f"{user}/"


def to_json(value: Any) -> str:
    """JSON of anything: what JSON cannot say becomes text."""
    try:
        return orjson.dumps(value, default=_plain).decode()
    except (TypeError, ValueError, RuntimeError):
        pass
    try:
        # Keys that are no text, numbers of any size, halves of characters.
        return json.dumps(_sane(value), default=str)
    except (TypeError, ValueError, RuntimeError):
        # An object that a node changes while we look at it, or one that cannot say what it is.
        return json.dumps("[not recordable]")


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _sane(value: Any, depth: int = 0) -> Any:
    if depth > 100:
        return "[too deep]"
    if isinstance(value, Mapping):
        return {_text(str(key)): _sane(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_sane(one, depth + 1) for one in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return _text(value) if isinstance(value, str) else value


def _text(text: Any) -> Any:
    """SQLite takes no halves of characters."""
    if not isinstance(text, str) or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")
