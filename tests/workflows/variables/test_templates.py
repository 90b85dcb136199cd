from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.messages import Message
from Middleware.workflows.models.workflow_context import ToolCallOutput, WorkflowPayload
from Middleware.workflows.variables.table import VariableTable
from Middleware.workflows.variables.templates import (
    PartialText,
    partial,
    render,
    render_partial,
)
from tests.workflows.variables.fixed_clock import FixedClock


class Awkward:
    """What a script may return: an object whose every method fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        raise RuntimeError("no format")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no attribute")


def table(**more: Any) -> VariableTable:
    values: dict[str, Any] = {
        "agent_outputs": {
            "agent1Output": '{"x":1}',
            "agent2Output": {"key": "v", "list": [10, 20], "inner": {"a": "b"}},
            "agent3Output": "{todays_date_iso}",
            "agent4Output": None,
            "agent5Output": Awkward(),
            "agent6Output": ToolCallOutput(content="said", tool_calls=[]),
        },
        "agent_inputs": {"agent1Input": "in {dir}"},
        "workflow_variables": {
            "dir": "/d/{todays_date_iso}",
            "deep": "<{dir}>",
            "size": 8000,
            "on": True,
            "paths": ["{Discussion_Id}/a", "b"],
            "json": '{"a": {"b": 1}} {nope}',
            "escaped": "{{dir}} {{{{dir}}}}",
            "with-dash": "dash",
            "two words": "words",
            "3rd": "third",
        },
        "user_variables": {"name": "Ann of {Discussion_Id}"},
        "discussion_id": "D1",
        "clock": FixedClock(),
        "messages": (Message("user", "fix {dir}"),),
    }
    return VariableTable(**values | more)


@dataclass(frozen=True)
class Vector:
    id: str
    text: str
    expected: str


SAME = "same"

DECIDED = [
    Vector("json beside a variable", '{"a": 1} {todays_date_iso}', '{"a": 1} 2025-09-01'),
    Vector("empty braces", "{}", "{}"),
    Vector("digits", "{0}", "{0}"),
    Vector("lone close", "x }", "x }"),
    Vector("lone open", "{ unbalanced", "{ unbalanced"),
    Vector("doubled date is literal", "{{todays_date_iso}}", "{todays_date_iso}"),
    Vector("doubled name is literal", "{{dir}}", "{dir}"),
    Vector("four braces are one", "{{{{dir}}}}", "{dir}"),
    Vector("one level", "{dir}", "/d/2025-09-01"),
    Vector("doubled digits", r"\d{{3}}", r"\d{3}"),
]
OF_THE_REFERENCE = [
    Vector("output", "a {agent1Output}", 'a {"x":1}'),
    Vector(
        "doubled json beside a variable",
        '{{"a": 1}} {todays_date_iso}',
        '{"a": 1} 2025-09-01',
    ),
    Vector("spaces in doubled braces", "{{ }} x", "{ } x"),
    Vector("doubled empty", "{{}}", "{}"),
    Vector("doubled unbalanced", "{{ unbalanced", "{ unbalanced"),
    Vector("an output is no template", "{agent3Output}", "{todays_date_iso}"),
    Vector("an input is no template", "{agent1Input}", "in {dir}"),
    Vector("message text is no template", "{chat_user_prompt_last_one}", "fix {dir}"),
    Vector("nested beside literal braces", '{dir} {"a": 1}', '/d/2025-09-01 {"a": 1}'),
    Vector(
        "nested beside messages",
        "{dir} {messages}",
        "/d/2025-09-01 [{'role': 'user', 'content': 'fix {dir}'}]",
    ),
    Vector("nested beside an unknown name", "{nope} {dir}", "{nope} /d/2025-09-01"),
    Vector("only one level", "{deep}", "</d/{todays_date_iso}>"),
    Vector("three braces", "{{{dir}}}", "{/d/2025-09-01}"),
    Vector("five braces", "{{{{{dir}}}}}", "{/d/2025-09-01}"),
    Vector("eight braces", "{{{{{{{{dir}}}}}}}}", "{{dir}}"),
    Vector("user-wide, one level", "{name}", "Ann of D1"),
    Vector("whole number", "{size}", "8000"),
    Vector("boolean", "{on}", "True"),
    Vector("null output", "{agent4Output}", "None"),
    Vector("object", "{agent2Output[inner]}", "{'a': 'b'}"),
    Vector("reply with tool calls", "{agent6Output}", "said"),
    Vector("name with dash", "{with-dash}", "dash"),
    Vector("name with space", "{two words}", "words"),
    Vector("name with leading digit", "{3rd}", "third"),
    Vector("empty text", "", ""),
]
FORMATS = [
    Vector("key", "{agent2Output[key]}", "v"),
    Vector("index", "{agent2Output[list][1]}", "20"),
    Vector("attribute of an object is its key", "{agent2Output.inner.a}", "b"),
    Vector("attribute", "{size.numerator}", "8000"),
    Vector("conversion", "{agent1Output!r}", "'{\"x\":1}'"),
    Vector("width", "[{size:>6}]", "[  8000]"),
    Vector("conversion and width", "[{on!s:<6}]", "[True  ]"),
    Vector("nested after a path", "{paths[0]}", "D1/a"),
    Vector("missing key stays", "{agent2Output[none]}", "{agent2Output[none]}"),
    Vector("missing attribute stays", "{size.none}", "{size.none}"),
    Vector("wrong format stays", "{agent1Output:d}", "{agent1Output:d}"),
    Vector("absurd width stays", "{size:>9999999999}", "{size:>9999999999}"),
    Vector("unknown conversion stays", "{size!x}", "{size!x}"),
    Vector("private attribute stays", "{size.__class__}", "{size.__class__}"),
    Vector("private attribute in a path stays", "{size.real._x}", "{size.real._x}"),
    Vector("a value that cannot be shown stays", "{agent5Output}", "{agent5Output}"),
    Vector("nor be looked into", "{agent5Output.a}", "{agent5Output.a}"),
]
BRACES = [
    Vector("nested json", '{"a": {"b": {"c": {}}}}', '{"a": {"b": {"c": {}}}}'),
    Vector("nested json around a variable", '{"a": {"b": {size}}}', '{"a": {"b": 8000}}'),
    Vector("doubled nested json", '{{"a": {{"b": {{}}}}}}', '{"a": {"b": {}}}'),
    Vector("doubled json around a variable", '{{"a": {{"b": {size}}}}}', '{"a": {"b": 8000}}'),
    Vector("doubled inside single", '{"a": {{"b": 1}} }', '{"a": {"b": 1} }'),
    Vector("single inside doubled", '{{"a": {"b": 1}}}', '{"a": {"b": 1}}'),
    Vector("close doubled without open", "x }}", "x }"),
    Vector("close four without open", "x }}}}", "x }}"),
    Vector("many lines", '{\n  "a": {\n  }\n}', '{\n  "a": {\n  }\n}'),
    Vector("json in a value", "{json}", '{"a": {"b": 1}} {nope}'),
    Vector("escapes in a value, one level", "{escaped}", "{dir} {{dir}}"),
    Vector(
        "C-35",
        'Reply like {"label": "…", "items": [{"n": 1}]} for {size}, a{color:red} {} {not a name}',
        'Reply like {"label": "…", "items": [{"n": 1}]} for 8000, a{color:red} {} {not a name}',
    ),
]


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.id) for c in [*DECIDED, *OF_THE_REFERENCE, *FORMATS, *BRACES]],
)
def test_plain_text(case: Vector) -> None:
    assert render(case.text, table()) == case.expected


NASTY = 'fix: def f(): return {"a": {1,2}} % {x!r} {0} {{y}} {'


def test_braces_of_users_models_and_tools_come_out_as_they_are() -> None:
    talk = (Message("user", NASTY), Message("tool", '{{"k": {dir}}}', tool_call_id="t1"))
    seen = table(messages=talk, agent_outputs={"agent1Output": '{"k": "}"}'})

    text = render("{chat_user_prompt_last_two}|{agent1Output}|{{}}", seen)

    assert text == NASTY + '\n{{"k": {dir}}}|{"k": "}"}|{}'


def test_a_text_too_long_for_the_cache_is_rendered_all_the_same() -> None:
    assert render("x" * 60_000 + "{size}{{", table()) == "x" * 60_000 + "8000{"


# --- live files ---

LIVE = [
    Vector("global variable", "{{question}}", "Why {dir}?"),
    Vector("output of a node", "{{drafts}}", "the text"),
    Vector("spaces inside", "{{ question }}", "Why {dir}?"),
    Vector("into data", "{{drafts.data.items.1.name}}", "two"),
    Vector("into data with brackets", "{{drafts.data.items[0].name}}", "one {{question}}"),
    Vector("an object of data", "{{drafts.data.items[0]}}", '{\n  "name": "one {{question}}"\n}'),
    Vector("into a global variable", "{{claim.id}}", "12"),
    Vector("a global variable wins", "{{both}}", "global"),
    Vector("the name as a whole wins", "{{a.b}}", "whole"),
    Vector("content", "{{drafts.content}}", "the text"),
    Vector("null is empty", "<{{nothing}}>", "<>"),
    Vector("no content is empty", "<{{silent}}>", "<>"),
    Vector("four braces are two", "{{{{question}}}}", "{{question}}"),
    Vector("unknown name is an escape", "{{nope}}", "{nope}"),
    Vector("unknown path is an escape", "{{drafts.data.none}}", "{drafts.data.none}"),
    Vector("no private parts", "{{drafts.__class__}}", "{drafts.__class__}"),
    Vector("a variable of single braces is an escape", "{{size}}", "{size}"),
    Vector("json is an escape", '{{"a": 1}}', '{"a": 1}'),
    Vector("doubled json around one", '{{"a": {{question}}}}', '{"a": Why {dir}?}'),
    Vector("single json around one", '{"a": {{claim.id}}}', '{"a": 12}'),
    Vector("single braces as ever", "{size} {nope} {}", "8000 {nope} {}"),
    Vector("a value is never expanded, whoever wrote it", "{dir}", "/d/{todays_date_iso}"),
    Vector("a value that cannot be shown is an escape", "{{awkward}}", "{awkward}"),
]


def live_table(unknown: list[str] | None = None) -> VariableTable:
    drafts = WorkflowPayload("the text", {"items": [{"name": "one {{question}}"}, {"name": "two"}]})
    return table(
        globals={
            "question": "Why {dir}?",
            "claim": {"id": 12},
            "both": "global",
            "a.b": "whole",
            "a": {"b": "path"},
            "nothing": None,
            "awkward": Awkward(),
        },
        node_outputs={"drafts": drafts, "both": "node", "silent": WorkflowPayload()},
        unknown=unknown,
    )


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in LIVE])
def test_live_text(case: Vector) -> None:
    assert render(case.text, live_table(), live=True) == case.expected


def test_the_table_remembers_which_placeholders_nobody_knew() -> None:
    seen: list[str] = []

    text = """{{nope}} {{question}} {{nope}} {{drafts.data.none}} {{"a": 1}} {{ }}"""
    render(text, live_table(seen), live=True)

    assert seen == ["nope", "drafts.data.none"]


# --- texts that two workflows fill in ---

CHILD = VariableTable(agent_inputs={"agent1Input": "{dir}"}, workflow_variables={"dir": "child"})


@dataclass(frozen=True)
class Handed:
    id: str
    text: str
    at_parent: str
    at_child: str


HANDED = [
    Handed("known to the parent", "{size}", "8000", "8000"),
    Handed("known to the child", "{agent9Input} {dir}", "{agent9Input} /d/2025-09-01", SAME),
    Handed("left for the child", "{size} {agent2Input}", "8000 {agent2Input}", SAME),
    Handed("data of the parent stays data", "{agent3Output}", "{todays_date_iso}", SAME),
    Handed("escapes are settled by the parent", "{{dir}} {{{{dir}}}}", "{dir} {dir}", SAME),
    Handed("a failed path is settled", "{size.none}", "{size.none}", SAME),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in HANDED])
def test_an_override_is_filled_in_twice_without_reading_data(case: Handed) -> None:
    text = partial(case.text, table())

    at_child = case.at_parent if case.at_child == SAME else case.at_child
    assert (str(text), render_partial(text, CHILD)) == (case.at_parent, at_child)


def test_the_child_fills_in_what_the_parent_could_not() -> None:
    parent = table(agent_inputs={})
    text = partial("{agent1Input} of {agent3Output} {{x}}", parent)

    assert render(text, CHILD) == "{dir} of {todays_date_iso} {x}"


def test_a_partial_text_can_be_handed_on() -> None:
    text = partial("{size} {first} {second}", table())
    again = partial(text, VariableTable(workflow_variables={"first": "{{1}}"}))

    assert again == "8000 {1} {second}"
    assert render_partial(again, VariableTable(agent_inputs={"second": "{2}"})) == "8000 {1} {2}"


def test_a_partial_text_made_of_a_string_is_data() -> None:
    assert render_partial(PartialText("{dir}"), CHILD) == "{dir}"


def test_a_partial_live_text_leaves_single_braces_for_the_child() -> None:
    text = partial("{{question}} {{nope}} {agent2Input}", live_table(), live=True)

    assert render_partial(text, VariableTable(agent_inputs={"agent2Input": "x"})) == (
        "Why {dir}? {nope} x"
    )


def test_a_partial_jinja_text_is_settled_by_the_parent() -> None:
    text = partial("{{ size }} {dir}", table(), jinja=True)

    assert render(text, CHILD, jinja=True) == "8000 {dir}"
