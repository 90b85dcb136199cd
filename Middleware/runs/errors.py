"""What may go wrong when somebody asks for runs.

* RequestError
  - UnknownRun           404 run_not_found
  - RunStillRunning      409 run_is_running
* MiddlewareError
  - RunLogUnavailable    503 run_log_unavailable
"""

from Middleware.core.errors import MiddlewareError, RequestError


class UnknownRun(RequestError):
    """There is no such run, or it is somebody else's: both look the same."""

    status = 404
    code = "run_not_found"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"There is no run {run_id[:80]!r} in the run log.")


class RunStillRunning(RequestError):
    status = 409
    code = "run_is_running"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"Run {run_id!r} has not finished. Delete it when it has.")


class RunLogUnavailable(MiddlewareError):
    """The database cannot be read, or is kept by another program."""

    status = 503
    code = "run_log_unavailable"

    def __init__(self, detail: str) -> None:
        super().__init__("The run log cannot be read at the moment.", detail=detail)
        self.retry_after = "5"
