"""How a node calls its model: everything that its file, endpoint and user settle beforehand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from Middleware.config.models import Endpoint, StructuredOutputRule
from Middleware.config.prices import Price
from Middleware.llm.backend import Backend
from Middleware.workflows.output.cleaning import CleaningRules
from Middleware.workflows.prompts.chat import PromptRules
from Middleware.workflows.prompts.images import ImageRules
from Middleware.workflows.prompts.text import TextRules
from Middleware.workflows.variables.conversation import ConversationRules


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """Worked out once for a node, and again when a file behind it changes."""

    endpoint: Endpoint
    backend: Backend
    parameters: Mapping[str, Any]
    """Generation fields under the backend's own names."""
    conversation: ConversationRules
    prompt: PromptRules
    cleaning: CleaningRules
    price: Price | None = None
    """What the model costs; None where the owner's price list does not say."""
    text: TextRules | None = None
    """How prompts are put together; None for chat endpoints."""
    images: ImageRules
    structured_output: StructuredOutputRule | None = None
    """How the back end is told a schema; None: it cannot be."""
    length_key: str | None = None
    """What the back end calls the longest answer, where that is sent and as long as the whole
    window: it is lowered to what the prompt leaves (C-31). None: it is fine as it is."""
    shows_thinking: bool = True
    """Whether the client may see what the model thinks."""
    splits_tool_exchange: bool = False
    """The node's variables are made without the tool exchange that a conversation ends with;
    it is sent as messages of its own (``appendNativeToolExchange``)."""
