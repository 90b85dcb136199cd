"""Name -> loaded workflow -> events. Runs the workflow of a request and those below it."""

from collections.abc import Iterator, Sequence

from Middleware.core.errors import WorkflowError
from Middleware.core.events import Event, Finish
from Middleware.core.messages import Message
from Middleware.workflows.managers.dependencies import in_order
from Middleware.workflows.managers.workflow_catalog import load_workflow
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.workflow_call import WorkflowCall
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.processors.workflows_processor import WorkflowProcessor


class WorkflowManager:
    """Made fresh for every run, like its processor: nothing is shared but the request scope."""

    def __init__(self, call: WorkflowCall, request_scope: RequestScope) -> None:
        config = request_scope.config
        workflow = in_order(config, load_workflow(config, call.workflow, call.folder))
        scope = request_scope.enter(workflow.label, call.messages)
        self._processor = WorkflowProcessor(workflow, call, scope, self)

    @property
    def run_id(self) -> str:
        return self._processor.run.id

    @property
    def result(self) -> WorkflowPayload:
        """The responder's output, once its Finish has come."""
        return self._processor.result

    @property
    def more(self) -> bool:
        """Whether nodes remain after the responder's Finish."""
        return self._processor.more

    def events(self) -> Iterator[Event]:
        """See :meth:`WorkflowProcessor.events`."""
        return self._processor.events()

    @staticmethod
    def run_custom_workflow(  # noqa: PLR0913 - the signature is fixed by design §2
        workflow_name: str,
        request_id: str = "",
        discussion_id: str | None = None,
        messages: Sequence[Message] = (),
        non_responder: bool | None = None,
        is_streaming: bool = False,
        first_node_system_prompt_override: str | None = None,
        first_node_prompt_override: str | None = None,
        scoped_inputs: Sequence[str] | None = None,
        workflow_user_folder_override: str | None = None,
        *,
        request_scope: RequestScope | None = None,
    ) -> Iterator[Event] | WorkflowPayload:
        """Run a workflow: its events when streaming, otherwise its responder's payload.

        The child of a node that answers the client gives its payload as soon as its responder
        has finished; ``payload.rest`` then runs what stands behind it.
        """
        if request_scope is None:
            raise WorkflowError(f"Workflow {workflow_name!r} was called outside of a request.")
        call = WorkflowCall(
            workflow=workflow_name,
            folder=workflow_user_folder_override,
            messages=messages,
            discussion_id=discussion_id,
            streaming=is_streaming,
            non_responder=non_responder,
            inputs=tuple(scoped_inputs or ()),
            system_prompt_override=first_node_system_prompt_override,
            prompt_override=first_node_prompt_override,
        )
        manager = WorkflowManager(call, request_scope)
        if is_streaming:
            return manager.events()
        return _whole(manager, stop_at_answer=request_scope.answers_client)


def _whole(manager: WorkflowManager, *, stop_at_answer: bool) -> WorkflowPayload:
    events = manager.events()
    for event in events:
        if isinstance(event, Finish) and stop_at_answer:
            break
    if not (stop_at_answer and manager.more):
        _drain(events)
        return manager.result
    payload = manager.result
    return WorkflowPayload(
        payload.content,
        payload.data,
        reply=payload.reply,
        value=payload.value,
        rest=lambda: _drain(events),
    )


def _drain(events: Iterator[Event]) -> None:
    for _ in events:
        pass
