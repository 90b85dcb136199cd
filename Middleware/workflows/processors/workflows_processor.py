"""Walks the nodes of one workflow, list or graph, and decides which of them answers."""

import logging
from collections import deque
from collections.abc import Generator, Iterator

from Middleware.core.clock import Clock
from Middleware.core.errors import RunCancelled, TooManySteps, WorkflowError
from Middleware.core.events import Event, Finish, ReasoningDelta, Reply, Usage, replay
from Middleware.core.registry import nearest
from Middleware.workflows.models.early_end import RunEndsEarly
from Middleware.workflows.models.execution_context import RunsWorkflows
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.run import Run
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.models.workflow_call import WorkflowCall
from Middleware.workflows.models.workflow_context import WorkflowContext, WorkflowPayload
from Middleware.workflows.processors.branches import Branches
from Middleware.workflows.processors.node_runner import NodeRunner, Outcome
from Middleware.workflows.processors.run_summary import log_summary
from Middleware.workflows.processors.step_records import told

logger = logging.getLogger(__name__)

_PATH_SHOWN = 6


class WorkflowProcessor:
    """One run of one workflow. Made fresh for each; :meth:`events` may be called once."""

    def __init__(
        self,
        workflow: Workflow,
        call: WorkflowCall,
        scope: RequestScope,
        manager: RunsWorkflows,
    ) -> None:
        self._workflow = workflow
        self._scope = scope
        self._call = call
        self._monotonic_start = scope.clock.monotonic()
        self.run = Run(
            id=_new_id(scope.clock),
            workflow=workflow.name,
            folder=workflow.folder,
            user=scope.config.user.name,
            door=scope.door,
            request_id=scope.request_id,
            session=scope.session,
            trace_context=scope.trace_context,
            parent_id=scope.parent_run_id,
            caller=scope.caller,
            answers_client=scope.answers_client,
            private=_is_private(scope),
            started_at=scope.clock.timestamp(),
            context=WorkflowContext(
                workflow_record=workflow.record,
                global_variables=call.global_variables(workflow.global_defaults),
                clear_conversation=call.clears_conversation,
            ),
        )
        if scope.parent_step is not None:
            scope.parent_step.child_run_id = self.run.id
        self._runner = NodeRunner(workflow, call, scope, manager, self.run)
        self._branches = Branches(workflow, self._runner, scope.cancel)
        self._answered = False
        self.result = WorkflowPayload()
        """The responder's output, once its Finish has come."""
        self.more = False
        """Whether nodes remain after the responder's Finish."""

    def events(self) -> Iterator[Event]:
        """The responder's events as they come. Whoever goes on reading after its Finish runs the
        nodes behind the responder, which say nothing any more. Raises MiddlewareError.
        """
        self._scope.recorder.run_started(self.run)
        try:
            yield from self._walk() if self._call.only is None else self._one(self._call.only)
        except RunEndsEarly:
            # Nothing failed; the runs above end as well.
            self._branches.stop()
            self._close(None)
            raise
        except BaseException as error:
            # Not handled here, only written down: a failed run is complete up to where it
            # stopped. GeneratorExit is a caller that left.
            self._branches.stop()
            self._close(error)
            raise
        self._close(None)

    def _walk(self) -> Iterator[Event]:
        """From node to node, along the routes they name."""
        workflow, cancel = self._workflow, self._scope.cancel
        user = self._scope.config.user
        shows_progress = self._call.streaming and workflow.switch(
            "showProgress", user.show_progress
        )
        limit = max(user.max_steps, len(workflow.nodes))
        path: deque[str] = deque(maxlen=_PATH_SHOWN)
        taken = 0
        outcome = Outcome(WorkflowPayload())
        node: Node | None = workflow.first
        self._branches.start_independent()
        while node is not None:
            taken += 1
            path.append(node.id)
            if taken > limit:
                raise TooManySteps(limit, tuple(path))
            cancel.check()
            if node.id in self._call.pinned:
                outcome = self._runner.pin(node, self._call.pinned[node.id])
            elif node.responds and not self._answered:
                outcome = yield from self._answer(node)
            else:
                if shows_progress and not self._answered:
                    yield ReasoningDelta(f"{node.name}…\n")
                outcome = self._branches.perform(node)
            node = workflow.successor(node, outcome.route)
        self._branches.finish()
        if not self._answered:
            # No node that ran was known to be the last: the one that was answers.
            yield from self._say(outcome.payload)

    def _one(self, id: str) -> Iterator[Event]:
        """Run one node alone; what it may refer to are the pinned outputs of the others."""
        for node in self._workflow:
            if node.id in self._call.pinned and node.id != id:
                self._runner.pin(node, self._call.pinned[node.id])
        chosen = self._workflow.node(id)
        if chosen is None:
            close = nearest(id, [node.id for node in self._workflow])
            hint = f" Did you mean {close!r}?" if close else ""
            raise WorkflowError(f"Workflow {self._workflow.label!r} has no node {id!r}.{hint}")
        outcome = yield from self._answer(chosen)
        if not self._answered:
            yield from self._say(outcome.payload)

    def _answer(self, node: Node) -> Generator[Event, None, Outcome]:
        """Run the responder. Its step is recorded before anyone is told that it finished."""
        self._branches.wait_for_needs(node)
        outcome = Outcome(WorkflowPayload())
        for told_now in self._runner.answer(node, self._branches.cancel):
            if isinstance(told_now, Outcome):
                outcome = told_now
            else:
                yield told_now
        successor = self._workflow.successor(node, outcome.route)
        if outcome.unfinished is None:
            # It failed, and its policy goes on without it.
            if successor is None:
                yield from self._say(outcome.payload)
            return outcome
        self._answered = True
        self.result = outcome.payload
        self._settle(more=successor is not None or self._branches.busy)
        yield Finish(outcome.finish.reason, self._scope.totals.usage or Usage())
        for _ in outcome.unfinished:
            pass
        return outcome

    def _say(self, payload: WorkflowPayload) -> Iterator[Event]:
        """Give an output that is there already as the answer."""
        self._answered = True
        self.result = payload
        reply = payload.reply or Reply(text=str(payload))
        *events, finish = replay(reply)
        yield from events
        self._settle(more=False)
        assert isinstance(finish, Finish)
        yield Finish(finish.reason, self._scope.totals.usage or Usage())

    def _settle(self, *, more: bool) -> None:
        """Before the Finish goes out: is this the end of the run, or do nodes remain?"""
        totals = self._scope.totals
        self.more = more or totals.unfinished
        if self.more:
            totals.unfinished = True
        else:
            self._close(None)

    def _close(self, error: BaseException | None) -> None:
        run = self.run
        if run.status != "running":
            return
        if error is None:
            run.status = "succeeded"
        else:
            left = isinstance(error, RunCancelled | GeneratorExit)
            run.status = "cancelled" if left else "failed"
            node = self._workflow.node(run.context.current_step_node_id)
            run.context.error = told(error, self._workflow, node)
        elapsed = self._scope.clock.monotonic() - self._monotonic_start
        run.duration_ms = round(elapsed * 1000, 3)
        self._scope.at_end.run()
        self._scope.recorder.run_finished(run)
        log_summary(logger, run, self._workflow)


def _new_id(clock: Clock) -> str:
    """32 hex digits that begin with the time: ids of one time are neighbours in the index of the
    run log, which is a third of what it costs to write and to delete them.
    """
    return f"{int(clock.timestamp()):08x}{clock.new_id()[8:]}"


def _is_private(scope: RequestScope) -> bool:
    """Whether no texts of this run may be written down (memory-and-state §21)."""
    user = scope.config.user
    return user.redact_log_output or (user.encrypt_using_api_key and scope.api_key is not None)
