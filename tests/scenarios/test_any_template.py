"""Any text as a template, and any text of a user, through the running server: no template brings
the server down, and what a user says is never taken for a template (variables §3-4).
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.headrace import Tree, answers, calls, static

KINDS = ("list", "graph", "Jinja2", "Jinja2 in a graph")
seeded = settings(deadline=None, derandomize=True, max_examples=120)

signs = st.sampled_from(
    [
        *("{", "}", "{{", "}}", "{{{{", "}}}}", "{}", "{0}", "!r}", "[0]}", ".a}", ":>9}", "\0"),
        *("{%", "%}", "{#", "#}", "{{-", "|", "if 1", "endif", "for x in messages", "endfor"),
        *("{% raw %}", "{% endraw %}", "{{ 6 * 7 }}", "{{ 1 / 0 }}", "{{ a.b.c }}", "\n"),
    ]
)
names = st.sampled_from(
    [
        form.format(name)
        for name in ("agent1Output", "chat_user_prompt_last_one", "secret", "question", "messages")
        for form in ("{{{}}}", "{{{{{}}}}}", "{{{{ {} }}}}", "{{{}[0]}}", "{}")
    ]
)
words = st.text(st.characters(codec="utf-8", exclude_characters="«»"), max_size=4)
texts = st.lists(signs | names | words, max_size=12).map("".join)

SAID = "«{agent1Output}» «{{agent1Output}}» «{{secret}}» «{{ 6 * 7 }}» «{% if 1 %}42{% endif %}»"


def workflow(kind: str, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """A file with two nodes and more, one behind the other."""
    jinja = {"jinja2": True} if kind.startswith("Jinja2") else {}
    nodes = [{**node, **jinja} for node in nodes]
    if "graph" not in kind:
        return {"nodes": nodes}
    ids = [node["id"] for node in nodes]
    edges = [{"from": one, "to": next} for one, next in pairwise(ids)]
    return {"nodes": nodes, "edges": edges}


@pytest.mark.parametrize("kind", KINDS)
def test_no_template_is_an_internal_error_and_none_expands_what_a_user_says(
    kind: str, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).scripted("Main")
    said = [{"role": "user", "content": SAID}]
    seen = set()
    with tree.serve() as live:

        @seeded
        @given(texts, texts)
        def check(prompt: str, system: str) -> None:
            nodes = [
                static("CANARY", id="secret"),
                answers(prompt=prompt, systemPrompt=system, id="answer"),
            ]
            tree.clock.advance(10)
            tree.write("Workflows/_shared/w/_DefaultWorkflow.json", workflow(kind, nodes))
            received = live.chat(model="w", messages=said)

            seen.add(received.status)
            if received.status == 200:
                text = received.json["choices"][0]["message"]["content"]
                assert "«CANARY»" not in text
                assert "«42»" not in text
            else:
                assert received.status == 400, received.body
                assert received.json["error"]["code"] == "workflow_error"

        check()
    assert seen == ({200, 400} if kind.startswith("Jinja2") else {200})


PLAIN = "<{chat_user_prompt_last_one}|{agent1Output}|{agent2Output}>"
TEMPLATES = {
    "list": PLAIN,
    "graph": "<{{question}}|{{first}}|{agent2Output}>",
    "Jinja2": "<{{ chat_user_prompt_last_one }}|{{ agent1Output }}|{{ agent2Output }}>",
    "Jinja2 in a graph": "<{{ question }}|{{ first }}|{{ second }}>",
}
LAST = {kind: "{chat_user_prompt_last_one}" for kind in ("list", "graph")}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_user_says_comes_out_as_it_is_whatever_it_goes_through(
    kind: str, tmp_path: Path
) -> None:
    last = LAST.get(kind, "{{ chat_user_prompt_last_one }}")
    nodes = [
        static(last, id="first"),
        calls("child", id="second", scoped_variables=[last]),
        static(TEMPLATES[kind], id="third"),
    ]
    tree = Tree(tmp_path).own("child", [static("{agent1Input}")])
    tree.write("Workflows/_shared/w/_DefaultWorkflow.json", workflow(kind, nodes))
    with tree.serve() as live:

        @seeded
        @given(texts)
        def check(text: str) -> None:
            said = f"x{text}x"
            received = live.chat(model="w", messages=[{"role": "user", "content": said}])

            assert received.status == 200, received.body
            answer = received.json["choices"][0]["message"]["content"]
            assert answer == f"<{said}|{said}|{said}>"

        check()
