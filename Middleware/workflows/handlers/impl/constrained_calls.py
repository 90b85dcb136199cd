"""Answers that have to have a form: JSON of a schema, or the call of a tool.

What comes back is looked at before anybody sees it, whatever the back end promised; there is one
more round with what was wrong.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from Middleware.config.files import Snapshot
from Middleware.core.errors import ConfigError, MalformedRequest, WorkflowError
from Middleware.core.events import Reply, Usage, collect, replay
from Middleware.core.messages import Message, ToolCall
from Middleware.llm.backend import ModelRequest
from Middleware.wire.model_call import schema_of
from Middleware.workflows.handlers.impl.model_prompt import Asking, honoured
from Middleware.workflows.output.cleaning import clean
from Middleware.workflows.output.json_schema import NoSchema, SchemaCheck, complaint
from Middleware.workflows.prompts.templates import template_of
from Middleware.workflows.prompts.text import continued
from Middleware.workflows.prompts.tool_enforcement import Enforcement

logger = logging.getLogger(__name__)

_CLIENT_FIELD: Final = "response_format"
_PLACE: Final = "response_format.json_schema.schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedJson:
    """What an answer is held to."""

    check: SchemaCheck
    file: str | None = None
    """As the node names it; None: the client wants it."""
    path: str | None = None
    """The file itself, as messages name it."""
    schema: Mapping[str, Any] | None = None
    """To be told to the back end; None where the client's own field tells it already."""


def wanted_json(asking: Asking, file: str) -> WantedJson | None:
    """The schema of the node's ``structuredOutputFile``, else of the client's request.

    Raises ConfigError and MalformedRequest for one that is none.
    """
    if file:
        return _of_file(asking, file)
    wanted = asking.scope.parameters.values.get(_CLIENT_FIELD)
    if not isinstance(wanted, Mapping) or not honoured(asking):
        return None
    schema = schema_of(wanted)
    if schema is None and wanted.get("type") != "json_object":
        return None
    asking.scope.parameters.used.add(_CLIENT_FIELD)
    try:
        check = SchemaCheck(schema or {"type": "object"})
    except NoSchema as error:
        raise MalformedRequest(_PLACE, f"is no JSON Schema: {error}") from error
    told = _CLIENT_FIELD in asking.plan.backend.accepts
    return WantedJson(check=check, schema=None if told else schema)


def _of_file(asking: Asking, file: str) -> WantedJson:
    config, plan = asking.scope.config, asking.plan
    schema = config.structured_output(file)

    def build() -> SchemaCheck:
        if plan.structured_output is None:
            logger.warning(
                "Endpoint %r cannot be told a JSON Schema: what it answers to %r is checked, and "
                "asked for once more where it does not fit.",
                plan.endpoint.name,
                file,
            )
        return SchemaCheck(schema)

    try:
        # Worked out, and told, once for as long as the files stay the same.
        check = config.derived(("schema", file, plan.endpoint.name), (schema, plan.endpoint), build)
    except NoSchema as error:
        raise ConfigError(f"This is no JSON Schema: {error}.", file=_shown(config, file)) from error
    if asking.tools:
        logger.warning(
            "a node sends tools together with the schema %r; an answer in text must fit it", file
        )
    return WantedJson(check=check, file=file, path=_shown(config, file), schema=schema)


def _shown(config: Snapshot, file: str) -> str:
    return config.store.locations.show(config.structured_output_file(file))


def constrained(request: ModelRequest, wanted: WantedJson) -> ModelRequest:
    """The request, with what the back end is to be told."""
    client = request.client_parameters
    if wanted.file is not None and _CLIENT_FIELD in client:
        client = {name: value for name, value in client.items() if name != _CLIENT_FIELD}
    return replace(request, client_parameters=client, schema=wanted.schema)


def answer_in_json(asking: Asking, request: ModelRequest, wanted: WantedJson) -> Reply:
    """The JSON alone, or a tool call. Raises WorkflowError when two rounds gave neither."""
    usage: Usage | None = None
    problems: tuple[str, ...] = ()
    for _ in range(2):
        reply = _ask(asking, request)
        usage = _sum(usage, reply.usage)
        reply = replace(reply, usage=usage)
        if reply.tool_calls:
            return reply
        # Thoughts between tags are no part of the JSON, and are kept beside it.
        reply = collect(clean(replay(reply), asking.plan.cleaning))
        text = reply.text
        checked = _checked(wanted, text)
        if not checked.problems:
            return replace(reply, text=checked.text)
        problems = checked.problems
        if wanted.file is None and reply.finish_reason == "length":
            # The client is told the truth, as the model server itself would tell it.
            return reply
        logger.warning(
            "endpoint %r did not answer in the wanted JSON; it is asked once more: %s",
            asking.plan.endpoint.name,
            "; ".join(problems),
        )
        request = _next_round(asking, request, text, complaint(problems))
    place = f"`structuredOutputFile` {wanted.file!r}" if wanted.file else f"`{_CLIENT_FIELD}`"
    raise WorkflowError(f"the answer does not fit {place}: {'; '.join(problems)}.")


def _checked(wanted: WantedJson, text: str) -> Any:
    try:
        return wanted.check.check(text)
    except NoSchema as error:
        if wanted.file is not None:
            raise ConfigError(f"This schema cannot be used: {error}.", file=wanted.path) from error
        raise MalformedRequest(_PLACE, f"cannot be used: {error}") from error


def answer_with_call(asking: Asking, request: ModelRequest, wanted: Enforcement) -> Reply:
    """The call of a tool; what the model said, where two rounds gave none."""
    usage: Usage | None = None
    for attempt in range(2):
        reply = _ask(asking, replace(request, schema=wanted.schema, tools=(), tool_choice=None))
        usage = _sum(usage, reply.usage)
        cleaned = collect(clean(replay(reply), asking.plan.cleaning))
        call = wanted.call_in(cleaned.text)
        if call is not None:
            identity = f"wilmer-{asking.scope.clock.new_id()}"
            made = ToolCall(id=identity, name=call.name, arguments=call.arguments)
            return Reply(
                reasoning=cleaned.reasoning,
                tool_calls=(made,),
                finish_reason="tool_calls",
                usage=usage,
            )
        if attempt == 0:
            logger.warning("endpoint %r called no tool; once more", asking.plan.endpoint.name)
    logger.error(
        "endpoint %r was to call a tool and did not; what it said is passed on",
        asking.plan.endpoint.name,
    )
    return replace(reply, usage=usage)


def _ask(asking: Asking, request: ModelRequest) -> Reply:
    """One whole answer: nobody sees it before it has been looked at."""
    whole = replace(request, stream=False)
    return collect(asking.plan.backend.complete(whole, asking.scope.cancel))


def _next_round(asking: Asking, request: ModelRequest, said: str, words: str) -> ModelRequest:
    if request.prompt is not None:
        template = template_of(asking.scope.config, asking.plan.endpoint)
        return replace(request, prompt=continued(request.prompt, said, words, template))
    answered = (Message("assistant", said),) if said else ()
    return replace(request, messages=(*request.messages, *answered, Message("user", words)))


def _sum(before: Usage | None, now: Usage | None) -> Usage | None:
    return before + now if before and now else before or now
