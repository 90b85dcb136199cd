"""The official ``openai`` client against the whole server: what it raises, and how often it asks
(clients §2.3, decisions §6).
"""

from dataclasses import dataclass
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.fakes.headrace import Tree, answers
from tests.fakes.upstream import CUT, Answer, chat, delta, nobody_listens, refuses, stream, whole
from tests.scenarios.sdk import HI, MODEL, client_of, talking, text_of


@dataclass(frozen=True)
class Failure:
    id: str
    play: Answer
    raised: type[openai.APIStatusError]
    status: int
    says: str
    calls: int
    """Requests that reach the model server, with a client that would ask twice."""


FAILURES = [
    Failure(
        "400", refuses(400, "too long"), openai.BadRequestError, 400, "answered 400: too long", 1
    ),
    Failure(
        "401", refuses(401, "bad key"), openai.InternalServerError, 502, "answered 401: bad key", 1
    ),
    Failure("404", refuses(404, "no such"), openai.NotFoundError, 404, "answered 404: no such", 1),
    Failure(
        "422", refuses(422, "odd"), openai.UnprocessableEntityError, 422, "answered 422: odd", 1
    ),
    Failure(
        "429", refuses(429, "slow down"), openai.RateLimitError, 429, "answered 429: slow down", 2
    ),
    Failure(
        "500", refuses(500, "oh no"), openai.InternalServerError, 502, "answered 500: oh no", 1
    ),
    Failure("503", refuses(503, "busy"), openai.InternalServerError, 503, "answered 503: busy", 2),
    Failure(
        "html", whole(b"<html>"), openai.InternalServerError, 502, "did not answer with JSON", 1
    ),
    Failure("closed", [CUT], openai.InternalServerError, 502, "closed the connection", 1),
]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.id)
def test_a_failure_is_raised_with_its_message_and_asked_again_only_if_that_may_help(
    case: Failure, streamed: bool, tmp_path: Path
) -> None:
    with talking(tmp_path, case.play) as (client, model, live):
        with pytest.raises(case.raised) as caught:
            client.with_options(max_retries=1).chat.completions.create(
                model=MODEL, messages=HI, stream=streamed
            )
        asked = len(model.asked)

    assert caught.value.status_code == case.status
    assert case.says in caught.value.message
    assert asked == case.calls
    assert [run["status"] for run in live.runs] == ["failed"] * case.calls


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_server_that_is_not_there_is_a_503_that_is_not_asked_for_again(
    streamed: bool, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()]).model("Main", nobody_listens())
    with (
        tree.serve() as live,
        client_of(live, max_retries=2) as client,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        client.chat.completions.create(model=MODEL, messages=HI, stream=streamed)

    assert caught.value.status_code == 503
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert len(live.runs) == 1


def test_a_workflow_that_is_broken_is_a_400_that_is_not_asked_for_again(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers("Nowhere")])
    with (
        tree.serve() as live,
        client_of(live, max_retries=2) as client,
        pytest.raises(openai.BadRequestError) as caught,
    ):
        client.chat.completions.create(model=MODEL, messages=HI)

    assert caught.value.code == "configuration_error"
    assert "Nowhere" in caught.value.message
    assert len(live.runs) == 1


def test_a_stream_that_fails_on_the_way_raises_after_its_text(tmp_path: Path) -> None:
    told: list[ChatCompletionChunk] = []
    with talking(tmp_path, stream(delta("Hel"), delta("lo"), CUT)) as (client, model, _):
        chunks = client.chat.completions.create(model=MODEL, messages=HI, stream=True)
        with pytest.raises(openai.APIError) as caught:
            told.extend(chunks)
        asked = len(model.asked)

    assert "closed the connection in the middle of its answer" in caught.value.message
    assert text_of(told) == "Hello"
    assert asked == 1


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_unknown_model_is_a_404_with_near_names(streamed: bool, tmp_path: Path) -> None:
    with talking(tmp_path, chat("ok")) as (client, model, _):
        with pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(model="asistant", messages=HI, stream=streamed)
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("asistant")

    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert "'tester:assistant'" in caught.value.message
    assert model.asked == []


def test_a_wrong_key_is_an_authentication_error(tmp_path: Path) -> None:
    tree = Tree(tmp_path, apiKeys=["sk-right"]).workflow("assistant", [answers()])
    with tree.scripted("Main").serve() as live, client_of(live, api_key="sk-wrong") as wrong:
        with pytest.raises(openai.AuthenticationError):
            wrong.chat.completions.create(model=MODEL, messages=HI)
        with client_of(live, api_key="sk-right") as right:
            completion = right.chat.completions.create(model=MODEL, messages=HI)

    assert completion.choices[0].message.content == "hi"
