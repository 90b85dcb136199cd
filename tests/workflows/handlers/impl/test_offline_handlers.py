"""The offline Wikipedia and the offline researcher, against a server on the loopback address."""

import logging
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import ValidationError

from Middleware.core.errors import RunCancelled
from tests.fakes.upstream import CUT, SILENCE, Upstream, nobody_listens, whole
from tests.workflows.handlers.setups import context_of, handle, said, scope_in

FULL = "OfflineWikiApiFullArticle"
BEST = "OfflineWikiApiBestFullArticle"
TOP = "OfflineWikiApiTopNFullArticles"
PARTIAL = "OfflineWikiApiPartialArticle"
QUICK = "OfflineResearcherApiQuickSearch"
DEEP = "OfflineResearcherApiDeepResearch"
ARTICLES = [{"title": "Fox", "text": "A fox."}, {"title": "Den", "text": "A den."}]


@dataclass(frozen=True)
class Wiki:
    id: str
    kind: str
    answer: Any
    asked: str
    query: dict[str, str]
    expected: str
    config: dict[str, Any] = field(default_factory=dict)


WIKI = [
    Wiki(
        "the first article",
        FULL,
        ARTICLES,
        "/articles",
        {"prompt": "a fox & co", "percentile": "0.5", "num_results": "1"},
        "A fox.",
    ),
    Wiki(
        "the best article",
        BEST,
        ARTICLES[1],
        "/top_article",
        {"prompt": "a fox & co", "percentile": "0.5", "num_results": "10"},
        "A den.",
    ),
    Wiki(
        "the best articles",
        TOP,
        ARTICLES,
        "/top_n_articles",
        {"prompt": "a fox & co", "percentile": "0.5", "num_results": "10", "num_top_articles": "3"},
        "Title: Fox\nA fox.\n\n--- END ARTICLE ---\n\nTitle: Den\nA den.",
    ),
    Wiki(
        "as many as the node says, the least relevant first",
        TOP,
        ARTICLES[:1],
        "/top_n_articles",
        {"prompt": "a fox & co", "percentile": "0.8", "num_results": "4", "num_top_articles": "-2"},
        "Title: Fox\nA fox.",
        {"percentile": "0.8", "num_results": "4", "top_n_articles": -2},
    ),
    Wiki(
        "summaries",
        PARTIAL,
        ARTICLES,
        "/summaries",
        {"prompt": "a fox & co", "percentile": "0.5", "num_results": "1"},
        "Title: Fox\nA fox.\n\n--- END SUMMARY ---\n\nTitle: Den\nA den.",
    ),
    Wiki(
        "summaries, more of them",
        PARTIAL,
        ARTICLES[:1],
        "/summaries",
        {"prompt": "a fox & co", "percentile": "0.25", "num_results": "2"},
        "Title: Fox\nA fox.",
        {"percentile": 0.25, "num_results": 2},
    ),
]


def wiki(server: Upstream, root: Path, **keys: Any) -> dict[str, Any]:
    settings = {"useOfflineWikiApi": True, "offlineWikiApiPort": server.port, **keys}
    return {"request_scope": scope_in(root, **settings)}


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in WIKI])
def test_an_article_is_asked_for(case: Wiki, tmp_path: Path) -> None:
    config = {"promptToSearch": "{agent1Output}", **case.config}
    with Upstream(whole(case.answer)) as server:
        text = said(case.kind, config, outputs=["a fox & co"], **wiki(server, tmp_path))

    assert text == case.expected
    asked = urlsplit(server.asked[0].path)
    assert (server.asked[0].method, asked.path) == ("GET", case.asked)
    assert {key: values[0] for key, values in parse_qs(asked.query).items()} == case.query


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (FULL, "No additional information provided"),
        (BEST, "No additional information provided"),
        (TOP, "No additional information provided"),
        (
            PARTIAL,
            "Title: Offline Wikipedia is turned off\nNo additional information provided",
        ),
    ],
)
def test_a_wikipedia_that_is_turned_off(kind: str, expected: str, tmp_path: Path) -> None:
    text = said(kind, {"promptToSearch": "fox"}, request_scope=scope_in(tmp_path))

    assert text == expected


@dataclass(frozen=True)
class Trouble:
    id: str
    steps: list[Any]
    says: str


TROUBLES = [
    Trouble("not found", whole({"detail": "no"}, 404), "No article was found"),
    Trouble("nothing in the list", whole([]), "No article was found"),
    Trouble("a server error", whole({"detail": "canary"}, 500), "Sorry"),
    Trouble("no JSON", whole(b"<html>canary"), "Sorry"),
    Trouble("JSON of another shape", whole({"canary": 1}), "Sorry"),
    Trouble("hangs up", [CUT], "Sorry"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in TROUBLES])
def test_trouble_is_a_text_that_names_the_query(case: Trouble, tmp_path: Path) -> None:
    with Upstream(case.steps) as server:
        text = said(TOP, {"promptToSearch": "red fox"}, **wiki(server, tmp_path))

    assert text.startswith(case.says)
    assert "red fox" in text
    assert "canary" not in text


def test_an_empty_list_of_articles_is_not_found_either(tmp_path: Path) -> None:
    with Upstream(whole([])) as server:
        text = said(FULL, {"promptToSearch": "red fox"}, **wiki(server, tmp_path))

    assert "red fox" in text


def test_nobody_listens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = int(nobody_listens().rpartition(":")[2])
    scope = scope_in(tmp_path, useOfflineWikiApi=True, offlineWikiApiPort=port)

    with caplog.at_level(logging.WARNING):
        text = said(BEST, {"promptToSearch": "red fox"}, request_scope=scope)

    assert text.startswith("Sorry")
    assert "refused" in caplog.text


def test_the_host_is_that_of_the_user(tmp_path: Path) -> None:
    with Upstream(whole(ARTICLES[0])) as server:
        given = wiki(server, tmp_path, offlineWikiApiHost="localhost")
        text = said(BEST, {"promptToSearch": "fox"}, **given)

    assert text == "A fox."
    assert server.asked[0].headers["host"] == f"localhost:{server.port}"


@pytest.mark.parametrize("kind", [FULL, BEST, TOP, PARTIAL, QUICK, DEEP])
def test_a_query_is_needed(kind: str) -> None:
    with pytest.raises(ValidationError, match="promptToSearch"):
        context_of(kind, {})


# -------------------------------------------------------------------------------- research


def researcher(server: Upstream, root: Path) -> dict[str, Any]:
    scope = scope_in(root, useOfflineResearcherApi=True, offlineResearcherApiPort=server.port)
    return {"request_scope": scope}


FOUND = {
    "status": "ok",
    "answer": "Foxes are red.",
    "no_information_found": False,
    "sources": [{"book": "B1", "title": "T1"}, {"book": "B2", "title": "T2"}],
}


@pytest.mark.parametrize(
    ("kind", "config", "asked"),
    [
        (QUICK, {}, {"query": "fox?", "mode": "quick"}),
        (DEEP, {}, {"query": "fox?", "mode": "deep"}),
        (DEEP, {"maxIterations": "3"}, {"query": "fox?", "mode": "deep", "max_iterations": 3}),
    ],
)
def test_a_question_is_asked(
    kind: str, config: dict[str, Any], asked: dict[str, Any], tmp_path: Path
) -> None:
    with Upstream(whole(FOUND)) as server:
        text = said(
            kind,
            {"promptToSearch": "{agent1Output}?", **config},
            outputs=["fox"],
            **researcher(server, tmp_path),
        )

    assert text == "Foxes are red."
    assert (server.asked[0].method, server.asked[0].path) == ("POST", "/search")
    assert server.asked[0].json == asked
    assert server.asked[0].headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (FOUND, "Foxes are red.\n\nSources:\n- B1 :: T1\n- B2 :: T2"),
        ({**FOUND, "sources": []}, "Foxes are red."),
        ({**FOUND, "sources": None}, "Foxes are red."),
        (
            {**FOUND, "no_information_found": True},
            "The offline researcher found no information about this.",
        ),
        ({**FOUND, "answer": " "}, "The offline researcher found no information about this."),
        (
            {"status": "error", "reason": "no books"},
            "Sorry, the offline researcher could not answer: no books.",
        ),
        ([1], "Sorry, the offline researcher could not answer: its answer is not as it should be."),
    ],
)
def test_what_is_made_of_the_answer(answer: Any, expected: str, tmp_path: Path) -> None:
    with Upstream(whole(answer)) as server:
        text = said(
            QUICK,
            {"promptToSearch": "fox", "includeSources": True},
            **researcher(server, tmp_path),
        )

    assert text == expected


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (whole({"detail": "canary"}, 500), "it answered 500"),
        (whole(b"canary"), "its answer is no JSON"),
        ([CUT], "The connection was closed without an answer"),
        ([SILENCE], "it did not answer within 0.2 s"),
    ],
)
def test_trouble_of_the_researcher_is_a_text_with_the_reason(
    steps: Any, reason: str, tmp_path: Path
) -> None:
    with Upstream(steps) as server:
        text = said(
            QUICK,
            {"promptToSearch": "fox", "timeoutSeconds": 0.2},
            **researcher(server, tmp_path),
        )

    assert text == f"Sorry, the offline researcher could not answer: {reason}."


def test_a_researcher_that_is_turned_off(tmp_path: Path) -> None:
    text = said(QUICK, {"promptToSearch": "fox"}, request_scope=scope_in(tmp_path))

    assert text == "Sorry, the offline researcher could not answer: it is turned off."


def test_its_time_is_its_own_and_not_that_of_the_node() -> None:
    given = {"promptToSearch": "fox", "timeoutSeconds": 5}
    alone = context_of(QUICK, given)
    both = context_of(QUICK, {**given, "nodeTimeoutSeconds": 7})

    assert (alone.config.search_seconds, alone.config.timeout_seconds) == (5, None)
    assert (both.config.search_seconds, both.config.timeout_seconds) == (5, 7)


def test_a_client_that_left_is_not_waited_for(tmp_path: Path) -> None:
    with Upstream([SILENCE]) as server:
        context = context_of(DEEP, {"promptToSearch": "fox"}, **researcher(server, tmp_path))
        assert context.request_scope is not None
        cancel = context.request_scope.cancel

        def stop() -> None:
            server.wait_for(1)
            cancel.cancel()

        canceller = threading.Thread(target=stop)
        canceller.start()
        started = time.monotonic()
        with pytest.raises(RunCancelled):
            handle(context)
        canceller.join()

    assert time.monotonic() - started < 5
