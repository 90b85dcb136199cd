"""Durable conversations through the official ``openai`` client, unmodified (specification §20)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import (
    BadRequestError,
    ConflictError,
    InternalServerError,
    NotFoundError,
    OpenAI,
)
from openai.types.responses import Response
from openai.types.responses.response_output_item import McpApprovalRequest

from tests.fakes.headrace import Headrace, Tree, answers, wait_until
from tests.fakes.own_process import OwnProcess, own_process
from tests.fakes.upstream import SILENCE, Upstream, chat, delta, stream
from tests.scenarios.sdk import client_of

REFUND = "Please refund my order"


def desk(root: Path, **profile: Any) -> Tree:
    """The profile ``desk``, whose model is the script of the refund desk, and ``slow``."""
    tree = Tree(root).workflow("talk", [answers("Desk", allowTools=True)])
    tree.workflow("slow talk", [answers("Slow")])
    tree.scripted("Desk", script="refund-desk", default=None)
    tree.scripted("Slow", default={"reply": "one two three four {input}", "tokenDelayMs": 60})
    actions = {"refund": {"schema": {"type": "object"}}}
    tree.write("Conversations/desk.json", {"workflow": "talk", "actions": actions, **profile})
    return tree.write("Conversations/slow.json", {"workflow": "slow talk"})


@contextmanager
def talking(tree: Tree, **options: Any) -> Iterator[tuple[OpenAI, Headrace]]:
    with tree.serve(**options) as live, client_of(live, max_retries=0) as client:
        yield client, live


def proposal_of(response: Response) -> McpApprovalRequest:
    (item,) = response.output
    assert item.type == "mcp_approval_request"
    return item


def answer(proposal: McpApprovalRequest, *, approve: bool) -> Any:
    return [
        {
            "type": "mcp_approval_response",
            "approval_request_id": proposal.id,
            "approve": approve,
            "reason": "seen",
        }
    ]


def until_done(client: OpenAI, id: str) -> Response:
    def done() -> bool:
        return client.responses.retrieve(id).status not in ("queued", "in_progress")

    wait_until(done)
    return client.responses.retrieve(id)


def transcript(live: Headrace | OwnProcess, id: str) -> list[Any]:
    turns = live.ask("GET", f"/durable/v1/conversations/{id}/transcript").json["turns"]
    return [(turn["text"], turn["outcome"]) for turn in turns]


def conversation_of(response: Response) -> str:
    assert response.conversation is not None
    return response.conversation.id


def test_a_conversation_begins_and_goes_on(tmp_path: Path) -> None:
    with talking(desk(tmp_path)) as (client, live):
        first = client.responses.create(model="desk", input="Hello")
        id = conversation_of(first)
        second = client.responses.create(model="desk", conversation=id, input="And you?")
        third = client.responses.create(
            model="desk", previous_response_id=second.id, input="Bye then"
        )
        told = transcript(live, id)
        again = client.responses.retrieve(first.id)

    assert [first.status, second.status, third.status] == ["completed"] * 3
    assert first.output_text.startswith("Turn 1: ")
    assert third.output_text.startswith("Turn 3: ")
    assert {conversation_of(one) for one in (first, second, third)} == {id}
    assert told == [("Hello", "replied"), ("And you?", "replied"), ("Bye then", "replied")]
    assert again.model_dump() == first.model_dump()


def test_an_older_response_cannot_be_gone_on_from(tmp_path: Path) -> None:
    with talking(desk(tmp_path)) as (client, _):
        first = client.responses.create(model="desk", input="Hello")
        client.responses.create(model="desk", previous_response_id=first.id, input="Again")
        with pytest.raises(BadRequestError) as caught:
            client.responses.create(model="desk", previous_response_id=first.id, input="Branch")

    assert caught.value.param == "previous_response_id"


@pytest.mark.parametrize(("approve", "outcome"), [(True, "approved"), (False, "declined")])
def test_a_proposal_is_answered(tmp_path: Path, approve: bool, outcome: str) -> None:
    with talking(desk(tmp_path)) as (client, live):
        asked = client.responses.create(model="desk", input=REFUND)
        proposal = proposal_of(asked)
        decided = client.responses.create(
            model="desk", previous_response_id=asked.id, input=answer(proposal, approve=approve)
        )
        told = transcript(live, conversation_of(asked))
        kept = client.responses.retrieve(asked.id)
        with pytest.raises(BadRequestError) as caught:
            client.responses.create(model="desk", input=answer(proposal, approve=True))
        items = list(client.responses.input_items.list(decided.id))

    assert (asked.status, proposal.name, proposal.server_label) == ("completed", "refund", "desk")
    assert proposal.id.startswith("mcpr_prop-")
    assert REFUND in proposal.arguments
    assert decided.status == "completed"
    assert decided.output_text
    assert told == [(REFUND, outcome)]
    assert kept.model_dump() == asked.model_dump()
    assert caught.value.code == "approval_not_pending"
    assert [item.to_dict()["reason"] for item in items] == ["seen"]


def test_a_message_behind_a_proposal_is_queued_until_the_decision(tmp_path: Path) -> None:
    with talking(desk(tmp_path)) as (client, _):
        asked = client.responses.create(model="desk", input=REFUND)
        id = conversation_of(asked)
        behind = client.responses.create(
            model="desk", conversation=id, input="Anyone?", background=True
        )
        waiting = client.responses.retrieve(behind.id)
        client.responses.create(
            model="desk", conversation=id, input=answer(proposal_of(asked), approve=True)
        )
        done = until_done(client, behind.id)

    assert (behind.status, waiting.status) == ("queued", "queued")
    assert behind.background is True
    assert done.output_text.startswith("Turn 2: ")


def test_a_queued_message_is_withdrawn(tmp_path: Path) -> None:
    with talking(desk(tmp_path)) as (client, live):
        asked = client.responses.create(model="desk", input=REFUND)
        id = conversation_of(asked)
        behind = client.responses.create(
            model="desk", conversation=id, input="Anyone?", background=True
        )
        cancelled = client.responses.cancel(behind.id)
        client.responses.create(
            model="desk", conversation=id, input=answer(proposal_of(asked), approve=True)
        )
        after = client.responses.create(model="desk", conversation=id, input="Thanks")
        told = transcript(live, id)

    assert cancelled.status == "cancelled"
    assert after.output_text.startswith("Turn 2: ")
    assert told == [(REFUND, "approved"), ("Thanks", "replied")]


def test_a_running_background_response_is_stopped_and_its_conversation_goes_on(
    tmp_path: Path,
) -> None:
    with Upstream(stream(delta("never"), SILENCE), chat("fresh")) as model:
        tree = Tree(tmp_path).model("Main", model.url).workflow("talk", [answers("Main")])
        tree.write("Conversations/held.json", {"workflow": "talk"})
        with talking(tree) as (client, live):
            begun = client.responses.create(model="held", input="Go", background=True)
            wait_until(lambda: client.responses.retrieve(begun.id).status == "in_progress")
            wait_until(lambda: bool(model.asked))
            cancelled = client.responses.cancel(begun.id)
            after = client.responses.create(
                model="held", previous_response_id=begun.id, input="Again"
            )
            told = transcript(live, conversation_of(begun))

    assert cancelled.status == "cancelled"
    assert after.output_text == "fresh"
    assert told == [("Go", "failed"), ("Again", "replied")]


def test_a_repeated_post_is_the_same_response(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "order-7"}
    with talking(desk(tmp_path)) as (client, live):
        responses = client.responses
        first = responses.create(model="desk", input="Hello", extra_headers=key)
        twin = responses.create(model="desk", input="Hello", extra_headers=key)
        id = conversation_of(first)
        next_ = responses.create(
            model="desk",
            previous_response_id=first.id,
            input="More",
            metadata={"idempotency_key": "order-8"},
        )
        again = responses.create(
            model="desk",
            previous_response_id=first.id,
            input="More",
            metadata={"idempotency_key": "order-8"},
        )
        with pytest.raises(ConflictError) as caught:
            responses.create(
                model="desk",
                conversation=id,
                input="Other",
                metadata={"idempotency_key": "order-8"},
            )
        told = transcript(live, id)

    assert twin.model_dump() == first.model_dump()
    assert again.model_dump() == next_.model_dump()
    assert told == [("Hello", "replied"), ("More", "replied")]
    assert caught.value.code == "request_id_conflict"
    assert caught.value.response.headers["x-should-retry"] == "false"


def test_a_stream_tells_all_and_goes_on_behind_any_number(tmp_path: Path) -> None:
    with talking(desk(tmp_path)) as (client, _):
        with client.responses.create(
            model="slow", input="five", stream=True, background=True
        ) as told:
            events = list(told)
        last: Any = events[-1]
        resumed = {
            after: list(
                client.responses.retrieve(last.response.id, stream=True, starting_after=after)
            )
            for after in (0, 5, events[-2].sequence_number)
        }

    numbers = [event.sequence_number for event in events]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert numbers == sorted(set(numbers))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert last.type == "response.completed"
    assert last.response.output_text == text == "one two three four five"
    assert len(deltas) > 1
    assert next(event.type for event in resumed[0]) == "response.in_progress"
    rest = "".join(e.delta for e in resumed[5] if e.type == "response.output_text.delta")
    assert rest == text[2:]
    assert [event.type for event in resumed[numbers[-2]]] == ["response.completed"]


def test_a_proposal_is_streamed(tmp_path: Path) -> None:
    with (
        talking(desk(tmp_path)) as (client, _),
        client.responses.stream(model="desk", input=REFUND) as told,
    ):
        kinds = [event.type for event in told]
        final = told.get_final_response()

    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]
    assert proposal_of(final).name == "refund"


def test_a_client_that_leaves_does_not_end_the_turn(tmp_path: Path) -> None:
    with talking(desk(tmp_path)) as (client, _):
        with client.responses.create(model="slow", input="five", stream=True) as told:
            first: Any = next(iter(told))
        done = until_done(client, first.response.id)

    assert done.output_text == "one two three four five"


def test_waiting_is_bounded_and_polling_gets_through(tmp_path: Path) -> None:
    with talking(desk(tmp_path), threads=3) as (client, live):
        asked = client.responses.create(model="desk", input=REFUND)
        id = conversation_of(asked)
        closed = threading.Event()

        def leave() -> None:
            with live.connect() as hanging:
                body = {"model": "desk", "conversation": id, "input": "Anyone?"}
                hanging.send("POST", "/v1/responses", body)
                closed.wait(30)

        thread = threading.Thread(target=leave)
        thread.start()
        url = f"/durable/v1/conversations/{id}/status"
        wait_until(lambda: live.ask("GET", url).json["buffered"]["message"] == 1)
        polled = client.responses.retrieve(asked.id)
        closed.set()
        thread.join()

    assert polled.id == asked.id


def test_a_wait_ends_and_the_turn_goes_on(tmp_path: Path) -> None:
    tree = desk(tmp_path).user(durable={"responseWaitSeconds": 0.05})
    with talking(tree) as (client, live):
        with pytest.raises(InternalServerError) as caught:
            client.responses.create(model="slow", input="five")
        id = str(caught.value.param)
        done = until_done(client, id)
        messages = [{"role": "user", "content": "five"}]
        chat = live.chat(model="slow", messages=messages)

    assert caught.value.status_code == 504
    assert id in caught.value.message
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert done.output_text == "one two three four five"
    assert (chat.status, chat.headers["x-should-retry"]) == (504, "false")


def test_a_turn_of_a_closed_conversation_is_incomplete(tmp_path: Path) -> None:
    with talking(desk(tmp_path)) as (client, live):
        asked = client.responses.create(model="desk", input=REFUND)
        id = conversation_of(asked)
        behind = client.responses.create(
            model="desk", conversation=id, input="Anyone?", background=True
        )
        live.ask("POST", f"/durable/v1/conversations/{id}/cancel")
        closed = until_done(client, behind.id)
        with pytest.raises(ConflictError) as caught:
            client.responses.create(model="desk", conversation=id, input="Hello?")

    assert closed.status == "incomplete"
    assert caught.value.code == "rejected_not_active"


def test_what_is_not_there_or_cannot_be(tmp_path: Path) -> None:
    with talking(desk(tmp_path)) as (client, _):
        unfit: list[Any] = [{"store": False}, {"input": [{"role": "assistant", "content": "x"}]}]
        for wrong in unfit:
            with pytest.raises(BadRequestError):
                client.responses.create(**{"model": "desk", "input": "Hello", **wrong})
        with pytest.raises(NotFoundError):
            client.responses.create(model="desk", conversation="conv-none", input="Hello")
        with pytest.raises(NotFoundError):
            client.responses.retrieve("resp_sig00")
        first = client.responses.create(model="desk", input="Hello")
        with pytest.raises(BadRequestError) as caught:
            client.responses.create(
                model="slow", conversation=conversation_of(first), input="Hello"
            )

    assert caught.value.param == "model"


def test_a_background_response_survives_the_process(tmp_path: Path) -> None:
    tree = desk(tmp_path)
    with own_process(tree.public) as server:
        body = {"model": "slow", "input": "five", "background": True}
        begun = server.ask("POST", "/v1/responses", body).json
        path = f"/v1/responses/{begun['id']}"
        wait_until(lambda: server.ask("GET", path).json["status"] == "in_progress")
        server.kill()
    with own_process(tree.public, log_name="second.log") as server:
        wait_until(lambda: server.ask("GET", path).json["status"] == "completed", 20)
        final = server.ask("GET", path).json
        told = transcript(server, begun["conversation"]["id"])

    assert begun["status"] in ("queued", "in_progress")
    assert final["output"][0]["content"][0]["text"] == "one two three four five"
    assert told == [("five", "replied")]


def test_whoever_has_no_part_in_a_conversation_finds_nothing_of_it(tmp_path: Path) -> None:
    tree = desk(tmp_path, maySend=["shop"], mayApprove=["ann"])
    keys = ({"name": name, "key": f"{name}-key"} for name in ("shop", "ann", "other"))
    tree.user(apiKeys=list(keys))

    def statuses(live: Headrace, name: str, response: str, conversation: str) -> dict[str, int]:
        asked = (
            ("GET", f"/v1/responses/{response}"),
            ("GET", f"/v1/responses/{response}?stream=true"),
            ("GET", f"/v1/responses/{response}/input_items"),
            ("GET", f"/v1/conversations/{conversation}"),
            ("GET", f"/v1/conversations/{conversation}/items"),
            ("POST", f"/v1/responses/{response}/cancel"),
            ("DELETE", f"/v1/conversations/{conversation}"),
        )
        bearer = f"Bearer {name}-key"
        answers = {
            f"{method} {path}": live.ask(method, path, None, Authorization=bearer).status
            for method, path in asked
        }
        return {
            path.replace(response, "R").replace(conversation, "C"): status
            for path, status in answers.items()
        }

    with tree.serve() as live:
        asked = {"model": "desk", "input": REFUND, "background": True}
        made = live.ask("POST", "/v1/responses", asked, Authorization="Bearer shop-key").json
        ids = (made["id"], made["conversation"]["id"])
        other = statuses(live, "other", *ids)
        ann = statuses(live, "ann", *ids)

    assert set(other.values()) == {404}, other
    assert {path: ann[path] for path in ann if path.startswith("GET")} == dict.fromkeys(
        (path for path in ann if path.startswith("GET")), 200
    )
    assert (ann["POST /v1/responses/R/cancel"], ann["DELETE /v1/conversations/C"]) == (403, 403)
