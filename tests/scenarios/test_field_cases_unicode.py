"""Field case C-17: half a surrogate pair in a request. C-16 is in ``test_field_cases_framing``.

The rule here: it becomes U+FFFD wherever it stands.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers
from tests.fakes.live_site import CHAT
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Upstream, chat
from tests.scenarios.ways import COLLECTED, STREAMED, WHOLE, Way


@dataclass(frozen=True)
class Poisoned:
    id: str
    messages: str
    """As it stands in the body."""
    sent: list[dict[str, Any]]
    """The messages that the model gets."""


def call(arguments: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {"id": "t1", "type": "function", "function": function}


def history(arguments: str) -> str:
    return (
        r'{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":'
        rf'"t1","type":"function","function":{{"name":"f","arguments":"{arguments}"}}}}]}},'
        r'{"role":"tool","tool_call_id":"t1","content":"ok"}'
    )


def sent_history(arguments: str) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call(arguments)]},
        {"role": "tool", "content": "ok", "tool_call_id": "t1"},
    ]


POISONED = [
    Poisoned(
        "content",
        r'{"role":"user","content":"bad \ud800 end"}',
        [{"role": "user", "content": "bad � end"}],
    ),
    Poisoned(
        "name",
        r'{"role":"user","content":"hi","name":"bad \udc00 end"}',
        [{"role": "user", "content": "hi", "name": "bad � end"}],
    ),
    Poisoned(
        "text-part",
        r'{"role":"user","content":[{"type":"text","text":"bad \ud83d end"}]}',
        [{"role": "user", "content": "bad � end"}],
    ),
    Poisoned(
        "arguments", history(r"{\"a\":\"bad \ud800 end\"}"), sent_history('{"a":"bad � end"}')
    ),
    Poisoned(
        "escaped-in-arguments",
        history(r"{\"a\":\"bad \\ud800 end\"}"),
        sent_history('{"a":"bad � end"}'),
    ),
    Poisoned(
        "tool-result",
        history("{}").replace('"ok"', r'"bad \udfff end"'),
        [*sent_history("{}")[:2], {"role": "tool", "content": "bad � end", "tool_call_id": "t1"}],
    ),
    Poisoned(
        "control",
        r'{"role":"user","content":"\ud83d\ude00"}',
        [{"role": "user", "content": "😀"}],
    ),
    Poisoned(
        "control-in-arguments",
        history(r"{\"a\":\"\ud83d\ude00\"}"),
        sent_history('{"a":"😀"}'),
    ),
]


@pytest.mark.parametrize("way", [STREAMED, WHOLE, COLLECTED], ids=str)
@pytest.mark.parametrize("case", POISONED, ids=lambda case: case.id)
def test_c17_half_a_surrogate_pair_becomes_a_replacement_character(
    case: Poisoned, way: Way, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", way.nodes())
    stream = json.dumps(way.stream)
    body = f'{{"model":"assistant","stream":{stream},"messages":[{case.messages}]}}'
    with Upstream(chat("fine")) as model, tree.model("Main", model.url).serve() as live:
        heard = hear(live.ask("POST", CHAT, body.encode()))
        stored = json.dumps(live.runs, ensure_ascii=False)

    assert heard.said == ("fine", "stop")
    assert model.asked[0].json["messages"] == case.sent
    # What is stored can be written out and read again.
    stored.encode()


def test_c17_it_reaches_variables_and_the_answer_clean_too(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow(
        "assistant",
        [{"type": "StaticResponse", "content": "You said: {chat_user_prompt_last_one}"}],
    )
    body = rb'{"model":"assistant","messages":[{"role":"user","content":"bad \ud800 end"}]}'
    with tree.serve() as live:
        heard = hear(live.ask("POST", CHAT, body))

    assert heard.text == "You said: bad � end"


@pytest.mark.parametrize("field", ["model", "user", "metadata", "unknown", r"\ud800"])
def test_c17_no_other_field_breaks_the_server(field: str, tmp_path: Path) -> None:
    value = r'{"k":"\ud800"}' if field == "metadata" else r'"bad \ud800"'
    body = f'{{"{field}":{value},"messages":[{{"role":"user","content":"hi"}}]}}'
    tree = Tree(tmp_path).own("_DefaultWorkflow", [answers()])
    with Upstream(chat("fine")) as model, tree.model("Main", model.url).serve() as live:
        heard = hear(live.ask("POST", CHAT, body.encode()))

    assert heard.status == (404 if field == "model" else 200)
