"""What WebFetch and CurlCommand may reach, through the running server: names that change their
address, redirects to the inside, and options of curl that lead elsewhere (memory-and-state §22).

The proxies of these tests lead to one port whatever they are asked for, so that nothing leaves
the machine; the address that they are asked for is the one that was looked at.
"""

import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree
from tests.fakes.live_site import Received
from tests.fakes.proxy import Proxy
from tests.fakes.upstream import Upstream, whole

PUBLIC, INSIDE = "93.184.215.14", "127.0.0.1"
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


class Names:
    """The system's resolver, but for names below ``test``: each answer in turn, the last again."""

    def __init__(self, **answers: list[str]) -> None:
        self.asked: list[str] = []
        self._answers = {f"{name}.test": found for name, found in answers.items()}
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host not in self._answers:
            return self._real(host, port, *args, **options)
        answers = self._answers[host]
        address = answers[min(self.asked.count(host), len(answers) - 1)]
        self.asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]


def fetches(url: str, **options: Any) -> dict[str, Any]:
    return {"type": "WebFetch", "url": url, **options}


def curls(*args: str, **options: Any) -> dict[str, Any]:
    return {"type": "CurlCommand", "args": ["-sS", "--max-time", "5", *args], **options}


def asked(node: dict[str, Any], root: Path, said: str = "hi") -> Received:
    """The answer of a server whose only node this is."""
    tree = Tree(root).workflow("w", [{"title": "Fetch", **node}])
    with tree.serve() as live:
        return live.chat(model="w", messages=[{"role": "user", "content": said}])


def text_of(received: Received) -> str:
    assert received.status == 200, received.body
    text = received.json["choices"][0]["message"]["content"]
    assert isinstance(text, str)
    return text


def assert_refused(received: Received, says: str) -> None:
    assert received.status == 400, received.body
    error = received.json["error"]
    assert (error["code"], "node 'Fetch'" in error["message"]) == ("workflow_error", True)
    assert says in error["message"]


@pytest.fixture(params=["WebFetch", pytest.param("CurlCommand", marks=needs_curl)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def calls(kind: str, url: str, **options: Any) -> dict[str, Any]:
    """A node that follows redirects where it may."""
    return fetches(url, **options) if kind == "WebFetch" else curls("-L", url, **options)


# Names that change their address


def test_the_address_that_was_looked_at_is_the_one_that_is_called(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(rebinds=[PUBLIC, INSIDE])
    monkeypatch.setattr(socket, "getaddrinfo", names)
    with Upstream(whole(b"ok")) as server, Proxy("http", server.port) as proxy:
        node = calls(kind, "http://rebinds.test/x", blockPrivateAddresses=True, proxy=proxy.url)
        received = asked(node, tmp_path)

    assert text_of(received) == "ok"
    assert proxy.asked == [f"{PUBLIC}:80"]
    assert names.asked == ["rebinds.test"]
    assert server.asked[0].headers["host"] == "rebinds.test"


def test_a_name_that_a_user_writes_is_pinned_too(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(rebinds=[PUBLIC, INSIDE])
    monkeypatch.setattr(socket, "getaddrinfo", names)
    with Upstream(whole(b"ok")) as server, Proxy("http", server.port) as proxy:
        node = calls(kind, "{chat_user_prompt_last_one}", proxy=proxy.url)
        received = asked(node, tmp_path, "http://rebinds.test/x")

    assert text_of(received) == "ok"
    assert (proxy.asked, names.asked) == ([f"{PUBLIC}:80"], ["rebinds.test"])


def test_a_name_with_one_private_address_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Names(rebinds=[INSIDE, PUBLIC]))
    with Upstream(whole(b"inside")) as server, Proxy("http", server.port) as proxy:
        node = calls(kind, "http://rebinds.test/x", blockPrivateAddresses=True, proxy=proxy.url)
        received = asked(node, tmp_path)

    assert_refused(received, "loopback")
    assert (proxy.asked, server.connections) == ([], 0)


def test_a_redirect_to_the_same_name_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Names(rebinds=[PUBLIC, INSIDE]))
    away = whole(b"", 302, {"Location": "http://rebinds.test/inside"})
    with Upstream(away, whole(b"inside")) as server, Proxy("http", server.port) as proxy:
        node = fetches("http://rebinds.test/x", blockPrivateAddresses=True, proxy=proxy.url)
        received = asked(node, tmp_path)

    assert_refused(received, "loopback")
    assert [one.path for one in server.asked] == ["/x"]


# Redirects to the inside


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://0x7f.1:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://169.254.169.254/",
        "//10.0.0.1/",
    ],
)
@pytest.mark.parametrize("written", [True, False], ids=["in the file", "by a user"])
def test_a_redirect_to_the_inside_is_refused_where_addresses_are_guarded(
    kind: str, location: str, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Names(public=[PUBLIC]))
    with Upstream(whole(b"inside")) as inside:
        away = whole(b"", 302, {"Location": location.format(port=inside.port)})
        with Upstream(away) as server, Proxy("http", server.port) as proxy:
            url, options = "http://public.test/x", {"proxy": proxy.url}
            if written:
                node = calls(kind, url, blockPrivateAddresses=True, **options)
            else:
                node = calls(kind, "{chat_user_prompt_last_one}", **options)
            received = asked(node, tmp_path, url)

        assert_refused(received, "blockPrivateAddresses" if kind == "WebFetch" else "exit code 47")
        assert (len(server.asked), inside.connections) == (1, 0)


@pytest.mark.parametrize("options", [{}, {"blockPrivateAddresses": False}], ids=["absent", "false"])
def test_a_redirect_from_one_place_inside_to_another_is_the_authors_own(
    kind: str, options: dict[str, Any], tmp_path: Path
) -> None:
    with (
        Upstream(whole(b"there")) as there,
        Upstream(whole(b"", 302, {"Location": f"{there.url}/"})) as here,
    ):
        assert text_of(asked(calls(kind, f"{here.url}/x", **options), tmp_path)) == "there"


# Options of curl


@dataclass(frozen=True)
class Walk:
    """An attempt to lead curl elsewhere: ``{url}`` is inside, ``{proxy}`` leads there, ``{config}``
    is a file that names it, ``{out}`` is a file to write."""

    id: str
    args: tuple[str, ...]
    said: str = ""
    """What the user writes, where a variable of the arguments takes it."""


PAGE = "http://public.test/x"
WALKS = [
    Walk("--next", (PAGE, "--next", "{url}")),
    Walk("-:", (PAGE, "-:", "{url}")),
    Walk("-K", ("-K", "{config}")),
    Walk("-K glued", ("-sK{config}",)),
    Walk("--config", ("--config", "{config}")),
    Walk("--proxy", ("--proxy", "{proxy}", PAGE)),
    Walk("-x", ("-x{proxy}", PAGE)),
    Walk("--connect-to", ("--connect-to", "::{host}", PAGE)),
]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[tuple[Upstream, dict[str, str]]]:
    config, out = tmp_path / "settings", tmp_path / "out"
    with Upstream(*[whole(b"inside")] * 4) as server, Proxy("http", server.port) as proxy:
        config.write_text(f'url = "{server.url}/"\n', encoding="utf-8")
        yield (
            server,
            {
                "url": f"{server.url}/",
                "host": f"127.0.0.1:{server.port}",
                "proxy": proxy.url,
                "config": str(config),
                "out": str(out),
            },
        )


@needs_curl
@pytest.mark.parametrize("walk", [pytest.param(walk, id=walk.id) for walk in WALKS])
def test_options_in_the_file_lead_nowhere_inside_a_guard(
    walk: Walk,
    places: tuple[Upstream, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, named = places
    monkeypatch.setattr(socket, "getaddrinfo", Names(public=[PUBLIC]))
    args = [one.format(**named) for one in walk.args]

    assert_refused(
        asked(curls(*args, blockPrivateAddresses=True), tmp_path), "where addresses are guarded"
    )
    assert server.connections == 0


@needs_curl
@pytest.mark.parametrize("blocks", [None, False], ids=["absent", "false"])
@pytest.mark.parametrize(
    "args",
    [
        ("-K", "{config}"),
        ("{url}", "--next", "{url}"),
        ("-x", "{proxy}", PAGE),
        ("--connect-to", "::{host}", PAGE),
    ],
    ids=" ".join,
)
def test_options_in_the_file_are_the_authors_own_without_a_guard(
    args: tuple[str, ...],
    blocks: bool | None,
    places: tuple[Upstream, dict[str, str]],
    tmp_path: Path,
) -> None:
    server, named = places
    options = {} if blocks is None else {"blockPrivateAddresses": blocks}
    received = asked(curls(*[one.format(**named) for one in args], **options), tmp_path)

    assert text_of(received).startswith("inside")
    assert server.connections > 0


SAID = "{chat_user_prompt_last_one}"
BY_USER = [
    Walk("an option", (SAID, PAGE), said="--next"),
    Walk("settings", (SAID, PAGE), said="-K{config}"),
    Walk("a file to write", (SAID, PAGE), said="-o{out}"),
    Walk("a proxy as an option", (SAID, PAGE), said="-x{proxy}"),
    Walk("the value of -K", ("-K", SAID), said="{config}"),
    Walk("glued to -K", (f"-K{SAID}",), said="{config}"),
    Walk("the value of --config", ("--config", SAID, PAGE), said="{config}"),
    Walk("the value of --proxy", ("--proxy", SAID, PAGE), said="{proxy}"),
    Walk("glued to -x", (f"-sx{SAID}", PAGE), said="{proxy}"),
    Walk("behind --next", (PAGE, "--next", SAID), said="{url}"),
    Walk("the name of a file", ("-d", SAID, SAID), said="@{config}"),
]


@needs_curl
@pytest.mark.parametrize("blocks", [None, True], ids=["absent", "true"])
@pytest.mark.parametrize("walk", [pytest.param(walk, id=walk.id) for walk in BY_USER])
def test_what_a_user_writes_is_no_option_and_no_proxy(
    walk: Walk,
    blocks: bool | None,
    places: tuple[Upstream, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, named = places
    monkeypatch.setattr(socket, "getaddrinfo", Names(public=[PUBLIC]))
    node = curls(*walk.args, **({} if blocks is None else {"blockPrivateAddresses": blocks}))

    assert_refused(asked(node, tmp_path, walk.said.format(**named)), "curl is not run")
    assert server.connections == 0
    assert not Path(named["out"]).exists()


@needs_curl
@pytest.mark.parametrize("said", ["-K{config}", "-o{out}", "-x{proxy}", "@{config}"])
def test_without_a_guard_block_option_injection_refuses_them(
    said: str, places: tuple[Upstream, dict[str, str]], tmp_path: Path
) -> None:
    server, named = places
    node = curls(SAID, named["url"], blockPrivateAddresses=False, blockOptionInjection=True)

    assert_refused(asked(node, tmp_path, said.format(**named)), "blockOptionInjection")
    assert server.connections == 0


@needs_curl
@pytest.mark.parametrize("blocks", [None, False], ids=["absent", "false"])
def test_a_file_that_the_author_names_is_written(
    blocks: bool | None, places: tuple[Upstream, dict[str, str]], tmp_path: Path
) -> None:
    _, named = places
    options = {} if blocks is None else {"blockPrivateAddresses": blocks}

    assert text_of(asked(curls("-o", named["out"], named["url"], **options), tmp_path)) == ""
    assert Path(named["out"]).read_bytes() == b"inside"
