"""Several jobs at the same time, of which one failure ends all."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import MiddlewareError

T = TypeVar("T")


def at_once(jobs: Sequence[Callable[[CancelToken], T]], cancel: CancelToken) -> list[T]:
    """Do all jobs at the same time; their results in the order of the jobs.

    The first failure cancels the others and is raised when all have stopped.
    """
    failed: list[BaseException] = []
    lock = threading.Lock()
    with cancel.child() as token, ThreadPoolExecutor(max(len(jobs), 1)) as pool:

        def run(job: Callable[[CancelToken], T]) -> T:
            try:
                return job(token)
            except BaseException as error:
                with lock:
                    failed.append(error)
                token.cancel(error if isinstance(error, MiddlewareError) else None)
                raise

        futures = [pool.submit(run, job) for job in jobs]
        wait(futures)
    if failed:
        raise failed[0]
    return [future.result() for future in futures]
