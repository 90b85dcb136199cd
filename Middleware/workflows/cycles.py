"""Workflows that come to run themselves: found before a request runs into the depth limit."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from Middleware.config.problems import Problem, Severity
from Middleware.workflows.models.workflow import Node, Workflow


@dataclass(frozen=True, slots=True)
class SubCall:
    """A node that names a workflow."""

    file: str
    place: str
    target: Path
    is_certain: bool
    """Whether every run of the file makes the call."""


def is_certain(workflow: Workflow, node: Node) -> bool:
    """Whether a node that names one workflow is reached by every run, as far as one can see."""
    choosy = any(other.handler.routes(other.options) for other in workflow.nodes)
    return node.type_name == "CustomWorkflow" and not workflow.is_graph and not choosy


def cycles(
    labels: Mapping[Path, str], calls: Mapping[Path, tuple[SubCall, ...]]
) -> Iterator[Problem]:
    """One problem a circle, at the call that closes it. ``labels`` are what people call the
    workflows."""
    done: set[Path] = set()
    told: set[frozenset[Path]] = set()
    for start in sorted(calls):
        for chain in _circles(start, calls, done):
            members = frozenset(call.target for call in chain)
            if members not in told:
                told.add(members)
                yield _problem(labels, chain)


def _circles(
    start: Path, calls: Mapping[Path, tuple[SubCall, ...]], done: set[Path]
) -> Iterator[list[SubCall]]:
    """Depth first; ``trail`` are the calls that lead from ``start`` to where we are."""
    trail: list[SubCall] = []
    at = [start]
    waiting = [iter(calls.get(start, ()))]
    while waiting:
        call = next(waiting[-1], None)
        if call is None:
            waiting.pop()
            done.add(at.pop())
            if trail:
                trail.pop()
        elif call.target in at:
            yield [*trail[at.index(call.target) :], call]
        elif call.target not in done:
            trail.append(call)
            at.append(call.target)
            waiting.append(iter(calls.get(call.target, ())))


def _problem(labels: Mapping[Path, str], chain: list[SubCall]) -> Problem:
    names = [labels.get(call.target, call.target.stem) for call in (chain[-1], *chain)]
    certain = all(call.is_certain for call in chain)
    severity: Severity = "error" if certain else "warning"
    ends = (
        "so that it never ends"
        if certain
        else "so that it ends only if some run does not make the call"
    )
    return Problem(
        code="workflow_cycle",
        severity=severity,
        file=chain[-1].file,
        place=chain[-1].place,
        message=f"The workflow comes to run itself, {ends}: {' → '.join(names)}.",
        remedy="Name another workflow, or put what both need into one of its own.",
    )
