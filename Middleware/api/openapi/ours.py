"""Routes that are Headrace's own. A route that only gives JSON needs no entry here."""

from collections.abc import Mapping
from typing import Final

from Middleware.api.openapi.schemas import (
    ANY_JSON,
    EVENTS,
    FLAG,
    JSON,
    NUMBER,
    OBJECT,
    RUNS_MODELS,
    TEXT,
    WHOLE,
    Operation,
    Parameter,
    Schema,
    answer,
    array,
    enum,
    maybe,
    obj,
    ref,
    whole,
)

_LIMIT: Final = Parameter(name="limit", schema={**WHOLE, "minimum": 1}, text="How many at most.")
_PAGE: Final = (
    _LIMIT,
    Parameter(name="after", schema=TEXT, text="The `next` of the page before."),
)
_RUN: Final = answer(
    {
        "id": TEXT,
        "parentId": maybe(TEXT),
        "workflow": TEXT,
        "folder": TEXT,
        "door": TEXT,
        "user": TEXT,
        "session": maybe(TEXT),
        "status": enum("running", "succeeded", "failed", "cancelled", "interrupted"),
        "startedAt": TEXT,
        "durationMs": {"type": ["number", "null"]},
        "tokens": maybe(OBJECT),
        "cost": {"type": ["number", "null"]},
        "error": maybe(TEXT),
    }
)
_FRAMES: Final = {200: {EVENTS: {"description": "Events; comments in silence."}}}
_START: Final = obj(
    {
        "profile": maybe(TEXT),
        "conversation_id": maybe(TEXT),
        "message": maybe(TEXT),
        "request_id": maybe(TEXT),
        "return_existing_active": maybe(FLAG),
        "options": maybe(
            obj(
                {
                    "turns_per_run": WHOLE,
                    "inactivity_seconds": NUMBER,
                    "decision_timeout_seconds": NUMBER,
                    "summary_max_chars": WHOLE,
                },
                more=False,
            )
        ),
    },
    more=False,
)
_SIGNAL: Final = obj(
    {
        "arguments": {"anyOf": [OBJECT, array({}), {"type": "null"}]},
        "request_id": maybe(TEXT),
    }
)
_TEST: Final[Schema] = {
    **obj(
        {
            "message": maybe(TEXT),
            "messages": maybe(array(ref("Message"), least=1)),
            "globalVariables": maybe(OBJECT),
            "clearConversation": maybe(FLAG),
            "pinned": maybe(OBJECT),
            "node": maybe(TEXT),
        },
        more=False,
    ),
    "oneOf": [obj({"message": TEXT}, ["message"]), obj({"messages": array({})}, ["messages"])],
}
_STARTED: Final = answer(
    {"conversation_id": TEXT, "run_id": TEXT, "generation": WHOLE}, {"status": {}, "signal": OBJECT}
)
_REFUSED: Final = (404, 409, 413, 422, 429)
_REFUSAL: Final[Mapping[str, Schema]] = {JSON: {"anyOf": [ref("Refusal"), ref("OpenAIError")]}}
_REFUSALS: Final = dict.fromkeys(_REFUSED, _REFUSAL)
_SIGNALLED: Final = Operation(body=_SIGNAL, answers={202: ANY_JSON, **_REFUSALS}, errors=(403,))

_FOUND: Final = Operation(errors=(404,))

COMPONENTS: Final[Mapping[str, Schema]] = {
    "Run": _RUN,
    "Refusal": answer({"accepted": FLAG, "outcome": TEXT}, {"reason": {}, "errors": {}}),
}
OPERATIONS: Final[Mapping[str, Operation]] = {
    "health.front": Operation(
        answers={200: {"text/html": TEXT, "text/plain": TEXT}},
    ),
    "health.alive": Operation(
        answers=whole(
            answer({"status": enum("ok", "degraded")}, {"version": TEXT, "problems": array(OBJECT)})
        ),
    ),
    "openapi.show": Operation(),
    "metrics.show": Operation(
        answers={200: {"text/plain": TEXT, "application/openmetrics-text": TEXT}},
    ),
    "runs.newest": Operation(
        parameters=(
            Parameter(name="workflow", schema=TEXT, text="`assistant` or `folder/name`."),
            Parameter(
                name="status",
                schema=enum("", "running", "succeeded", "failed", "cancelled", "interrupted"),
                text="What runs have come to.",
            ),
            Parameter(name="session", schema=TEXT, text="Of a coding agent."),
            Parameter(name="since", schema=TEXT, text="A time, or seconds since 1970."),
            _LIMIT,
            Parameter(
                name="after",
                schema={**TEXT, "pattern": "^[0-9]{0,18}$"},
                text="The `next` of the page before.",
            ),
        ),
        answers=whole(answer({"runs": array(ref("Run")), "next": maybe(TEXT)})),
    ),
    "runs.one": Operation(answers=whole(ref("Run")), errors=(404,)),
    "runs.events": Operation(answers=_FRAMES, errors=(404,)),
    "runs.delete": Operation(
        answers=whole(answer({"id": TEXT, "deleted": FLAG})), errors=(404, 409)
    ),
    "workflows.test": Operation(body=_TEST, answers=_FRAMES, errors=RUNS_MODELS),
    "durable.start": Operation(
        body=_START,
        answers={201: {JSON: _STARTED}, 200: {JSON: _STARTED}, **_REFUSALS},
        errors=(403,),
    ),
    "durable.to_conversation": _SIGNALLED,
    "durable.to_run": _SIGNALLED,
    "durable.conversations_": Operation(
        parameters=(
            Parameter(
                name="status",
                schema=enum("running", "completed", "failed"),
                text="How conversations stand.",
            ),
            Parameter(name="profile", schema=TEXT, text="Of which profile."),
            *_PAGE,
        ),
    ),
    "durable.signals": Operation(parameters=_PAGE, errors=(404,)),
    "durable.transcript": Operation(parameters=_PAGE, errors=(404,)),
    "durable.history": Operation(
        parameters=(Parameter(name="run", schema=TEXT, text="Of one run only."), *_PAGE),
        errors=(404,),
    ),
    "durable.status": Operation(
        parameters=(
            Parameter(name="If-None-Match", schema=TEXT, text="The `ETag` known.", place="header"),
            Parameter(
                name="Prefer", schema=TEXT, text="`wait=30`: wait for a change.", place="header"
            ),
        ),
        answers={200: ANY_JSON, 304: {}},
        errors=(404,),
    ),
    "durable.events": Operation(answers=_FRAMES, errors=(404,)),
    "durable.describe": _FOUND,
    "durable.run_status": _FOUND,
    "durable.record": _FOUND,
    "durable.export": _FOUND,
    "durable.signal": _FOUND,
    "durable.cancel": Operation(needs_body=False, answers={202: ANY_JSON, **_REFUSALS}),
    "durable.repair": Operation(
        needs_body=False,
        parameters=(Parameter(name="run", schema=TEXT, text="One run only."),),
        answers={200: ANY_JSON, 409: ANY_JSON, 404: _REFUSAL},
    ),
    "durable.repair_pass": Operation(needs_body=False),
}
