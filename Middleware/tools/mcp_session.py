"""Talking to an MCP server. The only module that knows the library; imported when first used,
because the library takes longer to load than a server may take to start.
"""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio
import mcp_types as types
from httpx2 import AsyncClient, Timeout
from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from Middleware.config.models import McpServer
from Middleware.core.cancellation import CancelToken
from Middleware.tools.mcp import McpCall, McpFailed, McpTool

T = TypeVar("T")

# They write addresses and headers, which may hold keys, into the log.
for _noisy in ("httpx2", "httpcore2", "mcp"):
    logging.getLogger(_noisy).setLevel(logging.WARNING)


def call_tool(asked: McpCall, cancel: CancelToken) -> str:
    """Connect, call the tool once, and give what it answered as text.

    Raises McpFailed for every failure, that of the tool included, or the token's reason.
    """
    return _run(lambda: _call(asked), asked, cancel)


def list_tools(server: McpServer, timeout_seconds: float, cancel: CancelToken) -> list[McpTool]:
    """All tools of a server, in its order. Raises as :func:`call_tool`."""
    asked = McpCall(server=server, tool="", arguments={}, timeout_seconds=timeout_seconds)
    return _run(lambda: _list(asked), asked, cancel)


def _run(work: Callable[[], Awaitable[T]], asked: McpCall, cancel: CancelToken) -> T:
    """Run a coroutine on this thread, so that it ends with the run or with its time."""

    async def bounded() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop() -> None:
            with suppress(RuntimeError):  # the loop has just ended by itself
                loop.call_soon_threadsafe(task.cancel)

        with cancel.on_cancel(stop):
            with anyio.fail_after(asked.timeout_seconds):
                return await work()

    name = asked.server.name
    try:
        return asyncio.run(bounded())
    except TimeoutError as error:
        raise McpFailed(
            f"MCP server {name!r} did not finish within {asked.timeout_seconds:g} s."
        ) from error
    except McpFailed:
        raise
    except (asyncio.CancelledError, Exception) as error:
        # The library raises groups of whatever its transports raise.
        cancel.check()
        raise McpFailed(f"MCP server {name!r} failed: {told(error)}") from error


async def _call(asked: McpCall) -> str:
    async with opened(asked.server, asked.timeout_seconds) as session:
        return await called(session, asked.tool, asked.arguments)


async def called(session: ClientSession, tool: str, arguments: Mapping[str, Any]) -> str:
    """What the tool answered, as text. Raises McpFailed when that is an error."""
    result = await session.call_tool(tool, dict(arguments))
    if not isinstance(result, types.CallToolResult):
        raise McpFailed(f"MCP tool {tool!r} did not answer with a result.")
    text = _text_of(result)
    if result.is_error:
        raise McpFailed(f"MCP tool {tool!r} failed: {text}")
    return text


async def _list(asked: McpCall) -> list[McpTool]:
    async with opened(asked.server, asked.timeout_seconds) as session:
        return await listed(session)


async def listed(session: ClientSession) -> list[McpTool]:
    """All tools of the server, in its order."""
    tools: list[McpTool] = []
    cursor: str | None = None
    while True:
        page = await session.list_tools(
            params=types.PaginatedRequestParams(cursor=cursor) if cursor else None
        )
        tools.extend(
            McpTool(name=one.name, description=one.description or "", schema=one.input_schema)
            for one in page.tools
        )
        cursor = page.next_cursor
        if not cursor:
            return tools


def _text_of(result: types.CallToolResult) -> str:
    if result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    parts = []
    for part in result.content:
        if isinstance(part, types.TextContent):
            parts.append(part.text)
        else:
            parts.append(part.model_dump_json(by_alias=True, exclude_none=True))
    return "".join(parts)


@asynccontextmanager
async def opened(server: McpServer, seconds: float) -> AsyncIterator[ClientSession]:
    """A session that has greeted. ``seconds`` is the longest silence of a connection."""
    async with (
        _streams(server, seconds) as (reader, writer),
        ClientSession(reader, writer) as session,
    ):
        await session.initialize()
        yield session


@asynccontextmanager
async def _streams(server: McpServer, seconds: float) -> AsyncIterator[tuple[Any, Any]]:
    if server.transport == "stdio":
        # What a server writes beside its answers is for its own developer.
        with Path(os.devnull).open("w", encoding="utf-8") as errors:
            async with stdio_client(_process(server), errlog=errors) as streams:
                yield streams
    elif server.transport == "sse":
        headers = dict(server.headers or {})
        async with sse_client(
            server.url, headers=headers, timeout=seconds, sse_read_timeout=seconds
        ) as streams:
            yield streams
    else:
        async with (
            AsyncClient(headers=dict(server.headers or {}), timeout=Timeout(seconds)) as client,
            streamable_http_client(server.url, http_client=client) as streams,
        ):
            yield streams


def _process(server: McpServer) -> StdioServerParameters:
    if not server.command:
        raise McpFailed(f"MCP server {server.name!r} has no `command` in its file.")
    return StdioServerParameters(
        command=server.command,
        args=list(server.args),
        env=dict(server.env) if server.env is not None else None,
        cwd=server.cwd,
    )


def told(error: BaseException) -> str:
    """The innermost error, without what might hold an address or a header."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, McpFailed | MCPError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "its command was not found."
    return f"{type(error).__name__}."
