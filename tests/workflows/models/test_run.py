import json

from Middleware.core.events import Usage
from Middleware.workflows.models.run import Run
from Middleware.workflows.models.workflow_context import WorkflowContext

DESIGNED = {"id", "workflow", "folder", "door", "user", "status", "startedAt", "durationMs"} | {
    "tokens",
    "cost",
    "error",
    "context",
}
"""What decisions §7 promises of a run."""


def test_a_run_that_has_begun_shows_what_is_known() -> None:
    run = Run(id="r1", workflow="Claims", folder="bob", user="bob", door="openai", started_at=0.5)

    shown = run.to_dict()

    assert shown.keys() >= DESIGNED
    assert {key: shown[key] for key in DESIGNED} == {
        "id": "r1",
        "workflow": "Claims",
        "folder": "bob",
        "door": "openai",
        "user": "bob",
        "status": "running",
        "startedAt": "1970-01-01T00:00:00.500Z",
        "durationMs": None,
        "tokens": None,
        "cost": None,
        "error": None,
        "context": WorkflowContext().to_dict(),
    }
    json.dumps(shown)


def test_a_run_that_failed_shows_its_error_and_its_tokens() -> None:
    run = Run(id="r1", workflow="Claims", folder="bob", user="bob", status="failed")
    run.context.error = "Endpoint 'fast' cannot be reached."
    run.add_usage(Usage(prompt_tokens=3, completion_tokens=1))
    run.add_usage(None)
    run.add_usage(Usage(prompt_tokens=2, completion_tokens=2, estimated=True))

    shown = run.to_dict()

    assert (shown["status"], shown["error"]) == ("failed", "Endpoint 'fast' cannot be reached.")
    assert shown["tokens"] == {"prompt": 5, "completion": 3, "total": 8, "estimated": True}
    assert shown["context"]["error"] == shown["error"]
