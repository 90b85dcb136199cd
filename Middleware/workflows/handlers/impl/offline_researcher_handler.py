"""The offline researcher nodes (nodes §17)."""

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from Middleware.config.models import LooseBool, LooseInt, Text
from Middleware.core.errors import WorkflowError
from Middleware.tools.json_service import JsonService
from Middleware.tools.offline_researcher import Question, research
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import LONGEST_SECONDS, NodeOptions
from Middleware.workflows.handlers.base.option_types import Seconds
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

_QUICK: Final = "OfflineResearcherApiQuickSearch"
_DEEP: Final = "OfflineResearcherApiDeepResearch"
_MODES: Final[Mapping[str, tuple[str, float]]] = {_QUICK: ("quick", 240.0), _DEEP: ("deep", 600.0)}


class OfflineResearcherOptions(NodeOptions):
    """Ask an offline research server, and give out what it has found.

    The server is the one of the user's file (`useOfflineResearcherApi`). A failure does not stop
    the run: the output is a text that gives the reason.
    """

    prompt_to_search: Text = Field(min_length=1)
    """The question."""
    max_iterations: LooseInt = None
    """How often the server may search again; without it, as it likes."""
    include_sources: LooseBool = False
    """Put a list of the sources behind the answer."""
    search_seconds: Seconds | None = Field(None, alias="timeoutSeconds")
    """The longest that the server may take: 240 for a quick search, 600 for a deep one."""
    timeout_seconds: float | None = Field(
        None, gt=0, le=LONGEST_SECONDS, alias="nodeTimeoutSeconds"
    )
    """The longest that the node may take, all told. Its usual name means something else here."""


@node_type(_QUICK, _DEEP, options=OfflineResearcherOptions)
class OfflineResearcherHandler(NodeHandler):
    has_side_effects = False

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, OfflineResearcherOptions)
        scope = context.request_scope
        if scope is None:
            raise WorkflowError("The offline researcher can be asked inside of a request only.")
        mode, seconds = _MODES.get(options.type, _MODES[_QUICK])
        question = Question(
            text=context.render(options.prompt_to_search),
            mode=mode,
            max_iterations=options.max_iterations,
            include_sources=options.include_sources,
        )
        user = scope.config.user
        service = None
        if user.use_offline_researcher_api:
            service = JsonService(
                host=user.offline_researcher_api_host,
                port=user.offline_researcher_api_port,
                seconds=options.search_seconds or seconds,
            )
        return WorkflowPayload.of(research(service, question, scope.cancel))
