"""A model that keeps what it was asked and says what it was told, without a server."""

from collections.abc import Callable, Iterator
from typing import Any

from Middleware.config.models import Endpoint
from Middleware.core.cancellation import CancelToken
from Middleware.core.events import Event, Finish, TextDelta
from Middleware.llm.backend import Kind, ModelRequest
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.output.cleaning import CleaningRules
from Middleware.workflows.prompts.chat import PromptRules
from Middleware.workflows.prompts.images import ImageRules
from Middleware.workflows.variables.conversation import ConversationRules


class FakeModel:
    """Answers in order, the last one again and again; a function makes an answer of a request."""

    kind: Kind = "chat"
    accepts: frozenset[str] = frozenset()

    def __init__(self, *answers: str | Callable[[ModelRequest], str]) -> None:
        self.asked: list[ModelRequest] = []
        self._answers = answers or ("ok",)

    def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
        cancel.check()
        self.asked.append(request)
        answer = self._answers[min(len(self.asked), len(self._answers)) - 1]
        yield TextDelta(answer(request) if callable(answer) else answer)
        yield Finish("stop")

    @property
    def prompts(self) -> list[list[tuple[str, str, tuple[str, ...]]]]:
        """Role, content and images of the messages of each request."""
        return [[(m.role, m.content, m.images) for m in one.messages] for one in self.asked]


def plan_for(model: FakeModel, cleaning: CleaningRules | None = None, **rules: Any) -> ModelPlan:
    """The plan of a node that calls ``model``; ``rules`` are those of its prompt."""
    return ModelPlan(
        endpoint=Endpoint(name="Fake"),
        backend=model,
        parameters={},
        conversation=ConversationRules(),
        prompt=PromptRules(**rules),
        cleaning=cleaning or CleaningRules(),
        images=ImageRules(max_bytes=1_000_000, hosts=None, fetched_here=False),
    )
