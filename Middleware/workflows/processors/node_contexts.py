"""What one node of one run may know: options, model, variables, overrides."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import WorkflowError
from Middleware.core.messages import Message
from Middleware.workflows.models.execution_context import ExecutionContext, RunsWorkflows
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.run import Run
from Middleware.workflows.models.step_notes import StepNotes
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.models.workflow_call import WorkflowCall
from Middleware.workflows.models.workflow_context import WorkflowPayload, WorkflowStep
from Middleware.workflows.processors.node_plans import (
    conversation_of,
    default_conversation,
    node_key,
    plan_node,
)
from Middleware.workflows.processors.node_times import NodeTimes, Stamp
from Middleware.workflows.prompts.chat import split_tool_exchange
from Middleware.workflows.variables.early import EARLY_NUMBERS, early_number, resolve_early
from Middleware.workflows.variables.table import VariableTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One try of a node."""

    node: Node
    notes: StepNotes
    answers: bool
    endpoint: str | None
    """In place of the node's own; None is its own."""
    preset: str | None = None
    """The same."""
    run_branches: Callable[[], list[tuple[str, WorkflowPayload]]] | None
    start_step: Callable[[str], None] | None = None
    add_step: Callable[[WorkflowStep], None] | None = None


class NodeContexts:
    """One a run: knows the inputs, and the outputs so far."""

    def __init__(
        self,
        workflow: Workflow,
        call: WorkflowCall,
        scope: RequestScope,
        manager: RunsWorkflows,
        run: Run,
    ) -> None:
        self._workflow = workflow
        self._call = call
        self._scope = scope
        self._manager = manager
        self._run_id = run.id
        self._run_context = run.context
        self.times = NodeTimes(workflow, call, scope)
        self._outputs: dict[str, Any] = {}
        self._node_outputs: dict[str, WorkflowPayload] = {}
        self._inputs = {
            f"agent{number}Input": text for number, text in enumerate(call.inputs, start=1)
        }

    @property
    def _messages(self) -> Sequence[Message]:
        """The conversation as it is now: earlier nodes may have inserted messages."""
        live = self._scope.live
        return self._call.messages if live is None else live.messages

    def keep(self, node: Node, payload: WorkflowPayload) -> None:
        """An output, for the nodes that come after."""
        self._outputs[f"agent{node.position}Output"] = payload.value
        for name in (node.id, node.slug):
            self._node_outputs[name] = payload

    def build(self, asked: Asked, cancel: CancelToken) -> ExecutionContext:
        """The context of one try. Raises MiddlewareError for what its files lack."""
        scope, call, workflow, node = self._scope, self._call, self._workflow, asked.node
        if cancel is not scope.cancel:
            scope = replace(scope, cancel=cancel)
        options = self._options(asked)
        plan = plan_node(scope, workflow, node, options)
        if plan is not None:
            asked.notes.attempts += 1
            asked.notes.model = plan.endpoint.model_name_to_send_to_api or None
        answers_client = asked.answers and scope.answers_client
        stamp = self.times.begin(node, answers=answers_client)
        first = node.position == workflow.first_prompt_node
        prompt_override = call.prompt_override if first else None
        return ExecutionContext(
            config=options,
            stream=asked.answers and call.streaming,
            responds=asked.answers,
            answers_client=answers_client,
            non_responder=call.non_responder,
            messages=self._messages,
            stamp=stamp,
            agent_inputs=self._inputs,
            agent_outputs=self._outputs,
            workflow_manager=self._manager,
            workflow_context=self._run_context,
            request_id=scope.request_id,
            workflow_id=self._run_id,
            node_id=node.id,
            discussion_id=call.discussion_id,
            request_scope=scope,
            variables=self._table(asked, options, plan, prompt_override, stamp),
            step=asked.notes,
            system_prompt_override=call.system_prompt_override if first else None,
            prompt_override=prompt_override,
            live_placeholders=workflow.live_placeholders,
            plan=plan,
            run_branches=asked.run_branches,
            start_step=asked.start_step,
            add_step=asked.add_step,
        )

    def _table(
        self,
        asked: Asked,
        options: Any,
        plan: ModelPlan | None,
        prompt_override: str | None,
        stamp: Stamp | None,
    ) -> VariableTable:
        scope, call, node = self._scope, self._call, asked.node
        messages = self._messages
        if plan and plan.splits_tool_exchange and (prompt_override or options.get("prompt")):
            messages = split_tool_exchange(messages).rest
        if stamp is not None:
            messages = stamp(messages)
        rules = (
            conversation_of(plan, scope.config)
            if plan
            else default_conversation(scope, self._workflow, node, options)
        )
        return VariableTable(
            agent_inputs=self._inputs,
            agent_outputs=self._outputs,
            messages=messages,
            workflow_variables=self._workflow.variables,
            user_variables=scope.config.user.user_wide_workflow_variables,
            discussion_id=call.discussion_id,
            clock=scope.clock,
            conversation=rules,
            categories=scope.categories,
            globals=self._run_context.global_variables,
            node_outputs=self._node_outputs,
            extra=self.times.variables,
            unknown=asked.notes.unknown_placeholders,
        )

    def _options(self, asked: Asked) -> Any:
        """The node's options, with what may be written as a variable resolved (variables §6)."""
        node, endpoint = asked.node, asked.endpoint
        settings = node.handler.model_settings(self._scope.config, self._call.discussion_id)
        if not node.early_fields and not settings and endpoint is None:
            return node.options
        sources = (
            self._workflow.variables,
            self._inputs,
            self._scope.config.user.user_wide_workflow_variables,
            self._outputs,
        )
        values: dict[str, Any] = {
            key: early_number(key, text, *sources)
            if key in EARLY_NUMBERS
            else resolve_early(text, *sources)
            for key, text in node.early_fields.items()
        }
        values.update(settings)
        if endpoint is not None:
            values["endpointName"] = resolve_early(endpoint, *sources)
        if asked.preset is not None:
            values["preset"] = asked.preset
        return self._with_values(node, values)

    def _with_values(self, node: Node, values: Mapping[str, Any]) -> Any:
        config = self._scope.config
        key = ("options", *node_key(config, self._workflow, node), *values.items())
        try:
            # The same values come again with almost every request.
            return config.derived(key, (node.options,), lambda: node.options.with_values(values))
        except ValidationError as error:
            problem = error.errors()[0]
            raise WorkflowError(f"`{problem['loc'][0]}`: {problem['msg']}.") from error
