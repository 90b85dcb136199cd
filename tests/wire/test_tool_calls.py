from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.events import Event, ToolCallDelta, collect
from Middleware.core.messages import ToolCall
from Middleware.wire.tool_calls import ToolCallRepair, repair_whole


def counter() -> Callable[[], str]:
    made = iter(range(100))
    return lambda: f"new_{next(made)}"


def part(
    name: str | None = None,
    arguments: Any = None,
    id: str | None = None,
    index: int | None = None,
    **others: Any,
) -> dict[str, Any]:
    found: dict[str, Any] = {"function": {"name": name, "arguments": arguments}, **others}
    if id is not None:
        found["id"] = id
    if index is not None:
        found["index"] = index
    return found


def call(id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


@dataclass(frozen=True)
class Streamed:
    id: str
    deltas: list[list[Any]]
    """The ``tool_calls`` of each delta."""
    expected: tuple[ToolCall, ...]


STREAMED = [
    Streamed(
        "as it should be",
        [[part("f", "", "a1", 0)], [part(None, '{"x"', index=0)], [part(None, ":1}", index=0)]],
        (call("a1", "f", '{"x":1}'),),
    ),
    Streamed(
        "C-09: no index",
        [[part("f", '{"x":1}', "a1"), part("g", '{"y":2}', "a2")]],
        (call("a1", "f", '{"x":1}'), call("a2", "g", '{"y":2}')),
    ),
    Streamed(
        "no index and no id, both in one list",
        [[part("f", '{"x":'), part("f", '{"x":')], [part(None, "1}"), part(None, "2}")]],
        (call("new_0", "f", '{"x":1}'), call("new_1", "f", '{"x":2}')),
    ),
    Streamed(
        "no index and no id, one after the other",
        [[part("f", '{"x":1}')], [part("f", '{"x":2}')], [part("g", "{}")]],
        (call("new_0", "f", '{"x":1}'), call("new_1", "f", '{"x":2}'), call("new_2", "g", "{}")),
    ),
    Streamed(
        "C-10: every call says index 0",
        [[part("read", '{"p":"a"}', "a1", 0)], [part("read", '{"p":"b"}', "a2", 0)]],
        (call("a1", "read", '{"p":"a"}'), call("a2", "read", '{"p":"b"}')),
    ),
    Streamed(
        "every call says index 0 and has no id",
        [[part("read", '{"p":"a"}', index=0)], [part("read", '{"p":"b"}', index=0)]],
        (call("new_0", "read", '{"p":"a"}'), call("new_1", "read", '{"p":"b"}')),
    ),
    Streamed(
        "C-10, in pieces",
        [
            [part("read", '{"p":', "a1", 0)],
            [part(None, '"a"}', index=0)],
            [part("read", '{"p":', "a2", 0)],
            [part(None, '"b"}', index=0)],
        ],
        (call("a1", "read", '{"p":"a"}'), call("a2", "read", '{"p":"b"}')),
    ),
    Streamed(
        "C-12: no arguments",
        [[part("snooze", "", "c1", 0)]],
        (call("c1", "snooze", "{}"),),
    ),
    Streamed(
        "C-13: null, empty and missing names later on",
        [
            [part("count", "", "c1", 0)],
            [part(None, '{"n"', index=0)],
            [part("", ": ", index=0)],
            [{"index": 0, "function": {"arguments": "3}"}}],
        ],
        (call("c1", "count", '{"n": 3}'),),
    ),
    Streamed(
        "id and name in every fragment",
        [[part("f", '{"x"', "c1", 0)], [part("f", ":1}", "c1", 0)], [part("f", "", "c1", 0)]],
        (call("c1", "f", '{"x":1}'),),
    ),
    Streamed(
        "name in every fragment, no id",
        [[part("f", '{"x"', index=0)], [part("f", ":1}", index=0)]],
        (call("new_0", "f", '{"x":1}'),),
    ),
    Streamed(
        "a new id in every fragment",
        [[part("f", '{"x"', "c1", 0)], [part(None, ":1}", "c2", 0)]],
        (call("c1", "f", '{"x":1}'),),
    ),
    Streamed(
        "the name comes late",
        [[part(None, '{"x"', "c1", 0)], [part("f", ":1}", index=0)]],
        (call("c1", "f", '{"x":1}'),),
    ),
    Streamed(
        "arguments as an object",
        [[part("f", {"x": 1}, "c1", 0)]],
        (call("c1", "f", '{"x":1}'),),
    ),
    Streamed(
        "one id for two calls",
        [[part("f", "{}", "same", 0), part("g", "{}", "same", 1)]],
        (call("same", "f", "{}"), call("new_0", "g", "{}")),
    ),
    Streamed(
        "indexes that do not begin at 0",
        [[part("f", "{}", "a", 3)], [part("g", "{}", "b", 7)]],
        (call("a", "f", "{}"), call("b", "g", "{}")),
    ),
    Streamed(
        "fragments of two calls mixed",
        [
            [part("f", '{"x"', "a", 0), part("g", '{"y"', "b", 1)],
            [part(None, ":2}", index=1)],
            [part(None, ":1}", index=0)],
        ],
        (call("a", "f", '{"x":1}'), call("b", "g", '{"y":2}')),
    ),
    Streamed("a call that never gets a name", [[part(None, "{}", "a", 0)]], ()),
    Streamed("nonsense", [["x", {}, {"function": None}, None]], ()),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in STREAMED])
def test_fragments_become_calls_that_can_be_put_together(case: Streamed) -> None:
    repair = ToolCallRepair(counter())

    events: list[Event] = [event for delta in case.deltas for event in repair.feed(delta)]
    events += repair.close()

    assert collect(events).tool_calls == case.expected
    assert repair.any_sent == bool(case.expected)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in STREAMED])
def test_id_and_name_are_said_once_a_call_and_indexes_run_from_0(case: Streamed) -> None:
    repair = ToolCallRepair(counter())

    events = [event for delta in case.deltas for event in repair.feed(delta)]

    opening = [event for event in events if event.name is not None]
    assert [event.index for event in opening] == list(range(len(case.expected)))
    assert [(event.call_id, event.name) for event in opening] == [
        (expected.id, expected.name) for expected in case.expected
    ]
    assert all(event.call_id is None for event in events if event.name is None)


def test_fragments_are_passed_on_as_they_come() -> None:
    repair = ToolCallRepair(counter())

    events = [
        repair.feed([fragment]) for fragment in (part("f", "", "c1", 0), part(None, "{", index=0))
    ]

    assert events == [[ToolCallDelta(0, "", "c1", "f")], [ToolCallDelta(0, "{")]]


def test_whole_calls_are_repaired_alike() -> None:
    calls = [
        part("f", {"x": 1}),
        part("g", "", "a"),
        part("h", None, "a"),
        part("", "{}", "b"),
        "nonsense",
    ]

    assert repair_whole(calls, counter()) == (
        call("new_0", "f", '{"x":1}'),
        call("a", "g", "{}"),
        call("new_1", "h", "{}"),
    )


@pytest.mark.parametrize("calls", [None, "x", 5, {}, []], ids=repr)
def test_no_calls(calls: Any) -> None:
    assert repair_whole(calls) == ()
