"""MCPToolCall against a real MCP server, over every transport."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from Middleware.config.models import McpServer
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError, RunCancelled, WorkflowError
from Middleware.tools.mcp import list_tools
from Middleware.workflows.models.request_scope import RequestScope
from tests.fakes import mcp_server
from tests.fakes.upstream import nobody_listens
from tests.workflows.handlers.setups import Configured, context_of, handle, scope_in

PROGRAM = mcp_server.__file__
TRANSPORTS = ["stdio", "sse", "streamable_http"]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, McpServer]]:
    with mcp_server.serving("sse") as sse, mcp_server.serving("streamable_http") as http:
        files: dict[str, dict[str, Any]] = {
            "stdio": {"command": sys.executable, "args": [PROGRAM], "env": {"TEST_KEY": "k"}},
            "sse": {"url": sse, "headers": {"X-Test": "h"}},
            "streamable_http": {"url": http, "headers": {"X-Test": "h"}},
        }
        yield {
            name: McpServer.model_validate({"name": name, "transport": name, **file})
            for name, file in files.items()
        }


def scope_with(root: Path, servers: dict[str, McpServer]) -> RequestScope:
    scope = scope_in(root)
    configured = cast(Configured, scope.config)
    return replace(scope, config=cast(Any, replace(configured, mcp_servers=servers)))


def call(scope: RequestScope, server: str, tool: str, **config: Any) -> str:
    outputs = config.pop("outputs", ())
    given = {"server": server, "tool": tool, **config}
    value = handle(context_of("MCPToolCall", given, outputs=outputs, request_scope=scope)).value
    assert isinstance(value, str)
    return value


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_tool_is_called_over_every_transport(
    transport: str, servers: dict[str, McpServer], tmp_path: Path
) -> None:
    text = call(
        scope_with(tmp_path, servers),
        "{agent1Output}",
        "{agent2Output}",
        arguments={"day": "{agent3Output}", "limit": 2},
        outputs=[transport, "next_event", "mön"],
    )

    assert text == '{"day": "mön", "limit": 2, "kind": "int"}'


@dataclass(frozen=True)
class Case:
    id: str
    tool: str
    expected: str


CASES = [
    Case("texts are put together", "two_texts", "one twö"),
    Case(
        "other parts come as JSON",
        "picture",
        'see: {"type":"image","data":"aGk=","mimeType":"image/png"}',
    ),
    Case("headers of the file are sent", "header", "h"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES])
@pytest.mark.parametrize("transport", ["sse", "streamable_http"])
def test_what_a_tool_answers(
    case: Case, transport: str, servers: dict[str, McpServer], tmp_path: Path
) -> None:
    assert call(scope_with(tmp_path, servers), transport, case.tool) == case.expected


def test_a_program_gets_its_environment_and_its_folder(
    servers: dict[str, McpServer], tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    here = servers["stdio"].model_copy(update={"cwd": str(tmp_path / "here")})

    assert call(scope_with(tmp_path, {"s": here}), "s", "environment") == "k,here"


@pytest.mark.parametrize(
    ("tool", "says"),
    [("fails", "MCP tool 'fails' failed"), ("no_such_tool", "Unknown tool: no_such_tool")],
)
def test_a_tool_that_fails_fails_the_node_or_is_its_output(
    tool: str, says: str, servers: dict[str, McpServer], tmp_path: Path
) -> None:
    scope = scope_with(tmp_path, servers)

    with pytest.raises(WorkflowError, match=says):
        call(scope, "streamable_http", tool)
    assert says in call(scope, "streamable_http", tool, onError="return")


@dataclass(frozen=True)
class Broken:
    id: str
    file: dict[str, Any]
    says: str


BROKEN = [
    Broken("no such program", {"transport": "stdio", "command": "/no/such/program"}, "not found"),
    Broken("no program at all", {"transport": "stdio"}, "no `command`"),
    Broken("a program that is no server", {"transport": "stdio", "command": "true"}, "failed"),
    Broken("nobody listens", {"transport": "sse", "url": f"{nobody_listens()}/k-canary"}, "failed"),
    Broken(
        "nobody listens to posts",
        {"transport": "streamable_http", "url": f"{nobody_listens()}/k-canary"},
        "failed",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in BROKEN])
def test_a_server_that_cannot_be_used(case: Broken, tmp_path: Path) -> None:
    server = McpServer.model_validate({"name": "calendar", **case.file})

    text = call(scope_with(tmp_path, {"s": server}), "s", "x", onError="return", timeout=10)

    assert "'calendar'" in text
    assert case.says in text
    assert "canary" not in text


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_time_is_for_everything_together(
    transport: str, servers: dict[str, McpServer], tmp_path: Path
) -> None:
    started = time.monotonic()

    text = call(scope_with(tmp_path, servers), transport, "slow", onError="return", timeout="1")

    assert text == f"MCP server {transport!r} did not finish within 1 s."
    assert time.monotonic() - started < 6


def test_a_run_that_is_cancelled_ends_the_call(
    servers: dict[str, McpServer], tmp_path: Path
) -> None:
    scope = scope_with(tmp_path, servers)
    canceller = threading.Timer(0.3, scope.cancel.cancel)
    canceller.start()
    started = time.monotonic()

    with pytest.raises(RunCancelled):
        call(scope, "streamable_http", "slow")

    assert time.monotonic() - started < 5
    canceller.join()


def test_a_missing_file_fails_the_node_or_is_its_output(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)

    with pytest.raises(ConfigError, match=r"MCPServers/nope\.json"):
        call(scope, "nope", "x")
    assert "MCPServers/nope.json" in call(scope, "nope", "x", onError="return")


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"tool": "x"}, "server"),
        ({"server": "s"}, "tool"),
        ({"server": "s", "tool": "x", "arguments": [1]}, "arguments"),
        ({"server": "s", "tool": "x", "timeout": 0}, "timeout"),
        ({"server": "s", "tool": "x", "timeout": True}, "timeout"),
        ({"server": "s", "tool": "x", "timeout": "soon"}, "timeout"),
        ({"server": "s", "tool": "x", "onError": "ignore"}, "onError"),
    ],
)
def test_a_mistake_fails_the_file(config: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        context_of("MCPToolCall", config)


def test_all_tools_of_a_server_can_be_listed(servers: dict[str, McpServer]) -> None:
    tools = list_tools(servers["streamable_http"], 10, CancelToken())

    assert [tool.name for tool in tools][:2] == ["next_event", "two_texts"]
    assert tools[0].description == "The next events of a day."
    assert tools[0].schema["required"] == ["day", "limit"]


def test_the_library_is_not_loaded_before_it_is_used() -> None:
    code = "import sys, Middleware.app; assert 'mcp' not in sys.modules"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
