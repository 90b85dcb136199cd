"""``background: true`` for ordinary workflows, through the official ``openai`` client."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types.responses import Response

from tests.fakes.headrace import Tree, answers, wait_until
from tests.fakes.own_process import own_process
from tests.fakes.upstream import SILENCE, Upstream, chat, delta, stream
from tests.scenarios.sdk import HI, MODEL, client_of, talking

SLOW = {"reply": "one two three four {input}", "tokenDelayMs": 100}


def until_over(client: OpenAI, id: str) -> Response:
    wait_until(lambda: client.responses.retrieve(id).status not in ("queued", "in_progress"))
    return client.responses.retrieve(id)


def slow(root: Path) -> Tree:
    return Tree(root).scripted("Main", default=SLOW).workflow("assistant", [answers()])


def test_it_is_made_while_nobody_waits(tmp_path: Path) -> None:
    with talking(tmp_path, chat("Hel", "lo"), chat("More")) as (client, model, _):
        begun = client.responses.create(model=MODEL, input="hi", background=True)
        final = until_over(client, begun.id)
        next_ = client.responses.create(model=MODEL, previous_response_id=begun.id, input="and?")

    assert begun.status in ("queued", "in_progress")
    assert (final.status, final.output_text, final.background) == ("completed", "Hello", True)
    assert next_.output_text == "More"
    assert [m["content"] for m in model.asked[1].json["messages"]] == ["hi", "Hello", "and?"]


def test_its_stream_goes_on_behind_any_number_while_it_runs_and_later(tmp_path: Path) -> None:
    with slow(tmp_path).serve() as live, client_of(live) as client:
        with client.responses.create(
            model=MODEL, input="five", background=True, stream=True
        ) as told:
            events: list[Any] = [next(iter(told)), next(iter(told))]
        id = events[0].response.id
        rest = list(client.responses.retrieve(id, stream=True, starting_after=1))
        later = list(client.responses.retrieve(id, stream=True, starting_after=1))
        final = client.responses.retrieve(id)

    text = "".join(event.delta for event in rest if event.type == "response.output_text.delta")
    assert [event.sequence_number for event in events] == [0, 1]
    assert [event.sequence_number for event in rest] == list(range(2, 2 + len(rest)))
    assert [event.model_dump() for event in later] == [event.model_dump() for event in rest]
    assert rest[-1].type == "response.completed"
    assert text == final.output_text == "one two three four five"


def test_it_is_cancelled(tmp_path: Path) -> None:
    with talking(tmp_path, stream(delta("never"), SILENCE)) as (client, model, _):
        begun = client.responses.create(model=MODEL, input="hi", background=True)
        wait_until(lambda: model.asked)
        cancelled = client.responses.cancel(begun.id)
        again = client.responses.cancel(begun.id)
        kept = client.responses.retrieve(begun.id)

    assert [cancelled.status, again.status, kept.status] == ["cancelled"] * 3


def test_a_failure_is_kept(tmp_path: Path) -> None:
    tree = Tree(tmp_path).model("Main", "http://127.0.0.1:9").workflow("assistant", [answers()])
    with tree.serve() as live, client_of(live) as client:
        begun = client.responses.create(model=MODEL, input="hi", background=True)
        final = until_over(client, begun.id)

    assert final.status == "failed"
    assert final.error is not None
    assert "'Main'" in final.error.message


def test_a_repeated_post_is_the_same_response(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "once"}
    with talking(tmp_path, chat("Hello")) as (client, model, _):
        begun = client.responses.create(model=MODEL, input="hi", background=True, extra_headers=key)
        twin = client.responses.create(model=MODEL, input="hi", background=True, extra_headers=key)
        until_over(client, begun.id)
        late = client.responses.create(model=MODEL, input="hi", background=True, extra_headers=key)

    assert begun.id == twin.id == late.id
    assert late.status == "completed"
    assert len(model.asked) == 1


def test_one_whose_process_was_killed_has_failed_and_says_why(tmp_path: Path) -> None:
    tree = slow(tmp_path)
    body = {"model": "assistant", "input": "five", "background": True}
    with own_process(tree.public) as server:
        done = server.ask("POST", "/v1/responses", body).json["id"]
        wait_until(
            lambda: server.ask("GET", f"/v1/responses/{done}").json["status"] == "completed", 20
        )
        lost = server.ask("POST", "/v1/responses", body).json["id"]
        server.kill()
    with own_process(tree.public, log_name="second.log") as server:
        kept = server.ask("GET", f"/v1/responses/{done}").json
        failed = server.ask("GET", f"/v1/responses/{lost}")
        again = server.ask("GET", f"/v1/responses/{lost}").json
        streamed = server.ask("GET", f"/v1/responses/{lost}?stream=true&starting_after=3")

    assert kept["status"] == "completed"
    assert failed.json["status"] == "failed"
    assert "was lost" in failed.json["error"]["message"]
    assert again == failed.json
    assert "headrace_session" not in json.dumps(failed.json)
    assert '"type":"response.failed"' in streamed.body.decode()


def test_another_process_shows_it_and_does_not_think_it_lost(tmp_path: Path) -> None:
    with Upstream(stream(delta("never"), SILENCE)) as model:
        tree = Tree(tmp_path).model("Main", model.url).workflow("assistant", [answers()])
        with own_process(tree.public) as one, own_process(tree.public, log_name="b.log") as other:
            body = {"model": "assistant", "input": "hi", "background": True}
            id = one.ask("POST", "/v1/responses", body).json["id"]
            wait_until(lambda: model.asked, 20)
            shown = other.ask("GET", f"/v1/responses/{id}").json
            refused = other.ask("POST", f"/v1/responses/{id}/cancel")
            one.kill()
            lost = other.ask("GET", f"/v1/responses/{id}").json

    assert shown["status"] == "in_progress"
    assert refused.status == 400
    assert lost["status"] == "failed"


def test_what_may_not_be_kept_cannot_be_in_the_background(tmp_path: Path) -> None:
    with (
        talking(tmp_path, encryptUsingApiKey=True) as (client, _, _),
        pytest.raises(openai.BadRequestError) as refused,
    ):
        client.responses.create(model=MODEL, input=HI, background=True)

    assert refused.value.param == "background"
