"""Ending a call that another thread is waiting in."""

import contextlib
import socket
import threading


class Grip:
    """The socket that one call is using just now, so that another thread can end the call.

    Closing a socket does not wake a thread that reads from it; shutting it down does. The lock
    makes sure that no socket is shut down that has been handed on to the next call already.
    """

    __slots__ = ("_lock", "_socket", "aborted")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.aborted = False

    def hold(self, sock: socket.socket) -> None:
        """Use ``sock`` from now on. Once aborted, every socket is shut down on arrival."""
        with self._lock:
            self._socket = sock
            if self.aborted:
                _shut_down(sock)

    def let_go(self) -> None:
        with self._lock:
            self._socket = None

    def abort(self) -> None:
        """Make whatever the call is waiting for fail at once. May come from any thread."""
        with self._lock:
            self.aborted = True
            if self._socket is not None:
                _shut_down(self._socket)


def _shut_down(sock: socket.socket) -> None:
    # The base class's method: that of a TLS socket would pull the rug from under its reader.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
