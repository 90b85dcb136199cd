"""What single nodes would do wrong when they run: conditions that cannot be read, numbers below
what counts, and variables that could act for curl's author.
"""

import re
from collections.abc import Callable, Collection, Iterator
from itertools import product
from typing import Any, Final

from Middleware.config.problems import Problem
from Middleware.tools.curl_arguments import Argument, data_leads, names_file, parts_of
from Middleware.workflows.check_names import Asker
from Middleware.workflows.check_scripts import script_problems
from Middleware.workflows.handlers.base.conditions import fault_of
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.variables.grammar import Field, LiveField, Mode, parse

CODES: Final = {
    "invalid_condition": "a condition that cannot be read, and is never true",
    "number_out_of_range": "a number that is less than what counts",
    "option_injection": "a variable that can make curl read a file, or take an option",
}
_GAP: Final = "\0"
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_STAND_INS: Final = ("x", "==", "AND", "", "x ==", "== x")
"""What a variable in a condition may bring in: an operand, or what joins two."""
_MOST_GAPS: Final = 3
_COUNTS: Final = (
    *("lastMessagesToSendInsteadOfPrompt", "lastMessagesToSendInsteadOfPromptMaxTokenSize"),
    *("nMessagesToIncludeInVariable", "estimatedTokensToIncludeInVariable"),
    *("minMessagesInVariable", "maxEstimatedTokensInVariable"),
    *("maxImagesToSend", "visionScanMessageLimit"),
)
_LENGTH: Final = "maxResponseSizeInTokens"
_ENDLESS: Final = -1
"""What local servers call an answer without a limit."""
_JINJA_TAG: Final = re.compile(r"\{[{%#]")
_HARMLESS: Final = ("todays_date_", "current_")
"""Dates and times: they begin with no sign."""


def node_problems(asker: Asker, node: Node, workflow: Workflow) -> Iterator[Problem]:
    """Everything about one node that needs no other file than its own script."""
    yield from script_problems(asker, node)
    yield from _numbers(asker, node)
    if not node.options.jinja2:
        yield from _conditions(asker, node, "live" if workflow.live_placeholders else "plain")
    if node.type_name == "CurlCommand":
        yield from _curl(asker, node, workflow)


# Conditions


def _conditions(asker: Asker, node: Node, mode: Mode) -> Iterator[Problem]:
    for key, text in _conditions_of(node):
        fault = _fault(text, mode)
        if fault is not None:
            message = f"The condition {fault}, so it is never true."
            remedy = (
                "Write comparisons as `'{agent1Output}' == 'yes'`, joined by AND, OR and "
                "parentheses."
            )
            yield asker.problem("invalid_condition", key, message, remedy)


def _conditions_of(node: Node) -> Iterator[tuple[str, str]]:
    options: Any = node.options
    if node.type_name in ("Conditional", "IfElse"):
        yield "condition", options.condition
    elif node.type_name == "Switch" and options.value is None:
        for route, case in options.cases.items():
            yield f"cases.{route}", case


def _fault(text: str, mode: Mode) -> str | None:
    """Why it cannot be read whatever its variables hold; None where it can, or nobody can tell."""
    marked = "".join(part if isinstance(part, str) else _GAP for part in parse(text, mode))
    marked = _QUOTED.sub(lambda quoted: quoted[0].replace(_GAP, "x"), marked)
    *pieces, last = marked.split(_GAP)
    if len(pieces) > _MOST_GAPS:
        return None
    first: str | None = None
    for values in product(_STAND_INS, repeat=len(pieces)):
        filled = "".join(map("".join, zip(pieces, values, strict=True))) + last
        fault = fault_of(filled)
        if fault is None:
            return None
        first = first or fault
    return first


# Numbers


def _numbers(asker: Asker, node: Node) -> Iterator[Problem]:
    """Others are looked at where the file is read, and break it."""
    raw = node.options.raw
    for key in _COUNTS:
        value = _number(raw.get(key))
        if value is not None and value < 0:
            message = f"{value:g} is less than 0, and counts as 0."
            remedy = "Write 0 or more."
            yield asker.problem("number_out_of_range", key, message, remedy, "warning")
    value = _number(raw.get(_LENGTH))
    if value is not None and value < 1 and value != _ENDLESS:
        message = f"No answer has {value:g} tokens: model servers refuse that, or write nothing."
        remedy = "Write how long an answer may become, or leave it out for 400."
        yield asker.problem("number_out_of_range", _LENGTH, message, remedy, "warning")


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) or value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


# Arguments of curl


def _curl(asker: Asker, node: Node, workflow: Workflow) -> Iterator[Problem]:
    """What `blockOptionInjection` would refuse, were a variable to begin with ``@`` or ``-``."""
    options: Any = node.options
    guarded = options.block_private_addresses or options.allowed_hosts is not None
    if options.block_option_injection or guarded:
        return
    own = {*workflow.variables, *map(str, asker.config.user.user_wide_workflow_variables)}
    cut = _jinja_argument if options.jinja2 else _reader(own, workflow)
    arguments = [cut(item if isinstance(item, str) else str(item)) for item in options.args]
    parts = parts_of(arguments)
    if options.block_private_addresses is None and data_leads(arguments, parts):
        # Guarded without being told to.
        return
    told: set[int] = set()
    values = {part.argument for part in parts if part.name != "url"}
    for part in parts:
        at = part.argument
        if not 0 <= at < len(arguments) or at in told:
            continue
        if names_file(arguments[at], part):
            told.add(at)
            message = (
                f"A variable that begins with @ makes --{part.name} read a file of this machine."
            )
            raw = part.name in ("data", "data-ascii", "data-binary")
            remedy = "Use --data-raw, or set" if raw else "Set"
        elif at not in values and arguments[at].begins_with_data:
            told.add(at)
            message = "A variable that begins with - makes this argument an option of curl."
            remedy = "Set"
        else:
            continue
        remedy = f"{remedy} `blockOptionInjection` to true."
        yield asker.problem("option_injection", f"args[{at}]", message, remedy, "warning")


def _reader(own: Collection[str], workflow: Workflow) -> Callable[[str], Argument]:
    mode: Mode = "live" if workflow.live_placeholders else "plain"

    def cut(text: str) -> Argument:
        filled, marks = "", []
        for part in parse(text, mode):
            is_data = isinstance(part, LiveField) or (
                isinstance(part, Field)
                and part.name not in own
                and not part.name.startswith(_HARMLESS)
            )
            shown = part if isinstance(part, str) else "@x" if is_data else "x"
            filled += shown
            marks += [is_data] * len(shown)
        return Argument(filled, tuple(marks))

    return cut


def _jinja_argument(text: str) -> Argument:
    written, *rest = _JINJA_TAG.split(text, maxsplit=1)
    filled = written + ("@x" if rest else "")
    return Argument(filled, (False,) * len(written) + (True,) * (len(filled) - len(written)))
