import socket
import time
import zlib
from dataclasses import dataclass

import pytest

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import (
    BackendBadReply,
    BackendError,
    BackendRejected,
    BackendTimeout,
    BackendUnreachable,
    RunCancelled,
)
from Middleware.llm.connections import Connections, TimeLimits
from tests.fakes.upstream import (
    CUT,
    RESET,
    SILENCE,
    TLS_FILE,
    Answer,
    Pause,
    Upstream,
    byte_by_byte,
    chunk,
    head,
    nobody_listens,
    stream,
    whole,
)
from tests.llm.setups import DEADLINE, Background, fetch, transport

# ---------------------------------------------------------------------------- what goes through


@dataclass(frozen=True)
class Delivered:
    id: str
    answer: Answer
    expected: bytes


TEXT = "Grüße 使用 👩‍👩‍👧".encode()

DELIVERED = [
    Delivered("with a length", whole(TEXT), TEXT),
    Delivered("in chunks", stream(b"a", b"b" * 100_000, b"c"), b"a" + b"b" * 100_000 + b"c"),
    Delivered("byte by byte", byte_by_byte(whole(TEXT)), TEXT),
    Delivered("chunks, byte by byte", byte_by_byte(stream(TEXT[:7], TEXT[7:])), TEXT),
    Delivered("up to the end of the connection", [head() + TEXT, CUT], TEXT),
    Delivered("no body", whole(b""), b""),
    Delivered("no content", [head(204)], b""),
    Delivered("after 100 Continue", [b"HTTP/1.1 100 Continue\r\n\r\n", *whole(TEXT)], TEXT),
    Delivered(
        "compressed though we did not ask",
        whole(zlib.compress(TEXT), headers={"Content-Encoding": "deflate"}),
        TEXT,
    ),
    Delivered(
        "compressed, byte by byte",
        byte_by_byte(whole(zlib.compress(TEXT * 50), headers={"Content-Encoding": "gzip"})),
        TEXT * 50,
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in DELIVERED])
def test_bodies_arrive_whatever_their_form(case: Delivered, connections: Connections) -> None:
    with Upstream(case.answer) as server:
        assert fetch(transport(connections, server.url)) == case.expected


def test_the_request_is_what_was_said(connections: Connections) -> None:
    with Upstream(whole(b"")) as server:
        fetch(transport(connections, server.url + "/prefix/v1?key=x"), body=b'{"a":1}')

    asked = server.asked[0]
    assert (asked.method, asked.path, asked.body) == ("POST", "/prefix/v1/x?key=x", b'{"a":1}')
    assert asked.headers == {
        "host": f"127.0.0.1:{server.port}",
        "authorization": "Bearer sk-canary-123",
        "content-length": "7",
    }


def test_bytes_are_there_as_soon_as_they_have_come(connections: Connections) -> None:
    go_on = Pause()
    with (
        Upstream(stream(b"first", go_on, b"second")) as server,
        transport(connections, server.url).post(b"{}", CancelToken()) as answer,
    ):
        first = answer.read()
        go_on.set()
        rest = answer.rest()

    assert (first, rest) == (b"first", b"second")


def test_over_tls_everything_is_the_same(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS_FILE))
    cancel = CancelToken()
    with Upstream(
        whole(TEXT), stream(b"a", b"b" * 100_000), stream(b"a", SILENCE), tls=True
    ) as server:
        line = transport(connections, server.url)
        texts = [fetch(line), fetch(line)]
        call = Background(lambda: fetch(line, cancel))
        asked = server.wait_for(3)
        cancel.cancel()

        assert texts == [TEXT, b"a" + b"b" * 100_000]
        assert isinstance(call.result(), RunCancelled)
        assert asked.left.wait(DEADLINE)
    assert server.connections == 1


def test_a_certificate_that_nobody_vouches_for_is_refused(connections: Connections) -> None:
    with Upstream(whole(TEXT), tls=True) as server, pytest.raises(BackendUnreachable) as caught:
        fetch(transport(connections, server.url))

    assert "CERTIFICATE_VERIFY_FAILED" in (caught.value.detail or "")
    assert server.asked == []


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="this system has no such wish")
def test_a_server_that_waits_for_acknowledgements_is_not_slowed_down(
    connections: Connections,
) -> None:
    times = []
    with Upstream(stream(b"a", b"b", b"c"), nagle=True) as server:
        line = transport(connections, server.url)
        for _ in range(6):
            began = time.monotonic()
            fetch(line)
            times.append(time.monotonic() - began)

    assert server.connections == 1
    # Otherwise each but the first takes 40 ms.
    assert min(times[1:]) < 0.03


# ------------------------------------------------------------------------------- keeping alive


def test_one_connection_serves_many_calls(connections: Connections) -> None:
    with Upstream(whole(b"a"), stream(b"b"), whole(b"no", 404), whole(b"c")) as server:
        line = transport(connections, server.url)
        texts = [fetch(line), fetch(line)]
        with pytest.raises(BackendRejected):
            fetch(line)
        texts.append(fetch(line))

    assert texts == [b"a", b"b", b"c"]
    assert server.connections == 1


def test_calls_at_the_same_time_have_connections_of_their_own(connections: Connections) -> None:
    go_on = Pause()
    with Upstream(stream(b"a", go_on)) as server:
        line = transport(connections, server.url)
        calls = [Background(lambda: fetch(line)) for _ in range(3)]
        server.wait_for(3)
        go_on.set()
        results = [call.result() for call in calls]

    assert results == [b"a"] * 3
    assert server.connections == 3


def test_two_endpoints_of_one_server_share_connections(connections: Connections) -> None:
    with Upstream(whole(b"a")) as server:
        fetch(transport(connections, server.url))
        fetch(transport(connections, server.url + "/prefix"))

    assert server.connections == 1


def test_a_kept_connection_that_has_died_is_replaced(connections: Connections) -> None:
    with Upstream([*whole(b"a"), CUT], whole(b"b")) as server:
        line = transport(connections, server.url)
        texts = [fetch(line), fetch(line)]

    assert texts == [b"a", b"b"]


@pytest.mark.parametrize("ending", [CUT, RESET], ids=["closed", "reset"])
def test_a_kept_connection_that_dies_before_the_answer_is_replaced_once(
    ending: Answer, connections: Connections
) -> None:
    with Upstream(whole(b"a"), [ending], whole(b"b")) as server:  # type: ignore[list-item]
        line = transport(connections, server.url)
        texts = [fetch(line), fetch(line)]

    assert texts == [b"a", b"b"]
    assert [asked.connection for asked in server.asked] == [1, 1, 2]


def test_a_fresh_connection_that_dies_is_an_error_at_once(connections: Connections) -> None:
    with Upstream(whole(b"a"), [CUT], [CUT], whole(b"never")) as server:
        line = transport(connections, server.url)
        fetch(line)
        with pytest.raises(BackendBadReply):
            fetch(line)

    assert len(server.asked) == 3


def test_a_kept_connection_that_dies_after_a_byte_is_not_tried_again(
    connections: Connections,
) -> None:
    with Upstream(whole(b"a"), [head(headers={"Content-Length": "9"}), CUT]) as server:
        line = transport(connections, server.url)
        fetch(line)
        with pytest.raises(BackendBadReply):
            fetch(line)

    assert len(server.asked) == 2


def test_what_the_server_wants_closed_is_not_kept(connections: Connections) -> None:
    with Upstream(whole(b"a", headers={"Connection": "close"})) as server:
        line = transport(connections, server.url)
        fetch(line)
        fetch(line)

    assert server.connections == 2


def test_leaving_in_the_middle_drops_the_connection_at_once(connections: Connections) -> None:
    with Upstream(stream(b"a", SILENCE), whole(b"b")) as server:
        line = transport(connections, server.url)
        with line.post(b"{}", CancelToken()) as answer:
            answer.read()
        assert server.asked[0].left.wait(DEADLINE)
        assert fetch(line) == b"b"

    assert server.connections == 2


def test_after_closing_nothing_is_kept(connections: Connections) -> None:
    with Upstream(whole(b"a")) as server:
        line = transport(connections, server.url)
        fetch(line)
        connections.close()
        fetch(line)
        fetch(line)

    assert server.connections == 3


# ----------------------------------------------------------------------------------- failures


@dataclass(frozen=True)
class Broken:
    id: str
    answer: Answer
    message: str


IN_THE_MIDDLE = "Endpoint 'fast' closed the connection in the middle of its answer."
NO_ANSWER = "Endpoint 'fast' closed the connection without an answer."
NO_HTTP = "Endpoint 'fast' did not answer in HTTP."

BROKEN = [
    Broken("closed before the answer", [CUT], NO_ANSWER),
    Broken("reset before the answer", [RESET], NO_ANSWER),
    Broken("closed in the first line", [b"HTTP/1.1 2", CUT], NO_HTTP),
    Broken(
        "length not reached", [head(headers={"Content-Length": "9"}) + b"abc", CUT], IN_THE_MIDDLE
    ),
    Broken("C-01: chunks without an end", stream(b"abc", CUT), IN_THE_MIDDLE),
    Broken("reset in the middle", stream(b"abc", RESET), IN_THE_MIDDLE),
    Broken("cut inside a chunk", [head(chunked=True) + b"9\r\nabc", CUT], IN_THE_MIDDLE),
    Broken("no HTTP", [b"SSH-2.0-OpenSSH\r\n", CUT], NO_HTTP),
    Broken("a head without end", [b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200, CUT], NO_HTTP),
    Broken("a chunk size that is none", [head(chunked=True) + b"xyz\r\n", CUT], IN_THE_MIDDLE),
    Broken(
        "compressed in another way",
        whole(b"abc", headers={"Content-Encoding": "br"}),
        "Endpoint 'fast' compressed its answer in a way that was not asked for (br).",
    ),
    Broken(
        "not compressed at all", whole(b"abc", headers={"Content-Encoding": "gzip"}), IN_THE_MIDDLE
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in BROKEN])
def test_a_broken_answer_is_an_error_that_names_the_endpoint(
    case: Broken, connections: Connections
) -> None:
    with Upstream(case.answer) as server, pytest.raises(BackendBadReply) as caught:
        fetch(transport(connections, server.url))

    assert caught.value.message == case.message
    assert caught.value.status == 502


def test_a_refused_connection_is_reported_at_once(connections: Connections) -> None:
    url = nobody_listens()
    began = time.monotonic()

    with pytest.raises(BackendUnreachable) as caught:
        fetch(transport(connections, url + "/v1?key=sk-canary-123"))

    assert time.monotonic() - began < 1
    assert caught.value.status == 503
    assert "127.0.0.1" not in caught.value.message
    assert "127.0.0.1" in (caught.value.detail or "")
    assert "canary" not in (caught.value.detail or "")


def test_a_host_that_does_not_exist_is_unreachable(connections: Connections) -> None:
    with pytest.raises(BackendUnreachable):
        fetch(transport(connections, "http://host.invalid:1"))


@pytest.mark.parametrize(
    "answer", [[SILENCE], stream(b"abc", SILENCE)], ids=["at first", "in the middle"]
)
def test_silence_has_a_limit(answer: Answer, connections: Connections) -> None:
    limits = TimeLimits(connect=DEADLINE, silence=0.05)
    with Upstream(answer) as server, pytest.raises(BackendTimeout) as caught:
        fetch(transport(connections, server.url, limits))

    assert caught.value.message == "Endpoint 'fast' sent nothing for 0.05 s."
    assert caught.value.status == 504


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        *[(status, status) for status in (400, 404, 413, 422, 429, 503)],
        *[(status, 502) for status in (401, 403, 500, 502, 302, 418)],
        (529, 503),
    ],
)
def test_a_refusal_keeps_its_status_where_that_helps(
    theirs: int, ours: int, connections: Connections
) -> None:
    answer = whole({"error": {"message": "no: sk-canary-123"}}, theirs, {"Retry-After": "7"})
    with Upstream(answer) as server, pytest.raises(BackendRejected) as caught:
        fetch(transport(connections, server.url))

    error = caught.value
    assert (error.status, error.backend_status, error.retry_after) == (ours, theirs, "7")
    assert error.message.startswith(f"Endpoint 'fast' answered {theirs}: ")
    assert "canary" not in error.message + (error.detail or "")


def test_the_time_to_try_again_may_be_a_date(connections: Connections) -> None:
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    with (
        Upstream(whole(b"", 429, {"Retry-After": date})) as server,
        pytest.raises(BackendRejected) as caught,
    ):
        fetch(transport(connections, server.url))

    assert caught.value.retry_after == date
    assert caught.value.message == "Endpoint 'fast' answered 429: Whatever"


def test_a_redirect_is_not_followed(connections: Connections) -> None:
    with (
        Upstream(whole(b"<html>moved", 307, {"Location": "/v1/y"}), whole(b"never")) as server,
        pytest.raises(BackendRejected, match="a redirect"),
    ):
        fetch(transport(connections, server.url))

    assert len(server.asked) == 1


def test_a_refusal_that_is_cut_off_is_still_one(connections: Connections) -> None:
    answer: Answer = [head(500, {"Content-Length": "99"}) + b"out of memory", CUT]
    with Upstream(answer) as server, pytest.raises(BackendRejected, match="out of memory"):
        fetch(transport(connections, server.url))


def test_a_refusal_before_the_whole_request_was_read_is_heard(connections: Connections) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(DEADLINE)
        line = transport(connections, f"http://127.0.0.1:{listener.getsockname()[1]}")
        call = Background(lambda: fetch(line, body=b"x" * 20_000_000))
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(head(413, {"Content-Length": "8"}) + b"too long")
        error = call.result()

    assert isinstance(error, BackendRejected)
    assert (error.status, error.message) == (413, "Endpoint 'fast' answered 413: too long")


# ----------------------------------------------------------------------- the end of an answer


def test_in_a_hurry_the_whole_rest_has_one_limit(connections: Connections) -> None:
    with (
        Upstream([head(chunked=True), *[chunk(b"x")] * 3, SILENCE]) as server,
        transport(connections, server.url).post(b"{}", CancelToken()) as answer,
    ):
        answer.hurry(0.05)
        with pytest.raises(BackendError):
            answer.rest()


def test_draining_takes_what_is_there_and_does_not_wait(connections: Connections) -> None:
    with Upstream(stream(b"a", b"b"), stream(b"a", SILENCE)) as server:
        line = transport(connections, server.url)
        ends = []
        for _ in range(2):
            with line.post(b"{}", CancelToken()) as answer:
                answer.read()
                answer.drain()
                ends.append(answer.ended)

    assert ends == [True, False]
