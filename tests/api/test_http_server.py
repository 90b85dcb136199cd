import errno
import gc
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator

import pytest

from Middleware.api.http_server import bind
from Middleware.core.errors import ConfigError
from Middleware.core.events import Event, Finish, TextDelta
from tests.fakes.live_site import make_site, serving, wait_until
from tests.fakes.runner import DEADLINE_SECONDS, FakeRunner, Turn


def test_port_0_is_a_free_port() -> None:
    with bind("127.0.0.1", 0) as bound:
        assert bound.getsockname()[1] > 0


def test_localhost_means_the_address_that_people_type() -> None:
    with bind("localhost", 0) as bound:
        assert bound.family == socket.AF_INET


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            bind("127.0.0.1", port)

    assert refused.value.message == (
        f"Port {port} of 127.0.0.1 cannot be used: {os.strerror(errno.EADDRINUSE)}. "
        "Is a server running there already? --port chooses another port."
    )


def test_an_address_of_another_machine_is_an_error() -> None:
    for host in ("192.0.2.1", "no such host"):
        with pytest.raises(ConfigError, match=host):
            bind(host, 0)


def test_closing_ends_the_main_loop_the_workers_and_the_connections() -> None:
    with serving(make_site(FakeRunner())) as live:
        idle = live.connect()
        idle.send("GET", "/health")
        assert idle.receive().status == 200
        live.server.close()

        assert not live.server.alive
        assert idle.read_to_end() == b""
        idle.close()
        with pytest.raises(OSError, match=r"refused|reset"):
            live.connect()


def test_draining_waits_for_what_is_written() -> None:
    go_on = threading.Event()

    def script(turn: Turn) -> Iterator[Event]:
        yield TextDelta("x" * 4_000_000)
        assert go_on.wait(DEADLINE_SECONDS)
        yield Finish()

    with serving(make_site(FakeRunner(script))) as live, live.connect() as client:
        client.send_chat()
        client.receive_head()
        begun = time.monotonic()
        live.server.drain(begun + 0.2)
        assert time.monotonic() - begun >= 0.2
        go_on.set()
        received = client.read_until(b"[DONE]")
        live.server.drain(time.monotonic() + DEADLINE_SECONDS)

    assert len(received) > 4_000_000


def test_tcp_nodelay_is_set_on_connections() -> None:
    with serving(make_site(FakeRunner())) as live, live.connect() as client:
        client.send("GET", "/health")
        client.receive()
        wait_until(lambda: live.server.connections == 1)
        (channel,) = live.server._channels()
        assert channel.socket is not None
        assert channel.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("left", [0, 1], ids=["all read", "not all read"])
def test_what_a_large_answer_was_kept_in_is_closed_with_its_connection(left: int) -> None:
    """More than a megabyte lies in a file as long as the connection is there."""
    size = 8_000_000

    def script(turn: Turn) -> Iterator[Event]:
        yield TextDelta("x" * size)
        yield Finish()

    gc.collect()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        with serving(make_site(FakeRunner(script))) as live, live.connect() as client:
            client.send_chat(stream=False)
            client.read(size - left * size // 2)
            live.server.close()
        # The warning comes when the file is thrown away.
        del live, client
        gc.collect()

    assert [str(one.message) for one in warned if "unclosed file" in str(one.message)] == []


def test_who_sends_no_http_and_leaves_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with serving(make_site(FakeRunner())) as live:
        # Whether it has gone when its answer is written is a matter of luck.
        for _ in range(300):
            with live.connect() as client:
                client.socket.sendall(b"nonsense\r\n\r\n")
                client.socket.shutdown(socket.SHUT_WR)
                client.read_to_end()
        wait_until(lambda: not live.server.connections)

    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
