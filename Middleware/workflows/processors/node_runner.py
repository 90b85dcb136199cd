"""Runs single nodes of one run: their context, their tries, their answer, their step."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import (
    NodeTimeout,
    WorkflowError,
)
from Middleware.core.events import (
    Event,
    Finish,
    ReasoningDelta,
    Reply,
    ReplyBuilder,
    Usage,
)
from Middleware.workflows.models.execution_context import ExecutionContext, RunsWorkflows
from Middleware.workflows.models.live_messages import MessagesInserted
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.run import Run
from Middleware.workflows.models.step_notes import StepNotes
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.models.workflow_call import WorkflowCall
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.processors.at_once import at_once
from Middleware.workflows.processors.node_backups import stand_in
from Middleware.workflows.processors.node_contexts import Asked, NodeContexts
from Middleware.workflows.processors.node_results import (
    answered,
    estimated,
    events_of,
    rest_of,
    whole,
)
from Middleware.workflows.processors.step_records import Execution, StepRecords, located, told
from Middleware.workflows.prompts.clamp import warn_of_a_cut

_STOPPED = Finish()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a node came to: its output, the route it names, and how a model ended it."""

    payload: WorkflowPayload
    route: str | None = None
    finish: Finish = _STOPPED
    unfinished: Iterator[Event] | None = None
    """Of an answer: what stands behind its Finish, still to be read."""


class NodeRunner:
    """One a run. :meth:`perform` may be called by several threads at once."""

    def __init__(
        self,
        workflow: Workflow,
        call: WorkflowCall,
        scope: RequestScope,
        manager: RunsWorkflows,
        run: Run,
    ) -> None:
        self._workflow = workflow
        self._scope = scope
        self._run = run
        self._lock = threading.Lock()
        self._contexts = NodeContexts(workflow, call, scope, manager, run)
        self.steps = StepRecords(workflow, run, scope)

    def perform(self, node: Node, cancel: CancelToken) -> Outcome:
        """Run a node whose words nobody sees. Raises MiddlewareError."""
        execution = self.steps.begin(node)
        while True:
            context: ExecutionContext | None = None
            try:
                with self._deadline(node, cancel) as token:
                    context = self._context(execution, token, answers=False)
                    payload = whole(context.plan, node.handler.handle(context))
            except BaseException as error:
                if self._again(execution, context, error, cancel):
                    continue
                outcome = self._forgiven(execution, error)
                if outcome is None:
                    self.steps.failed(execution, error)
                    raise
                return outcome
            return self._finished(execution, context.plan, payload, None)

    def pin(self, node: Node, output: Any) -> Outcome:
        """Give a node an output without running it."""
        execution = self.steps.begin(node)
        execution.notes.pinned = True
        payload = WorkflowPayload.of(output)
        self._contexts.keep(node, payload)
        self.steps.finished(execution, payload)
        return Outcome(payload, payload.content if node.handler.routes(node.options) else None)

    def answer(self, node: Node, cancel: CancelToken) -> Iterator[Event | Outcome]:
        """Run the responder: its events but the Finish, then the Outcome.

        Another try, or another output, is only possible while nothing has been passed on.
        """
        execution = self.steps.begin(node)
        said = self._run.begin_answer(node.id)
        passed = False
        while True:
            context: ExecutionContext | None = None
            try:
                with self._deadline(node, cancel) as token:
                    context = self._context(execution, token, answers=True)
                    result = node.handler.handle(context)
                    speaker = self._contexts.times.speaker(node, context)
                    events = events_of(result, context, speaker)
                    hides_thinking = context.plan is not None and not context.plan.shows_thinking
                    for event in events:
                        said.add(event)
                        if isinstance(event, Finish):
                            break
                        if hides_thinking and isinstance(event, ReasoningDelta):
                            continue
                        if not passed:
                            self.steps.first_piece(execution, context)
                        yield event
                        passed = True
            except BaseException as error:
                if not passed and self._again(execution, context, error, cancel):
                    said = self._run.begin_answer(node.id)
                    continue
                located(error, self._workflow, node)
                partial = said.build()
                self._run.partial_text = partial.text
                execution.notes.thinking = partial.reasoning or None
                if context is not None and context.plan and (partial.text or partial.reasoning):
                    # What was said until then has been paid for.
                    self._count(execution.notes, context.plan, partial, None)
                if passed or (outcome := self._forgiven(execution, error)) is None:
                    self.steps.failed(execution, error)
                    raise
                yield outcome
                return
            break
        yield self._answered(execution, context, result, said, events)

    def _again(
        self,
        execution: Execution,
        context: ExecutionContext | None,
        error: BaseException,
        cancel: CancelToken,
    ) -> bool:
        """Whether to run the node once more, with another endpoint perhaps."""
        find = stand_in(self._scope.config, context, error, execution.tries.tried)
        located(error, self._workflow, execution.node)
        return execution.tries.again(error, cancel, find)

    def _answered(
        self,
        execution: Execution,
        context: ExecutionContext,
        result: Any,
        said: ReplyBuilder,
        events: Iterator[Event],
    ) -> Outcome:
        if said.finish is None:
            raise WorkflowError("its answer ended without saying why.")
        reply = said.build()
        self._contexts.times.answered(execution.node, context, reply.text)
        payload = answered(result, reply)
        rest = rest_of(result) if isinstance(result, WorkflowPayload) else events
        if self._scope.answers_client and execution.node.options.inject_liveness_tool_call:
            self._scope.totals.keeps_alive = True
        outcome = self._finished(execution, context.plan, payload, reply.usage)
        return replace(outcome, finish=said.finish, unfinished=rest)

    def _deadline(self, node: Node, cancel: CancelToken) -> AbstractContextManager[CancelToken]:
        seconds = node.policy.timeout_seconds
        return (
            nullcontext(cancel)
            if seconds is None
            else cancel.limited(seconds, NodeTimeout(seconds))
        )

    def _context(
        self, execution: Execution, cancel: CancelToken, *, answers: bool
    ) -> ExecutionContext:
        node = execution.node
        asked = Asked(
            node=node,
            notes=execution.notes,
            answers=answers,
            endpoint=execution.tries.endpoint,
            preset=execution.tries.preset,
            run_branches=(lambda: self._run_branches(node, cancel)) if node.branches else None,
            start_step=self.steps.started,
            add_step=lambda step: self.steps.add(step.inside(node.id)),
        )
        return self._contexts.build(asked, cancel)

    def _run_branches(self, node: Node, cancel: CancelToken) -> list[tuple[str, WorkflowPayload]]:
        """The branches of a Parallel node at once; of each the last node and its output."""

        def job(branch: tuple[Node, ...]) -> Callable[[CancelToken], tuple[str, WorkflowPayload]]:
            def run(token: CancelToken) -> tuple[str, WorkflowPayload]:
                payload = WorkflowPayload()
                for member in branch:
                    token.check()
                    payload = self.perform(member, token).payload
                return branch[-1].id, payload

            return run

        results = at_once([job(branch) for branch in node.branches], cancel)
        self.steps.sort()
        return results

    def _finished(
        self,
        execution: Execution,
        plan: ModelPlan | None,
        payload: WorkflowPayload,
        usage: Usage | None,
    ) -> Outcome:
        node, notes = execution.node, execution.notes
        if plan is not None:
            reply = payload.reply or Reply()
            used = self._count(notes, plan, reply, usage)
            notes.thinking = reply.reasoning or None
            notes.confidence = reply.confidence
            warn_of_a_cut(self._scope.config, plan.endpoint, notes.resolved_prompt, used)
        if payload.inserted is not None:
            self._insert(payload.inserted, notes)
            # Done: a workflow above that passes the output on is not to do it once more.
            payload = replace(payload, inserted=None)
        self._contexts.keep(node, payload)
        self.steps.finished(execution, payload)
        return Outcome(payload, notes.next_route)

    def _count(self, notes: StepNotes, plan: ModelPlan, reply: Reply, usage: Usage | None) -> Usage:
        """Add up tokens and their cost."""
        used = notes.usage = usage or reply.usage or estimated(notes.resolved_prompt, reply)
        if plan.price is not None:
            notes.cost = plan.price.of(used)
        with self._lock:
            self._run.add_usage(used, notes.cost)
        self._scope.totals.add(used)
        return used

    def _insert(self, inserted: MessagesInserted | None, notes: StepNotes) -> None:
        """Messages that a node adds are seen by all nodes that start from now on."""
        if inserted is not None and self._scope.live is not None:
            self._scope.live.apply(inserted)
            notes.inserted = tuple(message for _, message in inserted.insertions)

    def _forgiven(self, execution: Execution, error: BaseException) -> Outcome | None:
        """What the node's policy makes of a failure; None when the run fails with it."""
        policy = execution.node.policy
        if not policy.forgives(error):
            return None
        payload = WorkflowPayload.of(policy.value if policy.on_error == "value" else "")
        if policy.on_error == "route":
            execution.notes.next_route = policy.route
        execution.notes.error = told(error, self._workflow, execution.node)
        self._contexts.keep(execution.node, payload)
        self.steps.finished(execution, payload)
        return Outcome(payload, execution.notes.next_route)
