"""What a node type is: a handler and its options, registered under the name files use."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from Middleware.config.files import Snapshot
from Middleware.config.user import User
from Middleware.config.watched_file import Parse
from Middleware.core.events import Event
from Middleware.core.registry import Registry
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

OptionsT = TypeVar("OptionsT", bound=NodeOptions)

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file of the user, among the user's workflows, that says what a node type does."""

    key: str
    """Where the user's file names it."""
    name: Callable[[User], str]
    parse: Parse[Any]


class NodeHandler(ABC):
    """One node type, or a close family. Built once without arguments and holds no state: one
    instance serves every thread.
    """

    has_side_effects: ClassVar[bool] = True
    """Whether running it changes anything but its output. Such nodes keep their order where
    others run at once."""
    changes_conversation: ClassVar[bool] = False
    """Whether nodes behind it may see other messages."""
    guards_what_follows: ClassVar[bool] = False
    """Whether nodes behind it may begin only when it has run, where others run at once."""

    settings_file: ClassVar[SettingsFile | None] = None

    def only_runs_others(self, options: Any) -> bool:
        """Whether all that it changes is what the workflows and branches change that it runs."""
        return False

    def reads_step_before(self, options: Any) -> bool:
        """Whether it works on what the step before it has put out, without naming it. Such a node
        waits for all before it, and all behind it wait."""
        return False

    def routes(self, options: Any) -> tuple[str, ...]:
        """The routes it may name, where its options tell."""
        return ()

    def model_settings(self, config: Snapshot, discussion_id: str | None) -> Mapping[str, Any]:
        """Options about the model that stand in a file of their own; they win over the node's."""
        return _NOTHING

    @abstractmethod
    def handle(self, context: ExecutionContext) -> Iterator[Event] | WorkflowPayload:
        """Run the node.

        Events are returned only when ``context.stream`` is set; a payload always may be, and the
        processor turns it into a stream where one is wanted. Raises MiddlewareError.
        """


@dataclass(frozen=True, slots=True)
class NodeType:
    """A name in files, the options it reads and the instance that runs it."""

    name: str
    options: type[NodeOptions]
    handler: NodeHandler
    summary: str
    """One line for people: the palette, the reference page."""


node_types: Registry[NodeType] = Registry("node type")

HandlerT = TypeVar("HandlerT", bound=type[NodeHandler])


def node_type(*names: str, options: type[NodeOptions]) -> Callable[[HandlerT], HandlerT]:
    """Register the decorated handler for ``names``. Options' docstring is what people read."""

    def add(handler: HandlerT) -> HandlerT:
        summary = (options.__doc__ or "").strip().splitlines()[0]
        for name in names:
            node_types.register(name)(NodeType(name, options, handler(), summary))
        return handler

    return add


def options_of(context: ExecutionContext, options: type[OptionsT]) -> OptionsT:
    """The node's typed options; a plain mapping (a caller without a file) is read first."""
    config: Any = context.config
    if isinstance(config, options):
        return config
    read = options.read(dict(config))
    assert isinstance(read, options)
    return read
