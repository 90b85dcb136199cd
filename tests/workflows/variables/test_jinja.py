import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.errors import WorkflowError
from Middleware.core.messages import Message
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.variables.jinja import render_jinja
from Middleware.workflows.variables.table import VariableTable
from tests.workflows.variables.fixed_clock import FixedClock


def table(**more: Any) -> VariableTable:
    values: dict[str, Any] = {
        "agent_outputs": {"agent1Output": "{x} {{ dir }}", "agent2Output": {"key": ["v", "w"]}},
        "workflow_variables": {"dir": "/d/{todays_date_iso}", "list": [1, 2]},
        "messages": (Message("system", "S"), Message("user", "it's <b>")),
        "clock": FixedClock(),
        "globals": {"question": "Why?", "dir": "shadowed"},
        "node_outputs": {"node_1": WorkflowPayload("said", {"path": [1]})},
    }
    return VariableTable(**values | more)


@dataclass(frozen=True)
class Rendered:
    id: str
    text: str
    expected: str


RENDERED = [
    Rendered("value", "{{ agent1Output }}", "{x} {{ dir }}"),
    Rendered("real braces", "{{ '{' in agent1Output }} {{ agent1Output|length }}", "True 13"),
    Rendered("native type", "{{ agent2Output.key[1] }}", "w"),
    Rendered("one pass", "{{ dir }}", "/d/{todays_date_iso}"),
    Rendered("single braces are text", "{dir} {{ '{dir}' }}", "{dir} {dir}"),
    Rendered("no braces", "plain", "plain"),
    Rendered("last newline kept", "{{ list|sum }}\n", "3\n"),
    Rendered("messages", "{% for m in messages %}{{ m.role }};{% endfor %}", "system;user;"),
    Rendered("tojson", "{{ messages[1].content|tojson }}", '"it\\u0027s \\u003cb\\u003e"'),
    Rendered("no escaping", "{{ messages[1].content }}", "it's <b>"),
    Rendered("unknown is empty", "<{{ nope }}>", "<>"),
    Rendered("default", "{{ nope|default('d') }}", "d"),
    Rendered("defined", "{{ nope is defined }}", "False"),
    Rendered("global variable", "{{ question }}", "Why?"),
    Rendered("output of a node", "{{ node_1 }} {{ node_1.data.path[0] }}", "said 1"),
    Rendered("range", "{% for i in range(3) %}{{ i }}{% endfor %}", "012"),
    Rendered("own list", "{% set l = [] %}{% set _ = l.append(1) %}{{ l }}", "[1]"),
    Rendered("date", "{{ todays_date_iso }}", "2025-09-01"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in RENDERED])
def test_rendering(case: Rendered) -> None:
    assert render_jinja(case.text, table()) == case.expected


REFUSED = [
    Rendered("syntax", "a\n{{ x", "line 2"),
    Rendered("unknown filter", "\n\n{{ x|nope }}", "line 3"),
    Rendered("attribute of an unknown name", "a\n{{ nope.x }}", "line 2"),
    Rendered("fails while running", "\n{{ 1 / 0 }}", "line 2"),
    Rendered("out of the sandbox", "{{ agent1Output.__class__.__mro__ }}", "line 1"),
    Rendered("include", "{% include 'x' %}", "line 1"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in REFUSED])
def test_a_template_that_fails_says_where(case: Rendered) -> None:
    with pytest.raises(WorkflowError) as caught:
        render_jinja(case.text, table())

    assert case.expected in caught.value.message


def test_an_unknown_name_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        render_jinja("{{ nope }}{% if other %}{% endif %}", table())

    assert [record.getMessage() for record in caplog.records] == [
        "Unknown name 'nope' in a Jinja2 text: nothing is put in."
    ]


def test_only_the_variables_a_template_names_are_computed() -> None:
    asked: list[str] = []
    extra = {"costly": lambda: asked.append("costly"), "cheap": lambda: asked.append("cheap")}

    render_jinja("{{ cheap }}", table(extra=extra))

    assert asked == ["cheap"]


def test_a_template_cannot_change_what_a_file_says() -> None:
    file: Mapping[str, Any] = {"list": [1, 2], "object": {"a": [1]}}

    render_jinja(
        "{% set _ = list.append(3) %}{% set _ = object.a.append(2) %}",
        table(workflow_variables=file),
    )

    assert file == {"list": [1, 2], "object": {"a": [1]}}


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'x' * 10**9 }}",
        "{{ 10**9 * [1] }}",
        "{{ 10 ** (10 ** 9) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%*d' % (10**9, 1) }}",
        "{{ '%.999999999f' % 1 }}",
        "{{ '%999999999d'|format(1) }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ '{:>{}}'.format(1, 10**9) }}",
        "{{ '{x:>{y}}'.format(x=1, y=10**9) }}",
        "{{ '{x:>{y}}'.format_map({'x': 1, 'y': 10**9}) }}",
        "{{ 'x'.center(10**9) }}",
        "{{ 'x'.zfill(10**9) }}",
        "{{ 'x'|center(10**9) }}",
        "{{ 'x\\ny'|indent(10**9) }}",
        "{{ lipsum(n=10**9) }}",
    ],
)
def test_one_step_of_a_template_cannot_take_all_of_the_memory(text: str) -> None:
    with pytest.raises(WorkflowError, match="one step would make more than 10,000,000"):
        render_jinja(text, table())


def test_what_is_large_and_no_size_is_as_before() -> None:
    text = (
        "{{ 12345678901 * 2 }} {{ 2 ** 70 }} {{ 'ab' * 3 }} {{ '%d of %s' % (123456789, 'x') }} "
        "{{ '{:,}'.format(123456789) }} {{ '123456789 %s' % 'y' }} {{ 'a'.center(3) }}|"
        "{{ 'z'|center(3) }}|{{ '%03d'|format(7) }} {{ [1] * 2 }} {{ 'a'.replace('a', 'b') }}"
    )

    assert render_jinja(text, table()) == (
        "24691357802 1180591620717411303424 ababab 123456789 of x 123,456,789 123456789 y  a | z |"
        "007 [1, 1] b"
    )
