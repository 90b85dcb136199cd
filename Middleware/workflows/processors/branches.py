"""The nodes of a ``parallel`` workflow, which run at once where they can (design §6)."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import MiddlewareError, RunCancelled
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.processors.node_runner import NodeRunner, Outcome

_STARTED = Outcome(WorkflowPayload())
"""What the walk gets for a node that runs beside it: lists need no route to go on."""


class Branches:
    """The nodes of one run that do not have to wait for each other.

    In an ordinary workflow there are none, and this only passes nodes on to the runner. In a
    ``parallel`` one a node starts as soon as the nodes it needs have finished; the first failure
    cancels the others and the responder, and is what they are told.
    """

    def __init__(self, workflow: Workflow, runner: NodeRunner, cancel: CancelToken) -> None:
        self._workflow = workflow
        self._runner = runner
        self.cancel = cancel
        """The token for every node of the run."""
        self._started: dict[int, Future[Outcome]] = {}
        self._stack = ExitStack()
        self._pool: ThreadPoolExecutor | None = None

    def start_independent(self) -> None:
        """Start all nodes in front of the responder, each when its needs are met."""
        if not self._workflow.parallel:
            return
        self.cancel = self._stack.enter_context(self.cancel.child())
        self._pool = ThreadPoolExecutor(len(self._workflow.nodes), thread_name_prefix="node")
        for node in self._workflow.nodes:
            if node.responds:
                break
            self._start(node)

    def perform(self, node: Node) -> Outcome:
        """Run a node, or see to it that it runs."""
        if self._pool is None:
            return self._runner.perform(node, self.cancel)
        if node.position not in self._started:
            self._start(node)
        return _STARTED

    def wait_for_needs(self, node: Node) -> None:
        """Raises what made one of them fail."""
        for position in sorted(node.needs):
            if position in self._started:
                self._started[position].result()
        if self._pool is not None and node.handler.reads_step_before(node.options):
            # It runs alone, behind all before it: which was the last of them, the file says.
            self._runner.steps.sort()

    @property
    def busy(self) -> bool:
        return any(not future.done() for future in self._started.values())

    def finish(self) -> None:
        """Wait for all. Raises the first failure, in the order of the file."""
        try:
            for _, future in sorted(self._started.items()):
                future.result()
        finally:
            self._close()

    def stop(self) -> None:
        """The run has failed: cancel what still runs, and wait until it has stopped."""
        if self._pool is not None:
            self.cancel.cancel(RunCancelled())
        self._close()

    def _start(self, node: Node) -> None:
        assert self._pool is not None
        # One thread a node: a job that waits for others never keeps those from starting.
        self._started[node.position] = self._pool.submit(self._run, node)

    def _run(self, node: Node) -> Outcome:
        try:
            self.wait_for_needs(node)
            self.cancel.check()
            return self._runner.perform(node, self.cancel)
        except MiddlewareError as error:
            self.cancel.cancel(error)
            raise

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
            self._runner.steps.sort()
        self._stack.close()
