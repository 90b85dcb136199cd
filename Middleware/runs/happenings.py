"""What happens in a run, as events for whoever looks on: while it runs, or told again afterwards.

Events are pairs of a name (``step_started``, ``delta``, ``step_finished``, ``run_finished``) and
JSON values. Sub-workflows are part of the story: each event names the run it belongs to.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from Middleware.runs.live import Moment, Trace
from Middleware.runs.recorder import RunRecord, Said
from Middleware.runs.records import Record, iso
from Middleware.runs.redaction import is_redacted, redacted_step

Happened: TypeAlias = tuple[str, Record]


class Watching:
    """Follows one run of a trace. Asked for news again and again, by one thread."""

    def __init__(self, trace: Trace, run: RunRecord) -> None:
        self._trace = trace
        self._run = run
        self._read = 0
        self._inside: dict[str, RunRecord] = {}
        """The run and what it started, by id."""
        self._echoes: set[str] = set()
        """Runs whose answer is what a sub-workflow of theirs says."""
        self._shown: dict[str, tuple[Said, int]] = {}
        self.over = False
        """Whether the run has finished. ``run_finished`` is the caller's to tell."""

    def news(self) -> list[Happened]:
        """Everything since the last time."""
        # Words first: if some came from a sub-workflow, its start is among the moments by now.
        said = {run.id: _length(run) for run in self._inside.values()}
        moments = self._trace.moments[self._read :]
        self._read += len(moments)
        news: list[Happened] = []
        for moment in moments:
            news.extend(self._tell(moment))
            if self.over:
                return news
        for run_id, until in said.items():
            if run_id in self._inside:
                news.extend(self._words(self._inside[run_id], until))
        return news

    def _tell(self, moment: Moment) -> Iterator[Happened]:
        happening, run, what, at = moment
        if happening == "run_started":
            self._enter(run)
        if run.id not in self._inside:
            return
        if happening == "step_started":
            yield happening, {**_whose(run), "nodeName": what, "startedAt": iso(at)}
        elif happening == "step_finished":
            step = redacted_step(what.to_dict()) if run.private else what.to_dict()
            if what.node_name == run.answering:
                yield from self._words(run, None)
            else:
                yield from _in_one_piece(_whose(run), step)
            yield happening, {**_whose(run), **step}
        elif happening == "run_finished":
            self.over = run is self._run
            del self._inside[run.id]

    def _enter(self, run: RunRecord) -> None:
        if run is not self._run and run.parent_id not in self._inside:
            return
        self._inside[run.id] = run
        if run.answers_client and run.parent_id:
            self._echoes.add(run.parent_id)

    def _words(self, run: RunRecord, until: int | None) -> Iterator[Happened]:
        """What the run has said and nobody was told, up to piece number ``until``."""
        said = run.said
        if said is None or run.private or run.id in self._echoes:
            return
        known, start = self._shown.get(run.id, (said, 0))
        if known is not said:
            # Another try: what was shown before does not count any more.
            start = 0
        pieces = said.texts(start)
        if until is not None:
            pieces = pieces[: max(0, until - start)]
        if pieces:
            self._shown[run.id] = (said, start + len(pieces))
            yield "delta", {**_whose(run), "nodeName": run.answering, "text": "".join(pieces)}


def told_again(record: Record) -> Iterator[Happened]:
    """The events of a run that is over, from its record; ``run_finished`` too."""
    yield from _steps_of(record)
    yield "run_finished", record


def _steps_of(record: Record) -> Iterator[Happened]:
    whose = {"runId": record["id"], "parentId": record["parentId"], "workflow": record["workflow"]}
    children = {child["id"]: child for child in record["children"]}
    timeline: list[Record] = record["timeline"]
    steps: list[dict[str, Any]] = record["context"]["steps"]
    for place, moment in enumerate(timeline):
        node = {"nodeName": moment["nodeName"], "startedAt": moment["startedAt"]}
        yield "step_started", {**whose, **node}
        child = children.get(moment["childRunId"] or "")
        if child is not None:
            yield from _steps_of(child)
        if place < len(steps):
            yield from _in_one_piece(whose, steps[place])
            yield "step_finished", {**whose, **steps[place]}


def _in_one_piece(whose: Record, step: Record) -> Iterator[Happened]:
    """The words of a model that gave its answer whole, or in a run that is over."""
    text = step["outputData"]["content"]
    if text and "endpoint" in step["meta"] and not is_redacted(text):
        yield "delta", {**whose, "nodeName": step["nodeName"], "text": text}


def _whose(run: RunRecord) -> Record:
    return {"runId": run.id, "parentId": run.parent_id, "workflow": run.workflow}


def _length(run: RunRecord) -> int:
    said = run.said
    return len(said.texts()) if said is not None else 0
