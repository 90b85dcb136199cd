"""Every error this server raises on purpose.

* MiddlewareError                500 internal_error
  x RequestError                 400 invalid_request_error
    - MalformedRequest           400 invalid_request_error   (``param`` names the field)
    - InvalidKey                 401 invalid_api_key
    - KeyNotAllowed              403 key_not_allowed
    - UnknownModel               404 model_not_found
    - UnknownResponse            404 response_not_found
    - NoEmbeddings               404 embeddings_not_configured
    - UnknownRoute               404 route_not_found
    - WrongMethod                405 method_not_allowed
    - RequestTooLarge            413 request_too_large
    - UnknownEncoding            415 unsupported_encoding
  x ConfigError                  400 configuration_error
    - UnknownWorkflow            404 workflow_not_found
  x WorkflowError                400 workflow_error
    - WorkflowTooDeep            400 workflow_too_deep
    - TooManySteps               400 too_many_steps
    - NodeTimeout                504 node_timeout
  x BackendError                 502 backend_error
    - BackendRejected            the backend's status where decisions.md §6 passes it on, else 502
    - BackendBadReply            502 backend_bad_reply       (nonsense, or cut off)
    - BackendUnreachable         503 backend_unreachable
    - BackendTimeout             504 backend_timeout
  x RunCancelled                 499 cancelled
  x ServerStopping               503 server_stopping
  x ServerBusy                   503 server_busy             (with ``Retry-After``)
  x StorageUnavailable           503 storage_unavailable

``message`` may be shown to any client: no paths of ours, addresses, keys or stack traces.
``detail`` carries those, to the log only.
"""


class MiddlewareError(Exception):
    """Base of all. ``should_retry`` False becomes the header ``x-should-retry: false``."""

    status: int = 500
    code: str = "internal_error"
    should_retry: bool | None = None

    def __init__(self, message: str, *, detail: str | None = None) -> None:
        super().__init__(message)
        self.text = message
        self.detail = detail
        self.param: str | None = None
        self.retry_after: str | None = None
        self.allow: tuple[str, ...] = ()
        self.place: str | None = None

    @property
    def message(self) -> str:
        """The text, led by the workflow and node it happened in when that is known."""
        return f"{self.place}: {self.text}" if self.place else self.text

    def locate(self, workflow: str, node: str) -> None:
        """Say where in a run it happened. The innermost place is told first and stays."""
        if self.place is None:
            self.place = f"Workflow {workflow!r}, node {node!r}"


class RequestError(MiddlewareError):
    """The client asked for something that cannot be done."""

    status = 400
    code = "invalid_request_error"


class MalformedRequest(RequestError):
    """A field is missing or has the wrong type. ``param`` names it, as ``messages.0.role``."""

    def __init__(self, param: str | None, problem: str) -> None:
        super().__init__(f"`{param}` {problem}." if param else f"{problem}.")
        self.param = param


class InvalidKey(RequestError):
    status = 401
    code = "invalid_api_key"


class KeyNotAllowed(RequestError):
    status = 403
    code = "key_not_allowed"


class UnknownModel(RequestError):
    """``near`` are the model names that the client may have meant."""

    status = 404
    code = "model_not_found"

    def __init__(self, model: str, near: tuple[str, ...]) -> None:
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        super().__init__(f"There is no model {model!r} here.{hint} GET /v1/models lists all.")
        self.param = "model"


class UnknownResponse(RequestError):
    """A response that is not kept: never was, deleted, too old, or another caller's."""

    status = 404
    code = "response_not_found"

    def __init__(self, id: str) -> None:
        super().__init__(f"No response {id[:100]!r} is kept here.")


class NoEmbeddings(RequestError):
    status = 404
    code = "embeddings_not_configured"

    def __init__(self, user: str) -> None:
        super().__init__(
            f"User {user!r} has no model for embeddings: `embeddingsEndpoint` in the user file "
            "names one."
        )


class UnknownRoute(RequestError):
    status = 404
    code = "route_not_found"


class WrongMethod(RequestError):
    status = 405
    code = "method_not_allowed"

    def __init__(self, message: str, allow: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allow = allow


class RequestTooLarge(RequestError):
    status = 413
    code = "request_too_large"


class UnknownEncoding(RequestError):
    """The body is compressed. Its content type, on the other hand, plays no part."""

    status = 415
    code = "unsupported_encoding"

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"The body is sent with `Content-Encoding: {encoding[:40]}`; send it as it is."
        )


class ConfigError(MiddlewareError):
    """A mistake in a configuration file. ``message`` names file, place and remedy.

    ``file`` is relative to the configuration folder, so that clients learn no path of ours.
    """

    status = 400
    code = "configuration_error"
    should_retry = False

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        where: str | None = None,
        remedy: str = "",
        detail: str | None = None,
    ) -> None:
        place = ": ".join(part for part in (file, where) if part)
        text = f"{place}: {problem}" if place else problem
        super().__init__(f"{text} {remedy}".strip(), detail=detail)
        self.problem = problem
        self.file = file
        self.where = where
        self.remedy = remedy


class UnknownWorkflow(ConfigError):
    """Whoever named a workflow to be run named none that there is."""

    status = 404
    code = "workflow_not_found"


class WorkflowError(MiddlewareError):
    """A workflow that is at fault itself: asking again would fail again."""

    status = 400
    code = "workflow_error"
    should_retry = False


class WorkflowTooDeep(WorkflowError):
    """Sub-workflows are nested deeper than ``maxWorkflowDepth``; names the chain."""

    code = "workflow_too_deep"

    def __init__(self, limit: int, chain: tuple[str, ...]) -> None:
        super().__init__(
            f"Workflows are nested more than {limit} deep: {' -> '.join(chain)}. "
            "Break the cycle, or raise maxWorkflowDepth in the user file."
        )


class TooManySteps(WorkflowError):
    """A loop in a workflow ran longer than ``maxSteps`` allows."""

    code = "too_many_steps"

    def __init__(self, limit: int, path: tuple[str, ...]) -> None:
        super().__init__(
            f"The run stopped after {limit} steps; the last were {' -> '.join(path)}. "
            "Let the loop end, or raise maxSteps in the user file."
        )


class NodeTimeout(WorkflowError):
    """A node took longer than its ``timeoutSeconds``."""

    status = 504
    code = "node_timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"It did not finish within its {seconds:g} s (`timeoutSeconds`).")


class BackendError(MiddlewareError):
    """A model server failed. Messages name the endpoint, never its address."""

    status = 502
    code = "backend_error"
    should_retry: bool | None = False


_PASSED_ON = {400: 400, 404: 404, 413: 413, 422: 422, 429: 429, 503: 503, 529: 503}


class BackendRejected(BackendError):
    """The model server answered with an error status, or with an error object inside a 200.

    Statuses are passed on as decisions.md §6 says; 401 and 403 become 502, because the key at
    fault is ours and not the client's.
    """

    code = "backend_rejected"

    def __init__(
        self,
        endpoint: str,
        status: int,
        said: str,
        *,
        retry_after: str | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(f"Endpoint {endpoint!r} answered {status}: {said}", detail=detail)
        self.endpoint = endpoint
        self.backend_status = status
        self.status = _PASSED_ON.get(status, 502)
        if status in _PASSED_ON:
            # As if the client had asked the model server itself: a library that waits for
            # Retry-After and asks again is right to do so.
            self.should_retry = None
        self.retry_after = retry_after


class BackendBadReply(BackendError):
    """The answer is no JSON, not of the expected shape, or was cut off."""

    code = "backend_bad_reply"

    def __init__(self, endpoint: str, problem: str, *, detail: str | None = None) -> None:
        super().__init__(f"Endpoint {endpoint!r} {problem}", detail=detail)
        self.endpoint = endpoint


class BackendUnreachable(BackendError):
    status = 503
    code = "backend_unreachable"

    def __init__(self, endpoint: str, *, detail: str | None = None) -> None:
        super().__init__(
            f"Endpoint {endpoint!r} cannot be reached. Is its model server running?", detail=detail
        )
        self.endpoint = endpoint


class BackendTimeout(BackendError):
    """The backend accepted the request and then said nothing for too long."""

    status = 504
    code = "backend_timeout"

    def __init__(self, endpoint: str, seconds: float) -> None:
        super().__init__(f"Endpoint {endpoint!r} sent nothing for {seconds:g} s.")
        self.endpoint = endpoint


class RunCancelled(MiddlewareError):
    """Not a fault: the client went away, or asked to stop."""

    status = 499
    code = "cancelled"

    def __init__(self, message: str = "The request was cancelled.") -> None:
        super().__init__(message)


class ServerStopping(MiddlewareError):
    status = 503
    code = "server_stopping"

    def __init__(self) -> None:
        super().__init__("The server is stopping; send the request again in a moment.")


class ServerBusy(MiddlewareError):
    """All slots of the concurrency gate stayed taken for as long as a request may wait."""

    status = 503
    code = "server_busy"

    def __init__(self, waited_seconds: float) -> None:
        super().__init__(f"The server is busy: no other request ended within {waited_seconds:g} s.")
        self.retry_after = "30"


class StorageUnavailable(MiddlewareError):
    """What was kept cannot be read or changed now. The place goes to the log only."""

    status = 503
    code = "storage_unavailable"

    def __init__(self, what: str, *, detail: str | None = None) -> None:
        super().__init__(f"The {what} cannot be reached now.", detail=detail)
