from typing import Any

import pytest

from Middleware.core.errors import MalformedRequest
from Middleware.wire.openai_parameters import parse_parameters

NULLS = [
    *("stop", "temperature", "max_tokens", "response_format", "seed", "n"),
    *("logit_bias", "user", "top_p", "logprobs"),
]


def test_null_means_not_given() -> None:
    assert parse_parameters(dict.fromkeys(NULLS)) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "hot"),
        ("temperature", True),
        ("temperature", []),
        ("temperature", float("inf")),
        ("stop", 5),
        ("stop", [5]),
        ("stop", {}),
        *[("seed", value) for value in ("1", 1.5, 1e400)],
        *[("max_tokens", value) for value in ("many", 1.5)],
        ("logit_bias", []),
        ("response_format", "json"),
        ("response_format", {"schema": {}}),
        ("parallel_tool_calls", "yes"),
        ("logprobs", 1),
        ("user", 7),
        ("top_k", "x"),
        ("chat_template_kwargs", "x"),
    ],
)
def test_a_wrong_type_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(MalformedRequest) as caught:
        parse_parameters({name: value})

    assert caught.value.param == name


@pytest.mark.parametrize(
    ("holder", "place"),
    [
        ({}, "response_format.json_schema"),
        ({"schema": {"type": "object"}}, "response_format.json_schema"),
        ({"json_schema": None}, "response_format.json_schema"),
        ({"json_schema": {"name": "n"}}, "response_format.json_schema.schema"),
        ({"json_schema": {"schema": "object"}}, "response_format.json_schema.schema"),
    ],
    ids=str,
)
def test_a_form_without_its_schema_is_refused(holder: dict[str, Any], place: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        parse_parameters({"response_format": {"type": "json_schema", **holder}})

    assert caught.value.param == place


def test_what_says_something_is_kept() -> None:
    body = {
        "model": "m",
        "temperature": 0,
        "stop": "END",
        "max_tokens": 100.0,
        "n": 2,
        "response_format": {"type": "json_object"},
        "top_k": 40,
        "foo": "bar",
    }

    found = parse_parameters(body)

    assert found == {
        "temperature": 0,
        "stop": "END",
        "max_tokens": 100,
        "n": 2,
        "response_format": {"type": "json_object"},
        "top_k": 40,
    }
    assert isinstance(found["max_tokens"], int)


def test_stop_may_be_a_list() -> None:
    assert parse_parameters({"stop": ["a", "b"]}) == {"stop": ["a", "b"]}


def test_what_says_nothing_is_left_out() -> None:
    body = {"n": 1, "user": "", "logit_bias": {}, "stop": [], "max_tokens": -1, "logprobs": False}

    assert parse_parameters(body) == {}
