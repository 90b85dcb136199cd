"""Statuses and codes are interface (decisions.md §6): clients and their libraries act on them."""

import re
from dataclasses import dataclass

import pytest

from Middleware.core import errors
from Middleware.core.errors import (
    BackendBadReply,
    BackendError,
    BackendRejected,
    BackendTimeout,
    BackendUnreachable,
    ConfigError,
    InvalidKey,
    KeyNotAllowed,
    MalformedRequest,
    MiddlewareError,
    RequestError,
    RequestTooLarge,
    RunCancelled,
    ServerStopping,
    UnknownModel,
    UnknownRoute,
    WorkflowError,
    WorkflowTooDeep,
    WrongMethod,
)


@dataclass(frozen=True)
class Case:
    error: MiddlewareError
    status: int
    code: str
    message: str
    retry: bool | None = None

    @property
    def id(self) -> str:
        return f"{type(self.error).__name__} {self.status}"


CASES = [
    Case(MiddlewareError("Oh."), 500, "internal_error", "Oh."),
    Case(RequestError("No."), 400, "invalid_request_error", "No."),
    Case(
        MalformedRequest("messages.0.role", "is missing"),
        400,
        "invalid_request_error",
        "`messages.0.role` is missing.",
    ),
    Case(
        MalformedRequest(None, "The body is no JSON"),
        400,
        "invalid_request_error",
        "The body is no JSON.",
    ),
    Case(InvalidKey("No key."), 401, "invalid_api_key", "No key."),
    Case(KeyNotAllowed("Not yours."), 403, "key_not_allowed", "Not yours."),
    Case(
        UnknownModel("genral", ("general", "bob:general")),
        404,
        "model_not_found",
        "There is no model 'genral' here. Did you mean 'general' or 'bob:general'? "
        "GET /v1/models lists all.",
    ),
    Case(
        UnknownModel("x", ()),
        404,
        "model_not_found",
        "There is no model 'x' here. GET /v1/models lists all.",
    ),
    Case(UnknownRoute("No such route."), 404, "route_not_found", "No such route."),
    Case(WrongMethod("Use POST.", ("POST",)), 405, "method_not_allowed", "Use POST."),
    Case(RequestTooLarge("Too large."), 413, "request_too_large", "Too large."),
    Case(
        ConfigError(
            "Unknown key 'endpont'.",
            file="Endpoints/fast.json",
            where="line 3",
            remedy="Did you mean 'endpoint'?",
        ),
        400,
        "configuration_error",
        "Endpoints/fast.json: line 3: Unknown key 'endpont'. Did you mean 'endpoint'?",
        retry=False,
    ),
    Case(ConfigError("It is so."), 400, "configuration_error", "It is so.", retry=False),
    Case(WorkflowError("Bad node."), 400, "workflow_error", "Bad node.", retry=False),
    Case(
        WorkflowTooDeep(2, ("a", "b", "a")),
        400,
        "workflow_too_deep",
        "Workflows are nested more than 2 deep: a -> b -> a. Break the cycle, or raise "
        "maxWorkflowDepth in the user file.",
        retry=False,
    ),
    Case(BackendError("Broken."), 502, "backend_error", "Broken.", retry=False),
    Case(
        BackendBadReply("fast", "sent no JSON."),
        502,
        "backend_bad_reply",
        "Endpoint 'fast' sent no JSON.",
        retry=False,
    ),
    Case(
        BackendUnreachable("fast"),
        503,
        "backend_unreachable",
        "Endpoint 'fast' cannot be reached. Is its model server running?",
        retry=False,
    ),
    Case(
        BackendTimeout("fast", 14400.0),
        504,
        "backend_timeout",
        "Endpoint 'fast' sent nothing for 14400 s.",
        retry=False,
    ),
    Case(RunCancelled(), 499, "cancelled", "The request was cancelled."),
    Case(
        ServerStopping(),
        503,
        "server_stopping",
        "The server is stopping; send the request again in a moment.",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_an_error_knows_its_status_its_code_and_its_words(case: Case) -> None:
    error = case.error

    assert (error.status, error.code, error.message) == (case.status, case.code, case.message)
    assert error.should_retry is case.retry
    assert str(error) == case.message


@pytest.mark.parametrize(
    ("backend", "client"),
    [
        (400, 400),
        (404, 404),
        (413, 413),
        (422, 422),
        (429, 429),
        (503, 503),
        (529, 503),
        (401, 502),
        (403, 502),
        (402, 502),
        (408, 502),
        (500, 502),
        (502, 502),
        (504, 502),
        (302, 502),
    ],
)
def test_a_refusal_of_a_backend_keeps_its_status_where_the_client_can_act_on_it(
    backend: int, client: int
) -> None:
    error = BackendRejected("fast", backend, "slow down", retry_after="7")

    assert (error.status, error.code) == (client, "backend_rejected")
    assert error.backend_status == backend
    assert error.retry_after == "7"
    assert error.message == f"Endpoint 'fast' answered {backend}: slow down"
    assert error.should_retry is (None if client != 502 else False)


def test_one_refusal_does_not_change_the_status_of_the_next() -> None:
    BackendRejected("fast", 429, "slow down")

    assert BackendError("Broken.").status == 502
    assert BackendRejected.status == 502


def test_what_only_the_log_may_see_is_in_no_message() -> None:
    secret = "http://10.0.0.1:8080 key=abc"

    errors_with_detail = [
        MiddlewareError("Oh.", detail=secret),
        ConfigError("Oh.", detail=secret),
        BackendRejected("fast", 500, "Oh.", detail=secret),
        BackendBadReply("fast", "said nothing.", detail=secret),
        BackendUnreachable("fast", detail=secret),
    ]

    assert [error.detail for error in errors_with_detail] == [secret] * 5
    assert not [error for error in errors_with_detail if secret in error.message + str(error)]


def test_the_innermost_place_leads_the_message_and_stays() -> None:
    error = BackendUnreachable("fast")

    error.locate("Child", "Ask")
    error.locate("Parent", "Call the child")

    assert error.message == (
        "Workflow 'Child', node 'Ask': Endpoint 'fast' cannot be reached. "
        "Is its model server running?"
    )


def test_a_malformed_request_and_an_unknown_model_name_the_field() -> None:
    assert MalformedRequest("messages.0.role", "is missing").param == "messages.0.role"
    assert UnknownModel("x", ()).param == "model"
    assert WorkflowError("Bad node.").param is None


def test_the_tree_at_the_top_of_the_file_names_every_error_with_its_status_and_code() -> None:
    drawn = {
        name: (status, code)
        for name, status, code in re.findall(
            r"^ *[*x-] (\w+) +(\d{3}|the backend's) +(\w+)", errors.__doc__ or "", re.MULTILINE
        )
    }
    defined = {
        error.__name__: (str(error.status), error.code)
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, MiddlewareError)
    }

    # The status of this one depends on what the backend said.
    drawn.pop("BackendRejected")
    defined.pop("BackendRejected")
    assert drawn == defined
