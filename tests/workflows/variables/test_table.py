import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, overload

import pytest

from Middleware.core.messages import Message, ToolCall
from Middleware.workflows.variables.table import MISSING, Found, VariableTable
from tests.workflows.variables.fixed_clock import FixedClock


@dataclass(frozen=True)
class Wins:
    """``winner`` gives a name the value "high" that ``loser`` gives as well."""

    id: str
    name: str
    winner: dict[str, Any]
    loser: dict[str, Any]


TALK = (Message("user", "high"),)
WINS = [
    Wins(
        "workflow over user-wide",
        "x",
        {"workflow_variables": {"x": "high"}},
        {"user_variables": {"x": "low"}},
    ),
    Wins(
        "workflow over date",
        "todays_date_iso",
        {"workflow_variables": {"todays_date_iso": "high"}},
        {"clock": FixedClock()},
    ),
    Wins(
        "conversation id over workflow",
        "Discussion_Id",
        {"discussion_id": "high"},
        {"workflow_variables": {"Discussion_Id": "low"}},
    ),
    Wins(
        "conversation over workflow",
        "chat_user_prompt_last_one",
        {"messages": TALK},
        {"workflow_variables": {"chat_user_prompt_last_one": "low"}},
    ),
    Wins(
        "output over workflow",
        "agent1Output",
        {"agent_outputs": {"agent1Output": "high"}},
        {"workflow_variables": {"agent1Output": "low"}},
    ),
    Wins(
        "input over output",
        "agent1Input",
        {"agent_inputs": {"agent1Input": "high"}},
        {"agent_outputs": {"agent1Input": "low"}},
    ),
    Wins(
        "category over workflow",
        "category_list",
        {"categories": {"category_list": "high"}},
        {"workflow_variables": {"category_list": "low"}},
    ),
    Wins(
        "later variables over workflow",
        "time_context_summary",
        {"extra": {"time_context_summary": lambda: "high"}},
        {"workflow_variables": {"time_context_summary": "low"}},
    ),
    *(
        Wins(
            f"somebody's own key over our addition {name}",
            name,
            {"user_variables": {name: "high"}},
            {"messages": TALK},
        )
        for name in ("messages_json", "last_user_message")
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in WINS])
def test_precedence(case: Wins) -> None:
    found = VariableTable(**case.winner | case.loser).lookup(case.name)

    assert found is not None
    assert found.value == "high"


DATES = {
    "todays_date_pretty": "September 01, 2025",
    "todays_date_iso": "2025-09-01",
    "YYYY_MM_DD": "2025_09_01",
    "current_time_12h": "8:05 PM",
    "current_time_24h": "20:05",
    "current_month_full": "September",
    "current_day_of_week": "Monday",
    "current_day_of_month": "01",
}


@pytest.mark.parametrize("name", DATES)
def test_dates(name: str) -> None:
    assert VariableTable(clock=FixedClock()).lookup(name) == Found(DATES[name])


def test_all_dates_of_a_table_are_of_one_moment() -> None:
    clock = FixedClock()
    table = VariableTable(clock=clock)

    for name in DATES:
        table.lookup(name)

    assert clock.asked == 1


def test_without_a_clock_the_real_one_counts() -> None:
    found = VariableTable().lookup("todays_date_iso")

    assert found is not None
    assert len(found.value) == len("2025-09-01")


@pytest.mark.parametrize(
    "name", ["chat_user_prompt_last_one", "chat_system_prompt", "current_chat_summary", "userInput"]
)
def test_names_that_do_not_exist_without_messages(name: str) -> None:
    assert VariableTable().lookup(name) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("messages", []),
        ("Discussion_Id", ""),
        ("time_context_summary", ""),
        ("messages_json", "[]"),
        ("last_user_message", ""),
    ],
)
def test_names_that_always_exist(name: str, value: object) -> None:
    assert VariableTable().lookup(name) == Found(value)


def test_only_text_of_the_author_may_name_variables_again() -> None:
    table = VariableTable(
        agent_inputs={"agent1Input": ""},
        agent_outputs={"agent1Output": ""},
        messages=TALK,
        workflow_variables={"workflow": ""},
        user_variables={"user": ""},
        categories={"category_list": []},
    )
    names = ["workflow", "user", "category_list", "agent1Input", "agent1Output", "messages"]

    author = [name for name in names if (found := table.lookup(name)) and found.author_text]

    assert author == ["workflow", "user", "category_list"]


def test_what_is_costly_is_computed_once_a_table() -> None:
    numbers = count(1)
    table = VariableTable(extra={"costly": lambda: next(numbers)})

    assert [table.lookup("costly"), table.lookup("costly")] == [Found(1), Found(1)]


def test_outputs_that_come_later_are_seen() -> None:
    outputs: dict[str, Any] = {}
    table = VariableTable(agent_outputs=outputs)
    assert table.lookup("agent1Output") is None

    outputs["agent1Output"] = "now"

    assert table.lookup("agent1Output") == Found("now")


def test_live_names_are_global_variables_and_then_outputs_of_nodes() -> None:
    table = VariableTable(globals={"a": None}, node_outputs={"a": 1, "b": 2})

    assert [table.live(name) for name in ("a", "b", "c")] == [None, 2, MISSING]


CALL = ToolCall(id="t1", name="add", arguments='{"a": "é"}')
OBJECTS = [
    {"role": "user", "content": "look", "images": ["data:x"]},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "t1",
                "type": "function",
                "function": {"name": "add", "arguments": '{"a": "é"}'},
            }
        ],
    },
    {"role": "tool", "content": "5", "tool_call_id": "t1", "name": "add"},
]


def test_messages_are_plain_objects_with_the_keys_they_have() -> None:
    table = VariableTable(
        messages=(
            Message("user", "look", images=("data:x",)),
            Message("assistant", tool_calls=(CALL,)),
            Message("tool", "5", tool_call_id="t1", name="add"),
        )
    )

    shown, as_json = table.lookup("messages"), table.lookup("messages_json")

    assert shown == Found(OBJECTS)
    assert as_json == Found(json.dumps(OBJECTS, ensure_ascii=False))


def test_what_the_user_said_last_is_found_behind_what_agents_add() -> None:
    table = VariableTable(
        messages=(
            Message("user", "first"),
            Message("user", "look it up"),
            Message("assistant", tool_calls=(CALL,)),
            Message("tool", "5", tool_call_id="t1"),
            Message("system", "Tools: many"),
        )
    )

    assert table.lookup("last_user_message") == Found("look it up")


class CountedMessages(Sequence[Message]):
    """A long conversation that counts how many of its messages were looked at."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.looked_at: set[int] = set()

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        if index >= self._length:
            raise IndexError(index)
        self.looked_at.add(index % self._length)
        return Message("user" if index % 2 == 0 else "assistant", f"word {index}")

    def __iter__(self) -> Iterator[Message]:
        return (self[index] for index in range(self._length))


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("todays_date_iso", 0),
        ("agent1Output", 0),
        ("unknown", 0),
        ("chat_system_prompt", 1),
        ("chat_user_prompt_last_one", 2),
        ("chat_user_prompt_last_twenty", 21),
        ("templated_user_prompt_last_ten", 10),
        ("chat_user_prompt_n_messages", 6),
        ("chat_user_prompt_estimated_token_limit", 1030),
        ("chat_user_prompt_min_n_max_tokens", 1030),
    ],
)
def test_a_long_conversation_is_not_gone_through(name: str, most: int) -> None:
    talk = CountedMessages(5000)

    VariableTable(messages=talk).lookup(name)

    assert len(talk.looked_at) <= most
