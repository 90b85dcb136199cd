"""The tools of MCP servers in the hands of an Agent (design §6): listing, offering, calling."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from Middleware.core.errors import MiddlewareError, WorkflowError
from Middleware.core.messages import Message, ToolCall
from Middleware.tools.mcp import McpFailed, McpSession, McpTool, open_session
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.step_notes import StepNotes
from Middleware.workflows.models.workflow_context import WorkflowPayload, WorkflowStep
from Middleware.workflows.output.json_schema import NoSchema, SchemaCheck

_NAME_LENGTH = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class _Offered:
    """A tool, and the session that it is called through."""

    tool: McpTool
    session: McpSession


class _Refused(Exception):
    """A call that the model has to make otherwise. The text tells it how."""


class Toolbox:
    """The tools of one execution of an agent. A context manager: it ends the sessions.

    Servers are listed when it is entered; one that cannot be reached fails the node.
    """

    def __init__(
        self, context: ExecutionContext, servers: Sequence[str], rounds: int, seconds: float
    ) -> None:
        self._context = context
        self._servers = tuple(dict.fromkeys(servers))
        self._limit = rounds
        self._used = 0
        self._seconds = seconds
        self._offered: dict[str, _Offered] = {}
        self._ends = ExitStack()
        self.definitions: tuple[Mapping[str, Any], ...] = ()
        """In OpenAI's function format."""

    def __enter__(self) -> "Toolbox":
        scope = self._context.request_scope
        if self._servers and scope is not None:
            try:
                self._offer(scope)
            except BaseException:
                self._ends.close()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._ends.close()

    def run(self, calls: Sequence[ToolCall]) -> list[Message]:
        """One round: the calls in order, and what goes back to the model."""
        if self._used == self._limit:
            raise WorkflowError(
                f"the model wanted to call tools again after {self._limit} rounds, the limit "
                "`maxToolRounds` of this node."
            )
        self._used += 1
        return [
            Message("tool", self._answer(call), tool_call_id=call.id, name=call.name)
            for call in calls
        ]

    def _offer(self, scope: RequestScope) -> None:
        found: list[tuple[str, _Offered]] = []
        for name in self._servers:
            server = scope.config.mcp_server(name)
            session = open_session(server, self._seconds, scope.cancel)
            self._ends.callback(session.close)
            try:
                found += [(name, _Offered(tool, session)) for tool in session.list_tools()]
            except McpFailed as error:
                raise WorkflowError(str(error)) from error
        counts = Counter(one.tool.name for _, one in found)
        for name, one in found:
            tool = one.tool.name
            self._offered[self._free(tool if counts[tool] == 1 else f"{name}__{tool}")] = one
        self.definitions = tuple(_definition(name, one) for name, one in self._offered.items())

    def _free(self, name: str) -> str:
        """The name as models may write it, which no other tool has."""
        allowed = _NOT_IN_NAMES.sub("_", name)[:_NAME_LENGTH]
        free, number = allowed, 1
        while free in self._offered:
            number += 1
            ending = f"_{number}"
            free = allowed[: _NAME_LENGTH - len(ending)] + ending
        return free

    def _answer(self, call: ToolCall) -> str:
        """What the tool says, or what was wrong with the call; recorded as a step."""
        scope = self._context.request_scope
        assert scope is not None
        scope.cancel.check()
        started, started_at = scope.clock.monotonic(), scope.clock.timestamp()
        if self._context.start_step is not None:
            self._context.start_step(call.name)
        text: str | None = None
        failed: str | None = None
        try:
            text = self._call(call)
        except (McpFailed, _Refused) as error:
            failed = str(error)
        except MiddlewareError as error:
            failed = error.message
            raise
        finally:
            took = round((scope.clock.monotonic() - started) * 1000, 3)
            if self._context.add_step is not None:
                self._context.add_step(
                    WorkflowStep(
                        node_name=call.name,
                        output_data=WorkflowPayload.of(failed if text is None else text),
                        module_type="MCPToolCall",
                        processing_time_ms=took,
                        started_at=started_at,
                        notes=StepNotes(resolved_prompt=call.arguments, error=failed),
                    )
                )
        return text if text is not None else f"Error: {failed}"

    def _call(self, call: ToolCall) -> str:
        offered = self._offered.get(call.name)
        if offered is None:
            known = ", ".join(self._offered) or "none"
            raise _Refused(f"there is no tool {call.name!r}. Tools: {known}.")
        arguments = _arguments(call, offered.tool.schema)
        return offered.session.call(offered.tool.name, arguments)


def _definition(name: str, offered: _Offered) -> Mapping[str, Any]:
    described = {
        "name": name,
        "description": offered.tool.description,
        "parameters": dict(offered.tool.schema),
    }
    return {"type": "function", "function": described}


def _arguments(call: ToolCall, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        arguments = json.loads(call.arguments) if call.arguments.strip() else {}
    except ValueError as error:
        raise _Refused(f"the arguments of {call.name!r} are no JSON ({error}).") from error
    if not isinstance(arguments, dict):
        raise _Refused(f"the arguments of {call.name!r} are no JSON object.")
    if problems := misfits(arguments, schema):
        raise _Refused(f"the arguments of {call.name!r} do not fit: {'; '.join(problems)}.")
    return arguments


def misfits(data: Any, schema: Mapping[str, Any]) -> Sequence[str]:
    """The first few reasons why ``data`` does not fit. A schema that is itself wrong, or that
    refers to others elsewhere, is left to the server that wrote it.
    """
    try:
        return SchemaCheck(schema).problems(data)
    except NoSchema:
        return ()
