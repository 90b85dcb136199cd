"""What the nodes that run Python share. Scripts are the owner's own, and may do anything: raise
what is no Exception, loop for ever, return what has no text.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import WorkflowError


class Stopped(BaseException):
    """Raised inside of a script whose run was cancelled; not to be caught with its own errors."""


def run_script(work: Callable[[], Any], cancel: CancelToken | None) -> Any:
    """What ``work`` returns. It is ended when the run is cancelled or its time is over, between two
    of the script's steps: what waits inside of the system goes on until that returns.

    Raises the token's reason.
    """
    if cancel is None:
        return work()
    thread, lock, running = threading.get_ident(), threading.Lock(), True

    def stop() -> None:
        with lock:
            if running:
                _raise_in(thread, Stopped)

    try:
        with cancel.on_cancel(stop):
            try:
                return work()
            finally:
                with lock:
                    running = False
                # Asked for, and not raised yet: it would come later, in somebody else's work.
                _raise_in(thread, None)
    except Stopped as stopped:
        cancel.check()
        raise WorkflowError("the script was stopped.") from stopped


def described(error: BaseException) -> str:
    """Type and text of an error; a script's own may have no text."""
    try:
        text = str(error)
    except Stopped:
        raise
    except BaseException:  # noqa: BLE001 - it may raise anything
        text = "(it cannot be shown)"
    return f"{type(error).__name__}: {text}"


def showable(value: Any, what: str) -> Any:
    """A script's result, if it has a text. Raises WorkflowError for one that would fail wherever
    somebody wants to see it; ``what`` begins its message."""
    if isinstance(value, str):
        # Its own kind of text may do anything when it is used.
        return str.__str__(value)
    try:
        str(value)
    except Stopped:
        raise
    except BaseException as error:
        raise WorkflowError(
            f"{what} of type {type(value).__name__} that has no text: {described(error)}"
        ) from error
    return value


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    raised = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
