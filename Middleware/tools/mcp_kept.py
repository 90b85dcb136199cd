"""An MCP session that stays open between calls. Imported when first used, as ``mcp_session``.

A session lives in one task, so each has a thread with an event loop of its own.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar, cast

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError

from Middleware.config.models import McpServer
from Middleware.core.cancellation import CancelToken
from Middleware.tools.mcp import McpFailed, McpTool
from Middleware.tools.mcp_session import called, listed, opened, told

T = TypeVar("T")
Work: TypeAlias = Callable[[ClientSession], Awaitable[Any]]

_SILENCE_SECONDS = 86400.0
"""A model may think for long between two calls; each call has a time of its own."""


class KeptSession:
    """See ``mcp.McpSession``. For one thread at a time."""

    def __init__(self, server: McpServer, timeout_seconds: float, cancel: CancelToken) -> None:
        self._server = server
        self._seconds = timeout_seconds
        self._cancel = cancel
        self._connection: _Connection | None = None

    def list_tools(self) -> list[McpTool]:
        return self._do(listed)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return self._do(lambda session: called(session, tool, arguments))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _do(self, work: Callable[[ClientSession], Awaitable[T]]) -> T:
        if self._connection is None or self._connection.ended:
            self._connection = _Connection(self._server, self._seconds)
        connection, name = self._connection, self._server.name
        try:
            with self._cancel.on_cancel(connection.stop):
                return cast(T, connection.ask(work).result())
        except TimeoutError as error:
            raise McpFailed(
                f"MCP server {name!r} did not finish within {self._seconds:g} s."
            ) from error
        except McpFailed:
            raise
        # Transports raise groups of whatever they come to.
        except (asyncio.CancelledError, Exception) as error:
            self._cancel.check()
            raise McpFailed(f"MCP server {name!r} failed: {told(error)}") from error


class _Connection:
    """A thread, its loop, and the one task in it."""

    def __init__(self, server: McpServer, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self._lock = threading.Lock()
        self._job: Future[Any] | None = None
        self._loop = asyncio.new_event_loop()
        self._jobs: asyncio.Queue[tuple[Work, Future[Any]] | None] = asyncio.Queue()
        self._task = self._loop.create_task(self._serve())
        self.ended = False
        self._thread = threading.Thread(target=self._run, name="mcp-session", daemon=True)
        self._thread.start()

    def ask(self, work: Work) -> Future[Any]:
        answer: Future[Any] = Future()
        with self._lock:
            if self.ended:
                raise McpFailed(f"MCP server {self._server.name!r} has closed the connection.")
            self._job = answer
            self._loop.call_soon_threadsafe(self._jobs.put_nowait, (work, answer))
        return answer

    def stop(self) -> None:
        """Whoever waits is told at once; the server ends behind their back."""
        self._tell(self._stop)

    def close(self) -> None:
        """Does not wait: a program may take its time to end."""
        self._tell(lambda: self._jobs.put_nowait(None))

    def _tell(self, what: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop has just ended by itself
            self._loop.call_soon_threadsafe(what)

    def _stop(self) -> None:
        self._task.cancel()
        self._fail(asyncio.CancelledError())

    def _fail(self, error: BaseException) -> None:
        if self._job is not None and not self._job.done():
            self._job.set_exception(error)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._finish())

    async def _finish(self) -> None:
        await asyncio.wait({self._task})
        failure = asyncio.CancelledError() if self._task.cancelled() else self._task.exception()
        with self._lock:
            self.ended = True
            self._fail(failure or McpFailed(f"MCP server {self._server.name!r} was closed."))

    async def _serve(self) -> None:
        with anyio.fail_after(self._seconds) as limit:
            async with opened(self._server, _SILENCE_SECONDS) as session:
                limit.deadline = float("inf")
                while (job := await self._jobs.get()) is not None:
                    if not await self._answer(session, *job):
                        return

    async def _answer(self, session: ClientSession, work: Work, answer: Future[Any]) -> bool:
        """Whether the connection still works afterwards."""
        try:
            with anyio.fail_after(self._seconds):
                result = await work(session)
        except (McpFailed, TimeoutError) as error:
            self._fail(error)
        except MCPError as error:
            closed = error.code == types.CONNECTION_CLOSED
            # Before anybody is told, so that the next call does not come here any more.
            self.ended = closed
            self._fail(error)
            return not closed
        else:
            if not answer.done():
                answer.set_result(result)
        return True
