"""Runs single nodes of one run: their context, their tries, their answer, their step."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import (
    MiddlewareError,
    NodeTimeout,
    RunCancelled,
    WorkflowError,
)
from Middleware.core.events import (
    Event,
    Finish,
    ReasoningDelta,
    Reply,
    ReplyBuilder,
    Usage,
    collect,
    replay,
)
from Middleware.core.tokens import estimate_all, estimate_tokens
from Middleware.workflows.models.error_policy import Tries
from Middleware.workflows.models.execution_context import ExecutionContext, RunsWorkflows
from Middleware.workflows.models.live_messages import MessagesInserted
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.run import Run
from Middleware.workflows.models.step_notes import StepNotes
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.models.workflow_call import WorkflowCall
from Middleware.workflows.models.workflow_context import WorkflowPayload, WorkflowStep
from Middleware.workflows.output.cleaning import CleaningRules, clean
from Middleware.workflows.output.pacing import paced
from Middleware.workflows.processors.at_once import at_once
from Middleware.workflows.processors.node_backups import stand_in
from Middleware.workflows.processors.node_contexts import Asked, NodeContexts
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


@dataclass(frozen=True, slots=True)
class _Execution:
    """A node that is being run; the same for all its tries."""

    node: Node
    started: float
    started_at: float
    """Seconds since 1970."""
    notes: StepNotes
    tries: Tries


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

    def perform(self, node: Node, cancel: CancelToken) -> Outcome:
        """Run a node whose words nobody sees. Raises MiddlewareError."""
        execution = self._begin(node)
        while True:
            context: ExecutionContext | None = None
            try:
                with self._deadline(node, cancel) as token:
                    context = self._context(execution, token, answers=False)
                    payload = _whole(context.plan, node.handler.handle(context))
            except BaseException as error:
                if self._again(execution, context, error, cancel):
                    continue
                outcome = self._forgiven(execution, error)
                if outcome is None:
                    self._failed(execution, error)
                    raise
                return outcome
            return self._finished(execution, context.plan, payload, None)

    def pin(self, node: Node, output: Any) -> Outcome:
        """Give a node an output without running it."""
        execution = self._begin(node)
        execution.notes.pinned = True
        payload = WorkflowPayload.of(output)
        self._contexts.keep(node, payload)
        self._add_step(execution, payload)
        return Outcome(payload, payload.content if node.handler.routes(node.options) else None)

    def answer(self, node: Node, cancel: CancelToken) -> Iterator[Event | Outcome]:
        """Run the responder: its events but the Finish, then the Outcome.

        Another try, or another output, is only possible while nothing has been passed on.
        """
        execution = self._begin(node)
        said = self._run.begin_answer(node.id)
        passed = False
        while True:
            context: ExecutionContext | None = None
            try:
                with self._deadline(node, cancel) as token:
                    context = self._context(execution, token, answers=True)
                    result = node.handler.handle(context)
                    events = self._stream_of(node, context, result)
                    hides_thinking = context.plan is not None and not context.plan.shows_thinking
                    for event in events:
                        said.add(event)
                        if isinstance(event, Finish):
                            break
                        if hides_thinking and isinstance(event, ReasoningDelta):
                            continue
                        if not passed:
                            self._first_piece(execution, context)
                        yield event
                        passed = True
            except BaseException as error:
                if not passed and self._again(execution, context, error, cancel):
                    said = self._run.begin_answer(node.id)
                    continue
                self._located(node, error)
                partial = said.build()
                self._run.partial_text = partial.text
                execution.notes.thinking = partial.reasoning or None
                if passed or (outcome := self._forgiven(execution, error)) is None:
                    self._failed(execution, error)
                    raise
                yield outcome
                return
            break
        yield self._answered(execution, context, result, said, events)

    def _again(
        self,
        execution: _Execution,
        context: ExecutionContext | None,
        error: BaseException,
        cancel: CancelToken,
    ) -> bool:
        """Whether to run the node once more, with another endpoint perhaps."""
        find = stand_in(self._scope.config, context, error, execution.tries.tried)
        self._located(execution.node, error)
        return execution.tries.again(error, cancel, find)

    def _answered(
        self,
        execution: _Execution,
        context: ExecutionContext,
        result: Any,
        said: ReplyBuilder,
        events: Iterator[Event],
    ) -> Outcome:
        if said.finish is None:
            raise WorkflowError("its answer ended without saying why.")
        reply = said.build()
        self._contexts.times.answered(execution.node, context, reply.text)
        rest = events
        if isinstance(result, WorkflowPayload):
            rest = _rest_of(result)
            if result.reply is None or result.data:
                payload = result
            else:
                payload = replace(WorkflowPayload.of_reply(reply), inserted=result.inserted)
        else:
            payload = WorkflowPayload.of_reply(reply)
        if self._scope.answers_client and execution.node.options.inject_liveness_tool_call:
            self._scope.totals.keeps_alive = True
        outcome = self._finished(execution, context.plan, payload, reply.usage)
        return replace(outcome, finish=said.finish, unfinished=rest)

    def sort_steps(self) -> None:
        """Nodes that ran at once stand in the record in the order of the file (design §6)."""
        if self._workflow.is_graph:
            return
        place = {node.id: node.position for node in self._workflow}
        self._run.context.steps.sort(key=lambda step: place.get(step.part_of or step.node_name, 0))

    def _begin(self, node: Node) -> _Execution:
        self._run.context.current_step_node_id = node.id
        self._scope.recorder.step_started(self._run, node.id)
        clock = self._scope.clock
        return _Execution(
            node, clock.monotonic(), clock.timestamp(), StepNotes(), Tries(node.policy)
        )

    def _first_piece(self, execution: _Execution, context: ExecutionContext) -> None:
        """The answer begins. Of one that is not streamed nobody sees a first piece."""
        if not context.stream:
            return
        run = self._run
        took = (self._scope.clock.monotonic() - execution.started) * 1000
        if context.plan is not None:
            execution.notes.first_token_ms = round(took, 3)
        run.first_token_ms = round((execution.started_at - run.started_at) * 1000 + took, 3)

    def _deadline(self, node: Node, cancel: CancelToken) -> AbstractContextManager[CancelToken]:
        seconds = node.policy.timeout_seconds
        return (
            nullcontext(cancel)
            if seconds is None
            else cancel.limited(seconds, NodeTimeout(seconds))
        )

    def _context(
        self, execution: _Execution, cancel: CancelToken, *, answers: bool
    ) -> ExecutionContext:
        node = execution.node
        asked = Asked(
            node=node,
            notes=execution.notes,
            answers=answers,
            endpoint=execution.tries.endpoint,
            preset=execution.tries.preset,
            run_branches=(lambda: self._run_branches(node, cancel)) if node.branches else None,
            start_step=lambda name: self._scope.recorder.step_started(self._run, name),
            add_step=lambda step: self._record(step.inside(node.id)),
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
        self.sort_steps()
        return results

    def _stream_of(self, node: Node, context: ExecutionContext, result: Any) -> Iterator[Event]:
        """The responder's result as cleaned events, framed whatever the node returned."""
        plan = context.plan
        rules = plan.cleaning if plan else None
        if speaker := self._contexts.times.speaker(node, context):
            rules = replace(rules or CleaningRules(), speaker_cue=speaker)
        if not isinstance(result, WorkflowPayload):
            return clean(iter(result), rules) if rules else iter(result)
        reply = result.reply or Reply(text=str(result), usage=Usage())
        if rules:
            reply = collect(clean(replay(reply), rules))
        if context.stream and not reply.tool_calls:
            scope = context.request_scope
            return paced(reply, scope.cancel if scope else CancelToken())
        return replay(reply)

    def _finished(
        self,
        execution: _Execution,
        plan: ModelPlan | None,
        payload: WorkflowPayload,
        usage: Usage | None,
    ) -> Outcome:
        node, notes = execution.node, execution.notes
        if plan is not None:
            reply = payload.reply or Reply()
            notes.usage = usage or reply.usage or _estimate(notes, reply)
            notes.thinking = reply.reasoning or None
            notes.confidence = reply.confidence
            if plan.price is not None:
                notes.cost = plan.price.of(notes.usage)
            with self._lock:
                self._run.add_usage(notes.usage, notes.cost)
            self._scope.totals.add(notes.usage)
            warn_of_a_cut(plan.endpoint, notes.resolved_prompt, notes.usage)
        if payload.inserted is not None:
            self._insert(payload.inserted, notes)
            # Done: a workflow above that passes the output on is not to do it once more.
            payload = replace(payload, inserted=None)
        self._contexts.keep(node, payload)
        self._add_step(execution, payload)
        return Outcome(payload, notes.next_route)

    def _insert(self, inserted: MessagesInserted | None, notes: StepNotes) -> None:
        """Messages that a node adds are seen by all nodes that start from now on."""
        if inserted is not None and self._scope.live is not None:
            self._scope.live.apply(inserted)
            notes.inserted = tuple(message for _, message in inserted.insertions)

    def _located(self, node: Node, error: BaseException) -> BaseException:
        if isinstance(error, MiddlewareError):
            error.locate(self._workflow.label, node.name)
        return error

    def _told(self, execution: _Execution, error: BaseException) -> str:
        return told(error, self._workflow, execution.node)

    def _forgiven(self, execution: _Execution, error: BaseException) -> Outcome | None:
        """What the node's policy makes of a failure; None when the run fails with it."""
        policy = execution.node.policy
        if not policy.forgives(error):
            return None
        payload = WorkflowPayload.of(policy.value if policy.on_error == "value" else "")
        if policy.on_error == "route":
            execution.notes.next_route = policy.route
        execution.notes.error = self._told(execution, error)
        self._contexts.keep(execution.node, payload)
        self._add_step(execution, payload)
        return Outcome(payload, execution.notes.next_route)

    def _failed(self, execution: _Execution, error: BaseException) -> None:
        execution.notes.error = self._told(execution, error)
        self._add_step(execution, WorkflowPayload.of(self._run.partial_text or None))

    def _add_step(self, execution: _Execution, payload: WorkflowPayload) -> None:
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
        self._record(step)

    def _record(self, step: WorkflowStep) -> None:
        self._run.context.steps.append(step)
        self._scope.recorder.step_finished(self._run, step)


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


def _whole(plan: ModelPlan | None, result: Any) -> WorkflowPayload:
    """The result of a node that does not answer, cleaned if a model made it."""
    payload = (
        result if isinstance(result, WorkflowPayload) else WorkflowPayload.of_reply(collect(result))
    )
    if plan is None or not plan.cleaning.active:
        return payload
    if payload.data or (payload.reply is None and not isinstance(payload.value, str)):
        return payload
    reply = payload.reply or Reply(text=str(payload))
    cleaned = WorkflowPayload.of_reply(collect(clean(replay(reply), plan.cleaning)))
    return replace(cleaned, inserted=payload.inserted)


def _rest_of(payload: WorkflowPayload) -> Iterator[Event]:
    """Runs what a sub-workflow has left to do, when it is read."""
    if payload.rest is not None:
        payload.rest()
    yield from ()


def _estimate(notes: StepNotes, reply: Reply) -> Usage:
    prompt = notes.resolved_prompt
    if prompt is None:
        tokens = 0
    elif isinstance(prompt, str):
        tokens = estimate_tokens(prompt)
    else:
        tokens = estimate_all(message.content for message in prompt)
    said = reply.text + reply.reasoning + "".join(call.arguments for call in reply.tool_calls)
    return Usage(prompt_tokens=tokens, completion_tokens=estimate_tokens(said), estimated=True)
