"""Field case C-23: a model server that says 200 and gives no answer."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.upstream import stream, whole
from tests.scenarios.ways import COLLECTED, COLLECTED_WHOLE, STREAMED, WHOLE, Way, answered

HTML = b"<html><head><title>Sign in</title></head><body>" + b"Please sign in. " * 100


@dataclass(frozen=True)
class BadAnswer:
    id: str
    body: Any
    status: int
    says: str
    """What the error message ends with, behind the workflow and the node."""


BAD_ANSWERS = [
    BadAnswer(
        "a-error-object",
        {"error": {"message": "Rate limit exceeded", "code": 429}},
        429,
        "Endpoint 'Main' answered 429: Rate limit exceeded",
    ),
    BadAnswer(
        "b-our-key-is-bad",
        {"choices": None, "error": {"message": "bad key", "code": 401}},
        502,
        "Endpoint 'Main' answered 401: bad key",
    ),
    BadAnswer("c-html", HTML, 502, "Endpoint 'Main' did not answer with JSON."),
    BadAnswer(
        "d-empty",
        b"",
        502,
        "Endpoint 'Main' did not answer with JSON but with an empty answer.",
    ),
    BadAnswer(
        "e-no-choices", {"choices": []}, 502, "Endpoint 'Main' sent an answer without choices."
    ),
]


@pytest.mark.parametrize("way", [WHOLE, STREAMED, COLLECTED, COLLECTED_WHOLE], ids=str)
@pytest.mark.parametrize("case", BAD_ANSWERS, ids=lambda case: case.id)
def test_c23_a_200_without_an_answer_is_an_error(
    case: BadAnswer, way: Way, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    with answered(way, tmp_path, whole(case.body)) as told:
        message = f"Workflow 'assistant', node 'Answer': {case.says}"
        assert told.heard.error is not None
        assert (told.heard.status, told.heard.error["message"]) == (case.status, message)
        assert (told.run["status"], told.run["error"]) == ("failed", message)

    assert caplog.text.count("Please sign in.") * len("Please sign in. ") <= 200
    assert "Traceback" not in caplog.text


def test_c23_the_log_shows_the_beginning_of_what_came(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with answered(WHOLE, tmp_path, whole(HTML)) as told:
        assert told.heard.status == 502

    assert "<title>Sign in</title>" in caplog.text


@pytest.mark.parametrize("way", [WHOLE, STREAMED, COLLECTED], ids=str)
@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"index": 0, "message": None}]},
        {"choices": [None]},
        {"choices": "text"},
        {"error": "out of memory"},
        {"object": "error", "message": "out of memory"},
        [],
        "text",
        None,
        7,
    ],
    ids=repr,
)
def test_c23_other_nonsense_never_becomes_a_200_or_a_500(
    body: Any, way: Way, tmp_path: Path
) -> None:
    with answered(way, tmp_path, whole(body)) as told:
        assert told.heard.status == 502
        assert told.heard.error is not None
        assert "Endpoint 'Main'" in told.heard.error["message"]
        assert told.run["status"] == "failed"


@pytest.mark.parametrize("way", [WHOLE, STREAMED, COLLECTED], ids=str)
def test_c23_an_error_object_as_the_first_frame_of_a_stream_keeps_its_status(
    way: Way, tmp_path: Path
) -> None:
    play = stream({"error": {"message": "Rate limit exceeded", "code": 429}})
    with answered(way, tmp_path, play) as told:
        assert told.heard.status == 429
        assert told.heard.error is not None
        assert told.heard.error["type"] == "rate_limit_error"
