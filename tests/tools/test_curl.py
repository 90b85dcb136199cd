"""Running curl itself, and a stand-in that says what it was called with."""

import contextlib
import json
import os
import shutil
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import RunCancelled, WorkflowError
from Middleware.tools.curl import Command, CurlFailed, CurlResult, run
from Middleware.tools.net_policy import NetPolicy
from Middleware.tools.proxies import parse_proxy
from tests.fakes.proxy import Proxy
from tests.fakes.upstream import SILENCE, Upstream, head, whole
from tests.tools.test_curl_arguments import written

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
LISTED = NetPolicy(allowed_hosts=frozenset({"good.example"}))
GUARDED = NetPolicy(block_private=True)
INSIDE: dict[str, Any] = {"resolver": lambda host, port: ["127.0.0.1"]}


def curl(*arguments: str, cancel: CancelToken | None = None, **keys: Any) -> CurlResult:
    return run(Command(arguments=written(*arguments), **keys), cancel or CancelToken())


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called curl that prints its arguments and part of its environment."""
    program = tmp_path / "bin" / "curl"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "proxies = {k: v for k, v in os.environ.items() if 'proxy' in k.lower()}\n"
        "print(json.dumps([sys.argv[1:], proxies]))\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return program


def called(*arguments: str, **keys: Any) -> Any:
    return json.loads(curl(*arguments, **keys).stdout)


# -------------------------------------------------------------------------- what is called


@pytest.mark.usefixtures("stand_in")
def test_without_a_guard_curl_gets_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://of.the.environment")

    given, environment = called("-sS", "http://a«/x y»", "-K", "file")

    assert given == ["-sS", "http://a/x y", "-K", "file"]
    assert environment == {"https_proxy": "http://of.the.environment"}


@pytest.mark.usefixtures("stand_in")
def test_the_cap_and_the_proxy_come_first() -> None:
    with_both, _ = called("http://a", max_bytes=9999, proxy="http://p")
    own_cap, _ = called("--max-filesize", "5", "http://a", max_bytes=9999)

    assert with_both == ["--max-filesize", "9999", "-x", "http://p", "http://a"]
    assert own_cap == ["--max-filesize", "5", "http://a"]


@pytest.mark.usefixtures("stand_in")
def test_beside_a_guard_curl_gets_the_url_and_the_address_that_were_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("https_proxy", "http://of.the.environment")
    monkeypatch.setenv("ALL_PROXY", "http://of.the.environment")

    given, environment = called(
        "-sL",
        "--max-redirs",
        "5",
        "HTTPS://Good.Example/{a,b} c#f",
        "--url=good.example:81",
        policy=LISTED,
        resolver=lambda host, port: ["127.0.0.1", "::1"],
        max_bytes=9999,
    )

    assert given == [
        "-q",
        "--globoff",
        "--max-redirs",
        "0",
        "--proto",
        "=http,https",
        "--max-filesize",
        "9999",
        "--resolve",
        "good.example:443:127.0.0.1,[::1]",
        "--resolve",
        "good.example:81:127.0.0.1,[::1]",
        "-sL",
        "--max-redirs",
        "0",
        "https://good.example:443/%7Ba,b%7D%20c",
        "--url=http://good.example:81/",
    ]
    assert environment == {}


@pytest.mark.usefixtures("stand_in")
def test_a_proxy_beside_a_guard_is_told_the_address() -> None:
    given, _ = called(
        "http://good.example/",
        policy=LISTED,
        proxy="http://me:secret@p.example:3128",
        proxy_at=parse_proxy("http://me:secret@p.example:3128"),
        resolver=lambda host, port: ["10.0.0.1"],
    )

    assert given[6:] == [
        "--connect-to",
        "good.example:80:10.0.0.1:80",
        "-x",
        "http://me:secret@p.example:3128",
        "--proxytunnel",
        "--resolve",
        "p.example:3128:10.0.0.1",
        "http://good.example:80/",
    ]


@pytest.mark.usefixtures("stand_in")
def test_data_in_a_host_is_guarded_unless_the_node_says_otherwise() -> None:
    with pytest.raises(WorkflowError, match="loopback"):
        called("http://«127.0.0.1»/")
    given, _ = called("http://«127.0.0.1»/", guards_data=False)

    assert given == ["http://127.0.0.1/"]


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    ("arguments", "keys", "says"),
    [
        (("«file:///etc/passwd»",), {"guards_data": False}, "allowSchemeInjection"),
        (("«-Kx»",), {"guards_data": False, "refuses_options": True}, "blockOptionInjection"),
        (("-d", "«@x»", "http://good.example"), {"policy": LISTED}, "blockOptionInjection"),
        (("http://other.example",), {"policy": LISTED}, "allowedHosts"),
        (("ftp://good.example/x",), {"policy": LISTED}, "http:// or https://"),
        (("file:///etc/passwd",), {"policy": LISTED}, "http:// or https://"),
        (("-",), {"policy": LISTED}, "the URL"),
        (("http://no.such.invalid/",), {"policy": GUARDED}, "cannot be resolved"),
        (("http://a\0",), {}, "NUL"),
    ],
)
def test_what_is_refused_is_not_run(
    arguments: tuple[str, ...], keys: dict[str, Any], says: str
) -> None:
    with pytest.raises(WorkflowError, match=says):
        called(*arguments, **keys)


@pytest.mark.usefixtures("stand_in")
def test_what_may_be_allowed_is_run() -> None:
    given, _ = called("«ftp://a»", guards_data=False, refuses_schemes=False)

    assert given == ["ftp://a"]


def test_a_program_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(WorkflowError, match="not installed"):
        curl("http://a")


# ------------------------------------------------------------------------------- curl itself


@needs_curl
def test_a_call_as_it_arrives() -> None:
    with Upstream(whole("ü")) as server:
        result = curl("-sS", "--data-raw", "a=«x y»", "-H", "X-Own: «1»", f"{server.url}/p")

    assert result == CurlResult('"\\u00fc"', "", 0)
    asked = server.asked[0]
    assert (asked.method, asked.path, asked.body) == ("POST", "/p", b"a=x y")
    assert asked.headers["x-own"] == "1"


@needs_curl
def test_output_that_is_no_text_is_replaced() -> None:
    with Upstream(whole(b"a\xffb")) as server:
        assert curl("-s", server.url).stdout == "a\ufffdb"


@needs_curl
def test_a_failure_has_an_exit_code() -> None:
    with Upstream(whole(b"no", 404)) as server:
        result = curl("-sSf", server.url)

    assert result.returncode == 22
    assert result.stderr.startswith("curl: (22)")


@needs_curl
def test_the_cap_ends_it() -> None:
    # Without a length curl cannot know beforehand.
    with Upstream([head(), b"x" * 5000, SILENCE]) as server, pytest.raises(CurlFailed) as caught:
        curl("-sN", server.url, max_bytes=1000)

    assert "more than 1000 bytes" in caught.value.message
    assert caught.value.result.stdout == "x" * 1000


@needs_curl
def test_the_time_ends_it() -> None:
    with Upstream([head(), b"abc", SILENCE]) as server, pytest.raises(CurlFailed) as caught:
        curl("-sN", server.url, timeout_seconds=0.5)

    assert caught.value.message == "curl timed out after 0.5 seconds"
    assert caught.value.result.stdout == "abc"


@needs_curl
def test_a_run_that_is_cancelled_ends_it() -> None:
    cancel = CancelToken()
    with Upstream([SILENCE]) as server:

        def stop() -> None:
            server.wait_for(1)
            cancel.cancel()

        canceller = threading.Thread(target=stop)
        canceller.start()
        started = time.monotonic()
        with pytest.raises(RunCancelled):
            curl("-s", server.url, cancel=cancel)
        canceller.join()

    assert time.monotonic() - started < 5


@needs_curl
def test_a_pinned_name_is_not_looked_up_by_curl() -> None:
    with Upstream(whole(b"ok")) as server:
        result = curl("-sS", f"http://good.example:{server.port}/x", policy=LISTED, **INSIDE)

    assert result == CurlResult("ok", "", 0)
    assert server.asked[0].headers["host"] == f"good.example:{server.port}"


@needs_curl
def test_a_pinned_name_goes_through_a_proxy_as_an_address() -> None:
    with Upstream(whole(b"ok")) as server, Proxy("http", server.port) as proxy:
        result = curl(
            "-sS",
            "http://good.example/x",
            policy=LISTED,
            proxy=proxy.url,
            proxy_at=parse_proxy(proxy.url),
            resolver=lambda host, port: ["127.0.0.1"],
        )

    assert result.stdout == "ok"
    assert proxy.asked == ["127.0.0.1:80"]
    assert server.asked[0].path == "/x"


@needs_curl
def test_a_redirect_is_not_followed_beside_a_guard() -> None:
    with Upstream(whole(b"inside")) as inside:
        location = whole(b"", 302, {"Location": inside.url})
        with Upstream(location) as server:
            result = curl("-sSL", f"http://good.example:{server.port}/", policy=LISTED, **INSIDE)

    assert result.returncode == 47
    assert inside.connections == 0


WALKS = [
    ("http://127.0.0.1:{port}/",),
    ("127.0.0.1:{port}/",),
    ("user@127.0.0.1:{port}/",),
    ("http://user:pass@127.0.0.1:{port}/",),
    ("http://good.example\\@127.0.0.1:{port}/",),
    ("http://%31%32%37.0.0.1:{port}/",),
    ("http://2130706433:{port}/",),
    ("http://0x7f.1:{port}/",),
    ("http://0177.0.0.1:{port}/",),
    ("http://127.1:{port}/",),
    ("http://localhost:{port}/",),
    ("http://localhost.:{port}/",),
    ("http://[::ffff:127.0.0.1]:{port}/",),
    ("http://[::1%25lo]:{port}/",),
    ("http://{{127.0.0.1,x}}:{port}/",),
    ("http://127.0.0.[1-2]:{port}/",),
    ("--url", "http://127.0.0.1:{port}/"),
    ("--url=http://127.0.0.1:{port}/",),
    ("--", "http://127.0.0.1:{port}/"),
    ("http://public.example/", "http://127.0.0.1:{port}/"),
    ("http://public.example/", "--next", "http://127.0.0.1:{port}/"),
    ("-K", "{config}"),
    ("-sK{config}",),
    ("--config={config}",),
    ("--connect-to", "::127.0.0.1:{port}", "http://public.example/"),
    ("--resolve", "public.example:80:127.0.0.1", "http://public.example/"),
    ("-x", "http://127.0.0.1:{port}", "http://public.example/"),
    ("--proxy", "127.0.0.1:{port}", "http://public.example/"),
    ("--preproxy", "http://127.0.0.1:{port}", "http://public.example/"),
    ("--socks5", "127.0.0.1:{port}", "http://public.example/"),
    ("--doh-url", "https://127.0.0.1:{port}/", "http://public.example/"),
    ("--conf", "{config}"),
]


@needs_curl
@pytest.mark.parametrize("arguments", WALKS, ids=" ".join)
def test_nothing_walks_around_the_guard(arguments: tuple[str, ...], tmp_path: Path) -> None:
    config = tmp_path / "settings"
    with Upstream(whole(b"inside")) as server:
        config.write_text(f'url = "http://127.0.0.1:{server.port}/"\n', encoding="utf-8")
        given = [one.format(port=server.port, config=config) for one in arguments]
        result = None
        with contextlib.suppress(WorkflowError):
            result = curl("-sS", "--max-time", "1", *given, policy=GUARDED, resolver=resolver)

        assert server.connections == 0
    assert result is None or "inside" not in result.stdout


def resolver(host: str, port: int) -> list[str]:
    """Names as the system knows them, but for one that is public."""
    if host == "public.example":
        return ["93.184.215.14"]
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port)]


@needs_curl
def test_settings_of_the_user_are_not_read_beside_a_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Upstream(whole(b"ok")) as server, Upstream(whole(b"inside")) as inside:
        (tmp_path / ".curlrc").write_text(f'url = "{inside.url}"\n', encoding="utf-8")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("CURL_HOME", str(tmp_path))
        curl("-sS", f"http://good.example:{server.port}/", policy=LISTED, **INSIDE)

        assert (server.connections, inside.connections) == (1, 0)
