"""Importing this package registers every API type. A new one adds one line here."""

from Middleware.llm.backends import openai_chat as openai_chat
from Middleware.llm.backends import scripted as scripted
