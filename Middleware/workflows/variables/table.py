"""Every variable that a text may name, computed only when one asks for it (variables §1-2)."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from Middleware.core.clock import Clock, SystemClock
from Middleware.core.messages import Message
from Middleware.workflows.variables.conversation import (
    CONVERSATION_VARIABLES,
    Conversation,
    ConversationRules,
)
from Middleware.workflows.variables.dates import DATE_VARIABLES
from Middleware.workflows.variables.message_objects import (
    last_user_message,
    message_objects,
    messages_json,
)

MISSING: Final = object()
"""What :meth:`VariableTable.live` answers for a name it does not know; None is a value."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Found(NamedTuple):
    """A variable's value in its own type."""

    value: Any
    author_text: bool = False
    """True when it stands in a file of the author, whose text may name variables once more."""


class VariableTable:
    """What one node may name. Keeps references only; each piece is computed at most once.

    Precedence, highest first: ``messages``, categories, inputs, outputs, conversation,
    ``Discussion_Id`` and ``extra``, the workflow's own keys, dates, user-wide variables.
    """

    __slots__ = (
        "_agent_inputs",
        "_agent_outputs",
        "_cache",
        "_categories",
        "_clock",
        "_conversation",
        "_discussion_id",
        "_extra",
        "_globals",
        "_messages",
        "_node_outputs",
        "_now",
        "_rules",
        "_unknown",
        "_user_variables",
        "_workflow_variables",
    )

    # One parameter a source of variables: they come from different owners.
    def __init__(  # noqa: PLR0913
        self,
        *,
        agent_inputs: Mapping[str, Any] = _NOTHING,
        agent_outputs: Mapping[str, Any] = _NOTHING,
        messages: Sequence[Message] = (),
        workflow_variables: Mapping[str, Any] = _NOTHING,
        user_variables: Mapping[str, Any] = _NOTHING,
        discussion_id: str | None = None,
        clock: Clock | None = None,
        conversation: ConversationRules | None = None,
        categories: Mapping[str, Any] = _NOTHING,
        globals: Mapping[str, Any] = _NOTHING,
        node_outputs: Mapping[str, Any] = _NOTHING,
        extra: Mapping[str, Callable[[], Any]] = _NOTHING,
        unknown: list[str] | None = None,
    ) -> None:
        """``unknown`` takes the names in live placeholders that turn out to be unknown."""
        self._agent_inputs = agent_inputs
        self._agent_outputs = agent_outputs
        self._messages = messages
        self._workflow_variables = workflow_variables
        self._user_variables = user_variables
        self._discussion_id = discussion_id
        self._clock = clock
        self._rules = conversation
        self._categories = categories
        self._globals = globals
        self._node_outputs = node_outputs
        self._extra = extra
        self._conversation: Conversation | None = None
        self._cache: dict[str, Found | None] | None = None
        self._now: datetime | None = None
        self._unknown = unknown

    def lookup(self, name: str) -> Found | None:
        """The variable ``name`` of ``{name}``, or None when there is none."""
        if name in self._agent_inputs:
            return Found(self._agent_inputs[name])
        if name in self._agent_outputs:
            return Found(self._agent_outputs[name])
        if self._cache is None:
            self._cache = {}
        elif name in self._cache:
            return self._cache[name]
        found = self._of_request(name) or self._of_files(name)
        self._cache[name] = found
        return found

    def live(self, name: str) -> Any:
        """The value behind ``{{name}}`` of a live file, or MISSING: a global variable, else what
        the node of that name put out."""
        if name in self._globals:
            return self._globals[name]
        return self._node_outputs.get(name, MISSING)

    def note_unknown(self, name: str) -> None:
        if self._unknown is not None and name not in self._unknown:
            self._unknown.append(name)

    def _of_request(self, name: str) -> Found | None:
        if name == "messages":
            return Found(message_objects(self._messages))
        if name in self._categories:
            return Found(self._categories[name], author_text=True)
        if name in CONVERSATION_VARIABLES and self._messages:
            return Found(self._conversation_view().value(name))
        if name == "Discussion_Id":
            return Found(self._discussion_id or "")
        if name in self._extra:
            return Found(self._extra[name]())
        if name == "time_context_summary":
            return Found("")
        return None

    def _of_files(self, name: str) -> Found | None:
        if name in self._workflow_variables:
            return Found(self._workflow_variables[name], author_text=True)
        if name in DATE_VARIABLES:
            if self._now is None:
                self._now = (self._clock or SystemClock()).now()
            return Found(DATE_VARIABLES[name](self._now))
        if name in self._user_variables:
            return Found(self._user_variables[name], author_text=True)
        # Ours: they stand last, so that they take nobody's name away.
        if name == "messages_json":
            return Found(messages_json(self._messages))
        if name == "last_user_message":
            return Found(last_user_message(self._messages))
        return None

    def _conversation_view(self) -> Conversation:
        if self._conversation is None:
            self._conversation = Conversation(self._messages, self._rules or ConversationRules())
        return self._conversation
