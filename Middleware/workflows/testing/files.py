"""A file of workflow tests: inputs, fake replies, expectations (design §6)."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from Middleware.config.loose import Texts
from Middleware.config.models import FileModel, Text
from Middleware.config.syntax import parse_bytes
from Middleware.config.validation import validated
from Middleware.core.errors import ConfigError
from Middleware.core.messages import Message
from Middleware.llm.backends.scripted import ScriptedCall, ScriptedFailure, ScriptedReply


class _Strict(FileModel):
    """A misspelt expectation would be one that always holds: here every key must be known."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    return text


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


def _under(key: str, value: Any) -> Any:
    """A short form: the value that most people mean, without its key."""
    return value if isinstance(value, Mapping) else {key: value}


def _every_as_list(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: _as_list(one) for key, one in value.items()}


Pattern = Annotated[str, AfterValidator(_pattern)]


class FakeReply(_Strict):
    """What a node's model says, in place of the model."""

    text: Text = ""
    """The reply. ``{input}`` in it is the last user text that was sent."""
    json_value: Any = Field(None, alias="json")
    """In place of ``text``: a value, said as JSON."""
    reasoning: Text = ""
    """Thinking that comes before the reply."""
    tool_calls: tuple[ScriptedCall, ...] = ()
    """Tools that are called after the reply."""
    fail: ScriptedFailure | None = None
    """End with an error, as a model server would."""
    delay_ms: int = Field(0, ge=0)
    """Milliseconds before the first word."""
    finish_reason: Text = ""
    """Empty: ``tool_calls`` where there are any, else ``stop``."""

    def scripted(self) -> ScriptedReply:
        """The same for the fake model that ships with the server."""
        text = self.text
        if self.json_value is not None:
            text = json.dumps(self.json_value, ensure_ascii=False)
        return ScriptedReply(
            reply=text,
            reasoning=self.reasoning,
            tool_calls=self.tool_calls,
            fail=self.fail,
            delay_ms=self.delay_ms,
            finish_reason=self.finish_reason,
        )


OneReply = Annotated[
    FakeReply,
    BeforeValidator(partial(_under, "text"), json_schema_input_type=FakeReply | str | int | float),
]


class TextCheck(_Strict):
    """What a text must be like. Everything that is given must hold."""

    contains: Texts = ()
    """It has this text, or all of these."""
    lacks: Texts = ()
    """It has none of these."""
    equals: Text | None = None
    """It is this text; white space around both does not count."""
    matches: Pattern | None = None
    """This regular expression is found in it."""


OneCheck = Annotated[
    TextCheck,
    BeforeValidator(partial(_under, "contains"), json_schema_input_type=TextCheck | str),
]


class JsonCheck(_Strict):
    """What the answer must hold, read as JSON."""

    path: Text = ""
    """Where to look, as ``claim.items[0].price``; empty: the whole."""
    equals: Any = None
    """The value there."""
    value_schema: Mapping[str, Any] | None = Field(None, alias="schema")
    """A JSON Schema that the value there must fit."""

    @model_validator(mode="after")
    def _asks_something(self) -> "JsonCheck":
        if self.value_schema is None and "equals" not in self.model_fields_set:
            raise ValueError("needs `equals` or `schema`")
        return self


class Expectation(TextCheck):
    """What a run must come to. Without ``error`` it must succeed."""

    json_checks: Annotated[
        tuple[JsonCheck, ...],
        BeforeValidator(_as_list, json_schema_input_type=tuple[JsonCheck, ...] | JsonCheck),
    ] = Field((), alias="json")
    """Of an answer in JSON, or of an object that the last node gave out."""
    tool_calls: tuple[Text, ...] | None = None
    """Names of the tools that the answer calls."""
    path: tuple[Text, ...] | None = None
    """Ids or titles of the nodes that ran, in order. As soon as one of them names its workflow
    too (``Write-Code/Plan``), the nodes of sub-workflows are expected as well, behind the node
    that ran them."""
    prompts: Annotated[
        Mapping[str, tuple[OneCheck, ...]],
        BeforeValidator(
            _every_as_list,
            json_schema_input_type=Mapping[str, OneCheck | tuple[OneCheck, ...]],
        ),
    ] = Field(default_factory=dict)
    """Node -> what was sent to its model, all messages as one text; a list: one for each call."""
    variables: Mapping[str, Any] = Field(default_factory=dict)
    """Global variables at the end."""
    error: Text | bool | None = None
    """The run fails with a message that has this text; true: with any."""


class Said(_Strict):
    """A message of the conversation."""

    role: str
    """``system``, ``user``, ``assistant`` or ``tool``."""
    content: Text = ""
    """What it says."""

    def message(self) -> Message:
        return Message(self.role, self.content)


class WorkflowCase(_Strict):
    """One test."""

    name: str = Field(min_length=1)
    """What the test shows."""
    workflow: Text = ""
    """Name of a shared workflow, or ``folder/name``. Empty: that of the file."""
    message: Text | None = None
    """What the user says; or, in place of it, ``messages``."""
    messages: tuple[Said, ...] = ()
    """The conversation."""
    global_variables: Mapping[str, Any] = Field(default_factory=dict)
    """Global variables that the run begins with."""
    clear_conversation: bool = False
    """Agents begin new conversations with the user."""
    conversation_id: Text = ""
    """Id of the conversation, for nodes that remember. What they write is thrown away."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools of the client, in OpenAI's format."""
    now: datetime | None = None
    """What the clock shows, as ``2025-09-01T12:00:00``."""
    stream: bool = True
    """Whether the answer is streamed."""
    replies: Annotated[
        Mapping[str, tuple[OneReply, ...]],
        BeforeValidator(
            _every_as_list,
            json_schema_input_type=Mapping[str, OneReply | tuple[OneReply, ...]],
        ),
    ] = Field(default_factory=dict)
    """Node (id or title, if need be with its workflow: ``Write-Code/Plan``) -> what its model
    says: a text, or more; a list: one for each call, the last for all further ones. ``"*"`` is for
    all other nodes."""
    expect: Expectation = Expectation()
    """What the run must come to."""

    @model_validator(mode="after")
    def _says_something(self) -> "WorkflowCase":
        if (self.message is None) == (not self.messages):
            raise ValueError("needs either `message` or `messages`")
        return self

    def conversation(self) -> tuple[Message, ...]:
        if self.message is not None:
            return (Message("user", self.message),)
        return tuple(said.message() for said in self.messages)


class WorkflowTests(_Strict):
    """Tests of workflows, run by ``test-workflow``."""

    schema_file: Text = Field("", alias="$schema")
    """The JSON Schema of such files, for editors."""
    workflow: Text = ""
    """The workflow of the tests that name none."""
    user: Text = ""
    """Whose configuration it is; empty: the default user's."""
    tests: tuple[WorkflowCase, ...] = Field(min_length=1)
    """The tests, in order."""


def read_tests(path: Path) -> WorkflowTests:
    """Read a file of tests. Raises ConfigError that tells every mistake of the file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = error.strerror or str(error)
        raise ConfigError(f"It cannot be read: {problem}.", file=str(path)) from error
    raw, _ = parse_bytes(data, str(path))
    tests = validated(WorkflowTests, raw, str(path))
    for index, case in enumerate(tests.tests):
        if not (case.workflow or tests.workflow):
            raise ConfigError(
                "It names no workflow.",
                file=str(path),
                where=f"tests[{index}].workflow",
                remedy="Name one here, or at the top of the file for all tests.",
            )
    return tests
