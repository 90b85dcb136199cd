"""Field cases C-33 and C-34: keys that are not there, and base URLs as people write them.

Ollama's addresses of C-34 are tested in ``tests/llm/test_addresses.py``.
"""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import pytest

from Middleware.cli.dispatch import main
from tests.fakes.headrace import Tree, answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Upstream, chat
from tests.scenarios.ways import COLLECTED, STREAMED, WHOLE, Way, answered

VARIABLE = "HEADRACE_TEST_KEY"
PLACEHOLDER = "${" + VARIABLE + "}"
SECRET = "sk-canary-9f2c7d"
MISSING = (
    f"Endpoints/Main.json: apiKey: The environment variable {VARIABLE} is not set. "
    f"Set {VARIABLE} before the server starts."
)


@pytest.mark.parametrize("way", [STREAMED, WHOLE, COLLECTED], ids=str)
def test_c33_a_key_that_is_not_set_names_file_field_and_variable(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with answered(way, tmp_path, chat("ok"), endpoint={"apiKey": PLACEHOLDER}) as told:
        assert told.heard.status == 400
        assert told.heard.error is not None
        assert told.heard.error["message"].endswith(MISSING)
        assert told.heard.error["code"] == "configuration_error"
        assert told.heard.headers["x-should-retry"] == "false"
        assert told.run["status"] == "failed"
        assert told.model.asked == []


def test_c33_the_endpoint_is_reported_before_anyone_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    tree.model("Main", "http://127.0.0.1:1", apiKey=PLACEHOLDER)

    code = main(["check", str(tree.configs), "--json"])

    assert code == 1
    problems = json.loads(capsys.readouterr().out)
    found = [
        (problem["file"], problem["place"], problem["severity"])
        for problem in problems
        if problem["code"] == "missing_variable" and VARIABLE in problem["message"]
    ]
    assert found == [("Endpoints/Main.json", "apiKey", "error")]


@pytest.mark.parametrize("mended", ["the environment", "the file", "both"])
def test_c33_once_the_key_is_there_all_is_well_again(
    mended: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    tree = Tree(tmp_path).workflow("w", [answers()])
    with Upstream(chat("ok")) as model:
        tree.model("Main", model.url, apiKey=PLACEHOLDER)
        # Old enough to be read once only.
        tree.clock.advance(60)
        with tree.serve() as live:
            assert hear(live.chat(model="w")).status == 400
            assert live.health()["status"] == "degraded"
            if mended != "the file":
                monkeypatch.setenv(VARIABLE, SECRET)
            if mended == "the file":
                tree.model("Main", model.url, apiKey=SECRET)
            elif mended == "both":
                tree.model("Main", model.url, apiKey=PLACEHOLDER, maxContextTokenSize=4096)
            tree.clock.advance(2)

            assert live.health()["status"] == "ok"
            assert hear(live.chat(model="w")).said == ("ok", "stop")
            assert model.asked[0].headers["authorization"] == f"Bearer {SECRET}"


def test_c33_other_endpoints_go_on_working_and_health_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    tree = Tree(tmp_path).workflow("broken", [answers()]).workflow("fine", [answers("Other")])
    tree.model("Main", "http://127.0.0.1:1", apiKey=PLACEHOLDER)
    with Upstream(chat("ok")) as model, tree.model("Other", model.url).serve() as live:
        broken = hear(live.chat(model="broken"))
        fine = hear(live.chat(model="fine"))
        health = live.ask("GET", "/health")

    assert (broken.status, fine.said) == (400, ("ok", "stop"))
    assert (health.status, health.json["status"]) == (200, "degraded")
    assert [(problem["file"], problem["place"]) for problem in health.json["problems"]] == [
        ("Endpoints/Main.json", "apiKey")
    ]


def test_c33_a_key_that_is_set_is_sent_and_never_shown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    caplog.set_level(logging.DEBUG)
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with (
        Upstream(chat("ok")) as model,
        tree.model("Main", model.url, apiKey=PLACEHOLDER).serve() as live,
    ):
        received = live.chat(model="assistant")
        health = live.ask("GET", "/health")
        main(["check", str(tree.configs)])
        shown = json.dumps(live.runs)

    assert hear(received).said == ("ok", "stop")
    assert model.asked[0].headers["authorization"] == f"Bearer {SECRET}"
    seen = [received.body.decode(), health.body.decode(), capsys.readouterr().out, caplog.text]
    assert not any(SECRET in text for text in [*seen, shown])


@dataclass(frozen=True)
class Spelling:
    written: str
    """Behind the address of the server."""
    asked_for: str


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "spelling",
    [
        Spelling("", "/v1/chat/completions"),
        Spelling("/", "/v1/chat/completions"),
        Spelling("/v1", "/v1/chat/completions"),
        Spelling("/v1/", "/v1/chat/completions"),
        Spelling("/prefix/v1", "/prefix/v1/chat/completions"),
        Spelling("/prefix/v1/", "/prefix/v1/chat/completions"),
        Spelling("/prefix", "/prefix/v1/chat/completions"),
        Spelling("/v1?key=k1", "/v1/chat/completions?key=k1"),
    ],
    ids=lambda spelling: spelling.written or "nothing",
)
def test_c34_every_spelling_of_a_base_url_leads_to_the_same_place(
    spelling: Spelling, stream: bool, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with (
        Upstream(chat("ok")) as model,
        tree.model("Main", model.url + spelling.written).serve() as live,
    ):
        heard = hear(live.chat(model="assistant", stream=stream))

    assert heard.said == ("ok", "stop")
    assert [asked.path for asked in model.asked] == [spelling.asked_for]


EXAMPLE = "http://127.0.0.1:8080"


@dataclass(frozen=True)
class Impossible:
    url: str
    hint: str = EXAMPLE


@pytest.mark.parametrize(
    "case",
    [
        Impossible("127.0.0.1:8080"),
        Impossible("localhost:8080/v1"),
        Impossible("ftp://127.0.0.1"),
        Impossible("http://"),
        Impossible("http:/127.0.0.1"),
        Impossible("http://127.0.0.1:port"),
        Impossible("http://my server/v1"),
        Impossible(""),
        Impossible("http://127.0.0.1:8080/#here", "Remove that part"),
        Impossible("http://127.0.0.1/v1/chat/completions", "address of the server alone"),
    ],
    ids=lambda case: case.url or "nothing",
)
def test_c34_one_that_cannot_work_is_refused_with_a_hint(
    case: Impossible, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()]).model("Main", case.url)

    code = main(["check", str(tree.configs), "--json"])
    problems = json.loads(capsys.readouterr().out)
    with tree.serve() as live:
        heard = hear(live.chat(model="assistant"))

    assert code == 1
    (problem,) = [
        one
        for one in problems
        if one["file"] == "Endpoints/Main.json" and one["severity"] == "error"
    ]
    assert problem["place"] == "endpoint"
    assert case.hint in problem["remedy"]
    assert heard.status == 400
    assert heard.error is not None
    assert "Endpoints/Main.json: endpoint" in heard.error["message"]
    assert case.hint in heard.error["message"]
