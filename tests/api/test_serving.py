"""The server as a process: starting, listening, stopping."""

import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fakes.live_site import Client
from tests.fakes.served import Served, served, start

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


@contextmanager
def connected(server: Served) -> Iterator[Client]:
    with Client(socket.create_connection(("127.0.0.1", server.port), 15)) as client:
        yield client


def say(client: Client, words: str, stream: bool = True) -> None:
    client.send_chat(stream=stream, messages=[{"role": "user", "content": words}])


def test_one_line_says_that_it_is_ready_once_health_answers() -> None:
    with served() as server:
        with connected(server) as client:
            client.send("GET", "/health")
            healthy = client.receive()
        server.signal()
        code, out, err = server.end()

    assert re.fullmatch(r"Headrace is ready at http://127\.0\.0\.1:\d+", server.ready)
    assert healthy.status == 200
    assert (code, out) == (0, "")
    assert f"API:      http://127.0.0.1:{server.port}/v1" in err
    assert "alice" in err
    assert "0 errors, 0 warnings" in err
    assert "Traceback" not in err
    assert "closed" in err


def test_what_the_server_holds_from_its_start_is_not_searched_for_garbage() -> None:
    with served() as server, connected(server) as client:
        say(client, "heap", stream=False)
        told = client.receive().json["choices"][0]["message"]["content"]

    frozen, threshold = map(int, told.split())
    assert frozen > 10_000
    assert threshold == 10_000


ENDING = {
    name: getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
}


@pytest.mark.parametrize("number", ENDING.values(), ids=list(ENDING))
def test_an_idle_server_stops_at_once(number: signal.Signals) -> None:
    with served() as server, connected(server) as idle:
        idle.send("GET", "/health")
        idle.receive()
        begun = time.monotonic()
        server.signal(number)
        code, _, err = server.end()

    assert code == 0
    assert time.monotonic() - begun < 3
    assert "Traceback" not in err


def test_a_stream_that_outlasts_the_grace_gets_its_error_frame_and_newcomers_a_503() -> None:
    with served("--grace", "1") as server, connected(server) as client, connected(server) as other:
        say(client, "hang")
        client.read_until(b"begun")
        server.signal()
        wait_for_refusal(other)
        rest = client.read_until(b"\r\n0\r\n\r\n")
        code, _, err = server.end()

    assert b'"code":"server_stopping"' in rest
    assert b"data: [DONE]" in rest
    assert code == 0
    assert "Traceback" not in err


def wait_for_refusal(client: Client) -> None:
    """Newcomers on a connection that exists."""
    deadline = time.monotonic() + 5
    while True:
        client.send("GET", "/v1/models")
        received = client.receive()
        if received.status == 503:
            assert received.json["error"]["code"] == "server_stopping"
            return
        assert time.monotonic() < deadline


def test_a_request_that_ends_within_the_grace_ends_well() -> None:
    with served("--grace", "10") as server, connected(server) as client:
        say(client, "rest 0.5")
        assert client.receive().frames[-1] == "data: [DONE]"
        begun = time.monotonic()
        server.signal()
        code, _, err = server.end()

    assert code == 0
    assert "rest finished" in err
    assert time.monotonic() - begun < 5


def test_a_second_signal_hurries() -> None:
    with served("--grace", "60") as server, connected(server) as client, connected(server) as other:
        say(client, "hang")
        client.read_until(b"begun")
        say(other, "rest 50")
        other.receive()
        begun = time.monotonic()
        server.signal()
        hurry = threading.Timer(0.3, server.signal)
        hurry.start()
        rest = client.read_until(b"\r\n0\r\n\r\n")
        code, _, err = server.end()
        hurry.join()

    assert b'"code":"server_stopping"' in rest
    assert code == 0
    assert "rest ended by ServerStopping" in err
    assert time.monotonic() - begun < 10


def test_a_run_that_cannot_be_cancelled_does_not_keep_the_server() -> None:
    with served("--grace", "0") as server, connected(server) as client:
        say(client, "stubborn")
        client.read_until(b"begun")
        begun = time.monotonic()
        server.signal()
        rest = client.read_until(b"data: [DONE]")
        code, _, err = server.end()

    assert b'"code":"server_stopping"' in rest
    assert code == 0
    assert time.monotonic() - begun < 10
    assert "Fatal" not in err


def test_beyond_loopback_it_demands_a_key_or_the_owners_word() -> None:
    with start("--port", "0", "--listen") as refused:
        out, err = refused.communicate(timeout=20)
    assert (refused.returncode, out) == (1, "")
    assert "--no-auth" in err

    with served("--listen", "--no-auth") as server:
        assert server.ready.startswith("Headrace is ready at http://127.0.0.1:")
        server.signal()
        assert "anyone" in server.end()[2]
    with served("--listen", "0.0.0.0", "--api-key", "k") as server, connected(server) as client:
        client.send("GET", "/v1/models")
        assert client.receive().status == 401


def test_a_taken_port_ends_the_start_with_one_line() -> None:
    with served() as server, start("--port", str(server.port)) as second:
        out, err = second.communicate(timeout=20)

    assert (second.returncode, out) == (1, "")
    assert err.startswith(f"Port {server.port} of 127.0.0.1 cannot be used: ")
    assert err.count("\n") == 1
