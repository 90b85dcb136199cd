"""MCPToolCall (nodes §24, config-files §16)."""

import logging
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from Middleware.config.models import Text
from Middleware.core.errors import ConfigError, WorkflowError
from Middleware.tools.mcp import McpCall, McpFailed, call_tool
from Middleware.workflows.handlers.base.named_files import McpServerName
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.handlers.base.option_types import Seconds
from Middleware.workflows.handlers.impl.outgoing import OnError
from Middleware.workflows.handlers.impl.rendering import rendered
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

logger = logging.getLogger(__name__)


class MCPToolCallOptions(NodeOptions):
    """Call a tool of an MCP server and give out what it answers.

    Structured content comes out as JSON, texts as they are, everything else as JSON. A file of
    the server that is missing or wrong, a connection that fails and an error of the tool are
    failures.
    """

    server: McpServerName = Field(min_length=1)
    """Name of a file in ``MCPServers/``, without its suffix."""
    tool: Text = Field(min_length=1)
    """Name of the tool."""
    arguments: Mapping[str, Any] = Field(default_factory=dict)
    """Variables are filled in in texts, however deep; everything else stays as it is."""
    timeout: Seconds = 30.0
    """Seconds for connecting, greeting and the call together."""
    on_error: OnError = "raise"
    """``raise`` (the same as ``fail``), or ``return``: the output is the error's text. The words
    of every node work too."""


@node_type("MCPToolCall", options=MCPToolCallOptions)
class MCPToolCallHandler(NodeHandler):
    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, MCPToolCallOptions)
        scope = context.request_scope
        if scope is None:
            raise WorkflowError("A tool can be called inside of a request only.")
        try:
            server = scope.config.mcp_server(context.render(options.server).strip())
            call = McpCall(
                server=server,
                tool=context.render(options.tool).strip(),
                arguments=rendered(context, options.arguments),
                timeout_seconds=options.timeout,
            )
            return WorkflowPayload.of(call_tool(call, scope.cancel))
        except McpFailed as error:
            if options.on_error != "return":
                raise WorkflowError(str(error)) from error
            logger.warning("MCPToolCall failed: %s", error)
            return WorkflowPayload.of(str(error))
        except ConfigError as error:
            if options.on_error != "return":
                raise
            logger.warning("MCPToolCall failed: %s", error.message)
            return WorkflowPayload.of(error.message)
