"""The catalogue of variables, and what ``check`` says about a text (variables §2)."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from Middleware.core.errors import WorkflowError
from Middleware.core.registry import nearest
from Middleware.workflows.variables.grammar import LIVE_NAME, Field, LiveField, lone_braces, parse
from Middleware.workflows.variables.jinja import names_in_jinja

_COUNTS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "ten": 10, "twenty": 20}


def _conversation_meanings() -> dict[str, str]:
    windows = {f"last_{word}": f"the last {n} messages" for word, n in _COUNTS.items()}
    windows["last_one"] = "the last message"
    windows["n_messages"] = "the last nMessagesToIncludeInVariable messages"
    windows["estimated_token_limit"] = (
        "the newest messages that fit into estimatedTokensToIncludeInVariable tokens"
    )
    windows["min_n_max_tokens"] = (
        "the newest minMessagesInVariable messages, and older ones while they fit into "
        "maxEstimatedTokensInVariable tokens"
    )
    meanings: dict[str, str] = {}
    for name, window in windows.items():
        meanings[f"chat_user_prompt_{name}"] = f"{window}, as text"
        meanings[f"templated_user_prompt_{name}"] = (
            f"{window} without system messages, in the endpoint's prompt template"
        )
    return meanings | {
        "chat_system_prompt": "the client's system prompt",
        "templated_system_prompt": "the client's system prompt, in the endpoint's prompt template",
        "chat_user_prompt_without_system": "the whole conversation without system messages",
        "templated_user_prompt_without_system": (
            "the whole conversation without system messages, in the endpoint's prompt template"
        ),
    }


CATEGORY_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "category_colon_descriptions": "categories with descriptions, separated by semicolons",
        "category_colon_descriptions_newline_bulletpoint": "the same as a bullet list",
        "categoriesSeparatedByOr": "names of the categories, separated by `or`",
        "categoryNameBulletpoints": "names of the categories as a bullet list",
        "category_list": "list of the names of the categories",
        "category_descriptions": "list of the descriptions of the categories",
    }
)
"""These exist in the categorization workflow only."""

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "todays_date_pretty": "today, as September 01, 2025",
        "todays_date_iso": "today, as 2025-09-01",
        "YYYY_MM_DD": "today, as 2025_09_01",
        "current_time_12h": "the time, as 8:05 PM",
        "current_time_24h": "the time, as 20:05",
        "current_month_full": "the month, as September",
        "current_day_of_week": "the day of the week, as Monday",
        "current_day_of_month": "the day of the month, as 01",
        "Discussion_Id": "id of the conversation, empty when there is none",
        "time_context_summary": "when the conversation began and went on (empty for now)",
        "messages": "the whole conversation as a list of objects",
        "messages_json": "the whole conversation as JSON",
        "last_user_message": (
            "what the user said last; system messages and results of tools behind it do not count"
        ),
        **_conversation_meanings(),
    }
)
"""Names that every node knows -> what they stand for."""

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "agent{N}Output": "output of node N of this run, counted from 1",
        "agent{N}Input": "the N-th of the caller's scoped_variables",
    }
)

_INPUT = re.compile(r"agent[1-9]\d*Input")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w-]*")
_DOUBLED = re.compile(r"(?<!\{)\{\{([^{}]+)\}\}(?!\})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateProblem:
    """One doubtful place in a text. ``line`` and ``column`` count from 1."""

    code: str
    """``lone_brace``, ``unknown_variable``, ``unknown_placeholder``, ``escaped_variable`` or
    ``jinja_syntax``; only the last one is an error."""
    message: str
    remedy: str
    line: int
    column: int


def template_problems(
    text: str,
    known: Collection[str],
    *,
    jinja: bool = False,
    live: Collection[str] | None = None,
) -> list[TemplateProblem]:
    """What an author should look at in a content field.

    ``known`` are the names that are there besides :data:`MEANINGS`: outputs of earlier nodes,
    keys of the workflow and of the user, categories. Inputs count as known: only the caller can
    tell. ``live`` are the names for ``{{name}}``, or None in a file where those are not live.
    """
    names = MEANINGS.keys() | set(known)
    if jinja:
        return _jinja_problems(text, names | set(live or ()))
    found = [*_lone(text), *_unknown(text, names, live)]
    if live is None:
        found += _escaped(text, names)
    return sorted(found, key=lambda problem: (problem.line, problem.column))


def _lone(text: str) -> Iterator[TemplateProblem]:
    for position in lone_braces(text):
        brace = text[position]
        yield _problem(
            text,
            position,
            "lone_brace",
            f"This {brace} has no partner and is taken as text.",
            f"Write {brace * 2} for a literal brace.",
        )


def _unknown(
    text: str, names: Collection[str], live: Collection[str] | None
) -> Iterator[TemplateProblem]:
    seen: set[str] = set()
    for part in parse(text, "plain" if live is None else "live"):
        if isinstance(part, Field):
            source, problem = part.source, _unknown_field(part, names)
        elif isinstance(part, LiveField):
            source, problem = f"{{{part.escaped}}}", _unknown_live(part, live or ())
        else:
            continue
        if problem is not None and source not in seen:
            seen.add(source)
            yield _problem(text, max(text.find(source), 0), *problem)


def _unknown_field(field: Field, names: Collection[str]) -> tuple[str, str, str] | None:
    name = field.name
    # With a format it is more likely CSS or JSON: nobody writes {color:red} for a variable.
    if field.spec or name in names or _INPUT.fullmatch(name) or not _IDENTIFIER.fullmatch(name):
        return None
    message = f"There is no variable {name!r} here; the text stays as written."
    return "unknown_variable", message, _meant(name, names)


def _unknown_live(field: LiveField, live: Collection[str]) -> tuple[str, str, str] | None:
    name = field.steps[0]
    if name in live or field.name in live or not LIVE_NAME.fullmatch(field.name):
        return None
    message = f"There is no global variable and no node {name!r}; {field.escaped} will be sent."
    return "unknown_placeholder", message, _meant(name, live)


def _escaped(text: str, names: Collection[str]) -> Iterator[TemplateProblem]:
    for found in _DOUBLED.finditer(text):
        if (name := found[1]) in names:
            yield _problem(
                text,
                found.start(),
                "escaped_variable",
                f"{{{{{name}}}}} is the literal text {{{name}}} and no variable.",
                f"Write {{{name}}} for its value.",
            )


def _jinja_problems(text: str, names: Collection[str]) -> list[TemplateProblem]:
    try:
        used = names_in_jinja(text)
    except WorkflowError as error:
        return [_problem(text, 0, "jinja_syntax", error.text, "Correct the template.")]
    return [
        _problem(
            text,
            max(text.find(name), 0),
            "unknown_variable",
            f"There is no variable {name!r} here; nothing will be put in.",
            _meant(name, names),
        )
        for name in used
        if name not in names and not _INPUT.fullmatch(name)
    ]


def _meant(name: str, names: Collection[str]) -> str:
    close = nearest(name, list(names))
    return f"Did you mean {close!r}?" if close else "Check the name."


def _problem(text: str, position: int, code: str, message: str, remedy: str) -> TemplateProblem:
    before = text[:position]
    return TemplateProblem(
        code=code,
        message=message,
        remedy=remedy,
        line=before.count("\n") + 1,
        column=position - (before.rfind("\n") + 1) + 1,
    )
