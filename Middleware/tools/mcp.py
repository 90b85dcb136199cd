"""Tools of MCP servers (nodes §24).

The library is loaded with the first call: that takes longer than this server may take to start.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

from Middleware.config.models import McpServer
from Middleware.core.cancellation import CancelToken


class McpFailed(Exception):
    """The call has failed. The text names neither address nor secrets of the server's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCall:
    server: McpServer
    tool: str
    arguments: Mapping[str, Any]
    timeout_seconds: float
    """For connecting, greeting and the call together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """A tool as a server describes it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON Schema of the arguments."""


class McpSession(Protocol):
    """A connection to a server that stays open for several calls, which come one at a time.

    Everything raises as :func:`call_tool`. After a failed connection the next call connects
    anew.
    """

    def list_tools(self) -> list[McpTool]: ...

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str: ...

    def close(self) -> None:
        """Ends the connection, and a program that was started for it."""
        ...


def call_tool(asked: McpCall, cancel: CancelToken) -> str:
    """Connect, call the tool once, and give what it answered as text.

    Raises McpFailed for every failure, that of the tool included, or the token's reason.
    """
    text: str = _library().call_tool(asked, cancel)
    return text


def list_tools(server: McpServer, timeout_seconds: float, cancel: CancelToken) -> list[McpTool]:
    """All tools of a server, in its order. Raises as :func:`call_tool`."""
    tools: list[McpTool] = _library().list_tools(server, timeout_seconds, cancel)
    return tools


def open_session(server: McpServer, timeout_seconds: float, cancel: CancelToken) -> McpSession:
    """A session that connects when it is first used. Connecting, and each call, may take
    ``timeout_seconds``. It has to be closed.
    """
    from Middleware.tools.mcp_kept import KeptSession

    return KeptSession(server, timeout_seconds, cancel)


def _library() -> ModuleType:
    from Middleware.tools import mcp_session

    return mcp_session
