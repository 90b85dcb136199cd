from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Middleware.config import loaders
from Middleware.config.problems import BrokenFile
from Middleware.config.watched_file import Source


def source(file: str = "Endpoints/Fast.json") -> Source:
    return Source(Path("/secret/place") / file, file, "0" * 64)


GOOD_URLS = [
    "http://h:1",
    "http://h:1/",
    "http://h:1/v1",
    "http://h:1/v1/",
    "http://h:1/prefix/v1",
    "https://[::1]:8080",
    "HTTP://host_name",
    "http://u:p@h",
    "http://h/v1?key=1",
]
BAD_URLS = [
    "h:1",
    "localhost:8080/v1",
    "192.168.1.5:5001",
    "ftp://h",
    "http://",
    "http:///v1",
    "http://h:port",
    "http://h:99999",
    "http://[::1",
    "http://h h",
    "http://h/#x",
    "http://h/v1/chat/completions",
    "http://h/v1/chat/completions/",
    "http://h/api/chat",
    "http://h/v1/messages",
]


@pytest.mark.parametrize("url", GOOD_URLS)
def test_a_base_url_is_taken_with_and_without_slash_and_version(url: str) -> None:
    endpoint = loaders.parse_endpoint(
        {"endpoint": f" {url} ", "apiTypeConfigFileName": "A"}, source()
    )

    assert endpoint.endpoint == url


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_base_url_that_cannot_work_is_refused_with_a_hint_and_not_quoted(url: str) -> None:
    with pytest.raises(BrokenFile) as caught:
        loaders.parse_endpoint({"endpoint": url, "apiTypeConfigFileName": "A"}, source())

    problem = caught.value.problems[0]
    assert (problem.code, problem.place) == ("bad_url", "endpoint")
    assert problem.remedy
    assert url not in caught.value.message.replace("http://127.0.0.1:8080", "")


def test_a_key_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "k-1")

    endpoint = loaders.parse_endpoint(
        {"apiTypeConfigFileName": "A", "apiKey": "${SOME_KEY}"}, source()
    )
    user = loaders.parse_user(
        {"apiKeys": ["${SOME_KEY}", {"name": "n", "key": "a-${SOME_KEY}"}]}, source()
    )

    assert endpoint.api_key == "k-1"
    assert [key.key for key in user.api_keys] == ["k-1", "a-k-1"]


@pytest.mark.parametrize("value", [None, ""], ids=["unset", "empty"])
def test_a_variable_that_is_not_set_is_named_with_file_and_field(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)

    with pytest.raises(BrokenFile) as caught:
        loaders.parse_endpoint({"apiTypeConfigFileName": "A", "apiKey": "${SOME_KEY}"}, source())

    assert caught.value.message == (
        "Endpoints/Fast.json: apiKey: The environment variable SOME_KEY is not set. "
        "Set SOME_KEY before the server starts."
    )


@pytest.mark.parametrize("text", ["${", "${}", "${my key}", "${sk-hush}", "x${SOME_KEY"])
def test_a_placeholder_that_names_no_variable_is_never_taken_for_a_key(text: str) -> None:
    with pytest.raises(BrokenFile) as caught:
        loaders.parse_endpoint({"apiTypeConfigFileName": "A", "apiKey": text}, source())

    assert caught.value.problems[0].code == "missing_variable"
    assert "hush" not in caught.value.message


@dataclass(frozen=True)
class Wrong:
    id: str
    parse: Callable[[Any, Source], object]
    raw: Any
    told: list[tuple[str, str, str]] = field(default_factory=list)
    """Place, message, remedy."""


WRONG = [
    Wrong(
        id="every bad field is named",
        parse=loaders.parse_user,
        raw={"port": "many", "maxSteps": 0, "dialect": "headrac", "customWorkflow": ["x"]},
        told=[
            ("port", 'The value is "many".', "Write a whole number."),
            ("customWorkflow", "The value is a list […].", "Write text."),
            (
                "dialect",
                'The value is "headrac".',
                "Write 'headrace' or 'reference'. Did you mean 'headrace'?",
            ),
            ("maxSteps", "The value is 0.", "It must be at least 1."),
        ],
    ),
    Wrong(
        id="nested places",
        parse=loaders.parse_user,
        raw={"apiKeys": ["a", {"name": "x"}], "runLog": {"maxDays": "long"}},
        told=[
            ("apiKeys[1]", "It needs either `key` or `sha256`.", ""),
            ("runLog.maxDays", 'The value is "long".', "Write a number."),
        ],
    ),
    Wrong(
        id="what is secret is not shown",
        parse=loaders.parse_endpoint,
        raw={"apiKey": ["hush"], "endpoint": {"hush": 1}, "apiTypeConfigFileName": "A"},
        told=[
            ("endpoint", "The value is an object {…} that is not shown here.", "Write text."),
            ("apiKey", "The value is a list […] that is not shown here.", "Write text."),
        ],
    ),
    Wrong(
        id="a word that YAML reads as true or false",
        parse=loaders.parse_endpoint,
        raw={"apiTypeConfigFileName": "A", "promptTemplate": False},
        told=[
            (
                "promptTemplate",
                "The value is false.",
                'Write text; in YAML, yes, no, on and off need quotes: "no".',
            )
        ],
    ),
    Wrong(
        id="needed key",
        parse=loaders.parse_endpoint,
        raw={"endpoint": "http://h"},
        told=[
            (
                "apiTypeConfigFileName",
                "This key is missing.",
                "Name a file of the folder ApiTypes.",
            )
        ],
    ),
    Wrong(
        id="needed key of an API type",
        parse=loaders.parse_api_type,
        raw={},
        told=[("type", "This key is missing.", "Add it.")],
    ),
    Wrong(
        id="no object",
        parse=loaders.parse_preset,
        raw=[1],
        told=[("", "The file is a list […].", "It must be an object {…}.")],
    ),
    Wrong(
        id="every category is looked at",
        parse=loaders.parse_routing,
        raw={"A": {"description": "x"}, "B": "y", "C": {"description": "", "workflow": "w"}},
        told=[
            ("A.workflow", "This key is missing.", "Add it."),
            ("B", 'The value is "y".', "Write an object {…}."),
        ],
    ),
    Wrong(
        id="transport",
        parse=loaders.parse_mcp_server,
        raw={"transport": "http"},
        told=[
            (
                "transport",
                'The value is "http".',
                "Write 'stdio', 'sse' or 'streamable_http'.",
            )
        ],
    ),
    Wrong(
        id="server without an address",
        parse=loaders.parse_mcp_server,
        raw={"transport": "sse"},
        told=[("url", "This key is missing.", "Add the server's URL.")],
    ),
    Wrong(
        id="empty schema",
        parse=loaders.parse_structured_output,
        raw={},
        told=[("", "The schema is empty.", "Describe an object.")],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in WRONG])
def test_a_bad_value_is_named_with_its_place_and_what_would_be_right(case: Wrong) -> None:
    with pytest.raises(BrokenFile) as caught:
        case.parse(case.raw, source())

    problems = caught.value.problems
    assert [(p.place, p.message, p.remedy) for p in problems] == case.told
    assert {(p.file, p.severity) for p in problems} == {("Endpoints/Fast.json", "error")}
    assert "hush" not in caught.value.message


@dataclass(frozen=True)
class Odd:
    id: str
    parse: Callable[[Any, Source], object]
    raw: Any
    told: list[tuple[str, str]] = field(default_factory=list)
    """Place, remedy."""


ODD = [
    Odd(
        id="unknown key with the nearest right one",
        parse=loaders.parse_user,
        raw={"custmWorkflow": "x", "zzz": 1, "runLog": {"maxRun": 1}},
        told=[
            ("custmWorkflow", "Did you mean `customWorkflow`?"),
            ("zzz", "Remove it, or check its spelling."),
            ("runLog.maxRun", "Did you mean `maxRuns`?"),
        ],
    ),
    Odd(
        id="keys that only people read",
        parse=loaders.parse_user,
        raw={
            "stream": True,
            "verboseLogging": True,
            "defaultParallelProcessWorkflow": "",
            "description": "x",
            "$schema": "x",
            "_comment": "x",
            "//": "x",
        },
    ),
    Odd(
        id="keys of endpoints that only people read",
        parse=loaders.parse_endpoint,
        raw={
            "apiTypeConfigFileName": "A",
            "modelNameForDisplayOnly": "x",
            "thinkTagText": "think",
            "displayOnlyComment": "x",
        },
    ),
    Odd(
        id="tokens of further roles",
        parse=loaders.parse_prompt_template,
        raw={
            "promptTemplateToolPrefix": "",
            "promptTemplateGenSeparator": "",
            "promptTmplateEndToken": "",
        },
        told=[("promptTmplateEndToken", "Did you mean `promptTemplateEndToken`?")],
    ),
    Odd(
        id="structured output that cannot be used",
        parse=loaders.parse_api_type,
        raw={"type": "x", "structuredOutput": {"field": "f", "style": "xml"}},
        told=[("structuredOutput", "It needs `field`, and `style` openaiJsonSchema or raw.")],
    ),
    Odd(
        id="category with a typo",
        parse=loaders.parse_routing,
        raw={"A": {"description": "x", "workflow": "w", "workflo": "v"}},
        told=[("A.workflo", "Did you mean `workflow`?")],
    ),
    Odd(id="presets may hold anything", parse=loaders.parse_preset, raw={"whatever": {"x": 1}}),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in ODD])
def test_what_nothing_reads_is_a_warning_and_no_error(case: Odd) -> None:
    told = source()

    case.parse(case.raw, told)

    assert [(p.place, p.remedy) for p in told.reported] == case.told
    assert {p.severity for p in told.reported} <= {"warning"}


def test_the_order_of_categories_is_that_of_the_file() -> None:
    route = {"description": "", "workflow": "w"}

    routing = loaders.parse_routing({"$schema": "x", "B": route, "A": route}, source())

    assert list(routing.categories) == ["B", "A"]
