"""Importing this package registers every API type. A new one adds one line here."""

from Middleware.llm.backends import claude as claude
from Middleware.llm.backends import embeddings as embeddings
from Middleware.llm.backends import koboldcpp as koboldcpp
from Middleware.llm.backends import ollama_chat as ollama_chat
from Middleware.llm.backends import ollama_generate as ollama_generate
from Middleware.llm.backends import openai_chat as openai_chat
from Middleware.llm.backends import openai_completions as openai_completions
from Middleware.llm.backends import openai_responses as openai_responses
from Middleware.llm.backends import scripted as scripted
