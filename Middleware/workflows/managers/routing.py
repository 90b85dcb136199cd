"""Prompt routing: a workflow names the category, the category names the workflow
(workflow-engine §2, with Surprises S7-S9).
"""

import logging
import re
import string
from collections.abc import Sequence

from Middleware.core.messages import Message
from Middleware.workflows.managers.workflow_manager import WorkflowManager
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.workflow_call import WorkflowCall
from Middleware.workflows.variables.categories import category_variables

logger = logging.getLogger(__name__)

FALLBACK = "_DefaultWorkflow"
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def route(scope: RequestScope, messages: Sequence[Message], discussion_id: str | None) -> str:
    """The workflow for a conversation; :data:`FALLBACK` when no category was recognised or the
    user has no routing at all (config-files, Surprise 5).
    """
    user = scope.config.user
    if not user.routing_config or not user.categorization_workflow:
        return FALLBACK
    categories = scope.config.routing(user.routing_config).categories
    call = WorkflowCall(
        workflow=user.categorization_workflow,
        messages=messages,
        discussion_id=discussion_id,
        non_responder=True,
    )
    inside = scope.categorizing(
        category_variables({name: category.description for name, category in categories.items()})
    )
    for _ in range(max(1, user.max_categorization_attempts)):
        said = _categorize(call, inside)
        category = match_category(said, list(categories))
        if category is not None:
            return categories[category].workflow
        logger.warning("Routing: %r names no category; known are %s", said[:80], list(categories))
    return FALLBACK


def _categorize(call: WorkflowCall, scope: RequestScope) -> str:
    manager = WorkflowManager(call, scope)
    for _ in manager.events():
        pass
    return str(manager.result).strip()


def match_category(said: str, categories: Sequence[str]) -> str | None:
    """The category that an answer names.

    Exact first (the whole answer, then a word or run of words, the longest key first), then the
    reference's rule, a key as part of a word, for answers that old prompts rely on.
    """
    answer = _words(said)
    by_length = sorted(categories, key=len, reverse=True)
    for category in by_length:
        if _words(category) == answer and answer:
            return category
    padded = f" {' '.join(answer)} "
    for category in by_length:
        words = _words(category)
        if words and f" {' '.join(words)} " in padded:
            return category
    return _by_part_of_word(said, categories)


def _words(text: str) -> list[str]:
    """Upper-cased words; characters such as + and # belong to a name, as in C++ and C#."""
    return re.findall(r"[\w+#]+", text.upper().replace("_", " "))


def _by_part_of_word(said: str, categories: Sequence[str]) -> str | None:
    for word in said.translate(_PUNCTUATION).upper().split():
        for category in categories:
            key = category.translate(_PUNCTUATION).upper()
            # A key that loses characters here (C++ -> C) would match half the dictionary.
            if key and key == category.upper().replace("_", "") and key in word:
                return category
    return None
