"""A run that is over before its nodes are: nothing failed (workflow-engine §7, S2)."""

from Middleware.core.errors import MiddlewareError


class RunEndsEarly(MiddlewareError):
    """Raised by a node to end its run and every run above it.

    Not a failure: nobody retries it, forgives it or records it as an error. The run of the
    request ends with the answer that it has given; if there is none yet, ``message`` is the
    answer. Its status is what a client sees if something treats it as an error all the same.
    """

    status = 409
    code = "run_ended_early"
    should_retry = False

    def locate(self, workflow: str, node: str) -> None:
        """The place is nobody's mistake, and the client need not know it."""
