"""Ollama's interface for prompts that are whole: its own template is off."""

from typing import ClassVar

from Middleware.llm.backend import backend_types
from Middleware.llm.backends.http_backend import Format, HttpBackend
from Middleware.llm.backends.ollama_chat import OLLAMA_READING
from Middleware.wire import ollama_call


@backend_types.register("ollamaApiGenerate")
class OllamaGenerateBackend(HttpBackend):
    takes_image_addresses = False
    format: ClassVar[Format] = Format(
        kind="text",
        path=ollama_call.GENERATE_PATH,
        accepts=ollama_call.ACCEPTS,
        encode=ollama_call.encode_generate,
        reading=OLLAMA_READING,
    )
