"""CustomWorkflow, ConditionalCustomWorkflow and ConversationChunkProcessor (nodes §2-4, design
§2)."""

import logging
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from Middleware.config.models import FileModel, Text
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError, WorkflowError
from Middleware.core.events import Event, Reply
from Middleware.workflows.handlers.base.named_files import Names
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.handlers.impl.conversation_chunks import (
    ConversationChunkOptions,
    process_chunks,
)
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.output.pacing import paced

logger = logging.getLogger(__name__)

Overrides = tuple[str | None, str | None, bool | None, bool]


class ScopedOptions(NodeOptions):
    """What both kinds of sub-workflow node share."""

    scoped_variables: tuple[Any, ...] | None = Field(
        (), validation_alias=AliasChoices("scoped_variables", "scopedVariables")
    )
    """Texts that become ``agent1Input``, ``agent2Input`` ... of the sub-workflow, which sees
    nothing else of this one."""
    workflow_user_folder_override: Text = ""
    """Folder below ``Workflows/``; empty: the user's own. Not passed on to deeper calls."""


class CustomWorkflowOptions(ScopedOptions):
    """Run another workflow and answer with its answer."""

    workflow_name: Annotated[str, Names("workflow")] = Field(min_length=1)
    """File name of the workflow, without its suffix."""
    first_node_system_prompt_override: str | None = None
    """The system prompt for the first node of the sub-workflow that has a prompt."""
    system_prompt_override: str | None = None
    """The same; the longer name wins."""
    first_node_prompt_override: str | None = None
    """The prompt for that node."""
    prompt_override: str | None = None
    """The same; the longer name wins."""


class RouteOverride(FileModel):
    """Prompts for the first node of one route's workflow."""

    first_node_system_prompt_override: str | None = None
    """The system prompt for the first node that has a prompt."""
    system_prompt_override: str | None = None
    """The same; the longer name wins."""
    first_node_prompt_override: str | None = None
    """The prompt for that node."""
    prompt_override: str | None = None
    """The same; the longer name wins."""


class ConditionalCustomWorkflowOptions(ScopedOptions):
    """Run the workflow that a key chooses, and answer with its answer."""

    conditional_key: Text = ""
    """Text with variables that chooses the route; case and white space around it do not count."""
    conditional_workflows: Annotated[dict[str, Text], Names("workflow")] = Field(
        default_factory=dict
    )
    """Key -> workflow. ``default`` is for every other key."""
    use_default_content_instead_of_workflow: Any = Field(
        None, alias="UseDefaultContentInsteadOfWorkflow"
    )
    """Said when no key matches, instead of running the default workflow."""
    route_overrides: dict[str, RouteOverride] | None = Field(default_factory=dict)
    """Prompts by route, under its key with the first letter upper case and the others lower case:
    ``Python``."""


@node_type("CustomWorkflow", options=CustomWorkflowOptions)
@node_type("ConditionalCustomWorkflow", options=ConditionalCustomWorkflowOptions)
@node_type("ConversationChunkProcessor", options=ConversationChunkOptions)
class SubWorkflowHandler(NodeHandler):
    """All three node types by one handler. A child sees nothing of the parent but its inputs."""

    def only_runs_others(self, options: Any) -> bool:
        return not isinstance(options, ConversationChunkOptions)

    def handle(self, context: ExecutionContext) -> Iterator[Event] | WorkflowPayload:
        kind = context.config.get("type")
        if kind == "ConditionalCustomWorkflow":
            return self.handle_conditional_custom_workflow(context)
        if kind == "ConversationChunkProcessor":
            return self.handle_conversation_chunk_processor(context)
        return self.handle_custom_workflow(context)

    def handle_custom_workflow(
        self, context: ExecutionContext
    ) -> Iterator[Event] | WorkflowPayload:
        options = options_of(context, CustomWorkflowOptions)
        return self._run_child(
            context,
            options.workflow_name,
            options.workflow_user_folder_override,
            self._prepare_workflow_overrides(context),
        )

    def handle_conditional_custom_workflow(
        self, context: ExecutionContext
    ) -> Iterator[Event] | WorkflowPayload:
        """A matching key, else the default content, else the default workflow, else an error."""
        options = options_of(context, ConditionalCustomWorkflowOptions)
        key = context.render(options.conditional_key).strip().lower()
        workflows = {
            name.strip().lower(): workflow
            for name, workflow in options.conditional_workflows.items()
            if workflow
        }
        workflow, default_runs = workflows.get(key), False
        if workflow is None:
            if options.use_default_content_instead_of_workflow is not None:
                return self._default_content(
                    context, options.use_default_content_instead_of_workflow
                )
            workflow, default_runs = workflows.get("default"), True
        if workflow is None:
            raise WorkflowError(
                f"no route for {key!r}. Add it to conditionalWorkflows (has: "
                f"{', '.join(map(repr, workflows)) or 'none'}), or add a 'default' route."
            )
        overrides = self._route_overrides(context, options, key, default_runs=default_runs)
        return self._run_child(
            context,
            workflow,
            options.workflow_user_folder_override,
            self._prepare_workflow_overrides(context, overrides),
        )

    def handle_conversation_chunk_processor(self, context: ExecutionContext) -> WorkflowPayload:
        return process_chunks(context, self._prepare_scoped_inputs(context))

    def _default_content(
        self, context: ExecutionContext, content: Any
    ) -> Iterator[Event] | WorkflowPayload:
        text = context.render(content)
        if not context.stream:
            return WorkflowPayload.of(text)
        scope = context.request_scope
        return paced(Reply(text=text), scope.cancel if scope else CancelToken())

    def _route_overrides(
        self,
        context: ExecutionContext,
        options: ConditionalCustomWorkflowOptions,
        key: str,
        *,
        default_runs: bool,
    ) -> Mapping[str, Any]:
        """The override of a route: under the capitalised key only, unless the user's setting
        says otherwise (decisions §5). ``python`` finds ``Python`` and nothing else.
        """
        routes = options.route_overrides or {}
        wanted = [key, "default"] if default_runs else [key]
        scope = context.request_scope
        if scope and scope.config.user.route_overrides_lookup == "caseInsensitive":
            by_lower = {name.strip().lower(): route for name, route in routes.items()}
            found = next((by_lower[name] for name in wanted if name in by_lower), None)
        else:
            capitalised = [name.capitalize() for name in wanted]
            found = next((routes[name] for name in capitalised if name in routes), None)
        return found.model_dump(by_alias=True) if found else {}

    def _prepare_scoped_inputs(self, context: ExecutionContext) -> list[str]:
        """The child's inputs, resolved, in order."""
        scoped = context.config.get("scoped_variables") or context.config.get("scopedVariables")
        return [context.render(item) for item in scoped or ()]

    def _prepare_workflow_overrides(
        self, context: ExecutionContext, overrides_config: Mapping[str, Any] | None = None
    ) -> Overrides:
        """``(system_prompt, prompt, non_responder, allow_streaming)``.

        The last two follow from ``context.stream`` alone: the child of a streaming node streams
        and picks its own responder; any other child is a non-responder.
        """
        config = context.config if overrides_config is None else overrides_config
        system_prompt = self._override(context, config, "SystemPrompt")
        prompt = self._override(context, config, "Prompt")
        if context.stream:
            return system_prompt, prompt, None, True
        return system_prompt, prompt, True, False

    def _override(self, context: ExecutionContext, config: Any, kind: str) -> str | None:
        short = f"{kind[0].lower()}{kind[1:]}Override"
        text = config.get(f"firstNode{kind}Override")
        if text is None:
            text = config.get(short)
        return context.render_for_child(text) if text else None

    def _run_child(
        self, context: ExecutionContext, workflow: str, folder: str, overrides: Overrides
    ) -> Iterator[Event] | WorkflowPayload:
        if context.workflow_manager is None:
            raise ConfigError("No workflow can be run from here.")
        system_prompt, prompt, non_responder, allow_streaming = overrides
        return context.workflow_manager.run_custom_workflow(
            workflow_name=workflow,
            request_id=context.request_id,
            discussion_id=context.discussion_id,
            messages=context.messages,
            non_responder=non_responder,
            is_streaming=allow_streaming,
            first_node_system_prompt_override=system_prompt,
            first_node_prompt_override=prompt,
            scoped_inputs=self._prepare_scoped_inputs(context),
            workflow_user_folder_override=folder or None,
            request_scope=context.scope_for_child(),
        )
