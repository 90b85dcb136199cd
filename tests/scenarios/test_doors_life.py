"""The life of a request: twins, the concurrency gate, nodes behind the answer (front-doors §12)."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from Middleware.core.errors import ServerStopping
from tests.fakes.doors import CHAT, MESSAGES, OLLAMA_CHAT, Door, every_door
from tests.fakes.headrace import Tree, answers, wait_until
from tests.fakes.upstream import DONE, SILENCE, Pause, Upstream, chat, delta, refuses, stream


def asking(root: Path, **user: object) -> Tree:
    return Tree(root, **user).workflow("assistant", [answers()])


KEY = {"idempotency_key": "k-1"}


@every_door
def test_a_twin_gets_the_result_of_the_first(door: Door, tmp_path: Path) -> None:
    with Upstream(chat("one"), chat("two")) as model:
        with asking(tmp_path).model("Main", model.url).serve() as live:
            first = door.ask(live, stream=False, headers=KEY)
            again = door.ask(live, stream=False, headers=KEY)
            other = door.ask(live, stream=False, headers={"idempotency_key": "k-2"})
        assert len(model.asked) == 2

    assert (first.text, again.text, other.text) == ("one", "one", "two")
    assert first.body.get("id") == again.body.get("id")


@every_door
def test_a_twin_joins_the_running_request(door: Door, tmp_path: Path) -> None:
    go_on = Pause()
    play = stream(delta("Hel"), go_on, delta("lo"), delta(finish_reason="stop"), DONE)
    with (
        Upstream(play) as model,
        asking(tmp_path).model("Main", model.url).serve() as live,
        live.connect() as one,
        live.connect() as two,
    ):
        door.send(one, stream=True, headers=KEY)
        model.wait_for(1)
        door.send(two, stream=True, headers=KEY)
        two_head = two.receive_head()
        two.read_until(b"Hel")
        go_on.set()
        first = door.hear(one.receive())
        rest = two.read_until(b"\r\n0\r\n\r\n")
        assert len(model.asked) == 1

    assert first.text == "Hello"
    assert two_head[1] == 200
    assert b"lo" in rest


def test_the_run_of_twins_ends_when_the_last_of_them_leaves(tmp_path: Path) -> None:
    with (
        Upstream(stream(delta("Hel"), SILENCE)) as model,
        asking(tmp_path).model("Main", model.url).serve() as live,
        live.connect() as one,
        live.connect() as two,
    ):
        for client in (one, two):
            CHAT.send(client, stream=True, headers=KEY)
            client.read_until(b"Hel")
        one.close()
        wait_until(lambda: len(live.site.pulse) == 1)
        assert not model.asked[0].left.is_set()
        two.close()
        assert model.asked[0].left.wait(2)
        wait_until(live.is_quiet)


def test_a_failed_run_is_not_repeated_for_a_twin(tmp_path: Path) -> None:
    with (
        Upstream(refuses(500, "no"), chat("two")) as model,
        asking(tmp_path).model("Main", model.url).serve() as live,
    ):
        first = CHAT.ask(live, stream=False, headers=KEY)
        again = CHAT.ask(live, stream=False, headers=KEY)

    assert first.status == 502
    assert again.text == "two"


def test_a_key_belongs_to_one_request_of_one_caller(tmp_path: Path) -> None:
    with (
        Upstream(chat("one"), chat("two")) as model,
        asking(tmp_path).model("Main", model.url).serve() as live,
    ):
        CHAT.ask(live, "hi", stream=False, headers=KEY)
        other = CHAT.ask(live, "something else", stream=False, headers=KEY)
        stranger = CHAT.ask(live, "hi", stream=False, headers={**KEY, "x_api_key": "s"})

    assert other.status == 400
    assert other.error is not None
    assert "Idempotency-Key" in other.error
    assert stranger.text == "two"


@every_door
def test_the_same_request_sent_again_displaces_the_running_one(door: Door, tmp_path: Path) -> None:
    headers = {"x_idempotency_key": "k"}
    with (
        Upstream(stream(delta("Hel"), SILENCE), chat("two")) as model,
        asking(tmp_path).model("Main", model.url).serve(concurrency=1) as live,
        live.connect() as one,
    ):
        door.send(one, stream=True, headers=headers)
        one.read_until(b"Hel")
        second = door.ask(live, stream=False, headers=headers)
        first = one.read_until(b"\r\n0\r\n\r\n")
        assert model.asked[0].left.wait(1)

    assert second.text == "two"
    assert b"sent again" in first


# The gate


@every_door
def test_a_queued_stream_gets_headers_and_signs_of_life(door: Door, tmp_path: Path) -> None:
    go_on = Pause()
    play = stream(delta("one"), go_on, delta(finish_reason="stop"), DONE)
    with (
        Upstream(play, chat("two")) as model,
        asking(tmp_path, heartbeatSeconds=0.1)
        .model("Main", model.url)
        .serve(concurrency=1) as live,
        live.connect() as first,
        live.connect() as second,
    ):
        CHAT.send(first, stream=True)
        first.read_until(b"one")
        door.send(second, stream=True)
        head = second.receive_head()
        assert head[1] == 200
        assert len(model.asked) == 1
        go_on.set()
        rest = second.read_until(b"\r\n0\r\n\r\n")

    assert b"two" in rest


def test_who_waits_is_served_in_order_and_who_leaves_is_dropped(tmp_path: Path) -> None:
    go_on = Pause()
    play = stream(delta("one"), go_on, delta(finish_reason="stop"), DONE)
    with (
        Upstream(play, chat("two"), chat("three")) as model,
        asking(tmp_path).model("Main", model.url).serve(concurrency=1) as live,
        live.connect() as first,
        live.connect() as leaves,
        live.connect() as third,
    ):
        CHAT.send(first, stream=True)
        first.read_until(b"one")
        CHAT.send(leaves, "leaves", stream=False)
        wait_until(lambda: len(live.site.pulse) == 2)
        CHAT.send(third, "third", stream=False)
        wait_until(lambda: len(live.site.pulse) == 3)
        leaves.close()
        wait_until(lambda: len(live.site.pulse) == 2)
        go_on.set()
        assert CHAT.hear(third.receive()).text == "two"
        asked = [one.json["messages"][-1]["content"] for one in model.asked]

    assert asked == ["hi", "third"]


@every_door
def test_a_wait_that_is_too_long_is_503_with_retry_after(door: Door, tmp_path: Path) -> None:
    with (
        Upstream([SILENCE]) as model,
        asking(tmp_path)
        .model("Main", model.url)
        .serve(concurrency=1, concurrency_timeout_seconds=0.2) as live,
        live.connect() as first,
    ):
        CHAT.send(first, stream=True)
        model.wait_for(1)
        told = door.ask(live, stream=False)
        streamed = door.ask(live, stream=True)
        assert live.ask("GET", "/v1/models").status == 200

    for one in (told, streamed):
        assert one.status == 503
        assert one.headers["retry-after"] == "30"
        assert one.error is not None
        assert "busy" in one.error


def test_nodes_behind_the_answer_count(tmp_path: Path) -> None:
    go_on = Pause()
    behind = stream(go_on, delta("later"), delta(finish_reason="stop"), DONE)
    nodes = [answers(returnToUser=True), answers(title="Later")]
    tree = Tree(tmp_path).workflow("assistant", nodes)
    with (
        Upstream(chat("one"), behind, chat("two")) as model,
        tree.model("Main", model.url).serve(concurrency=1) as live,
        live.connect() as second,
    ):
        assert CHAT.ask(live, stream=True).text == "one"
        model.wait_for(2)
        CHAT.send(second, stream=False)
        wait_until(lambda: len(live.site.pulse) == 1)
        assert len(model.asked) == 2
        go_on.set()
        assert CHAT.hear(second.receive()).text == "two"


@pytest.mark.parametrize("door", [CHAT, MESSAGES, OLLAMA_CHAT], ids=str)
def test_a_slot_is_free_again_after_every_kind_of_end(door: Door, tmp_path: Path) -> None:
    with (
        Upstream(
            refuses(500, "no"), stream(delta("Hel"), SILENCE), chat("one"), chat("two")
        ) as model,
        asking(tmp_path).model("Main", model.url).serve(concurrency=1) as live,
    ):
        assert door.ask(live, stream=False).status == 502
        with live.connect() as leaves:
            door.send(leaves, stream=True)
            leaves.read_until(b"Hel")
        assert door.ask(live, stream=True).text == "one"
        assert door.ask(live, stream=False, model="nobody").status == 404
        assert door.ask(live, stream=False).text == "two"
        assert len(model.asked) == 4


def test_requests_that_a_stop_ends_are_each_told_where_they_were_themselves(tmp_path: Path) -> None:
    names = [f"flow{number}" for number in range(5)]
    with Upstream([SILENCE]) as model:
        tree = Tree(tmp_path).model("Main", model.url)
        for name in names:
            tree.workflow(name, [answers("Main")])
        with tree.serve() as live, ThreadPoolExecutor() as pool:
            asked = [pool.submit(live.chat, model=name) for name in names]
            model.wait_for(len(names))
            live.site.pulse.stop_all(ServerStopping)
            told = [one.result().json["error"]["message"] for one in asked]

    assert [text.partition(",")[0] for text in told] == [f"Workflow {name!r}" for name in names]
