"""Tools of MCP servers in the hands of an Agent (design §6), with a real server over stdio."""

import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import mcp_server
from tests.fakes.headrace import Headrace, Tree
from tests.fakes.upstream import (
    DONE,
    Asked,
    Step,
    Upstream,
    chat,
    delta,
    reply,
    stream,
    usage_chunk,
    whole,
)

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
EVENT = '{"day": "today", "limit": 2, "kind": "int"}'
ARGUMENTS = '{"day": "today", "limit": 2}'
SECONDS = 10


def calls(*asked_for: tuple[str, str], text: str | None = None) -> Callable[[Asked], list[Step]]:
    """An answer that calls tools by name and arguments."""

    def answer(asked: Asked) -> list[Step]:
        parts = [
            {
                "index": index,
                "id": f"c{index}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for index, (name, arguments) in enumerate(asked_for)
        ]
        if not asked.json.get("stream"):
            return whole(reply(text, "tool_calls", tool_calls=parts))
        said = [delta(text)] if text else []
        return stream(
            *said,
            delta(tool_calls=parts),
            delta(finish_reason="tool_calls"),
            usage_chunk(5, 7),
            DONE,
        )

    return answer


def agent(root: Path, model: Upstream, *servers: str, **options: Any) -> Tree:
    names = servers or ("calendar",)
    node = {
        "id": "helper",
        "type": "Agent",
        "endpointName": "Main",
        "mcpServers": names,
        **options,
    }
    tree = Tree(root).workflow("w", [node]).model("Main", model.url)
    for name in names:
        program = {"transport": "stdio", "command": sys.executable, "args": [mcp_server.__file__]}
        tree.write(f"MCPServers/{name}.json", program)
    return tree


def results(model: Upstream, number: int = -1) -> list[str]:
    """What tools have said, as the model was told."""
    messages = model.asked[number].json["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


def steps(live: Headrace) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = live.finished()[0]["context"]["steps"]
    return found


@BOTH
def test_a_tool_is_called_and_its_answer_goes_back(tmp_path: Path, streamed: bool) -> None:
    with (
        Upstream(
            calls(("next_event", ARGUMENTS), text="Let me see."), chat("Two ", "events.")
        ) as m,
        agent(tmp_path, m).serve() as live,
    ):
        said = live.says(model="w", stream=streamed)

    assert said == "Two events."
    offered = {tool["function"]["name"]: tool["function"] for tool in m.asked[0].json["tools"]}
    assert offered["next_event"]["description"] == "The next events of a day."
    assert set(offered["next_event"]["parameters"]["properties"]) == {"day", "limit"}
    called, answered = m.asked[1].json["messages"][-2:]
    assert (called["role"], called["content"]) == ("assistant", "Let me see.")
    assert called["tool_calls"][0]["function"] == {"name": "next_event", "arguments": ARGUMENTS}
    assert (answered["role"], answered["tool_call_id"]) == ("tool", "c0")
    assert answered["content"] == EVENT


def test_each_call_is_a_step_and_the_usage_is_that_of_all_rounds(tmp_path: Path) -> None:
    first = calls(("next_event", ARGUMENTS), ("fails", "{}"))
    with (
        Upstream(first, calls(("two_texts", "")), chat("Done.")) as model,
        agent(tmp_path, model).serve() as live,
    ):
        received = live.chat(model="w")
        recorded = steps(live)

    assert received.json["usage"]["total_tokens"] == 3 * 12
    assert [(step["nodeName"], step["meta"]["module_type"]) for step in recorded] == [
        ("helper/next_event", "MCPToolCall"),
        ("helper/fails", "MCPToolCall"),
        ("helper/two_texts", "MCPToolCall"),
        ("helper", "Agent"),
    ]
    outputs = [step["outputData"]["content"] for step in recorded]
    assert (outputs[0], outputs[2], outputs[3]) == (EVENT, "one twö", "Done.")
    assert all(step["processingTimeMs"] > 0 for step in recorded)
    assert recorded[0]["meta"]["resolvedPrompt"] == ARGUMENTS
    assert "Error executing tool fails" in recorded[1]["meta"]["error"]
    assert ["error" in step["meta"] for step in recorded] == [False, True, False, False]
    assert recorded[3]["meta"]["tokens"]["total"] == 36


def test_one_server_process_serves_the_whole_loop(tmp_path: Path) -> None:
    counted = tmp_path / "starts"
    code = (
        "import sys, pathlib\n"
        f"pathlib.Path({str(counted)!r}).open('a').write('x')\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.fakes.mcp_server import server\n"
        "server.run('stdio')\n"
    )
    with Upstream(*[calls(("two_texts", "{}"))] * 3, chat("ok")) as model:
        tree = agent(tmp_path, model)
        program = {"transport": "stdio", "command": sys.executable, "args": ["-c", code]}
        tree.write("MCPServers/calendar.json", program)
        with tree.serve() as live:
            assert live.says(model="w", stream=False) == "ok"

    assert results(model) == ["one twö"] * 3
    assert counted.read_text() == "x"


def test_tools_that_two_servers_share_bear_the_name_of_theirs(tmp_path: Path) -> None:
    with (
        Upstream(calls(("b__next_event", ARGUMENTS)), chat("ok")) as model,
        agent(tmp_path, model, "a", "b").serve() as live,
    ):
        assert live.says(model="w", stream=False) == "ok"

    names = {tool["function"]["name"] for tool in model.asked[0].json["tools"]}
    assert {"a__next_event", "b__next_event"} <= names
    assert "next_event" not in names
    assert results(model) == [EVENT]


MISTAKES = [
    (("nothing", "{}"), "there is no tool 'nothing'. Tools: next_event"),
    (("fails", "{}"), "MCP tool 'fails' failed: Error executing tool fails"),
    (("next_event", "{day"), "are no JSON ("),
    (("next_event", "[1]"), "are no JSON object"),
    (("next_event", '{"day": "today", "limit": "many"}'), "limit: 'many' is not of type 'integer'"),
    (("next_event", "{}"), "'day' is a required property"),
    (("slow", "{}"), "did not finish within 4 s"),
]


@pytest.mark.parametrize(("call", "told"), MISTAKES, ids=[told for _, told in MISTAKES])
def test_the_model_is_told_of_a_call_that_failed(
    tmp_path: Path, call: tuple[str, str], told: str
) -> None:
    with (
        Upstream(calls(call), calls(("next_event", ARGUMENTS)), chat("sorry")) as model,
        agent(tmp_path, model, toolTimeoutSeconds=4).serve() as live,
    ):
        assert live.says(model="w", stream=False) == "sorry"

    failed, worked = results(model)
    assert failed.startswith("Error: ")
    assert told in failed
    assert worked == EVENT


@BOTH
def test_rounds_are_limited(tmp_path: Path, streamed: bool) -> None:
    with (
        Upstream(calls(("two_texts", "{}"))) as model,
        agent(tmp_path, model, maxToolRounds=2).serve() as live,
    ):
        received = live.chat(model="w", stream=streamed)
        run = live.finished()[0]

    assert "after 2 rounds, the limit `maxToolRounds`" in received.body.decode()
    assert (run["status"], len(model.asked)) == ("failed", 3)
    assert len(run["context"]["steps"]) == 3


@pytest.mark.parametrize("rounds", [0, 51])
def test_the_limit_has_limits(tmp_path: Path, rounds: int) -> None:
    with Upstream() as model, agent(tmp_path, model, maxToolRounds=rounds).serve() as live:
        received = live.chat(model="w")

    assert received.status >= 400
    assert "maxToolRounds" in received.body.decode()


def test_a_client_that_leaves_ends_the_call_of_a_tool(tmp_path: Path) -> None:
    with Upstream(calls(("slow", "{}"))) as model, agent(tmp_path, model).serve() as live:
        with live.connect() as client:
            client.send_chat(model="w", stream=True)
            assert model.wait_for(1).answered.wait(SECONDS)
        run = live.finished()[0]

    assert run["status"] == "cancelled"
    assert run["durationMs"] < SECONDS * 1000
    assert len(model.asked) == 1


def test_who_looks_on_sees_a_tool_begin_while_it_works(tmp_path: Path) -> None:
    with (
        Upstream(calls(("slow", "{}"))) as model,
        agent(tmp_path, model).serve() as live,
        live.connect() as client,
        live.connect() as watcher,
    ):
        client.send_chat(model="w", stream=True)
        assert model.wait_for(1).answered.wait(SECONDS)
        (run,) = live.ask("GET", "/api/runs").json["runs"]
        watcher.send("GET", f"/api/runs/{run['id']}/events")
        told = watcher.read_until(b'"nodeName":"slow"').decode()
        shown = live.ask("GET", f"/api/runs/{run['id']}").json["timeline"]

    assert "event: step_finished" not in told
    assert told.count("event: step_started") == 2
    assert [(moment["nodeName"], moment["status"]) for moment in shown] == [
        ("helper", "running"),
        ("slow", "running"),
    ]


def test_a_long_answer_is_shown_while_it_comes(tmp_path: Path) -> None:
    rest = threading.Event()
    answer = stream(delta("x" * 500), rest, delta("end"), delta(finish_reason="stop"), DONE)
    with (
        Upstream(calls(("two_texts", "{}")), answer) as model,
        agent(tmp_path, model).serve() as live,
        live.connect() as client,
    ):
        client.send_chat(model="w", stream=True)
        client.read_until(b"xxx")
        rest.set()
        client.read_until(b"[DONE]")


def test_the_answer_with_a_schema_may_need_tools(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["count"]}
    answers = (calls(("two_texts", "{}")), chat("none"), chat('{"count": 2}'))
    with (
        Upstream(*answers) as model,
        agent(tmp_path, model, outputSchema=schema).serve() as live,
    ):
        received = live.chat(model="w")
        last = steps(live)[-1]

    assert last["outputData"]["data"] == {"count": 2}
    assert received.json["usage"]["total_tokens"] == 36
    roles = [message["role"] for message in model.asked[2].json["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


def test_what_is_remembered_is_the_question_and_the_answer(tmp_path: Path) -> None:
    with Upstream(calls(("two_texts", "{}")), chat("first"), chat("second")) as model:
        tree = agent(tmp_path, model)
        tree.user(apiKeys=[{"name": "jane", "key": "k-jane"}])
        with tree.serve() as live:
            for text in ("one", "two"):
                body = {"model": "w", "messages": [{"role": "user", "content": text}]}
                live.ask("POST", "/v1/chat/completions", body, Authorization="Bearer k-jane")

    said = [(one["role"], one["content"]) for one in model.asked[2].json["messages"]]
    assert said == [("user", "one"), ("assistant", "first"), ("user", "two")]


def test_a_server_that_does_not_start_fails_the_node(tmp_path: Path) -> None:
    with Upstream() as model:
        tree = agent(tmp_path, model)
        tree.write("MCPServers/calendar.json", {"transport": "stdio", "command": "no-such-thing"})
        with tree.serve() as live:
            received = live.chat(model="w")

    assert received.status == 400
    assert "MCP server 'calendar' failed" in received.json["error"]["message"]
    assert model.asked == []


def test_a_server_that_dies_is_started_again(tmp_path: Path) -> None:
    code = (
        "import os\n"
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('mortal')\n"
        "@server.tool()\n"
        "def die() -> str:\n"
        "    os._exit(1)\n"
        "@server.tool(structured_output=False)\n"
        "def live() -> str:\n"
        "    return 'alive'\n"
        "server.run('stdio')\n"
    )
    with Upstream(calls(("die", "{}"), ("live", "{}")), chat("ok")) as model:
        tree = agent(tmp_path, model)
        program = {"transport": "stdio", "command": sys.executable, "args": ["-c", code]}
        tree.write("MCPServers/calendar.json", program)
        with tree.serve() as live:
            assert live.says(model="w", stream=False) == "ok"

    died, lived = results(model)
    assert died.startswith("Error: MCP server 'calendar' failed")
    assert lived == "alive"


def test_steps_of_tools_stand_before_their_agent_where_nodes_run_at_once(tmp_path: Path) -> None:
    with Upstream(calls(("two_texts", "{}")), chat("ok")) as model:
        tree = agent(tmp_path, model)
        helper = {
            "id": "helper",
            "type": "Agent",
            "endpointName": "Main",
            "mcpServers": ["calendar"],
        }
        ends = [
            {"id": name, "type": "StaticResponse", "content": name} for name in ("first", "last")
        ]
        tree.workflow("w", [ends[0], helper, ends[1]], parallel=True)
        with tree.serve() as live:
            live.chat(model="w")
            names = [step["nodeName"] for step in steps(live)]

    assert names == ["first", "helper/two_texts", "helper", "last"]
