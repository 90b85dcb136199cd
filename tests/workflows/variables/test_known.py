from dataclasses import dataclass, field

import pytest

from Middleware.workflows.variables.categories import category_variables
from Middleware.workflows.variables.conversation import CONVERSATION_VARIABLES
from Middleware.workflows.variables.dates import DATE_VARIABLES
from Middleware.workflows.variables.known import CATEGORY_MEANINGS, MEANINGS, template_problems


def test_the_catalogue_has_every_variable_that_is_computed() -> None:
    computed = DATE_VARIABLES.keys() | CONVERSATION_VARIABLES.keys()
    others = {"Discussion_Id", "time_context_summary", "messages"}
    ours = {"messages_json", "last_user_message"}

    assert set(MEANINGS) == computed | others | ours


def test_category_variables() -> None:
    values = category_variables({"A": "da", "B": "db"})

    assert values == {
        "category_colon_descriptions": "A: da; B: db",
        "category_colon_descriptions_newline_bulletpoint": "\n- A: da\n- B: db",
        "categoriesSeparatedByOr": "A or B",
        "categoryNameBulletpoints": "\n- A\n- B",
        "category_list": ["A", "B"],
        "category_descriptions": ["da", "db"],
    }
    assert values.keys() == CATEGORY_MEANINGS.keys()


@dataclass(frozen=True)
class Checked:
    id: str
    text: str
    found: list[tuple[str, int, int, str]] = field(default_factory=list)
    live: tuple[str, ...] | None = None
    jinja: bool = False


KNOWN = {"agent1Output", "persona"}
CHECKED = [
    Checked(
        "known names", "{agent1Output} {persona} {todays_date_iso} {agent9Input} {messages[0]}"
    ),
    Checked("balanced json", '{"a": {"b": [{}]}} {"c": 1}'),
    Checked("doubled json", '{{"a": {{"b": 1}}}}'),
    Checked("css and prose", "a{color:red} {not a name} {0} {}"),
    Checked(
        "lone braces",
        "a {{ b } {\n c",
        [
            ("lone_brace", 1, 8, "Write }} for a literal brace."),
            ("lone_brace", 1, 10, "Write {{ for a literal brace."),
        ],
    ),
    Checked("lone close", "ok\n  }", [("lone_brace", 2, 3, "Write }} for a literal brace.")]),
    Checked(
        "unknown name",
        "x {agent1Ouput} {agent1Ouput}",
        [("unknown_variable", 1, 3, "Did you mean 'agent1Output'?")],
    ),
    Checked("output of a later node", "{zzz}", [("unknown_variable", 1, 1, "Check the name.")]),
    Checked(
        "escaped name",
        "{{persona}}",
        [("escaped_variable", 1, 1, "Write {persona} for its value.")],
    ),
    Checked("four braces are meant", "{{{{persona}}}}"),
    Checked(
        "live and known", "{{question}} {{drafts.data.x}} {{{{x}}}}", live=("question", "drafts")
    ),
    Checked(
        "live and unknown",
        "\n{{draft}}",
        [("unknown_placeholder", 2, 1, "Did you mean 'drafts'?")],
        live=("question", "drafts"),
    ),
    Checked("live json", '{{"a": 1}} {{ two words }}', live=()),
    Checked(
        "jinja",
        "{{ persona }} {{ agent1Input }} {% for i in range(2) %}{{ i }}{% endfor %} {",
        jinja=True,
    ),
    Checked(
        "jinja unknown",
        "a\n{{ persno }}",
        [("unknown_variable", 2, 4, "Did you mean 'persona'?")],
        jinja=True,
    ),
    Checked("jinja mistake", "{{ x", [("jinja_syntax", 1, 1, "Correct the template.")], jinja=True),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CHECKED])
def test_what_check_says_about_a_text(case: Checked) -> None:
    problems = template_problems(case.text, KNOWN, jinja=case.jinja, live=case.live)

    assert [(p.code, p.line, p.column, p.remedy) for p in problems] == case.found
