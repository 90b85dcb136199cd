"""The ways in which a model's answer can reach a client, or a node only.

    @pytest.mark.parametrize("way", WAYS, ids=str)
    def test_something(way: Way, tmp_path: Path) -> None:
        with answered(way, tmp_path, chat("Hel", "lo")) as told:
            assert told.heard.said == ("Hello", "stop")

``Main`` is the endpoint that plays the answers. A collecting way has a first node that calls it and
a second one that says what the first had put out.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.headrace import Headrace, Tree, answers
from tests.fakes.strict_client import Heard, hear
from tests.fakes.upstream import Answer, Upstream

SAYS_WHAT_WAS_COLLECTED = {"title": "Say", "type": "StaticResponse", "content": "{agent1Output}"}


@dataclass(frozen=True)
class Way:
    id: str
    stream: bool
    """Whether the client asks for a stream."""
    collects: bool = False
    """Whether the model's words go to a node and not to the client."""

    def __str__(self) -> str:
        return self.id

    def nodes(self, **options: Any) -> list[dict[str, Any]]:
        asks = answers(**options)
        return [asks, SAYS_WHAT_WAS_COLLECTED] if self.collects else [asks]


STREAMED = Way("streamed", stream=True)
WHOLE = Way("whole", stream=False)
COLLECTED = Way("collected", stream=True, collects=True)
COLLECTED_WHOLE = Way("collected-whole", stream=False, collects=True)

WAYS = (STREAMED, WHOLE, COLLECTED)
"""What every answer of a model must survive."""


@dataclass
class Told:
    """One request, and everything that it led to."""

    heard: Heard
    model: Upstream
    live: Headrace
    run: dict[str, Any] = field(init=False)
    """The record of its run."""

    def __post_init__(self) -> None:
        runs = self.live.runs
        self.run = runs[-1] if runs else {}

    @property
    def first_step(self) -> dict[str, Any]:
        step: dict[str, Any] = self.run["context"]["steps"][0]
        return step

    @property
    def sent(self) -> Any:
        """The body of the model's first request."""
        return self.model.asked[0].json


@contextmanager
def answered(
    way: Way,
    root: Path,
    *plays: Answer,
    node: Mapping[str, Any] | None = None,
    endpoint: Mapping[str, Any] | None = None,
    user: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Iterator[Told]:
    """Ask once. ``fields`` are those of the request; others go into the files."""
    tree = Tree(root, **(user or {})).workflow("assistant", way.nodes(**(node or {})))
    with (
        Upstream(*plays) as model,
        tree.model("Main", model.url, **(endpoint or {})).serve() as live,
    ):
        heard = hear(live.chat(model="assistant", stream=way.stream, **fields))
        yield Told(heard, model, live)
