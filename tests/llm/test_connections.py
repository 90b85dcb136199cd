import socket
from collections.abc import Iterator

import pytest

from Middleware.core.grip import Grip
from Middleware.llm.connections import Connections, Origin, TimeLimits

ORIGIN = Origin(False, "127.0.0.1", 1)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    for sock in (ours, theirs):
        sock.settimeout(5)
    with ours, theirs:
        yield ours, theirs


Pair = tuple[socket.socket, socket.socket]


def test_an_idle_connection_is_used_again(connections: Connections, pair: Pair) -> None:
    connections.give_back(ORIGIN, pair[0])

    assert connections.take(ORIGIN) is pair[0]
    assert connections.take(ORIGIN) is None


def test_the_connection_used_last_is_taken_first(connections: Connections, pair: Pair) -> None:
    for sock in pair:
        connections.give_back(ORIGIN, sock)

    assert connections.take(ORIGIN) is pair[1]


def test_connections_to_other_places_are_left_alone(connections: Connections, pair: Pair) -> None:
    connections.give_back(ORIGIN, pair[0])

    assert connections.take(Origin(True, "127.0.0.1", 1)) is None


def test_a_connection_that_the_other_side_closed_is_not_used(
    connections: Connections, pair: Pair
) -> None:
    ours, theirs = pair
    connections.give_back(ORIGIN, ours)
    theirs.close()

    assert connections.take(ORIGIN) is None
    assert ours.fileno() == -1


def test_a_connection_that_says_what_nobody_asked_is_not_used(
    connections: Connections, pair: Pair
) -> None:
    ours, theirs = pair
    connections.give_back(ORIGIN, ours)
    theirs.sendall(b"HTTP/1.1 408 Too late\r\n\r\n")

    assert connections.take(ORIGIN) is None


def test_after_the_end_connections_that_come_back_are_closed(
    connections: Connections, pair: Pair
) -> None:
    connections.give_back(ORIGIN, pair[0])
    connections.close()
    connections.give_back(ORIGIN, pair[1])

    assert [sock.fileno() for sock in pair] == [-1, -1]


def test_aborting_wakes_whoever_reads(pair: Pair) -> None:
    grip = Grip()
    grip.hold(pair[0])

    grip.abort()

    assert grip.aborted
    assert pair[0].recv(1) == b""


def test_a_socket_that_comes_after_the_abort_is_shut_down_too(pair: Pair) -> None:
    grip = Grip()
    grip.abort()

    grip.hold(pair[0])

    assert pair[0].recv(1) == b""


def test_a_socket_that_was_let_go_is_left_alone(pair: Pair) -> None:
    ours, theirs = pair
    grip = Grip()
    grip.hold(ours)
    grip.let_go()

    grip.abort()
    theirs.sendall(b"x")

    assert ours.recv(1) == b"x"


def test_a_server_that_speaks_no_tls_cannot_be_dialled_securely(connections: Connections) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = Origin(True, "127.0.0.1", listener.getsockname()[1])
        limits = TimeLimits(connect=0.05)
        with pytest.raises(OSError, match="timed out"):
            connections.dial(origin, limits, Grip())
