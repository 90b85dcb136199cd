"""OpenAI's Conversations."""

from collections.abc import Mapping
from typing import Final

from Middleware.api.openapi.openai import METADATA
from Middleware.api.openapi.responses import PAGE
from Middleware.api.openapi.schemas import (
    ANYTHING,
    FLAG,
    TEXT,
    WHOLE,
    Operation,
    Schema,
    answer,
    array,
    obj,
    ref,
    used,
    whole,
)

_CONVERSATION: Final = answer(
    {"id": TEXT, "object": TEXT, "created_at": WHOLE, "metadata": METADATA}
)
_ITEMS: Final = used(array({"type": "object"}), "At most 20 at once, as `/v1/responses` takes.")
_LABELS: Final = used(METADATA, "Texts; `profile` makes the conversation durable.")
COMPONENTS: Final[Mapping[str, Schema]] = {"Conversation": _CONVERSATION}
OPERATIONS: Final[Mapping[str, Operation]] = {
    "conversations.create": Operation(
        body=obj({"items": _ITEMS, "metadata": _LABELS}),
        answers=whole(ref("Conversation")),
        errors=(403, 404, 409),
    ),
    "conversations.show": Operation(answers=whole(ref("Conversation")), errors=(404,)),
    "conversations.label": Operation(
        body=obj({"metadata": _LABELS}), answers=whole(ref("Conversation")), errors=(403, 404)
    ),
    "conversations.delete": Operation(
        answers=whole(answer({"id": TEXT, "object": TEXT, "deleted": FLAG})),
        errors=(403, 404, 409),
    ),
    "conversations.items": Operation(
        parameters=PAGE, answers=whole(ref("ResponseItems")), errors=(404,)
    ),
    "conversations.add": Operation(
        body=obj({"items": _ITEMS}, ["items"]),
        answers=whole(ref("ResponseItems")),
        errors=(403, 404, 409),
    ),
    "conversations.item": Operation(answers=whole(ANYTHING), errors=(404,)),
    "conversations.remove": Operation(answers=whole(ref("Conversation")), errors=(404,)),
}
