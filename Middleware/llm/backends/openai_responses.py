"""OpenAI's Responses interface."""

from typing import ClassVar

from Middleware.llm.backend import backend_types
from Middleware.llm.backends.http_backend import Format, HttpBackend
from Middleware.llm.reading import Reading
from Middleware.wire import openai_responses_call, openai_responses_stream


@backend_types.register("openAIResponses")
class OpenAIResponsesBackend(HttpBackend):
    format: ClassVar[Format] = Format(
        kind="chat",
        path=openai_responses_call.PATH,
        accepts=openai_responses_call.ACCEPTS,
        encode=openai_responses_call.encode_request,
        reading=Reading(
            parser=openai_responses_stream.StreamParser,
            parse_reply=openai_responses_stream.parse_reply,
        ),
    )
