"""The record of a run: a step for each of its nodes, and what it says of errors."""

from dataclasses import dataclass

from Middleware.core.errors import MiddlewareError, RunCancelled
from Middleware.workflows.models.error_policy import Tries
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.run import Run
from Middleware.workflows.models.step_notes import StepNotes
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.models.workflow_context import WorkflowPayload, WorkflowStep


@dataclass(frozen=True, slots=True)
class Execution:
    """A node that is being run; the same for all its tries."""

    node: Node
    started: float
    started_at: float
    """Seconds since 1970."""
    notes: StepNotes
    tries: Tries


class StepRecords:
    """The steps of one run. May be used by several threads at once."""

    def __init__(self, workflow: Workflow, run: Run, scope: RequestScope) -> None:
        self._workflow = workflow
        self._run = run
        self._scope = scope

    def begin(self, node: Node) -> Execution:
        self._run.context.current_step_node_id = node.id
        self.started(node.id)
        clock = self._scope.clock
        return Execution(
            node, clock.monotonic(), clock.timestamp(), StepNotes(), Tries(node.policy)
        )

    def started(self, name: str) -> None:
        self._scope.recorder.step_started(self._run, name)

    def first_piece(self, execution: Execution, context: ExecutionContext) -> None:
        """The answer begins. Of one that is not streamed nobody sees a first piece."""
        if not context.stream:
            return
        run = self._run
        took = (self._scope.clock.monotonic() - execution.started) * 1000
        if context.plan is not None:
            execution.notes.first_token_ms = round(took, 3)
        run.first_token_ms = round((execution.started_at - run.started_at) * 1000 + took, 3)

    def failed(self, execution: Execution, error: BaseException) -> None:
        """The step of a node that the run fails with, and what it had said by then."""
        execution.notes.error = told(error, self._workflow, execution.node)
        self.finished(execution, WorkflowPayload.of(self._run.partial_text or None))

    def finished(self, execution: Execution, payload: WorkflowPayload) -> None:
        node, notes = execution.node, execution.notes
        elapsed = self._scope.clock.monotonic() - execution.started
        step = WorkflowStep(
            node_name=node.id,
            output_data=payload,
            module_type=node.type_name,
            next_route=notes.next_route,
            thinking=notes.thinking,
            cost=notes.cost,
            confidence_score=notes.confidence,
            started_at=execution.started_at,
            processing_time_ms=round(elapsed * 1000, 3),
            title=node.options.title or node.options.agent_name or None,
            notes=notes,
        )
        self.add(step)

    def add(self, step: WorkflowStep) -> None:
        self._run.context.steps.append(step)
        self._scope.recorder.step_finished(self._run, step)

    def sort(self) -> None:
        """Nodes that ran at once stand in the record in the order of the file (design §6)."""
        if self._workflow.is_graph:
            return
        place = {node.id: node.position for node in self._workflow}
        self._run.context.steps.sort(key=lambda step: place.get(step.part_of or step.node_name, 0))


def located(error: BaseException, workflow: Workflow, node: Node) -> BaseException:
    """The error, which now names the workflow and the node where it is one of ours."""
    if isinstance(error, MiddlewareError):
        error.locate(workflow.label, node.name)
    return error


def told(error: BaseException, workflow: Workflow, node: Node | None) -> str:
    """What the run's record says of an error that ``node`` has come to."""
    if isinstance(error, GeneratorExit):
        # Whoever read the answer has left in the middle of it.
        error = RunCancelled()
        if node is not None:
            error.locate(workflow.label, node.name)
    if isinstance(error, MiddlewareError):
        return error.message
    return f"Internal error ({type(error).__name__}); the log has the details."
