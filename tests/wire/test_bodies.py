from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.core.errors import MalformedRequest
from Middleware.wire.bodies import (
    BadJson,
    checked_json,
    parse_json_object,
    read_json,
    read_json_leniently,
    write_json,
)


@dataclass(frozen=True)
class Taken:
    id: str
    data: bytes
    expected: dict[str, Any]


TAKEN = [
    Taken("an object", b'{"a": [1, null]}', {"a": [1, None]}),
    Taken("a byte order mark before it", b'\xef\xbb\xbf{"a":1}', {"a": 1}),
    Taken("half a pair", rb'{"a":"bad \ud800 end"}', {"a": "bad \ufffd end"}),
    Taken("the other half, deep down", rb'{"a":[{"b":"\udc00"}]}', {"a": [{"b": "\ufffd"}]}),
    Taken("half a pair as a key", rb'{"\ud800":1}', {"\ufffd": 1}),
    Taken("a proper pair", rb'{"a":"\ud83d\ude00"}', {"a": "😀"}),
    Taken("both in one text", rb'{"a":"\ud83d\ude00 \ud83d"}', {"a": "😀 \ufffd"}),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in TAKEN])
def test_an_object_is_read(case: Taken) -> None:
    assert parse_json_object(case.data) == case.expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"  \n",
        b'{"model":',
        b"[]",
        b"true",
        b"null",
        b"123",
        b'"x"',
        b'{"a":"\xff\xfe"}',
        b'{"a":NaN}',
        b'{"a":NaN,"b":"\\ud800"}',
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"b":"\\ud800","a":' + b"[" * 100000 + b"]" * 100000 + b"}",
    ],
    ids=repr,
)
def test_anything_else_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(MalformedRequest) as caught:
        parse_json_object(data)

    assert "The request" in caught.value.message
    assert "Traceback" not in caught.value.message


def test_a_backend_may_send_broken_utf_8() -> None:
    assert read_json_leniently(b'{"a":"x\xff"}') == {"a": "x\ufffd"}


def test_a_backend_must_send_json() -> None:
    with pytest.raises(BadJson):
        read_json_leniently(b"<html>")


def test_arguments_stay_as_they_are_unless_they_hold_half_a_pair() -> None:
    assert checked_json('{"a" : "\\u00e9"}') == '{"a" : "\\u00e9"}'
    assert checked_json('{"a" : "\\ud800"}') == '{"a":"\ufffd"}'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": "é", "b": (1, None)}, '{"a":"é","b":[1,null]}'),
        (MappingProxyType({"a": MappingProxyType({})}), '{"a":{}}'),
        ({"a": 2**70}, '{"a":1180591620717411303424}'),
        ({"a": "\ud800"}, '{"a":"\ufffd"}'),
    ],
    ids=["plain", "read-only mappings", "beyond 64 bits", "half a pair"],
)
def test_whatever_a_run_holds_can_be_written(value: Any, expected: str) -> None:
    assert write_json(value) == expected.encode()


def test_what_is_nested_beyond_reason_is_refused() -> None:
    value: Any = []
    for _ in range(200_000):
        value = [value]

    with pytest.raises(MalformedRequest):
        write_json(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_what_we_write_we_can_read(value: Any) -> None:
    assert read_json(write_json(value)) == value
