"""One request through the whole server to a model server of any vendor.

with asked(vendor, tmp_path, vendor.answer(Said()), stream=True) as told:
    assert told.heard.said == ("Hello", "stop")
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.headrace import Headrace, Tree, answers
from tests.fakes.strict_client import Heard, hear
from tests.fakes.upstream import Answer, Upstream
from tests.fakes.vendors import SHIPPED, Vendor
from tests.scenarios.ways import SAYS_WHAT_WAS_COLLECTED

TEMPLATES = SHIPPED.parent / "PromptTemplates"


@dataclass
class Told:
    """One request, and everything that it led to."""

    heard: Heard
    model: Upstream
    live: Headrace

    @property
    def run(self) -> dict[str, Any]:
        return self.live.runs[-1]

    @property
    def step(self) -> dict[str, Any]:
        step: dict[str, Any] = self.run["context"]["steps"][0]
        return step

    @property
    def sent(self) -> Any:
        """The body of the model's last request."""
        return self.model.asked[-1].json


def tree_of(vendor: Vendor, root: Path, **user: Any) -> Tree:
    """A tree that knows the vendor's API type and one prompt template, as they ship."""
    tree = Tree(root, **user).write(f"ApiTypes/{vendor.id}.json", vendor.file)
    return tree.write("PromptTemplates/chatml.json", (TEMPLATES / "chatml.json").read_text("utf-8"))


def with_model(tree: Tree, vendor: Vendor, name: str, url: str, **settings: Any) -> Tree:
    """An endpoint of the vendor's kind."""
    chosen = {"apiTypeConfigFileName": vendor.id, **vendor.setting, **settings}
    return tree.model(name, url, **chosen)


@contextmanager
def asked(
    vendor: Vendor,
    root: Path,
    *plays: Answer,
    stream: bool,
    node: Mapping[str, Any] | None = None,
    endpoint: Mapping[str, Any] | None = None,
    user: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Iterator[Told]:
    """``fields`` are those of the request; others go into the files. ``collects``: the model's
    words go to a node that does not answer, and another one says what it has put out."""
    collects = fields.pop("collects", False)
    nodes = [answers(**(node or {}))]
    if collects:
        nodes.append(SAYS_WHAT_WAS_COLLECTED)
    tree = tree_of(vendor, root, **(user or {})).workflow("assistant", nodes)
    with (
        Upstream(*plays) as model,
        with_model(tree, vendor, "Main", model.url, **(endpoint or {})).serve() as live,
    ):
        heard = hear(live.chat(model="assistant", stream=stream, **fields))
        yield Told(heard, model, live)


def text_in(body: Any) -> str:
    """All that a model server was sent, as one text, for tests of what stands in it."""
    return json.dumps(body, ensure_ascii=False)
