"""Compares what a run came to with what a test expects."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from Middleware.core.events import Reply
from Middleware.workflows.output.json_schema import NoSchema, SchemaCheck
from Middleware.workflows.testing.files import Expectation, JsonCheck, TextCheck
from Middleware.workflows.testing.runner import Outcome

_SHOWN = 300
"""Characters of a text that is only shown, not compared line by line."""
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_NOT_THERE = object()


def failures(expected: Expectation, outcome: Outcome) -> list[str]:
    """What is not as expected, in words; empty where everything is."""
    return list(_failures(expected, outcome))


def _failures(expected: Expectation, outcome: Outcome) -> Iterator[str]:
    for node in dict.fromkeys(outcome.silent):
        yield f"node {node!r} calls its model, and `replies` has nothing for it."
    yield from _error(expected.error, outcome)
    if outcome.error is None:
        yield from _text("answer", outcome.reply.text, expected)
        yield from _tools(expected.tool_calls, outcome.reply)
        for check in expected.json_checks:
            yield from _json(check, outcome)
    yield from _path(expected.path, outcome)
    yield from _prompts(expected.prompts, outcome)
    have = outcome.trace.globals
    for name, value in expected.variables.items():
        if have.get(name, _NOT_THERE) != value:
            yield f"global variable {name!r} is not as expected:\n{_two(value, have.get(name))}"


def _error(expected: str | bool | None, outcome: Outcome) -> Iterator[str]:
    if expected is None or expected is False:
        # A node without a reply has been told of already.
        if outcome.error is not None and not outcome.silent:
            yield f"the run failed: {outcome.error}"
        return
    told = [*outcome.trace.errors(), *filter(None, [outcome.error])]
    if outcome.error is None:
        yield f"an error is expected, but the run gave an answer: {_short(outcome.reply.text)!r}"
    elif isinstance(expected, str) and not any(expected in one for one in told):
        yield f"the error does not have {expected!r}; it is: {outcome.error}"


def _text(what: str, text: str, check: TextCheck) -> Iterator[str]:
    for part in check.contains:
        if part not in text:
            yield f"the {what} does not have {part!r}:\n{_indented(text)}"
    for part in check.lacks:
        if part in text:
            yield f"the {what} has {part!r}:\n{_indented(text)}"
    if check.equals is not None and check.equals.strip() != text.strip():
        yield f"the {what} is not the expected one:\n{difference(check.equals, text)}"
    if check.matches is not None and not re.search(check.matches, text):
        yield f"the {what} does not match {check.matches!r}:\n{_indented(text)}"


def _tools(expected: Sequence[str] | None, reply: Reply) -> Iterator[str]:
    called = [call.name for call in reply.tool_calls]
    if expected is not None and list(expected) != called:
        yield f"the answer calls other tools:\n{_two(list(expected), called)}"


def _json(check: JsonCheck, outcome: Outcome) -> Iterator[str]:
    whole = _value(outcome)
    if whole is _NOT_THERE:
        yield f"the answer is no JSON:\n{_indented(outcome.reply.text)}"
        return
    place = check.path or "the answer"
    value = value_at(whole, check.path)
    if value is _NOT_THERE:
        yield f"there is no {check.path!r} in the answer:\n{_indented(_dump(whole))}"
        return
    if "equals" in check.model_fields_set and value != check.equals:
        yield f"{place} is not as expected:\n{_two(check.equals, value)}"
    if check.value_schema is not None:
        try:
            problems = SchemaCheck(check.value_schema).problems(value)
        except NoSchema as error:
            problems = (f"it is none: {error}",)
        for problem in problems:
            yield f"{place} does not fit the schema: {problem}"


def _value(outcome: Outcome) -> Any:
    """The answer as a value; else the object or list that the last node gave out."""
    text = outcome.reply.text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3].removeprefix("json")
    try:
        return json.loads(text)
    except ValueError:
        run = outcome.trace.main
        data = run.steps[-1].output_data.data if run is not None and run.steps else None
        return data or _NOT_THERE


def value_at(value: Any, path: str) -> Any:
    """What stands at ``a.b[0]``."""
    for name, index in _STEP.findall(path):
        if index:
            if not isinstance(value, list) or int(index) >= len(value):
                return _NOT_THERE
            value = value[int(index)]
        elif not isinstance(value, Mapping) or name not in value:
            return _NOT_THERE
        else:
            value = value[name]
    return value


def _path(expected: Sequence[str] | None, outcome: Outcome) -> Iterator[str]:
    if expected is None:
        return
    deep = any("/" in entry for entry in expected)
    taken = outcome.trace.nodes(deep=deep)
    fits = len(taken) == len(expected) and all(
        entry in names for entry, names in zip(expected, taken, strict=True)
    )
    if not fits:
        # Shown as the test writes it, so that only what differs stands out.
        shown = [
            next((name for name in names if name in expected), names[3] if deep else names[0])
            for names in taken
        ]
        yield f"other nodes ran:\n{difference(_lines(expected), _lines(shown))}"


def _prompts(expected: Mapping[str, Sequence[TextCheck]], outcome: Outcome) -> Iterator[str]:
    for node, checks in expected.items():
        sent = [call.prompt for call in outcome.calls if call.is_of(node)]
        if len(sent) < len(checks):
            called = "never" if not sent else f"{len(sent)} times"
            yield f"node {node!r} called its model {called}, not {len(checks)} times."
        for number, (text, check) in enumerate(zip(sent, checks, strict=False), start=1):
            which = f" of call {number}" if len(checks) > 1 else ""
            yield from _text(f"prompt of {node!r}{which}", text, check)


def difference(expected: str, found: str) -> str:
    """Line by line: ``-`` is expected and not there, ``+`` is there and not expected."""
    lines = difflib.ndiff(expected.strip().splitlines(), found.strip().splitlines())
    return "\n".join(f"    {line.rstrip()}" for line in lines)


def _two(expected: Any, found: Any) -> str:
    return difference(_dump(expected), _dump(found))


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _lines(entries: Sequence[str]) -> str:
    return "\n".join(entries)


def _indented(text: str) -> str:
    return "\n".join(f"    | {line}" for line in text.strip().splitlines() or [""])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
