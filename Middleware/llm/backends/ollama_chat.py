"""Ollama's own chat interface."""

from typing import ClassVar

from Middleware.llm.backend import backend_types
from Middleware.llm.backends.http_backend import Format, HttpBackend
from Middleware.llm.reading import Reading
from Middleware.wire import ollama_call, ollama_stream
from Middleware.wire.framing import NdjsonDecoder

OLLAMA_READING = Reading(
    parser=ollama_stream.StreamParser,
    parse_reply=ollama_stream.parse_reply,
    decoder=NdjsonDecoder,
    objects_are_frames=True,
)


@backend_types.register("ollamaApiChat", "ollamaApiChatImageSpecific")
class OllamaChatBackend(HttpBackend):
    takes_image_addresses = False
    format: ClassVar[Format] = Format(
        kind="chat",
        path=ollama_call.CHAT_PATH,
        accepts=ollama_call.ACCEPTS,
        encode=ollama_call.encode_chat,
        reading=OLLAMA_READING,
    )
