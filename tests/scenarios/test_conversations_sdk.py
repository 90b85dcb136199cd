"""``/v1/conversations`` through the official ``openai`` client: durable ones, and kept lists."""

from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, ConflictError, NotFoundError, OpenAI

from tests.fakes.headrace import Tree, answers, wait_until
from tests.fakes.own_process import own_process
from tests.fakes.upstream import Upstream, chat
from tests.scenarios.sdk import client_of
from tests.scenarios.test_durable_responses import REFUND, answer, desk, proposal_of, talking


def said(client: OpenAI, id: str, **query: Any) -> list[Any]:
    """What the items of a conversation say, oldest first."""
    items = client.conversations.items.list(id, **{"order": "asc", **query})
    return [_said(item.to_dict()) for item in items]


def id_of(item: Any) -> str:
    return str(item.to_dict()["id"])


def _said(item: dict[str, Any]) -> Any:
    if item["type"] == "message":
        return (item["role"], item["content"][0]["text"])
    return item["type"]


def test_a_durable_conversation_from_its_start_to_its_deletion(tmp_path: Path) -> None:
    with talking(desk(tmp_path)) as (client, live):
        metadata = {"profile": "desk", "order": "7"}
        made = client.conversations.create(metadata=metadata)
        first = client.responses.create(model="desk", conversation=made.id, input=REFUND)
        second = client.responses.create(
            model="desk", conversation=made.id, input=answer(proposal_of(first), approve=True)
        )
        told = said(client, made.id)
        paged = said(client, made.id, limit=1)
        items = list(client.conversations.items.list(made.id, order="asc"))
        one = client.conversations.items.retrieve(id_of(items[0]), conversation_id=made.id)
        labelled = client.conversations.update(made.id, metadata={"order": "8"})
        with pytest.raises(BadRequestError):
            client.conversations.items.delete(id_of(items[0]), conversation_id=made.id)
        deleted = client.conversations.delete(made.id)
        with pytest.raises(NotFoundError):
            client.conversations.retrieve(made.id)
        with pytest.raises(NotFoundError):
            client.responses.retrieve(first.id)
        left = live.ask("GET", "/durable/v1/conversations").json["conversations"]

    assert (made.object, made.metadata) == ("conversation", metadata)
    assert told == paged
    assert told == [
        ("user", REFUND),
        "mcp_approval_request",
        "mcp_approval_response",
        ("assistant", second.output_text),
    ]
    assert len({item.to_dict()["id"] for item in items}) == 4
    assert one.to_dict() == items[0].to_dict()
    assert labelled.metadata == {"order": "8", "profile": "desk"}
    assert (deleted.deleted, left) == (True, [])


def test_a_user_message_is_the_only_item_that_a_durable_conversation_takes(tmp_path: Path) -> None:
    hello: Any = {"type": "message", "role": "user", "content": "Hello"}
    more: Any = {**hello, "content": "More"}
    wrong: Any = {**hello, "role": "assistant"}
    with talking(desk(tmp_path)) as (client, _):
        made = client.conversations.create(metadata={"profile": "desk"}, items=[hello])
        added = client.conversations.items.create(made.id, items=[more])
        wait_until(lambda: len(said(client, made.id)) == 4)
        told = said(client, made.id)
        with pytest.raises(BadRequestError):
            client.conversations.items.create(made.id, items=[wrong])
        with pytest.raises(NotFoundError):
            client.conversations.create(metadata={"profile": "dexk"})

    assert [_said(item.to_dict()) for item in added.data] == [("user", "More")]
    assert told[0] == ("user", "Hello")
    assert told[2] == ("user", "More")
    assert told[3][1].startswith("Turn 2: ")


def test_an_open_conversation_is_cancelled_before_it_is_deleted(tmp_path: Path) -> None:
    with talking(desk(tmp_path)) as (client, _):
        begun = client.responses.create(model="slow", input="five", background=True)
        assert begun.conversation is not None
        id = begun.conversation.id
        wait_until(lambda: client.responses.retrieve(begun.id).status == "in_progress")
        assert client.conversations.delete(id).deleted
        with pytest.raises(NotFoundError):
            client.conversations.retrieve(id)


def test_a_conversation_of_an_ordinary_workflow_keeps_what_was_said(tmp_path: Path) -> None:
    with Upstream(chat("Hel", "lo"), chat("Fine")) as model:
        tree = Tree(tmp_path).model("Main", model.url).workflow("assistant", [answers("Main")])
        with talking(tree) as (client, _):
            rule: Any = {"type": "message", "role": "system", "content": "Be kind."}
            made = client.conversations.create(items=[rule], metadata={"topic": "demo"})
            with client.responses.stream(
                model="assistant", conversation=made.id, input="hi"
            ) as told:
                first = told.get_final_response()
            client.responses.create(model="assistant", conversation=made.id, input="How are you?")
            kept = said(client, made.id)
            items = list(client.conversations.items.list(made.id, order="asc"))
            left = client.conversations.items.delete(id_of(items[1]), conversation_id=made.id)
            after = said(client, made.id)
            shown = client.conversations.retrieve(made.id)
            client.conversations.delete(made.id)
            with pytest.raises(NotFoundError):
                client.responses.create(model="assistant", conversation=made.id, input="hi")

    assert first.conversation is not None
    assert first.conversation.id == made.id
    assert kept == [
        ("system", "Be kind."),
        ("user", "hi"),
        ("assistant", "Hello"),
        ("user", "How are you?"),
        ("assistant", "Fine"),
    ]
    sent = [message["content"] for message in model.asked[1].json["messages"]]
    assert sent[-3:] == [text for _, text in kept[1:4]]
    assert len({item.to_dict()["id"] for item in items}) == 5
    assert (left.id, shown.metadata) == (made.id, {"topic": "demo"})
    assert after == [kept[0], *kept[2:]]


def test_others_cannot_see_a_kept_conversation(tmp_path: Path) -> None:
    tree = Tree(tmp_path).scripted("Main").workflow("assistant", [answers("Main")])
    tree.user(apiKeys=[{"name": name, "key": name} for name in ("ann", "bob")])
    with (
        tree.serve() as live,
        client_of(live, api_key="ann") as ann,
        client_of(live, api_key="bob") as bob,
    ):
        made = ann.conversations.create()
        with pytest.raises(NotFoundError):
            bob.conversations.retrieve(made.id)
        with pytest.raises(NotFoundError):
            bob.conversations.delete(made.id)
        assert ann.conversations.retrieve(made.id).id == made.id


def test_kept_conversations_survive_the_process(tmp_path: Path) -> None:
    tree = Tree(tmp_path).scripted("Main", "So {input}").workflow("assistant", [answers("Main")])
    with own_process(tree.public) as server:
        id = server.ask("POST", "/v1/conversations", {}).json["id"]
        body = {"model": "assistant", "conversation": id, "input": "hi"}
        server.ask("POST", "/v1/responses", body)
        server.kill()
    with own_process(tree.public, log_name="second.log") as server:
        items = server.ask("GET", f"/v1/conversations/{id}/items?order=asc").json["data"]

    assert [_said(item) for item in items] == [("user", "hi"), ("assistant", "So hi")]


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"a": 1}},
        {"metadata": {str(n): "x" for n in range(17)}},
        {"items": [{"type": "message", "role": "nobody", "content": ""}]},
        {"items": "hi"},
    ],
    ids=["value", "too many", "role", "no list"],
)
def test_what_cannot_be_kept_is_refused(tmp_path: Path, body: Any) -> None:
    tree = Tree(tmp_path).scripted("Main").workflow("assistant", [answers("Main")])
    with tree.serve() as live:
        assert live.ask("POST", "/v1/conversations", body).status == 400


def test_a_closed_conversation_takes_no_more(tmp_path: Path) -> None:
    with talking(desk(tmp_path)) as (client, live):
        made = client.conversations.create(metadata={"profile": "desk"})
        live.ask("POST", f"/durable/v1/conversations/{made.id}/cancel")
        with pytest.raises(ConflictError):
            client.responses.create(model="desk", conversation=made.id, input="hi")
