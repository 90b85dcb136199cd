"""One node by itself: its options read as from a file, its context with what a test gives it.

payload = run("Conditional", {"condition": "{agent1Output} == 5"}, outputs=["5"])
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from Middleware.config.locations import Locations
from Middleware.config.models import McpServer, User
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError
from Middleware.core.messages import Message
from Middleware.workflows.handlers import impl as impl
from Middleware.workflows.handlers.base.node_handler import node_types
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.server_parts import ServerParts
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.variables.table import VariableTable


@dataclass(frozen=True)
class Store:
    locations: Locations


@dataclass(frozen=True)
class Configured:
    """The part of a snapshot of the configuration that nodes look at."""

    user: User
    store: Store
    mcp_servers: dict[str, McpServer] = field(default_factory=dict)

    def mcp_server(self, name: str) -> McpServer:
        if name not in self.mcp_servers:
            raise ConfigError("There is no such file.", file=f"MCPServers/{name}.json")
        return self.mcp_servers[name]


def scope_in(root: Path, *, api_key: str | None = None, **keys: Any) -> RequestScope:
    """A request to a server that keeps its data below ``root``. ``keys`` are those of the user's
    file."""
    public = root / "Public"
    user = User.model_validate({"name": "tester", **keys})
    locations = Locations(public=public, configs=public / "Configs", workflows=root / "Workflows")
    return RequestScope(
        config=cast(Any, Configured(user, Store(locations))),
        backends=cast(Any, None),
        request_id="request-1",
        cancel=CancelToken(),
        server=ServerParts(install=root / "install"),
        api_key=api_key,
    )


def context_of(
    kind: str,
    config: dict[str, Any],
    *,
    outputs: Sequence[Any] = (),
    variables: dict[str, Any] | None = None,
    messages: Sequence[Message] = (),
    **values: Any,
) -> ExecutionContext:
    """``outputs`` are those of the nodes before, ``variables`` the top-level keys of the file."""
    given = {f"agent{number}Output": value for number, value in enumerate(outputs, start=1)}
    table = VariableTable(
        agent_outputs=given,
        workflow_variables=variables or {},
        messages=messages,
        discussion_id=values.get("discussion_id"),
    )
    return ExecutionContext(
        config=node_types.get(kind).options.read({"type": kind, **config}),
        agent_outputs=given,
        messages=messages,
        variables=table,
        request_id="request-1",
        workflow_id=values.pop("workflow_id", "run-1"),
        **values,
    )


def handle(context: ExecutionContext) -> WorkflowPayload:
    handled = node_types.get(context.config.type).handler.handle(context)
    assert isinstance(handled, WorkflowPayload)
    return handled


def run(kind: str, config: dict[str, Any], **given: Any) -> WorkflowPayload:
    return handle(context_of(kind, config, **given))


def said(kind: str, config: dict[str, Any], **given: Any) -> str:
    """The node's output as later nodes see it, which has to be a text."""
    value = run(kind, config, **given).value
    assert isinstance(value, str)
    return value
