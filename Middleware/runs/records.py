"""Rows as the records that the API and the terminal show (decisions §7)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from Middleware.runs.reader import StoredStep

Record: TypeAlias = dict[str, Any]
Row: TypeAlias = Mapping[str, Any]


def summary(row: Row) -> Record:
    """A run as lists show it. Tokens and cost are those of its sub-workflows too."""
    return {
        "id": row["id"],
        "parentId": row["parent_id"],
        "workflow": row["workflow"],
        "folder": row["folder"],
        "door": row["door"],
        "user": row["user"],
        "session": row["session"],
        "status": row["status"],
        "startedAt": iso(row["started_at"]),
        "durationMs": row["duration_ms"],
        "tokens": _tokens(row),
        "cost": row["cost"],
        "error": row["error"],
    }


def run_record(row: Row, steps: Sequence[StoredStep]) -> Record:
    """A whole run; its ``children`` are for the caller to fill."""
    context: Record = json.loads(row["context"])
    return {
        **summary(row),
        "requestId": row["request_id"],
        "firstTokenMs": row["first_token_ms"],
        "partialText": row["partial_text"],
        "context": {
            **context,
            "error": row["error"],
            "steps": [stored.step for stored in steps],
        },
        "timeline": [_moment(stored) for stored in steps],
        "children": [],
    }


def open_moment(node: str, status: str, started_at: float | None = None) -> Record:
    """A node that has not finished, or never will."""
    return {
        "nodeName": node,
        "type": None,
        "title": None,
        "status": status,
        "startedAt": iso(started_at),
        "finishedAt": None,
        "durationMs": None,
        "firstTokenMs": None,
        "endpoint": None,
        "model": None,
        "tokens": None,
        "cost": None,
        "childRunId": None,
        "error": None,
    }


def nest(records: Iterable[Record]) -> dict[str, Record]:
    """Put each record among the children of its parent; all of them by their id."""
    by_id = {record["id"]: record for record in records}
    for record in by_id.values():
        parent = by_id.get(record["parentId"])
        if parent is not None:
            parent["children"].append(record)
    return by_id


def iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _moment(stored: StoredStep) -> Record:
    step = stored.step
    started, duration = stored.started_at, step["processingTimeMs"]
    ended = None if started is None or duration is None else started + duration / 1000
    meta = step["meta"]
    return {
        "nodeName": step["nodeName"],
        "type": meta["module_type"],
        "title": meta.get("title"),
        "status": "failed" if "error" in meta else "succeeded",
        "startedAt": iso(started),
        "finishedAt": iso(ended),
        "durationMs": duration,
        "firstTokenMs": meta.get("firstTokenMs"),
        "endpoint": meta.get("endpoint"),
        "model": stored.model,
        "tokens": meta.get("tokens"),
        "cost": step["cost"],
        "childRunId": meta.get("childRunId"),
        "error": meta.get("error"),
    }


def _tokens(row: Row) -> Record | None:
    if row["prompt_tokens"] is None:
        return None
    return {
        "prompt": row["prompt_tokens"],
        "completion": row["completion_tokens"],
        "total": row["prompt_tokens"] + row["completion_tokens"],
        "estimated": bool(row["estimated"]),
    }
