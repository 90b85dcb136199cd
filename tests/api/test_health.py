import json
from dataclasses import replace

import pytest

from Middleware.api.admission import Keys
from Middleware.api.health import health_body
from Middleware.config.problems import Problem
from Middleware.core.errors import ConfigError
from tests.fakes.live_site import make_site, serving
from tests.fakes.runner import FakeRunner

BROKEN = Problem(
    code="bad_json",
    severity="error",
    file="Users/alice.json",
    place="line 3, column 7",
    message="A comma is missing.",
    remedy="Add it.",
    using_last_good=True,
)
ODD = Problem(code="unknown_key", severity="warning", file="Users/bob.json", message="What?")


@pytest.mark.parametrize(
    ("problems", "status"), [((), "ok"), ((ODD,), "ok"), ((ODD, BROKEN), "degraded")]
)
def test_errors_degrade_and_warnings_do_not(problems: tuple[Problem, ...], status: str) -> None:
    assert json.loads(health_body("1", problems, stranger=True)) == {"status": status}


def test_health_is_200_also_when_degraded_and_tells_each_problem() -> None:
    with serving(make_site(FakeRunner(), problems=lambda: (BROKEN,))) as live:
        received = live.ask("GET", "/health")

    assert received.status == 200
    assert received.json == {
        "status": "degraded",
        "version": "1.2.3",
        "problems": [
            {
                "code": "bad_json",
                "severity": "error",
                "file": "Users/alice.json",
                "place": "line 3, column 7",
                "message": "A comma is missing.",
                "remedy": "Add it.",
                "usingLastGood": True,
            }
        ],
    }


def test_the_front_page_is_for_people_and_its_text_for_programs() -> None:
    with serving(make_site(FakeRunner())) as live:
        text = live.ask("GET", "/")
        page = live.ask("GET", "/", Accept="text/html,*/*;q=0.8")

    assert text.body == b"Ollama is running"
    assert text.headers["content-type"].startswith("text/plain")
    assert page.headers["content-type"].startswith("text/html")
    html = page.body.decode()
    assert "<code>http://test/v1</code>" in html  # As the browser calls it: the Host header.
    assert "1.2.3" in html
    assert "<code>alice:general</code>" in html
    assert "The server is running.</p>" in html


def test_the_front_page_tells_of_broken_files_and_keeps_foreign_markup_out() -> None:
    broken = replace(BROKEN, message="<script>no</script>")
    site = make_site(FakeRunner(), problems=lambda: (ODD, broken), models=lambda: ("<b>bold</b>",))
    with serving(site) as live:
        page = live.ask("GET", "/", Accept="text/html").body.decode()

    assert "files have mistakes (1)" in page
    assert "Users/alice.json: line 3, column 7: &lt;script&gt;no&lt;/script&gt; Add it." in page
    assert "<code>&lt;b&gt;bold&lt;/b&gt;</code>" in page
    assert "<script" not in page
    assert "<b>" not in page
    assert "Users/bob.json" not in page


def test_the_front_page_tells_a_stranger_nothing_of_the_inside() -> None:
    site = make_site(FakeRunner(), keys=Keys(tuple, extra_key="secret"), problems=lambda: (BROKEN,))
    with serving(site) as live:
        stranger = live.ask("GET", "/", Accept="text/html").body.decode()
        known = live.ask("GET", "/", Accept="text/html", Authorization="Bearer secret")

    assert "<code>http://test/v1</code>" in stranger
    for inside in ("1.2.3", "alice", "mistakes"):
        assert inside not in stranger
        assert inside in known.body.decode()


def test_the_front_page_is_there_when_models_cannot_be_listed() -> None:
    def models() -> tuple[str, ...]:
        raise ConfigError("It is broken.")

    with serving(make_site(FakeRunner(), models=models, problems=lambda: (BROKEN,))) as live:
        page = live.ask("GET", "/", Accept="text/html")

    assert page.status == 200
    assert "A comma is missing." in page.body.decode()
