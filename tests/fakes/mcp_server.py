"""A real MCP server for tests: run as a program it speaks over stdin and stdout, and
``serving("sse")`` or ``serving("streamable_http")`` puts it on a port of the loopback address.
"""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ImageContent, TextContent

server = MCPServer("test")


@server.tool()
def next_event(day: str, limit: int) -> dict[str, Any]:
    """The next events of a day."""
    return {"day": day, "limit": limit, "kind": type(limit).__name__}


@server.tool(structured_output=False)
def two_texts() -> list[TextContent]:
    return [TextContent(type="text", text="one "), TextContent(type="text", text="twö")]


@server.tool(structured_output=False)
def picture() -> list[TextContent | ImageContent]:
    return [
        TextContent(type="text", text="see: "),
        ImageContent(type="image", data="aGk=", mime_type="image/png"),
    ]


@server.tool()
def fails() -> str:
    raise ValueError("there is no such day")


@server.tool(structured_output=False)
async def slow() -> str:
    await asyncio.sleep(60)
    return "late"


@server.tool(structured_output=False)
def environment() -> str:
    return ",".join([os.environ.get("TEST_KEY", ""), Path.cwd().name])


@server.tool(structured_output=False)
def header(context: Context) -> str:
    request = context.request_context.request
    return str(request.headers.get("x-test")) if request is not None else ""


@contextmanager
def serving(transport: str) -> Iterator[str]:
    """The URL that a client connects to."""
    app = server.sse_app() if transport == "sse" else server.streamable_http_app()
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, lifespan="on")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not running.started:
        assert time.monotonic() < deadline, "the MCP server did not start"
        time.sleep(0.005)
    try:
        path = "sse" if transport == "sse" else "mcp"
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/{path}"
    finally:
        running.should_exit = True
        thread.join(10)


if __name__ == "__main__":
    server.run("stdio")
