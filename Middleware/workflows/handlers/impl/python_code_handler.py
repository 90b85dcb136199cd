"""PythonCode (design §5): a function of the owner's that may change global variables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import model_validator

from Middleware.config.models import Text
from Middleware.config.paths import UnsafeName, is_inside, parts_of
from Middleware.core.errors import WorkflowError
from Middleware.tools.python_code import call, load_code, load_script
from Middleware.tools.scripts import run_script, showable
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

SCRIPTS_FOLDER = "workflow_python_scripts"


class PythonCodeOptions(NodeOptions):
    """Run a Python function `run(context, payload)` of your own.

    `context` is the run's context (`global_variables`, which it may change, `get_history()`,
    `steps`), `payload` what the node before gave out. It returns text, a list or an object.
    """

    script: Text = ""
    """A file below `workflow_python_scripts` in the public folder, as `claims.py`."""
    code: Text = ""
    """The code itself; needs a server that was started with `--allow-inline-python`."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "PythonCodeOptions":
        if bool(self.script) == bool(self.code):
            raise ValueError("needs either `script` or `code`")
        return self


@node_type("PythonCode", options=PythonCodeOptions)
class PythonCodeHandler(NodeHandler):
    def reads_step_before(self, options: Any) -> bool:
        return True

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, PythonCodeOptions)
        run = context.workflow_context
        name = options.script or f"the code of node {run.current_step_node_id!r}"
        if not options.script:
            self._require_inline(context)
        before = dict(run.global_variables)
        payload = run.get_previous_step_output() or WorkflowPayload()

        def work() -> Any:
            if options.script:
                function = load_script(_script(context, options.script))
            else:
                function = load_code(options.code, name)
            return call(function, run, payload, name)

        scope = context.request_scope
        record, steps, variables = run.workflow_record, run.steps, run.global_variables
        try:
            result = run_script(work, scope.cancel if scope else None)
        finally:
            broken = not isinstance(run.global_variables, dict) or run.steps is not steps
            run.workflow_record, run.steps = record, steps
            if broken:
                run.global_variables = variables
        if broken:
            raise WorkflowError(
                f"{name} put something else in place of the run's variables or steps. Change "
                "what is in `context.global_variables`, and add steps with `add_to_history`."
            )
        changed = _changes(before, run.global_variables)
        for key, value in (changed or {}).items():
            try:
                showable(value, f"{name} gave the variable {key!r} a value")
            except WorkflowError:
                # The record of the run wants to show it, too.
                run.global_variables = before
                raise
        context.step.changed_globals = changed
        return WorkflowPayload.of(result)

    def _require_inline(self, context: ExecutionContext) -> None:
        scope = context.request_scope
        if scope is None or not scope.server.allow_inline_python:
            raise WorkflowError(
                "inline `code` is off. Put it into a `script`, or start the server with "
                "--allow-inline-python."
            )


def _script(context: ExecutionContext, name: str) -> Path:
    scope = context.request_scope
    if scope is None:
        raise WorkflowError("scripts can only be run inside of a request.")
    try:
        parts = parts_of(name)
    except (UnsafeName, ValueError) as error:
        raise WorkflowError(f"the script name {name!r} {error}.") from error
    folder = scope.config.store.locations.public / SCRIPTS_FOLDER
    path = folder.joinpath(*parts)
    if not is_inside(path, [folder]):
        raise WorkflowError(f"the script {name!r} leads out of {SCRIPTS_FOLDER}.")
    return path


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    """New and changed variables; a removed one is null."""
    changed = {key: value for key, value in after.items() if _differ(before.get(key), value)}
    changed.update({key: None for key in before if key not in after})
    return changed or None


def _differ(one: Any, other: Any) -> bool:
    try:
        return bool(one != other)
    # An object of a script may not be able to tell; numpy's arrays are of that kind.
    except Exception:  # noqa: BLE001
        return one is not other
