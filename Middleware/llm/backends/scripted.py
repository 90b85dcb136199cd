"""A fake model whose replies are rules in its endpoint's file (decisions §7): for the first start
without any model, for demonstrations and for tests. The same request always gets the same answer.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import Field, ValidationError

from Middleware.config.models import Endpoint, Settings, Text, Whole
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError
from Middleware.core.events import Event, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from Middleware.core.registry import nearest
from Middleware.core.tokens import estimate_all, estimate_tokens
from Middleware.llm.backend import BackendSetup, Kind, ModelRequest, backend_types
from Middleware.llm.backends.refund_desk import refund_desk
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.openai_chat_stream import finish_reason
from Middleware.wire.tool_calls import arguments_text

M = TypeVar("M", bound=Settings)

_INPUT: Final = "{input}"
_WORD: Final = re.compile(r"\s*\S+|\s+$")
"""A token of this model: a word with the space before it. Put together they are the text again."""


class ScriptedCall(Settings):
    """A tool call of a scripted reply."""

    name: str = Field(min_length=1)
    """The tool."""
    arguments: Any = None
    """An object, or JSON text."""


class ScriptedFailure(Settings):
    """How a scripted reply fails: as a model server that answers with an error would."""

    status: Whole = Field(500, ge=400, le=599)
    """As a model server would answer."""
    message: Text = ""
    """What it would say."""
    after_tokens: Whole = Field(0, ge=0)
    """How many tokens are sent before."""


class ScriptedReply(Settings):
    """What the fake model says."""

    reply: Text = ""
    """``{input}`` in it is the last user text."""
    reasoning: Text = ""
    """Thinking that is sent before the reply."""
    tool_calls: tuple[ScriptedCall, ...] = ()
    """Tools that are called after the reply."""
    delay_ms: Whole = Field(0, ge=0)
    """Milliseconds before the first token. Tokens are words."""
    token_delay_ms: Whole = Field(0, ge=0)
    """Milliseconds before each further one."""
    finish_reason: Text = ""
    """Empty: ``tool_calls`` where there are any, else ``stop``."""
    fail: ScriptedFailure | None = None
    """End with an error."""


class ScriptedRule(ScriptedReply):
    """A reply for certain inputs."""

    match: Text = ""
    """Regular expression that the last user text must contain. Empty: any text."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    reply: ScriptedReply


_ECHO: Final = ScriptedReply(reply=_INPUT)


def _refund_desk(text: str, turn: int) -> ScriptedReply:
    """The fake model of durable conversations: a refund is proposed as a call of a tool."""
    said = refund_desk(text, turn)
    if said.action is None:
        return ScriptedReply(reply=said.reply)
    call = ScriptedCall(name=said.action, arguments=dict(said.arguments))
    return ScriptedReply(reply=said.reply, tool_calls=(call,))


_SCRIPTS: Final[Mapping[str, Callable[[str, int], ScriptedReply]]] = {
    "echo": lambda text, turn: _ECHO,
    "refund-desk": _refund_desk,
}
"""Whole personalities, by the name that ``script`` gives. Each is asked where no rule matches,
with the last user text and the number of user messages so far."""


@backend_types.register("scripted")
class ScriptedBackend:
    """The first rule that matches answers; then ``default``; then the script."""

    def __init__(self, setup: BackendSetup) -> None:
        endpoint = setup.endpoint
        self._file = endpoint.file
        self._voice = BackendVoice(endpoint.name)
        self._rules = [self._rule(raw, index) for index, raw in enumerate(endpoint.rules)]
        self._default = (
            None
            if endpoint.default is None
            else self._checked(ScriptedReply, endpoint.default, "default")
        )
        self._script = self._script_of(endpoint)

    @property
    def kind(self) -> Kind:
        return "chat"

    @property
    def accepts(self) -> frozenset[str]:
        return frozenset()

    def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
        turn = sum(message.role == "user" for message in request.messages)
        reply = self._reply_to(last_user_text(request), turn)
        yield from spoken(reply, request, self._voice, cancel)

    def _reply_to(self, text: str, turn: int) -> ScriptedReply:
        for rule in self._rules:
            if rule.pattern.search(text):
                return rule.reply
        if self._default is not None:
            return self._default
        if self._script is not None:
            return self._script(text, turn)
        raise ConfigError(
            "No rule matches the last user text, and there is no `default`.",
            file=self._file,
            where="rules",
            remedy='Add `"default": {"reply": "..."}`.',
        )

    def _rule(self, raw: Mapping[str, Any], index: int) -> _Rule:
        rule = self._checked(ScriptedRule, raw, f"rules[{index}]")
        try:
            return _Rule(re.compile(rule.match), rule)
        except re.error as error:
            raise ConfigError(
                f"{rule.match!r} is not a regular expression: {error}.",
                file=self._file,
                where=f"rules[{index}].match",
                remedy="In JSON a backslash is written twice, as in `\\\\d+`.",
            ) from error

    def _checked(self, model: type[M], raw: Mapping[str, Any], where: str) -> M:
        try:
            return model.model_validate(raw)
        except ValidationError as error:
            first = error.errors()[0]
            place = where + "".join(
                f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]
            )
            raise ConfigError(f"{first['msg']}.", file=self._file, where=place) from error

    def _script_of(self, endpoint: Endpoint) -> Callable[[str, int], ScriptedReply] | None:
        if endpoint.script is None:
            return None
        script = _SCRIPTS.get(endpoint.script)
        if script is None:
            close = nearest(endpoint.script, tuple(_SCRIPTS))
            raise ConfigError(
                f"There is no script {endpoint.script!r}.",
                file=self._file,
                where="script",
                remedy=f"Did you mean {close!r}?"
                if close
                else f"Known are: {', '.join(_SCRIPTS)}; or leave it out and write `rules`.",
            )
        return script


def spoken(
    reply: ScriptedReply, request: ModelRequest, voice: BackendVoice, cancel: CancelToken
) -> Iterator[Event]:
    """A reply as a model would give it: its events, its pauses, its failure."""
    cancel.check()
    text = last_user_text(request)
    if reply.delay_ms:
        cancel.wait(reply.delay_ms / 1000)
    for said, event in enumerate(_words(reply, text)):
        if reply.fail is not None and said >= reply.fail.after_tokens:
            break
        if said and reply.token_delay_ms:
            cancel.wait(reply.token_delay_ms / 1000)
        cancel.check()
        yield event
    if reply.fail is not None:
        message = reply.fail.message or "This failure was scripted."
        raise voice.refused(reply.fail.status, b"", reason=message)
    calls = _calls(reply, len(request.messages))
    yield from calls
    yield Finish(
        finish_reason(reply.finish_reason, bool(calls)), _usage(request, reply, text, calls)
    )


def last_user_text(request: ModelRequest) -> str:
    for message in reversed(request.messages):
        if message.role == "user":
            return message.content
    return request.prompt or ""


def _words(reply: ScriptedReply, text: str) -> Iterator[TextDelta | ReasoningDelta]:
    for word in _WORD.findall(reply.reasoning.replace(_INPUT, text)):
        yield ReasoningDelta(word)
    for word in _WORD.findall(reply.reply.replace(_INPUT, text)):
        yield TextDelta(word)


def _calls(reply: ScriptedReply, messages: int) -> list[ToolCallDelta]:
    """Ids depend on the length of the conversation, so that none comes twice in it."""
    return [
        ToolCallDelta(
            index, arguments_text(call.arguments) or "{}", f"call_{messages}_{index}", call.name
        )
        for index, call in enumerate(reply.tool_calls)
    ]


def _usage(
    request: ModelRequest, reply: ScriptedReply, text: str, calls: Sequence[ToolCallDelta]
) -> Usage:
    said = (part.replace(_INPUT, text) for part in (reply.reasoning, reply.reply))
    return Usage(
        prompt_tokens=estimate_all(message.content for message in request.messages)
        + estimate_tokens(request.prompt or ""),
        completion_tokens=estimate_all((*said, *(call.arguments for call in calls))),
        estimated=True,
    )
