"""Cleans the words of a model: the events of an answer in, the events of a clean answer out.

There is one implementation, over events; a whole answer runs through it as
``collect(clean(replay(reply), rules))``. So both ways give the same text (workflow-engine S17,
front-doors S22). The order is that of the specification: thinking block, start of the text, white
space at the end, speaker cue.

Nothing is held that is decided. Reasoning and tool calls are never held: a tool call first lets out
the text that stands before it. Once no rule can apply any more the source's own events pass.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from Middleware.config.models import Endpoint
from Middleware.core.events import Event, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from Middleware.workflows.output.group_chat import SpeakerFilter
from Middleware.workflows.output.start_text import (
    ASSISTANT,
    TIMESTAMP,
    EndSpaceFilter,
    StartTextFilter,
    start_texts,
)
from Middleware.workflows.output.text_filter import TextFilter, close
from Middleware.workflows.output.thinking import ThinkingFilter, ThinkingTags
from Middleware.workflows.output.tool_names import lowercase_tool_names


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRules:
    """What to do with one node's answer. The default does nothing."""

    thinking: ThinkingTags | None = None
    """None: no thinking block is looked for."""
    keep_thinking: bool = False
    """Pass a removed block on as reasoning. A backend's own reasoning always passes."""
    trim_start: bool = False
    start_lists: tuple[tuple[str, ...], ...] = ()
    """Texts to cut from the start, at most one of each list; any of them implies
    ``trim_start``."""
    trim_end: bool = False
    speaker_cue: str | None = None
    """Put in front of an answer that names no speaker (``group_chat.speaker_cue``)."""
    lowercase_tool_names: bool = False

    @property
    def active(self) -> bool:
        """False when :func:`clean` hands its events back as they are."""
        return self.lowercase_tool_names or self._change_text

    @property
    def _change_text(self) -> bool:
        return bool(
            self.thinking
            or self.trim_start
            or self.start_lists
            or self.trim_end
            or self.speaker_cue
        )


class NodeSettings(Protocol):
    """The options of a node that cleaning reads."""

    @property
    def remove_custom_text_from_response_start(self) -> bool: ...
    @property
    def response_start_text_to_remove(self) -> str | tuple[str, ...] | None: ...
    @property
    def add_discussion_id_timestamps_for_llm(self) -> bool: ...
    @property
    def lowercase_tool_call_function_names(self) -> bool: ...


def cleaning_rules(
    node: NodeSettings,
    endpoint: Endpoint,
    *,
    assistant_label: bool = False,
    keep_thinking: bool = False,
) -> CleaningRules:
    """The rules for a node with an endpoint; a node without one is never cleaned.

    ``assistant_label``: both ``chatCompleteAddUserAssistant`` and
    ``chatCompletionAddMissingAssistantGenerator`` are on. Depends on files only, so it can be
    kept; the speaker cue of a request is added with ``dataclasses.replace``.
    """
    lists = (
        start_texts(node.response_start_text_to_remove)
        if node.remove_custom_text_from_response_start
        else (),
        _endpoint_texts(endpoint),
        (TIMESTAMP,) if node.add_discussion_id_timestamps_for_llm else (),
        (ASSISTANT,) if assistant_label else (),
    )
    return CleaningRules(
        thinking=_thinking_tags(endpoint),
        keep_thinking=keep_thinking,
        trim_start=True,
        start_lists=tuple(entries for entries in lists if entries),
        trim_end=endpoint.trim_beginning_and_end_line_breaks,
        lowercase_tool_names=node.lowercase_tool_call_function_names,
    )


def _thinking_tags(endpoint: Endpoint) -> ThinkingTags | None:
    """None also when a tag is missing; ``check`` warns of that (config-files §5)."""
    if not (endpoint.remove_thinking and endpoint.start_think_tag and endpoint.end_think_tag):
        return None
    return ThinkingTags(
        start=endpoint.start_think_tag,
        end=endpoint.end_think_tag,
        grace=endpoint.opening_tag_grace_period,
        closing_only=endpoint.expect_only_closing_think_tag,
    )


def _endpoint_texts(endpoint: Endpoint) -> tuple[str, ...]:
    if not endpoint.remove_custom_text_from_response_start_endpoint_wide:
        return ()
    entries = endpoint.response_start_text_to_remove_endpoint_wide
    return start_texts(entry.strip() for entry in entries)


def clean(events: Iterator[Event], rules: CleaningRules) -> Iterator[Event]:
    """``events`` cleaned; the very same iterator when no rule is active.

    Closing the result closes ``events``.
    """
    if rules.lowercase_tool_names:
        events = lowercase_tool_names(events)
    return _cleaned(events, _Filters(rules)) if rules._change_text else events


def _cleaned(events: Iterator[Event], filters: "_Filters") -> Iterator[Event]:
    try:
        for event in events:
            match event:
                case TextDelta(said):
                    text = filters.feed(said)
                    thought = filters.take_reasoning()
                    if thought:
                        yield ReasoningDelta(thought)
                    if text:
                        yield event if text == said else TextDelta(text)
                    if filters.settled:
                        break
                case ReasoningDelta():
                    yield event
                case ToolCallDelta() | Finish():
                    ends = isinstance(event, Finish)
                    text = filters.end() if ends else filters.before_tool_call()
                    if text:
                        yield TextDelta(text)
                    yield event
        yield from filters.rest(events)
    finally:
        close(events)


class _Filters:
    """The filters of one answer, each feeding the next."""

    __slots__ = ("_all", "_end_space", "_thinking")

    def __init__(self, rules: CleaningRules) -> None:
        self._all: list[TextFilter] = []
        self._thinking: ThinkingFilter | None = None
        if rules.thinking:
            self._thinking = ThinkingFilter(rules.thinking, keep=rules.keep_thinking)
            self._all.append(self._thinking)
        if rules.trim_start or rules.start_lists:
            self._all.append(StartTextFilter(rules.start_lists))
        self._end_space = EndSpaceFilter() if rules.trim_end else None
        if self._end_space:
            self._all.append(self._end_space)
        if rules.speaker_cue:
            self._all.append(SpeakerFilter(rules.speaker_cue))

    @property
    def settled(self) -> bool:
        """Whether the beginning of the answer is over and :meth:`rest` can do what is left."""
        return not self._all or self._all == [self._end_space]

    def rest(self, events: Iterator[Event]) -> Iterator[Event]:
        """The events that come when it is: this is where an answer spends its time."""
        return self._end_space.rest(events) if self._end_space else events

    def feed(self, text: str) -> str:
        some_done = False
        for each in self._all:
            text = each.feed(text)
            some_done = some_done or each.done
            if not text:
                break
        if some_done:
            self._drop_done()
        return text

    def take_reasoning(self) -> str:
        """Reasoning that has not been taken yet."""
        if self._thinking is None:
            return ""
        thought = self._thinking.take_reasoning()
        if self._thinking.done:
            self._thinking = None
        return thought

    def before_tool_call(self) -> str:
        return self._let_out(lambda each: each.before_tool_call())

    def end(self) -> str:
        return self._let_out(lambda each: each.end())

    def _let_out(self, held: Callable[[TextFilter], str]) -> str:
        text = ""
        for each in self._all:
            if text:
                text = each.feed(text)
            if not each.done:
                text += held(each)
        self._drop_done()
        return text

    def _drop_done(self) -> None:
        self._all = [each for each in self._all if not each.done]
