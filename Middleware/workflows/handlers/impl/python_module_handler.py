"""PythonModule (nodes §15)."""

from collections.abc import Mapping
from typing import Any

from pydantic import AliasChoices, Field

from Middleware.config.models import Text
from Middleware.core.errors import WorkflowError
from Middleware.tools.python_module import Call, find_script, invoke
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.server_parts import INSTALL
from Middleware.workflows.models.workflow_context import WorkflowPayload


class PythonModuleOptions(NodeOptions):
    """Call ``Invoke(*args, **kwargs)`` of a Python file and give out what it returns.

    The file is read anew for every call and runs inside of the server, with all its rights. When
    its client leaves, or ``timeoutSeconds`` is over, it is ended between two of its steps; a sleep
    or a call of the system goes on until it returns. Arguments are always texts; for the
    conversation as JSON write ``{{ messages | tojson }}`` in a node with ``jinja2``. What is
    returned keeps its type, and must have a text. A script that raises
    gives a text that tells so; ``from Middleware.tools.python_module import ScriptError`` is the
    exception for failures of its own: ``ScriptError(message, module_name=None, details=None)``.
    A file that is missing, cannot be loaded or has no ``Invoke`` is an error of the workflow.
    """

    module_path: Text = Field(
        validation_alias=AliasChoices("module_path", "modulePath"), min_length=1
    )
    """Absolute, or relative to the working directory, then to the server's own folder; ``~`` is
    the home folder."""
    args: tuple[Any, ...] = ()
    """Arguments by place; variables are filled in."""
    kwargs: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments by name; variables are filled in in the values."""


@node_type("PythonModule", options=PythonModuleOptions)
class PythonModuleHandler(NodeHandler):
    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, PythonModuleOptions)
        name = context.render(options.module_path).strip()
        if not name:
            raise WorkflowError("`module_path` is missing. Name a Python file.")
        scope = context.request_scope
        install = scope.server.install if scope else INSTALL
        value = invoke(
            find_script(name, install),
            Call(
                [context.render(item) for item in options.args],
                {key: context.render(value) for key, value in options.kwargs.items()},
                scope.cancel if scope else None,
            ),
            import_from=install,
        )
        return WorkflowPayload.of(value)
