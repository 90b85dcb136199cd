"""The official ``openai`` client and the whole server, for the ``test_openai_sdk*`` files."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openai import OpenAI
from openai.types.chat import ChatCompletionChunk

from tests.fakes.headrace import Headrace, Tree, answers
from tests.fakes.upstream import Answer, Upstream

MODEL = "tester:assistant"
HI: list[Any] = [{"role": "user", "content": "hi"}]


@contextmanager
def client_of(live: Headrace, **options: Any) -> Iterator[OpenAI]:
    settings: dict[str, Any] = {"api_key": "none", "base_url": f"{live.url}/v1", **options}
    with OpenAI(**settings) as client:
        yield client


@contextmanager
def talking(
    root: Path,
    *plays: Answer,
    node: dict[str, Any] | None = None,
    endpoint: dict[str, Any] | None = None,
    **user: Any,
) -> Iterator[tuple[OpenAI, Upstream, Headrace]]:
    """A client of a server whose one workflow asks the model that plays ``plays``."""
    tree = Tree(root, **user).workflow("assistant", [answers(**(node or {}))])
    with (
        Upstream(*plays) as model,
        tree.model("Main", model.url, **(endpoint or {})).serve() as live,
        client_of(live) as client,
    ):
        yield client, model, live


def text_of(chunks: Iterable[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
