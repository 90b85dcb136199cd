"""A test written from a real run: what models said becomes replies, the rest expectations."""

import json
from typing import Any

import yaml

from Middleware.core.errors import WorkflowError
from Middleware.core.events import Reply
from Middleware.workflows.testing.files import Expectation, WorkflowCase
from Middleware.workflows.testing.models import HeardModels
from Middleware.workflows.testing.runner import Outcome, TestBench, play


def record(bench: TestBench, workflow: str, message: str, *, user: str = "") -> str:
    """Run a workflow on its real models, and write the test that repeats it, as YAML.

    Raises MiddlewareError where the workflow fails: such a run is nothing to hold on to.
    """
    case = WorkflowCase(name=_name(message), message=message, expect=Expectation())
    models = HeardModels(bench.backends)
    outcome = play(bench, case, models, workflow=workflow, user=user)
    if outcome.error is not None:
        raise WorkflowError(outcome.error)
    test: dict[str, Any] = {"name": case.name, "message": message}
    if replies := _replies(outcome):
        test["replies"] = replies
    test["expect"] = _expected(outcome)
    whole: dict[str, Any] = {"workflow": workflow, "tests": [test]}
    if user:
        whole["user"] = user
    return yaml.dump(whole, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _name(message: str) -> str:
    """The beginning of what the user says."""
    words = " ".join(message.split())
    return words if len(words) <= 60 else f"{words[:59]}…"


def _replies(outcome: Outcome) -> dict[str, Any]:
    said: dict[str, list[Any]] = {}
    names: dict[str, set[str]] = {}
    for call in outcome.calls:
        names.setdefault(call.node_name, set()).add(call.workflow)
    for call in outcome.calls:
        # The workflow is named only where another one has a node of the same name.
        alone = len(names[call.node_name]) == 1
        name = call.node_name if alone else f"{call.workflow}/{call.node_name}"
        said.setdefault(name, []).append(_reply(call.said.build()))
    return {name: each[0] if len(each) == 1 else each for name, each in said.items()}


def _reply(reply: Reply) -> Any:
    if not (reply.reasoning or reply.tool_calls):
        return reply.text
    written: dict[str, Any] = {"text": reply.text}
    if reply.reasoning:
        written["reasoning"] = reply.reasoning
    if reply.tool_calls:
        written["toolCalls"] = [
            {"name": call.name, "arguments": _arguments(call.arguments)}
            for call in reply.tool_calls
        ]
    return written


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _expected(outcome: Outcome) -> dict[str, Any]:
    nodes = outcome.trace.nodes(deep=True)
    is_deep = len(nodes) > len(outcome.trace.nodes(deep=False))
    expected: dict[str, Any] = {"equals": outcome.reply.text}
    if outcome.reply.tool_calls:
        expected["toolCalls"] = [call.name for call in outcome.reply.tool_calls]
    expected["path"] = [names[3] if is_deep else names[1] for names in nodes]
    return expected


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, which people can read and edit."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
