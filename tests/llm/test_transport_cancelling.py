import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import RunCancelled, ServerStopping
from Middleware.llm.connections import Connections
from tests.fakes.upstream import SILENCE, Answer, Pause, Upstream, head, stream, whole
from tests.llm.setups import DEADLINE, Background, fetch, transport


@pytest.mark.parametrize(
    "answer",
    [
        [SILENCE],
        [b"HTTP/1.1 200", SILENCE],
        [head(headers={"Content-Length": "9"}), SILENCE],
        stream(b"abc", SILENCE),
        [head(), b"abc", SILENCE],
    ],
    ids=["no byte", "in the head", "after the head", "between chunks", "no length"],
)
def test_cancelling_ends_a_blocked_call_and_closes_its_connection(
    answer: Answer, connections: Connections
) -> None:
    cancel = CancelToken()
    with Upstream(answer, whole(b"next")) as server:
        line = transport(connections, server.url)
        call = Background(lambda: fetch(line, cancel))
        asked = server.wait_for(1)
        cancel.cancel(ServerStopping())

        assert isinstance(call.result(), ServerStopping)
        assert asked.left.wait(DEADLINE)
        assert fetch(line) == b"next"
    assert server.connections == 2


def test_cancelling_ends_a_call_on_a_kept_connection_without_another_try(
    connections: Connections,
) -> None:
    cancel = CancelToken()
    with Upstream(whole(b"a"), [SILENCE]) as server:
        line = transport(connections, server.url)
        fetch(line)
        call = Background(lambda: fetch(line, cancel))
        server.wait_for(2)
        cancel.cancel()

        assert isinstance(call.result(), RunCancelled)
    assert len(server.asked) == 2


def test_cancelling_ends_a_call_to_a_server_that_accepts_and_never_reads(
    connections: Connections,
) -> None:
    cancel = CancelToken()
    with Upstream(greets=False) as server:
        line = transport(connections, server.url)
        call = Background(lambda: fetch(line, cancel))
        _wait_until(lambda: server.connections == 1)
        cancel.cancel()

        assert isinstance(call.result(), RunCancelled)
        assert server.left.wait(DEADLINE)


def test_cancelling_ends_an_attempt_to_connect(connections: Connections) -> None:
    cancel = CancelToken()
    with socket.socket() as full:
        # A queue of connections that nobody accepts: once it is full, connecting takes for ever.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        fillers = [_started(address) for _ in range(4)]
        line = transport(connections, f"http://127.0.0.1:{address[1]}")
        call = Background(lambda: fetch(line, cancel))
        threading.Timer(0.1, cancel.cancel).start()
        result = call.result()
        for filler in fillers:
            filler.close()

    assert isinstance(result, RunCancelled)


def test_a_run_that_was_cancelled_before_makes_no_call(connections: Connections) -> None:
    cancel = CancelToken()
    cancel.cancel()
    with Upstream() as server:
        with pytest.raises(RunCancelled):
            fetch(transport(connections, server.url), cancel)

        assert server.connections == 0


def test_cancelling_afterwards_leaves_the_connection_of_the_next_call_alone(
    connections: Connections,
) -> None:
    first = CancelToken()
    go_on = Pause()
    with Upstream(whole(b"a"), stream(b"b", go_on, b"c")) as server:
        line = transport(connections, server.url)
        fetch(line, first)
        call = Background(lambda: fetch(line))
        server.wait_for(2)
        first.cancel()
        go_on.set()

        assert call.result() == b"bc"
    assert server.connections == 1


class TooLate(CancelToken):
    """Calls back though the block has been left: another thread had fetched the callback before."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks: list[Callable[[], None]] = []

    @contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Iterator[None]:
        self.callbacks.append(callback)
        yield


def test_a_cancellation_that_comes_too_late_leaves_the_kept_connection_alone(
    connections: Connections,
) -> None:
    cancel = TooLate()
    with Upstream(whole(b"a")) as server:
        line = transport(connections, server.url)
        fetch(line, cancel)
        for callback in cancel.callbacks:
            callback()
        fetch(line)

    assert server.connections == 1


def _started(address: tuple[str, int]) -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex(address)
    return sock


def _wait_until(true: Callable[[], bool]) -> None:
    limit = time.monotonic() + DEADLINE
    step = threading.Event()
    while not true():
        assert time.monotonic() < limit
        step.wait(0.005)
