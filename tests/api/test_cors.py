"""Pages of other origins (field case C-50)."""

import pytest

from Middleware.api.admission import Keys
from Middleware.config.user import User
from Middleware.core.errors import ConfigError
from tests.fakes.live_site import CHAT, HI, Live, Received, make_site, serving
from tests.fakes.runner import FakeRunner

PAGE = "http://ui.test"
LOCKED = Keys(lambda: [User.model_validate({"name": "a", "apiKeys": ["k"]})])


def preflight(live: Live, path: str, origin: str = PAGE) -> Received:
    return live.ask(
        "OPTIONS",
        path,
        Origin=origin,
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="authorization,content-type",
    )


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/api/chat", "/api/tags"])
@pytest.mark.parametrize("allowed", [PAGE, f"{PAGE}/", "HTTP://UI.test", "*"])
def test_a_preflight_of_an_allowed_page_needs_no_key(path: str, allowed: str) -> None:
    with serving(make_site(FakeRunner(), cors=(allowed,), keys=LOCKED)) as live:
        received = preflight(live, path)

    assert received.status == 204
    assert received.headers["access-control-allow-origin"] in (PAGE, "*")
    assert "POST" in received.headers["access-control-allow-methods"]
    assert received.headers["access-control-allow-headers"] == "authorization,content-type"


def test_answers_to_an_allowed_page_say_so_errors_included() -> None:
    runner = FakeRunner()
    with serving(make_site(runner, cors=(PAGE,), keys=LOCKED)) as live:
        good = [
            live.ask("POST", CHAT, {"messages": HI, "stream": stream}, Origin=PAGE, x_api_key="k")
            for stream in (False, True)
        ]
        bad = live.ask("POST", CHAT, {"messages": []}, Origin=PAGE, x_api_key="k")
        stranger = live.ask("POST", CHAT, {"messages": HI}, Origin=PAGE)
        runner.refusal = ConfigError("is broken.")
        broken = live.ask(
            "POST", CHAT, {"messages": HI, "stream": True}, Origin=PAGE, x_api_key="k"
        )

    assert [received.status for received in (*good, bad, stranger, broken)] == [
        200,
        200,
        400,
        401,
        400,
    ]
    for received in (*good, bad, stranger, broken):
        assert received.headers["access-control-allow-origin"] == PAGE
        assert received.headers["vary"] == "Origin"
        assert "X-Request-Id" in received.headers["access-control-expose-headers"]


@pytest.mark.parametrize("cors", [(), ("http://other.test",)], ids=["off", "another page"])
def test_other_pages_get_no_such_header(cors: tuple[str, ...]) -> None:
    with serving(make_site(FakeRunner(), cors=cors)) as live:
        asked = preflight(live, CHAT)
        posted = live.ask("POST", CHAT, {"messages": HI}, Origin=PAGE)

    assert posted.status == 200
    assert asked.status == 200
    assert "allow" in asked.headers
    for received in (asked, posted):
        assert not [name for name in received.headers if name.startswith("access-control")]
