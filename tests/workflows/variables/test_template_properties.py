"""What must hold of every text, not only of those we thought of."""

import json
import string
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.core.messages import Message
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.variables.grammar import parse
from Middleware.workflows.variables.table import VariableTable
from Middleware.workflows.variables.templates import partial, render, render_partial

# No deadline: the machines that run this are shared.
seeded = settings(deadline=None, derandomize=True)

NAMES = ["agent1Output", "agent1Input", "dir", "Discussion_Id", "messages", "todays_date_iso"]
braces = st.sampled_from(
    ["{", "}", "{{", "}}", "{}", "{{{{", "}}}}", "!r", "[0]", ".a", ":>3", '"a": 1', "x", "\n"]
)
names = st.sampled_from([f"{{{name}}}" for name in NAMES] + NAMES)
nameless_texts = st.lists(braces | st.text(max_size=4), max_size=25).map("".join)
texts = st.lists(braces | names | st.text(max_size=4), max_size=25).map("".join)
json_values = st.recursive(
    st.integers() | st.text(string.ascii_letters),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(string.ascii_letters), inner, max_size=3)
    ),
)


def table(value: str = "v", **more: object) -> VariableTable:
    return VariableTable(
        agent_outputs={"agent1Output": value},
        agent_inputs={"agent1Input": value},
        messages=(Message("user", value),),
        workflow_variables={"dir": value},
        discussion_id=value,
        globals={"question": value},
        node_outputs={"node_1": WorkflowPayload(value, {"path": value})},
    )


@seeded
@given(texts, texts)
def test_no_text_and_no_value_makes_plain_rendering_fail(text: str, value: str) -> None:
    assert isinstance(render(text, table(value)), str)


@seeded
@given(texts, texts)
def test_no_text_and_no_value_makes_live_rendering_fail(text: str, value: str) -> None:
    assert isinstance(render(text, table(value), live=True), str)


@seeded
@given(nameless_texts)
def test_text_without_known_names_and_doubled_braces_stays_as_it_is(text: str) -> None:
    for doubled in ("{{", "}}"):
        while doubled in text:
            text = text.replace(doubled, doubled[0])

    assert render(text, table()) == text
    assert render(text, table(), live=True) == text


@seeded
@given(json_values)
def test_json_stays_as_it_is_however_deep(value: object) -> None:
    text = json.dumps(value, separators=(",", ":"))

    assert render(text, table()) == text


@seeded
@given(texts)
def test_values_are_put_in_character_by_character(value: str) -> None:
    text = "<{agent1Output}|{agent1Input}|{chat_user_prompt_last_one}|{Discussion_Id}>"

    assert render(text, table(value)) == f"<{'|'.join([value] * 4)}>"


@seeded
@given(texts)
def test_live_values_are_put_in_character_by_character(value: str) -> None:
    text = "<{{question}}|{{node_1}}|{{node_1.data.path}}|{dir}>"

    assert render(text, table(value), live=True) == f"<{'|'.join([value] * 4)}>"


@seeded
@given(nameless_texts)
def test_escaping_a_text_by_doubling_gives_it_back(text: str) -> None:
    # Runs of braces are cut up: four in a row have a meaning of their own.
    text = text.replace("{", "{ ").replace("}", " }")
    doubled = text.replace("{", "{{").replace("}", "}}")

    assert render(doubled, table()) == text


@seeded
@given(texts)
def test_what_a_parent_has_settled_a_child_does_not_touch(text: str) -> None:
    handed_on = partial(text, table())

    assert str(handed_on) == render(text, table())
    assert render_partial(handed_on, VariableTable()) == str(handed_on)


@seeded
@given(texts, st.sampled_from(["plain", "nested", "live"]))
def test_neighbouring_literals_are_one(text: str, mode: str) -> None:
    parts = parse(text, mode)  # type: ignore[arg-type]

    assert not any(
        isinstance(one, str) and isinstance(next_one, str) for one, next_one in pairwise(parts)
    )
