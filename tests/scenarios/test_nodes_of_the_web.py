"""Nodes that call servers, through the front door (decisions §6, C-38)."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import mcp_server
from tests.fakes.headrace import Tree
from tests.fakes.strict_client import hear
from tests.fakes.upstream import SILENCE, Upstream, whole
from tests.scenarios.modes import both_modes

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@both_modes
def test_a_page_is_the_answer(stream: bool, tmp_path: Path) -> None:
    node = {"type": "WebFetch", "url": "{base}/items/{chat_user_prompt_last_one}"}
    with Upstream(whole(b"one  two\nthree")) as server:
        tree = Tree(tmp_path).workflow("w", [node], base=server.url)
        with tree.serve() as live:
            heard = hear(live.chat(model="w", stream=stream))

    assert heard.said == ("one  two\nthree", "stop")
    assert server.asked[0].path == "/items/hello%20there%20world"


@needs_curl
@both_modes
def test_the_output_of_curl_is_the_answer(stream: bool, tmp_path: Path) -> None:
    with Upstream(whole(b"one two")) as server:
        args = ["-sS", "--data-raw", "{chat_user_prompt_last_one}", f"{server.url}/x"]
        tree = Tree(tmp_path).workflow("w", [{"type": "CurlCommand", "args": args}])
        with tree.serve() as live:
            heard = hear(live.chat(model="w", stream=stream))

    assert heard.said == ("one two", "stop")
    assert server.asked[0].body == b"hello there world"


@both_modes
def test_what_a_tool_says_is_the_answer(stream: bool, tmp_path: Path) -> None:
    node = {
        "type": "MCPToolCall",
        "server": "calendar",
        "tool": "next_event",
        "arguments": {"day": "{chat_user_prompt_last_one}", "limit": 2},
    }
    tree = Tree(tmp_path).workflow("w", [node])
    tree.write(
        "MCPServers/calendar.json",
        {"transport": "stdio", "command": sys.executable, "args": [mcp_server.__file__]},
    )
    with tree.serve() as live:
        heard = hear(live.chat(model="w", stream=stream))

    assert heard.said == ('{"day": "hello there world", "limit": 2, "kind": "int"}', "stop")


NODES: list[dict[str, Any]] = [
    {"type": "WebFetch", "url": "{chat_user_prompt_last_one}"},
    {"type": "CurlCommand", "args": ["-sS", "{chat_user_prompt_last_one}"]},
]


@needs_curl
@pytest.mark.parametrize("node", NODES, ids=["WebFetch", "CurlCommand"])
def test_what_a_user_writes_leads_nowhere_inside(node: dict[str, Any], tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [{"title": "Fetch", **node}])
    with Upstream(whole(b"inside")) as server, tree.serve() as live:
        received = [
            live.chat(model="w", messages=[{"role": "user", "content": text}])
            for text in (
                server.url,
                f"http://localhost:{server.port}/",
                f"http://0x7f000001:{server.port}/",
                f"http://user@127.0.0.1:{server.port}/",
                "file:///etc/passwd",
                "http://169.254.169.254/latest/meta-data",
            )
        ]

    assert [one.status for one in received] == [400] * 6
    assert {one.json["error"]["code"] for one in received} == {"workflow_error"}
    assert all("node 'Fetch'" in one.json["error"]["message"] for one in received)
    assert server.connections == 0


def test_a_failed_fetch_is_a_mistake_of_the_workflow_and_quotes_nothing(tmp_path: Path) -> None:
    with Upstream(whole(b"canary", 500)) as server:
        tree = Tree(tmp_path).workflow("w", [{"type": "WebFetch", "url": f"{server.url}/canary"}])
        with tree.serve() as live:
            received = live.chat(model="w")

    assert received.status == 400
    assert received.headers["x-should-retry"] == "false"
    assert "canary" not in received.body.decode()


def test_a_client_that_left_ends_the_call(tmp_path: Path) -> None:
    with Upstream([SILENCE]) as server:
        tree = Tree(tmp_path).workflow("w", [{"type": "WebFetch", "url": server.url}])
        with tree.serve() as live:
            with live.connect() as client:
                client.send_chat(model="w")
                server.wait_for(1)
            assert server.left.wait(5)


@both_modes
def test_an_article_is_the_answer(stream: bool, tmp_path: Path) -> None:
    with Upstream(whole({"title": "Fox", "text": "A fox."})) as server:
        tree = Tree(tmp_path, useOfflineWikiApi=True, offlineWikiApiPort=server.port)
        node = {
            "type": "OfflineWikiApiBestFullArticle",
            "promptToSearch": "{chat_user_prompt_last_one}",
        }
        with tree.workflow("w", [node]).serve() as live:
            heard = hear(live.chat(model="w", stream=stream))

    assert heard.said == ("A fox.", "stop")


@both_modes
def test_numbers_of_a_node_may_be_inputs(stream: bool, tmp_path: Path) -> None:
    with Upstream(whole([{"title": "Fox", "text": "A fox."}])) as server:
        tree = Tree(tmp_path, useOfflineWikiApi=True, offlineWikiApiPort=server.port)
        node = {
            "type": "OfflineWikiApiTopNFullArticles",
            "promptToSearch": "fox",
            "top_n_articles": "{agent1Input}",
            "percentile": "{agent2Input}",
        }
        tree.own("Wiki", [node]).workflow(
            "w",
            [{"type": "CustomWorkflow", "workflowName": "Wiki", "scoped_variables": [2, "0.75"]}],
        )
        with tree.serve() as live:
            hear(live.chat(model="w", stream=stream))

    assert "percentile=0.75" in server.asked[0].path
    assert server.asked[0].path.endswith("num_top_articles=2")


@both_modes
def test_research_is_the_answer(stream: bool, tmp_path: Path) -> None:
    found = {"status": "ok", "answer": "Red.", "sources": [{"book": "B", "title": "T"}]}
    with Upstream(whole(found)) as server:
        tree = Tree(tmp_path, useOfflineResearcherApi=True, offlineResearcherApiPort=server.port)
        node = {
            "type": "OfflineResearcherApiQuickSearch",
            "promptToSearch": "{chat_user_prompt_last_one}",
            "includeSources": True,
        }
        with tree.workflow("w", [node]).serve() as live:
            heard = hear(live.chat(model="w", stream=stream))

    assert heard.said == ("Red.\n\nSources:\n- B :: T", "stop")
