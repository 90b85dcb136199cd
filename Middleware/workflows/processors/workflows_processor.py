"""Runs the nodes of one workflow: picks the responder, fills ``agent{N}Output``, adds steps."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from Middleware.core.errors import MiddlewareError, RunCancelled, WorkflowError
from Middleware.core.events import Event, Finish, Reply, ReplyBuilder, Usage, collect, replay
from Middleware.core.tokens import estimate_all, estimate_tokens
from Middleware.workflows.models.execution_context import ExecutionContext, RunsWorkflows
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.run import Run
from Middleware.workflows.models.step_notes import StepNotes
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.models.workflow_call import WorkflowCall
from Middleware.workflows.models.workflow_context import (
    WorkflowContext,
    WorkflowPayload,
    WorkflowStep,
)
from Middleware.workflows.output.cleaning import clean
from Middleware.workflows.output.pacing import paced
from Middleware.workflows.processors.node_plans import (
    conversation_of,
    default_conversation,
    node_key,
    plan_node,
)
from Middleware.workflows.processors.run_summary import log_summary
from Middleware.workflows.prompts.chat import split_tool_exchange
from Middleware.workflows.variables.early import EARLY_NUMBERS, early_number, resolve_early
from Middleware.workflows.variables.table import VariableTable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A node about to run."""

    node: Node
    context: ExecutionContext
    started: float


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
        self._call = call
        self._scope = scope
        self._manager = manager
        self._outputs: dict[str, Any] = {}
        self._inputs = {
            f"agent{number}Input": text for number, text in enumerate(call.inputs, start=1)
        }
        self._monotonic_start = scope.clock.monotonic()
        self.run = Run(
            id=scope.clock.new_id(),
            workflow=workflow.name,
            folder=workflow.folder,
            user=scope.config.user.name,
            door=scope.door,
            request_id=scope.request_id,
            parent_id=scope.parent_run_id,
            started_at=scope.clock.timestamp(),
            context=WorkflowContext(workflow_record=workflow.record),
        )
        if scope.parent_step is not None:
            scope.parent_step.child_run_id = self.run.id
        self.result = WorkflowPayload()
        """The responder's output, once its Finish has come."""
        self.more = False
        """Whether nodes remain after the responder's Finish."""

    def events(self) -> Iterator[Event]:
        """The responder's events as they come. Whoever goes on reading after its Finish runs the
        nodes behind the responder, which say nothing any more. Raises MiddlewareError.
        """
        scope = self._scope
        scope.recorder.run_started(self.run)
        try:
            for node in self._workflow.nodes:
                scope.cancel.check()
                if node.position == self._workflow.responder:
                    yield from self._answer(node)
                else:
                    self._perform(node)
        except BaseException as error:
            # Not handled here, only written down: a failed run is complete up to where it
            # stopped. GeneratorExit is a caller that left.
            self._close(error)
            raise
        self._close(None)

    def _perform(self, node: Node) -> None:
        """Run a node whose words nobody sees."""
        prepared = self._prepare(node, answers=False)
        try:
            payload = self._whole(prepared, prepared.node.handler.handle(prepared.context))
        except BaseException as error:
            self._failed(prepared, error)
            raise
        self._finished(prepared, payload)

    def _answer(self, node: Node) -> Iterator[Event]:
        """Run the responder. Its step is recorded before anyone is told that it finished."""
        prepared = self._prepare(node, answers=True)
        said = ReplyBuilder()
        try:
            result = prepared.node.handler.handle(prepared.context)
            events = self._stream_of(prepared, result)
            for event in events:
                said.add(event)
                if isinstance(event, Finish):
                    break
                yield event
        except BaseException as error:
            self.run.partial_text = said.build().text
            self._failed(prepared, error)
            raise
        reply = said.build()
        if isinstance(result, WorkflowPayload) and not result.reply:
            payload = result
        else:
            payload = WorkflowPayload.of_reply(reply)
        payload = self._finished(prepared, payload, usage=reply.usage)
        self.result = payload
        self.more = node.position < len(self._workflow.nodes) or self._scope.totals.unfinished
        if self.more:
            self._scope.totals.unfinished = True
        else:
            self._close(None)
        yield Finish(reply.finish_reason, self._scope.totals.usage or Usage())
        for _ in events:
            pass
        if isinstance(result, WorkflowPayload) and result.rest is not None:
            result.rest()

    def _prepare(self, node: Node, *, answers: bool) -> _Prepared:
        scope, workflow = self._scope, self._workflow
        self.run.context.current_step_node_id = node.id
        scope.recorder.step_started(self.run, node.id)
        started = scope.clock.monotonic()
        notes = StepNotes()
        try:
            options = self._options(node)
            plan = plan_node(scope, workflow, node, options)
            context = self._context(node, options, plan, notes, answers)
        except BaseException as error:
            stub = ExecutionContext(config=node.options, step=notes)
            self._failed(_Prepared(node, stub, started), error)
            raise
        return _Prepared(node, context, started)

    def _options(self, node: Node) -> Any:
        """The node's options, with what may be written as a variable resolved (variables §6)."""
        if not node.early_fields:
            return node.options
        sources = (
            self._workflow.variables,
            self._inputs,
            self._scope.config.user.user_wide_workflow_variables,
            self._outputs,
        )
        values = {
            key: early_number(key, text, *sources)
            if key in EARLY_NUMBERS
            else resolve_early(text, *sources)
            for key, text in node.early_fields.items()
        }
        key = ("options", *node_key(self._scope.config, self._workflow, node), *values.items())
        try:
            # The same values come again with almost every request.
            return self._scope.config.derived(
                key, (node.options,), lambda: node.options.with_values(values)
            )
        except ValidationError as error:
            problem = error.errors()[0]
            raise WorkflowError(f"`{problem['loc'][0]}`: {problem['msg']}.") from error

    def _context(
        self, node: Node, options: Any, plan: ModelPlan | None, notes: StepNotes, answers: bool
    ) -> ExecutionContext:
        scope, call, workflow = self._scope, self._call, self._workflow
        first = node.position == workflow.first_prompt_node
        splits = (
            plan is not None
            and plan.splits_tool_exchange
            and bool(options.get("prompt") or (first and call.prompt_override))
        )
        return ExecutionContext(
            config=options,
            stream=answers and call.streaming,
            answers_client=answers and scope.answers_client,
            non_responder=call.non_responder,
            messages=call.messages,
            agent_inputs=self._inputs,
            agent_outputs=self._outputs,
            workflow_manager=self._manager,
            workflow_context=self.run.context,
            request_id=scope.request_id,
            workflow_id=self.run.id,
            discussion_id=call.discussion_id,
            request_scope=scope,
            variables=VariableTable(
                agent_inputs=self._inputs,
                agent_outputs=self._outputs,
                messages=split_tool_exchange(call.messages).rest if splits else call.messages,
                workflow_variables=workflow.variables,
                user_variables=scope.config.user.user_wide_workflow_variables,
                discussion_id=call.discussion_id,
                clock=scope.clock,
                conversation=conversation_of(plan, scope.config)
                if plan
                else default_conversation(scope, workflow, node, options),
                categories=scope.categories,
                globals=self.run.context.global_variables,
            ),
            step=notes,
            system_prompt_override=call.system_prompt_override if first else None,
            prompt_override=call.prompt_override if first else None,
            live_placeholders=workflow.live_placeholders,
            plan=plan,
        )

    def _stream_of(self, prepared: _Prepared, result: Any) -> Iterator[Event]:
        """The responder's result as cleaned events, framed whatever the node returned."""
        plan = prepared.context.plan
        if not isinstance(result, WorkflowPayload):
            return clean(iter(result), plan.cleaning) if plan else iter(result)
        reply = result.reply or Reply(text=str(result), usage=Usage())
        if plan:
            reply = collect(clean(replay(reply), plan.cleaning))
        if prepared.context.stream and not reply.tool_calls:
            return paced(reply.text, self._scope.cancel)
        return replay(reply)

    def _whole(self, prepared: _Prepared, result: Any) -> WorkflowPayload:
        """The result of a node that does not answer, cleaned if a model made it."""
        payload = (
            result
            if isinstance(result, WorkflowPayload)
            else WorkflowPayload.of_reply(collect(result))
        )
        plan = prepared.context.plan
        if plan is None or not plan.cleaning.active:
            return payload
        if payload.reply is None and not isinstance(payload.value, str):
            return payload
        reply = payload.reply or Reply(text=str(payload))
        return WorkflowPayload.of_reply(collect(clean(replay(reply), plan.cleaning)))

    def _finished(
        self, prepared: _Prepared, payload: WorkflowPayload, usage: Usage | None = None
    ) -> WorkflowPayload:
        notes = prepared.context.step
        if prepared.context.plan is not None:
            reply = payload.reply or Reply()
            notes.usage = usage or reply.usage or _estimate(notes, reply)
            notes.thinking = reply.reasoning or None
            self.run.add_usage(notes.usage)
            self._scope.totals.add(notes.usage)
        self._outputs[f"agent{prepared.node.position}Output"] = payload.value
        self._add_step(prepared, payload)
        return payload

    def _failed(self, prepared: _Prepared, error: BaseException) -> None:
        node = prepared.node
        if isinstance(error, MiddlewareError):
            error.locate(self._workflow.name, node.name)
        prepared.context.step.error = _told(error)
        self._add_step(prepared, WorkflowPayload.of(self.run.partial_text or None))

    def _add_step(self, prepared: _Prepared, payload: WorkflowPayload) -> None:
        node, notes = prepared.node, prepared.context.step
        elapsed = self._scope.clock.monotonic() - prepared.started
        step = WorkflowStep(
            node_name=node.id,
            output_data=payload,
            module_type=node.type_name,
            next_route=notes.next_route,
            thinking=notes.thinking,
            processing_time_ms=round(elapsed * 1000, 3),
            title=node.options.title or node.options.agent_name or None,
            notes=notes,
        )
        self.run.context.steps.append(step)
        self._scope.recorder.step_finished(self.run, step)

    def _close(self, error: BaseException | None) -> None:
        run = self.run
        if run.status != "running":
            return
        if error is None:
            run.status = "succeeded"
        elif isinstance(error, RunCancelled | GeneratorExit):
            run.status, run.context.error = "cancelled", _told(error)
        else:
            run.status, run.context.error = "failed", _told(error)
        elapsed = self._scope.clock.monotonic() - self._monotonic_start
        run.duration_ms = round(elapsed * 1000, 3)
        self._scope.recorder.run_finished(run)
        log_summary(logger, run, self._workflow)


def _told(error: BaseException) -> str:
    if isinstance(error, MiddlewareError):
        return error.message
    if isinstance(error, GeneratorExit):
        return RunCancelled().message
    return f"Internal error ({type(error).__name__}); the log has the details."


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
