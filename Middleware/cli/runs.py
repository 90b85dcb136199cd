"""`runs`: what is in the run log, as a list or one run with its steps."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from Middleware.api.options import ServerOptions
from Middleware.app import build_history
from Middleware.cli.folders import add_databases, add_folders
from Middleware.cli.run_output import name_of
from Middleware.cli.run_trace import details
from Middleware.cli.screen import hanging, in_columns, shortened, width_of
from Middleware.core.arguments import OptionParser
from Middleware.core.errors import ConfigError
from Middleware.runs.errors import UnknownRun
from Middleware.runs.history import History
from Middleware.runs.reader import Query
from Middleware.runs.records import Record

STATUSES = ("running", "succeeded", "failed", "cancelled", "interrupted")
_HEADS = ("STARTED", "RUN", "WORKFLOW", "STATUS", "SECONDS", "TOKENS", "COST", "SESSION")
_NUMBERS = ("SECONDS", "TOKENS", "COST")
_SHOWN_OF_ID = 12
_WIDE = 100
"""Columns from which on a list tells the year."""


def main(arguments: Sequence[str]) -> int:
    """1 when there is no such run."""
    given = _parser().parse_args(arguments)
    history = build_history(
        ServerOptions(
            public_directory=given.public_directory,
            config_directory=given.config_directory,
            workflows_directory=given.workflows_directory,
            users=(given.user,) if given.user else (),
            sqlite_directory=given.sqlite_directory,
            database=given.database,
        )
    )
    try:
        if given.id:
            _show(history.find(_whole_id(history, given.id)), as_json=given.json)
        else:
            _list(history, given)
    finally:
        history.close()
    return 0


def _whole_id(history: History, beginning: str) -> str:
    found = history.ids_like(beginning)
    if not found:
        raise UnknownRun(beginning)
    if beginning not in found and len(found) > 1:
        raise ConfigError(f"Several runs begin with {beginning!r}. Give more of the id.")
    return beginning if beginning in found else found[0]


def _list(history: History, given: argparse.Namespace) -> None:
    listed = history.newest(
        Query(
            workflow=given.workflow,
            status=given.status,
            session=given.session,
            since=given.since,
            limit=given.limit,
            before=given.after,
        )
    )
    if given.json:
        print(json.dumps(listed.to_dict(), ensure_ascii=False, indent=2))
        return
    if not listed.runs:
        print("There are no such runs.")
        return
    for line in _table(listed.runs, width_of(sys.stdout)):
        print(line)
    if listed.next:
        print(f"There are more: --after {listed.next}")


def _table(runs: Sequence[Record], width: int | None) -> Iterator[str]:
    """A line a run, and below it why it failed."""
    wide = width is None or width >= _WIDE
    columns = zip(*(_cells(run, wide) for run in runs), strict=True)
    # What no run has is not worth a column.
    shown = [(head, *cells) for head, cells in zip(_HEADS, columns, strict=True) if any(cells)]
    rows = list(zip(*shown, strict=True))
    head, *lines = in_columns(rows, _NUMBERS, ("SESSION", "WORKFLOW"), width)
    yield head
    for run, line in zip(runs, lines, strict=True):
        yield line
        if run["status"] == "failed" and run["error"]:
            error = f"  ! {' '.join(run['error'].split())}"
            yield error if width is None else shortened(error, width)


def _cells(run: Record, wide: bool) -> tuple[str, ...]:
    started = _local(run["startedAt"])
    return (
        started if wide else started[len("2026-") :],
        run["id"][:_SHOWN_OF_ID],
        shortened(name_of(run), 40),
        run["status"],
        _seconds(run["durationMs"]),
        str(run["tokens"]["total"]) if run["tokens"] else "",
        f"{run['cost']:.6g}" if run["cost"] is not None else "",
        shortened(run["session"] or "", 40),
    )


def _show(run: Record, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(run, ensure_ascii=False, indent=2))
        return
    print(f"run      {run['id']}")
    print(f"started  {_local(run['startedAt'])} by {run['user'] or '?'} through {run['door']}")
    if run["session"]:
        print(f"session  {run['session']}")
    for line in _story(run, width_of(sys.stdout)):
        print(line.rstrip())


def _story(run: Record, width: int | None) -> Iterator[str]:
    """The run and, further in, what it started."""
    yield f"> {name_of(run)}"
    for line in _steps(run, width and width - 2):
        yield f"  {line}"
    seconds = _seconds(run["durationMs"])
    cost = f", cost {run['cost']:.6g}" if run["cost"] is not None else ""
    yield f"< {name_of(run)} {run['status']}{f', {seconds} s' if seconds else ''}{cost}"
    if run["error"]:
        yield from hanging("  ! ", run["error"], width)


def _steps(run: Record, width: int | None) -> Iterator[str]:
    children = {child["id"]: child for child in run["children"]}
    steps: list[dict[str, Any]] = run["context"]["steps"]
    for place, moment in enumerate(run["timeline"]):
        child = children.get(moment["childRunId"] or "")
        if child is not None:
            yield from _story(child, width)
        title = moment["title"] or moment["nodeName"]
        told = [moment["type"], moment["endpoint"] and f"on {moment['endpoint']}"]
        what = " ".join(filter(None, told)) or moment["status"]
        seconds = _seconds(moment["durationMs"])
        yield f"{title} ({what}{f', {seconds} s' if seconds else ''})"
        if moment["error"]:
            yield from hanging("  ! ", moment["error"], width)
        if place < len(steps):
            yield from (f"  {line}" for line in details(steps[place], width and width - 2))


def _seconds(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f"{milliseconds / 1000:.2f}"


def _local(moment: str) -> str:
    """As the clock on the wall showed it."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"


def _moment(text: str) -> float:
    try:
        # Without a zone it is the time of this place.
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise argparse.ArgumentTypeError("must be a time like 2026-01-31T09:00") from None


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= 10_000):
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 10000")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="python3 start.py runs",
        description="List what has run, newest first, or show one run with all its steps.",
    )
    add = parser.add_argument
    add("id", nargs="?", metavar="RUN", help="the id of a run, or its beginning")
    add("--workflow", metavar="NAME", help="only runs of this workflow, sub-workflows included")
    add("--status", choices=STATUSES, help="only runs that came to this")
    add("--session", metavar="ID", help="only runs of this session of a coding agent")
    add("--since", type=_moment, metavar="TIME", help="only runs that began then or later")
    add("--limit", type=_limit, default=20, metavar="N", help="how many (20)")
    add("--after", type=int, metavar="N", help="go on where a list ended")
    add("--json", action="store_true", help="as the API gives it")
    add("--User", dest="user", metavar="NAME", help="whose configuration")
    add_folders(parser)
    add_databases(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
