import json

import pytest

from Middleware.api.health import health_body
from Middleware.config.problems import Problem
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
    assert b"Headrace 1.2.3" in page.body
