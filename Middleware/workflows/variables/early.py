"""Fields that are settled before a node runs (variables §6 with Surprises 13 and 14)."""

import logging
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from Middleware.workflows.variables.table import Found, VariableTable
from Middleware.workflows.variables.templates import render

logger = logging.getLogger(__name__)

EARLY_NUMBERS: Mapping[str, int | float | None] = MappingProxyType(
    {
        "maxResponseSizeInTokens": 400,
        "maxContextTokenSize": 4096,
        "minMessagesInVariable": 5,
        "maxEstimatedTokensInVariable": 2048,
        "nMessagesToIncludeInVariable": 5,
        "estimatedTokensToIncludeInVariable": 2048,
        "lastMessagesToSendInsteadOfPrompt": 5,
        "lastMessagesToSendInsteadOfPromptMaxTokenSize": None,
        "limit": 5,
        "maxTurnsToPull": None,
        "maxSummaryChunksFromFile": None,
        "lookbackStart": 0,
        "minMemoriesPerSummary": 3,
        "loopIfMemoriesExceed": 3,
        "visionScanMessageLimit": 20,
        "num_results": 10,
        "top_n_articles": 3,
        "chunksPerMemory": 3,
        "lookbackStartTurn": 0,
        "vectorMemoryMaxResponseSizeInTokens": 1024,
        "vectorMemoryChunkEstimatedTokenSize": 1000,
        "vectorMemoryMaxMessagesBetweenChunks": 5,
        "chunkEstimatedTokenSize": 1000,
        "maxMessagesBetweenChunks": 5,
        "memoryCondensationBuffer": 0,
        "offlineWikiApiPort": None,
        "maxImagesToSend": 0,
        "percentile": 0.5,
    }
)
"""Properties that may be written as ``"{agent1Input}"``, with what counts when the text is no
number. None: the property then counts as absent."""

_FRACTIONS = frozenset({"percentile"})


class _EarlyTable(VariableTable):
    """Inputs, earlier outputs, the workflow's own keys and user-wide variables; nothing else
    exists this early."""

    __slots__ = ()

    def lookup(self, name: str) -> Found | None:
        for values, author_text in (
            (self._agent_inputs, False),
            (self._agent_outputs, False),
            (self._workflow_variables, True),
            (self._user_variables, True),
        ):
            if name in values:
                return Found(values[name], author_text)
        return None


def resolve_early(
    text: str,
    workflow_variables: Mapping[str, Any],
    agent_inputs: Mapping[str, Any],
    user_variables: Mapping[str, Any],
    agent_outputs: Mapping[str, Any],
) -> str:
    """``endpointName`` and the like; unknown names stay as written, and nothing fails."""
    if "{" not in text:
        return text
    table = _EarlyTable(
        agent_inputs=agent_inputs,
        agent_outputs=agent_outputs,
        workflow_variables=workflow_variables,
        user_variables=user_variables,
    )
    return render(text, table)


def early_number(
    name: str,
    value: Any,
    workflow_variables: Mapping[str, Any],
    agent_inputs: Mapping[str, Any],
    user_variables: Mapping[str, Any],
    agent_outputs: Mapping[str, Any],
) -> int | float | None:
    """The property ``name`` of :data:`EARLY_NUMBERS` as a number; None when it is absent."""
    if value is None or (isinstance(value, int) and name not in _FRACTIONS):
        return value
    text = value
    if isinstance(value, str):
        text = resolve_early(value, workflow_variables, agent_inputs, user_variables, agent_outputs)
    number = _number(text, fraction=name in _FRACTIONS)
    if number is not None:
        return number
    instead = EARLY_NUMBERS[name]
    if instead is None:
        logger.error("%s is no number: %r. It counts as absent.", name, text)
    else:
        logger.warning("%s is no number: %r. %s is used instead.", name, text, instead)
    return instead


def _number(value: Any, *, fraction: bool) -> int | float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return number if fraction else int(number)
