"""Every example user of the reference plays a chat through a back end that records what it is
asked. The trees are read where the machine has them; nothing of them is kept here, so what a prompt
must be is worked out from the files themselves.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.options import ServerOptions
from Middleware.app import build_parts, create_app
from Middleware.workflows.handlers import impl as impl
from Middleware.workflows.handlers.base.node_handler import node_types
from Middleware.workflows.variables.known import CATEGORY_MEANINGS, MEANINGS
from tests.fakes.clock import ShiftedClock
from tests.fakes.live_site import serving
from tests.fakes.upstream import Asked, Step, Upstream, chat, whole

REFERENCE = os.environ.get("HEADRACE_REFERENCE_TREES", "")
pytestmark = pytest.mark.skipif(not REFERENCE, reason="HEADRACE_REFERENCE_TREES is not set")

QUESTION = "Which river flows through {Vienna}, and how long is it?"
TALK = [
    {"role": "system", "content": "Call me Captain."},
    {"role": "user", "content": "Good morning"},
    {"role": "assistant", "content": "Good morning, Captain"},
    {"role": "user", "content": QUESTION},
]
TODAY = datetime(2025, 9, 1, 12, 0)
ARTICLE = "The Danube is 2850 km long."
CHAT_TYPE = "openAIChatCompletion"
PROMPT_KEYS = re.compile(r"(?i)(prompt|content|scoped_variables|strings)")
LITERAL_LEAST = 12
"""Characters that an author must have written for a text to be told by them."""


@dataclass(frozen=True)
class Player:
    user: str
    model: str = ""
    """A shared workflow; empty: what the user's own routing chooses."""
    category: str = "GENERAL"
    """What the model says when it is asked for a category."""
    needs: tuple[str, ...] = ()
    """Node types on the way."""

    @property
    def id(self) -> str:
        return f"{self.user} {self.model or self.category}"


WIKI = ("OfflineWikiApiBestFullArticle",)
SHARED = ("fast", "fast-reasoning", "general", "general-reasoning", "task")
PLAYERS = [
    *(Player("chat-ui", model) for model in SHARED),
    *(Player("chat-ui-cot", model) for model in SHARED),
    Player("_simple_router_no_memory"),
    Player("_simple_router_no_memory", category="WIKI", needs=WIKI),
    Player("_wikipedia_quick_workflow", needs=WIKI),
    Player("_example_assistant_with_vector_memory", needs=("QualityMemory", "VectorMemorySearch")),
]


@dataclass(frozen=True)
class Played:
    said: str
    asked: list[dict[str, Any]]


def play(root: Path, player: Player, *, stream: bool) -> Played:
    """One request of a front end, on a copy of the tree whose models are one recording server."""

    def answer(asked: Asked) -> list[Step]:
        if not asked.path.endswith("/chat/completions"):
            article = {"title": "Danube", "text": ARTICLE}
            return whole([article] if asked.path.startswith("/articles") else article)
        text = asked.json["messages"][-1]["content"]
        return chat(player.category if "single word" in _all(asked.json) else f"Re: {text[-9:]}")(
            asked
        )

    with Upstream(answer) as server:
        configs = _copy(root, server.url)
        options = ServerOptions(config_directory=configs, users=(player.user,))
        app = create_app(options, build_parts(options, clock=ShiftedClock(TODAY)))
        try:
            with serving(app.site) as live:
                got = live.chat(model=player.model, messages=TALK, stream=stream)
        finally:
            app.close()
        asked = [one.json for one in server.asked if one.path.endswith("/chat/completions")]
    assert got.status == 200, got.body
    return Played(got.text if stream else got.json["choices"][0]["message"]["content"], asked)


def _copy(root: Path, url: str) -> Path:
    """The tree, with other addresses and API types and nothing else changed."""
    configs = root / "Configs"
    shutil.copytree(REFERENCE, configs)
    for path in (configs / "Endpoints").rglob("*.json"):
        _change(path, endpoint=url)
    for path in (configs / "ApiTypes").rglob("*.json"):
        _change(path, type=CHAT_TYPE)
    host, port = url.removeprefix("http://").rstrip("/").rsplit(":", 1)
    for path in (configs / "Users").glob("*.json"):
        if path.stem != "_current-user":
            _change(path, offlineWikiApiHost=host, offlineWikiApiPort=int(port))
    return configs


def _change(path: Path, **values: Any) -> None:
    path.chmod(0o644)
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    path.write_text(json.dumps({**content, **values}), encoding="utf-8")


def _all(request: dict[str, Any]) -> str:
    return "\n".join(str(message["content"]) for message in request["messages"])


def written() -> list[re.Pattern[str]]:
    """Every text that an author wrote for a model: what stands for variables may be anything."""
    found: dict[str, None] = {}
    for path in sorted(Path(REFERENCE, "Workflows").rglob("*.json")):
        for text in _texts(json.loads(path.read_text(encoding="utf-8-sig")), wanted=False):
            found[text] = None
    return [pattern for text in found if (pattern := _pattern(text)) is not None]


def _texts(value: Any, *, wanted: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, wanted=bool(PROMPT_KEYS.search(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, wanted=wanted)
    elif isinstance(value, str) and wanted:
        yield value


def _pattern(text: str) -> re.Pattern[str] | None:
    parts = [part.replace("{{", "{").replace("}}", "}") for part in re.split(r"\{\w+\}", text)]
    if sum(len(part.strip()) for part in parts) < LITERAL_LEAST:
        return None
    return re.compile(".*".join(re.escape(part.strip()) for part in parts), re.S)


VARIABLES = re.compile(
    r"\{(agent\d+(Input|Output)|"
    + "|".join(re.escape(name) for name in (*MEANINGS, *CATEGORY_MEANINGS))
    + r")\}"
)


@pytest.mark.parametrize("player", [pytest.param(one, id=one.id) for one in PLAYERS])
def test_an_example_user_answers_with_the_prompts_of_its_files(
    tmp_path: Path, player: Player
) -> None:
    lacking = [name for name in player.needs if node_types.find(name) is None]
    if lacking:
        pytest.skip(f"nodes of type {', '.join(lacking)} cannot be run yet")
    authors = written()

    whole_way = play(tmp_path / "whole", player, stream=False)
    streamed = play(tmp_path / "streamed", player, stream=True)

    # The same answer, made of the same questions but for the switch itself.
    assert streamed.said == whole_way.said
    assert [one["messages"] for one in streamed.asked] == [
        one["messages"] for one in whole_way.asked
    ]
    assert [one.get("stream", False) for one in whole_way.asked] == [False] * len(whole_way.asked)
    assert streamed.asked[-1]["stream"] is True

    for request in whole_way.asked:
        system, *others = request["messages"]
        assert system["role"] == "system"
        assert any(author.search(system["content"]) for author in authors), system["content"]
        assert others, "a system prompt alone asks nothing"
        assert not VARIABLES.search(_all(request)), "a known variable was not filled in"
        assert "__WILMER" not in _all(request)

    # Whoever answers knows the question, as it was asked.
    assert QUESTION in _all(whole_way.asked[-1])


@pytest.mark.parametrize("category", ["GENERAL", "WIKI"])
def test_the_router_asks_with_its_categories_and_follows_the_answer(
    tmp_path: Path, category: str
) -> None:
    played = play(tmp_path, Player("_simple_router_no_memory", category=category), stream=False)

    sorting = [_all(request) for request in played.asked[:2]]
    for text in sorting:
        assert "\n- WIKI: " in text
        assert "\n- GENERAL: " in text
    assert "User: Good morning" in sorting[0], "the user's messages have their prefixes"
    assert any(ARTICLE in _all(request) for request in played.asked) is (category == "WIKI")


def test_every_example_user_plays() -> None:
    users = {path.stem for path in Path(REFERENCE, "Users").glob("*.json")}

    assert {player.user for player in PLAYERS} == users - {"_current-user"}
