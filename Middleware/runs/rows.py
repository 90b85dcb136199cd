"""Runs and steps as rows of the tables in ``migrations.py``."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import orjson

from Middleware.core.messages import Caller
from Middleware.runs.recorder import StepRecord

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
    "steps",
    "session",
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
    "steps",
)
STEP_COLUMNS: Final = ("run", "position", "started_at", "model", "body")


@cache
def write_runs(count: int) -> str:
    """The statement that writes so many runs; each is added, or changed if it is there."""
    changes = _changes(_CHANGING)
    # The last condition: should another process have given the same number to a run of its own.
    return (
        f"INSERT INTO runs {_values(RUN_COLUMNS, count)}"
        f" ON CONFLICT (number) DO UPDATE SET {changes} WHERE runs.id = excluded.id"
    )


@cache
def write_steps(count: int) -> str:
    """The statement that writes so many steps, in the place of older ones."""
    return (
        f"INSERT INTO steps {_values(STEP_COLUMNS, count)}"
        f" ON CONFLICT (run, position) DO UPDATE SET {_changes(STEP_COLUMNS[2:])}"
    )


def _changes(columns: tuple[str, ...]) -> str:
    return ", ".join(f"{column} = excluded.{column}" for column in columns)


def _values(columns: tuple[str, ...], count: int) -> str:
    row = f"({', '.join('?' * len(columns))})"
    # Quoted: to PostgreSQL, `user` means something else.
    names = ", ".join(f'"{column}"' for column in columns)
    return f"({names}) VALUES {', '.join([row] * count)}"


CUT_STEPS: Final = "DELETE FROM steps WHERE run = ? AND position >= ?"

_LARGEST: Final = (1 << 63) - 1
ENTRY: Final = "_DefaultWorkflow"
_RUN_BYTES: Final = 500
_STEP_BYTES: Final = 50
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


@dataclass(slots=True, kw_only=True)
class RunPlace:
    """What the log knows of a run beside what the run tells itself."""

    number: int
    root: int
    owner: str
    process: str
    first_token_ms: float | None
    steps_bytes: int
    steps: str | None
    """As :func:`steps_text` gives them; None when they have rows of their own."""


def run_row(
    run: Mapping[str, Any], place: RunPlace, started_at: float, sums: Sums
) -> tuple[Row, int]:
    """``run`` is its ``to_dict()`` without steps. The row, and about how many bytes it takes."""
    context = to_json({key: run["context"][key] for key in _CONTEXT_KEYS})
    partial_text = _text(run["partialText"])
    size = _RUN_BYTES + len(context) + len(partial_text)
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
        place.steps,
        _text(run["session"]),
    )
    return row, size


_CONTEXT_KEYS: Final = (
    "workflowRecord",
    "globalVariables",
    "clearConversation",
    "currentStepNodeId",
)


def step_row(number: int, position: int, step: StepRecord, shown: Mapping[str, Any]) -> Row:
    """``shown`` is the step's ``to_dict()``, or what may be written of it."""
    return number, position, step.started_at, step.model, to_json(shown)


def steps_text(rows: Iterable[Row]) -> str:
    """Rows of steps as one text, for a run that has them in its own row."""
    return f"[{','.join(map(_step_text, rows))}]"


def _step_text(row: Row) -> str:
    _, _, started_at, model, body = row
    return f"[{'null' if started_at is None else repr(started_at)},{to_json(model)},{body}]"


def size_of_step(row: Row) -> int:
    """About how many bytes it takes."""
    return _STEP_BYTES + len(row[-1])


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
