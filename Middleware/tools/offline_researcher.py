"""Questions to an offline research server (nodes §17)."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from Middleware.core.cancellation import CancelToken
from Middleware.tools.json_service import JsonService, ServiceFailed

logger = logging.getLogger(__name__)

NOTHING_FOUND: Final = "The offline researcher found no information about this."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    text: str
    mode: str
    """``quick`` or ``deep``."""
    max_iterations: int | None = None
    include_sources: bool = False


def research(service: JsonService | None, question: Question, cancel: CancelToken) -> str:
    """The answer, whatever happens: a failure is a text that gives the reason. ``service`` None:
    the user has not turned it on.
    """
    if service is None:
        return _sorry("it is turned off")
    asked: dict[str, Any] = {"query": question.text, "mode": question.mode}
    if question.max_iterations is not None:
        asked["max_iterations"] = question.max_iterations
    try:
        found = service.post("search", asked, cancel)
    except ServiceFailed as error:
        return _sorry(error.reason)
    if not isinstance(found, Mapping):
        return _sorry("its answer is not as it should be")
    if found.get("status") == "error":
        return _sorry(str(found.get("reason") or "it gave no reason"))
    answer = str(found.get("answer") or "").strip()
    if found.get("no_information_found") or not answer:
        return NOTHING_FOUND
    sources = _sources(found.get("sources")) if question.include_sources else []
    return "\n".join([answer, "", "Sources:", *sources]) if sources else answer


def _sources(found: Any) -> list[str]:
    if not isinstance(found, list):
        return []
    return [
        f"- {one.get('book', '')} :: {one.get('title', '')}"
        for one in found
        if isinstance(one, Mapping)
    ]


def _sorry(reason: str) -> str:
    logger.warning("offline researcher: %s", reason)
    return f"Sorry, the offline researcher could not answer: {reason}."
