"""Start, Agent, PythonCode, IfElse and Switch (design §5): the nodes of source C."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Headrace, Tree
from tests.fakes.upstream import Asked, Upstream, chat, reply, whole

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
KEYS = [{"name": "jane", "key": "k-jane"}, {"name": "bob", "key": "k-bob"}]


def script(tree: Tree, name: str, code: str) -> None:
    folder = tree.public / "workflow_python_scripts"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(code, encoding="utf-8")


def edges(*pairs: tuple[str, str] | tuple[str, str, str]) -> list[dict[str, str]]:
    names = ("from", "to", "route")
    return [dict(zip(names, pair, strict=False)) for pair in pairs]


def text_of(received: Any, streamed: bool = False) -> str:
    assert received.status == 200, received.body
    if streamed:
        return str(received.text)
    return str(received.json["choices"][0]["message"]["content"])


CLAIM_NODES = [
    {"id": "node_start", "type": "Start"},
    {"id": "node_php", "type": "PythonCode", "script": "claims.py"},
    {
        "id": "node_agent",
        "type": "Agent",
        "endpointName": "Main",
        "prompt": "{{customer_name}}: {{node_php.data.claim}} / {{node_php}} / {{question}}",
    },
]
CLAIM_EDGES = edges(("node_start", "node_php"), ("node_php", "node_agent"))


@contextmanager
def claim_handler(root: Path) -> Iterator[tuple[Headrace, Upstream]]:
    tree = Tree(root).workflow(
        "claims", CLAIM_NODES, edges=CLAIM_EDGES, globalVariables={"customer_name": "nobody"}
    )
    code = "def run(context, payload):\n    return {'claim': int(str(payload).split()[-1])}\n"
    script(tree, "claims.py", code)
    with Upstream(chat("All ", "fine.")) as model, tree.model("Main", model.url).serve() as live:
        yield live, model


@BOTH
def test_the_claim_handler_answers_from_its_code_node(tmp_path: Path, streamed: bool) -> None:
    with claim_handler(tmp_path) as (live, model):
        received = live.chat(
            model="claims",
            stream=streamed,
            messages=[{"role": "user", "content": "How is claim 12"}],
            metadata={"customer_name": "Jane"},
        )

    assert text_of(received, streamed) == "All fine."
    prompt = 'Jane: 12 / {\n  "claim": 12\n} / How is claim 12'
    assert model.asked[0].json["messages"] == [{"role": "user", "content": prompt}]


def test_its_context_has_exactly_the_form_of_the_design(tmp_path: Path) -> None:
    with claim_handler(tmp_path) as (live, _):
        live.chat(
            model="claims",
            messages=[{"role": "user", "content": "How is claim 12"}],
            metadata={"customer_name": "Jane"},
        )
        context = live.runs[0]["context"]

    record = context.pop("workflowRecord")
    assert (record["name"], record["folder"]) == ("_DefaultWorkflow", "_shared/claims")
    assert len(record["hash"]) == 64
    times = [step.pop("processingTimeMs") for step in context["steps"]]
    assert all(time >= 0 for time in times)
    agent = context["steps"].pop()
    assert context == {
        "globalVariables": {"customer_name": "Jane", "question": "How is claim 12"},
        "clearConversation": False,
        "currentStepNodeId": "node_agent",
        "error": None,
        "steps": [
            {
                "nodeName": "node_start",
                "outputData": {"content": "How is claim 12", "data": []},
                "meta": {"module_type": "Start", "next_route": None},
                "thinking": None,
                "cost": None,
                "confidenceScore": None,
            },
            {
                "nodeName": "node_php",
                "outputData": {"content": '{\n  "claim": 12\n}', "data": {"claim": 12}},
                "meta": {"module_type": "PythonCode", "next_route": None},
                "thinking": None,
                "cost": None,
                "confidenceScore": None,
            },
        ],
    }
    assert agent["outputData"] == {"content": "All fine.", "data": []}
    assert agent["meta"]["endpoint"] == "Main"


def test_code_may_change_global_variables_and_the_step_tells(tmp_path: Path) -> None:
    nodes = [
        {"id": "code", "type": "PythonCode", "script": "s.py"},
        {"id": "end", "type": "StaticResponse", "content": "{{city}} {{code}}"},
    ]
    tree = Tree(tmp_path).workflow("w", nodes, edges=edges(("code", "end")))
    script(
        tree, "s.py", "def run(context, payload):\n    context.global_variables['city']='Oslo'\n"
    )
    with tree.serve() as live:
        text = text_of(live.chat(model="w"))

    assert text == "Oslo "
    assert live.runs[0]["context"]["steps"][0]["meta"]["changedGlobals"] == {"city": "Oslo"}


BAD_CODE = [
    ("def run(context, payload):\n    return 1 / 0\n", "s.py raised ZeroDivisionError in line 2"),
    ("x = 1\n", "no function `run(context, payload)`"),
    ("def run(:\n", "s.py, line 1: this is no valid Python"),
    (None, "there is no script 's.py' in its folder. Did you mean 'ss.py'?"),
]


@pytest.mark.parametrize(("code", "message"), BAD_CODE, ids=[m for _, m in BAD_CODE])
def test_code_that_fails_says_where(tmp_path: Path, code: str | None, message: str) -> None:
    tree = Tree(tmp_path).workflow("w", [{"type": "PythonCode", "script": "s.py"}])
    script(tree, "ss.py", "")
    if code is not None:
        script(tree, "s.py", code)
    with tree.serve() as live:
        received = live.chat(model="w")

    assert (received.status, received.json["error"]["code"]) == (400, "workflow_error")
    assert message in received.json["error"]["message"]


@pytest.mark.parametrize("name", ["../outside.py", "/etc/passwd", "a/../../outside.py"])
def test_scripts_stay_in_their_folder(tmp_path: Path, name: str) -> None:
    tree = Tree(tmp_path).workflow("w", [{"type": "PythonCode", "script": name}])
    (tree.public / "outside.py").write_text("def run(context, payload):\n    return 'out'\n")
    with tree.serve() as live:
        received = live.chat(model="w")

    assert received.status == 400
    assert received.json.get("choices") != "out"


def test_inline_code_needs_a_server_that_allows_it(tmp_path: Path) -> None:
    node = {"type": "PythonCode", "code": "def run(context, payload):\n    return [1, 2]\n"}
    tree = Tree(tmp_path).workflow("w", [node])
    with tree.serve() as live:
        refused = live.chat(model="w")
    with tree.serve(allow_inline_python=True) as live:
        allowed = live.chat(model="w")

    assert "--allow-inline-python" in refused.json["error"]["message"]
    assert json.loads(text_of(allowed)) == [1, 2]


def branching(kind: dict[str, Any], *routes: str) -> tuple[list[dict[str, Any]], Any]:
    ends = [{"id": r, "type": "StaticResponse", "content": f"went {r}"} for r in routes]
    return [{"id": "ask", **kind}, *ends], edges(
        *[("ask", r, r if r != "default" else "") for r in routes]
    )


@pytest.mark.parametrize(("word", "route"), [("hello", "true"), ("bye", "false")])
def test_if_else_takes_one_of_two_routes(tmp_path: Path, word: str, route: str) -> None:
    condition = {"type": "IfElse", "condition": "{{question}} == 'hello'"}
    nodes, ways = branching(condition, "true", "false")
    with Tree(tmp_path).workflow("w", nodes, edges=ways).serve() as live:
        text = text_of(live.chat(model="w", messages=[{"role": "user", "content": word}]))

    assert text == f"went {route}"
    assert live.runs[0]["context"]["steps"][0]["meta"]["next_route"] == route


@pytest.mark.parametrize(
    ("word", "route"), [(" Red ", "stop"), ("green", "go"), ("blue", "default")]
)
def test_switch_takes_the_route_of_its_value(tmp_path: Path, word: str, route: str) -> None:
    switch = {"type": "Switch", "value": "{{question}}", "cases": {"stop": "red", "go": "green"}}
    nodes, ways = branching(switch, "stop", "go", "default")
    with Tree(tmp_path).workflow("w", nodes, edges=ways).serve() as live:
        text = text_of(live.chat(model="w", messages=[{"role": "user", "content": word}]))

    assert text == f"went {route}"


def test_switch_without_a_value_takes_the_first_condition_that_holds(tmp_path: Path) -> None:
    cases = {"never": "1 > 2", "small": "{{n}} < 10", "big": "{{n}} >= 10"}
    nodes, ways = branching({"type": "Switch", "cases": cases}, "never", "small", "big")
    tree = Tree(tmp_path).workflow("w", nodes, edges=ways, globalVariables={"n": 7})
    with tree.serve() as live:
        assert text_of(live.chat(model="w")) == "went small"
        assert text_of(live.chat(model="w", metadata={"n": 12})) == "went big"


# --------------------------------------------------------------------------- what agents remember


def says_count(asked: Asked) -> Any:
    """Answers with the number of messages it was sent."""
    return whole(reply(f"{len(asked.json['messages'])} messages"))


def agent_tree(root: Path) -> Tree:
    agent = {"id": "a", "type": "Agent", "endpointName": "Main", "prompt": "{{question}}"}
    return Tree(root, apiKeys=KEYS).workflow("w", [agent], edges=[])


def ask(live: Headrace, key: str, **fields: Any) -> str:
    body = {"model": "w", "messages": [{"role": "user", "content": "hi"}], **fields}
    received = live.ask("POST", "/v1/chat/completions", body, authorization=f"Bearer {key}")
    return text_of(received)


def test_an_agent_goes_on_with_the_last_conversation_of_each_user(tmp_path: Path) -> None:
    with Upstream(says_count) as model:
        tree = agent_tree(tmp_path).model("Main", model.url)
        with tree.serve() as live:
            first = [ask(live, "k-jane"), ask(live, "k-jane"), ask(live, "k-bob")]
        with tree.serve() as live:
            after_restart = ask(live, "k-jane")

    assert first == ["1 messages", "3 messages", "1 messages"]
    assert after_restart == "5 messages"
    assert model.asked[1].json["messages"] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "1 messages"},
        {"role": "user", "content": "hi"},
    ]


def test_clear_conversation_starts_a_new_one_once(tmp_path: Path) -> None:
    agents = [
        {"id": "a", "type": "Agent", "endpointName": "Main", "prompt": "one"},
        {"id": "b", "type": "Agent", "endpointName": "Main", "prompt": "two"},
    ]
    with Upstream(says_count) as model:
        tree = Tree(tmp_path, apiKeys=KEYS).workflow("w", agents, edges=edges(("a", "b")))
        with tree.model("Main", model.url).serve() as live:
            ask(live, "k-jane")
            ask(live, "k-jane", metadata={"clearConversation": True})
            context = live.runs[0]["context"]
            ask(live, "k-jane")

    assert [len(asked.json["messages"]) for asked in model.asked] == [1, 1, 1, 3, 3, 5]
    assert context["clearConversation"] is False


def test_an_agent_is_itself_while_other_nodes_run(tmp_path: Path) -> None:
    slow = "{% for i in range(50000) %}{% endfor %}"
    model_node = {"endpointName": "Main"}
    agent = {"id": "a", "type": "Agent", "jinja2": True, "prompt": f"{slow}agent", **model_node}
    others = [{"id": f"n{n}", "type": "Standard", "prompt": "x", **model_node} for n in range(4)]
    with Upstream(says_count) as model:
        tree = Tree(tmp_path, apiKeys=KEYS).workflow("w", [agent, *others], parallel=True)
        tree.model("Main", model.url)
        with tree.serve() as live:
            ask(live, "k-jane")
        # Alone now: nothing else can be taken for it.
        tree.workflow("w", [agent])
        with tree.serve() as live:
            ask(live, "k-jane")

    assert [m["content"] for m in model.asked[-1].json["messages"]] == [
        "agent",
        "1 messages",
        "agent",
    ]


def test_who_shows_no_key_is_not_remembered(tmp_path: Path) -> None:
    agent = {"id": "a", "type": "Agent", "endpointName": "Main", "prompt": "x"}
    with Upstream(says_count) as model:
        tree = Tree(tmp_path).workflow("w", [agent], edges=[]).model("Main", model.url)
        with tree.serve() as live:
            texts = [text_of(live.chat(model="w")) for _ in range(2)]

    assert texts == ["1 messages", "1 messages"]


def test_two_requests_at_once_do_not_mix_their_turns(tmp_path: Path) -> None:
    meeting = threading.Barrier(2)

    def answer(asked: Asked) -> Any:
        text = asked.json["messages"][-1]["content"]
        if len(asked.json["messages"]) == 1:
            meeting.wait(5)
        return whole(reply(f"re {text}"))

    with Upstream(answer) as model, agent_tree(tmp_path).model("Main", model.url).serve() as live:
        threads = [
            threading.Thread(
                target=ask,
                args=(live, "k-jane"),
                kwargs={"messages": [{"role": "user", "content": word}]},
            )
            for word in ("one", "two")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        ask(live, "k-jane")
        sent = [m["content"] for m in model.asked[-1].json["messages"]]

    pairs = [tuple(sent[i : i + 2]) for i in (0, 2)]
    assert sorted(pairs) == [("one", "re one"), ("two", "re two")]
    assert sent[4] == "hi"


# ------------------------------------------------------------------------------- structured answers

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}


def schema_tree(root: Path) -> Tree:
    nodes: list[dict[str, Any]] = [
        {
            "id": "a",
            "type": "Agent",
            "endpointName": "Main",
            "prompt": "Is it fine?",
            "outputSchema": SCHEMA,
        },
        {"id": "end", "type": "StaticResponse", "content": "ok={{a.data.ok}}"},
    ]
    return Tree(root).workflow("w", nodes, edges=edges(("a", "end")))


def test_an_answer_that_fits_the_schema_becomes_data(tmp_path: Path) -> None:
    with (
        Upstream(chat('```json\n{"ok": true}\n```')) as model,
        schema_tree(tmp_path).model("Main", model.url).serve() as live,
    ):
        text = text_of(live.chat(model="w"))

    assert text == "ok=True"
    sent = model.asked[0].json
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA


def test_an_answer_that_does_not_fit_is_asked_for_once_more_with_the_mistakes(
    tmp_path: Path,
) -> None:
    with (
        Upstream(chat('{"ok": "maybe"}'), chat('{"ok": false}')) as model,
        schema_tree(tmp_path).model("Main", model.url).serve() as live,
    ):
        text = text_of(live.chat(model="w"))

    assert text == "ok=False"
    assert "ok: 'maybe' is not of type 'boolean'" in model.asked[1].json["messages"][-1]["content"]


def test_an_answer_that_never_fits_is_a_clear_error(tmp_path: Path) -> None:
    with (
        Upstream(chat("no JSON at all")) as model,
        schema_tree(tmp_path).model("Main", model.url).serve() as live,
    ):
        received = live.chat(model="w")

    assert received.status == 400
    assert "does not fit outputSchema: it is no JSON" in received.json["error"]["message"]
    assert len(model.asked) == 2


@pytest.mark.parametrize("reference", ["file:///etc/passwd", "#/$defs/none"])
def test_a_schema_that_refers_to_what_is_not_in_it_is_a_clear_error(
    reference: str, tmp_path: Path
) -> None:
    node = {"type": "Agent", "endpointName": "Main", "outputSchema": {"$ref": reference}}
    with (
        Upstream(chat("{}")) as model,
        Tree(tmp_path).workflow("w", [node]).model("Main", model.url).serve() as live,
    ):
        received = live.chat(model="w")

    assert received.status == 400
    message = received.json["error"]["message"]
    shown = reference.removeprefix("#")
    assert message.endswith(
        f"outputSchema cannot be used: it refers to {shown}, which is not in it."
    )
    assert len(model.asked) == 1


def test_a_schema_that_is_none_is_refused_when_the_file_is_read(tmp_path: Path) -> None:
    node = {"type": "Agent", "endpointName": "Main", "outputSchema": {"type": "nonsense"}}
    with Tree(tmp_path).workflow("w", [node]).serve() as live:
        received = live.chat(model="w")

    assert received.status == 400
    assert "outputSchema" in received.json["error"]["message"]
