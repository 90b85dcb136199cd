"""OpenAI's older text completions, which llama.cpp, vLLM and many others serve as well."""

from typing import ClassVar

from Middleware.llm.backend import backend_types
from Middleware.llm.backends.http_backend import Format, HttpBackend
from Middleware.llm.reading import Reading
from Middleware.wire import openai_completions


@backend_types.register("openAIV1Completion")
class OpenAICompletionsBackend(HttpBackend):
    format: ClassVar[Format] = Format(
        kind="text",
        path=openai_completions.PATH,
        accepts=openai_completions.ACCEPTS,
        encode=openai_completions.encode_request,
        reading=Reading(
            parser=openai_completions.StreamParser,
            parse_reply=openai_completions.parse_reply,
        ),
    )
