"""Dead, busy and half-dead model servers: retries, backups, gates, circuits, through the door."""

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers, wait_until
from tests.fakes.strict_client import hear
from tests.fakes.upstream import (
    CUT,
    Answer,
    Asked,
    Pause,
    Upstream,
    chat,
    delta,
    nobody_listens,
    refuses,
    stream,
    whole,
)
from tests.fakes.vendors import CHATS, COMPLETIONS, OPENAI_CHAT, VENDORS, Said, Vendor
from tests.scenarios.modes import both_modes
from tests.scenarios.vendor_ways import tree_of, with_model
from tests.scenarios.ways import SAYS_WHAT_WAS_COLLECTED

# -------------------------------------------------------------------------------------- retries


@both_modes
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(status: int, stream: bool, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [answers()])
    plays: list[Answer] = [
        refuses(status),
        refuses(status, headers={"Retry-After": "0"}),
        chat("ok"),
    ]
    with (
        Upstream(*plays) as model,
        tree.model("Main", model.url, retries=2).serve() as live,
    ):
        assert hear(live.chat(model="w", stream=stream)).said == ("ok", "stop")
        assert len(model.asked) == 3


@both_modes
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_what_would_fail_again_is_not(status: int, stream: bool, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [answers()])
    with (
        Upstream(refuses(status), chat("ok")) as model,
        tree.model("Main", model.url, retries=2).serve() as live,
    ):
        assert hear(live.chat(model="w", stream=stream)).error is not None
        assert len(model.asked) == 1


def test_without_a_word_of_the_owner_two_retries_are_made(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [answers()])
    settings = {"apiTypeConfigFileName": "OpenAI"}
    with Upstream(refuses(500)) as model:
        tree.write("Endpoints/Main.json", {"endpoint": model.url, **settings})
        with tree.serve() as live:
            heard = hear(live.chat(model="w", stream=True))

    assert heard.status == 502
    assert heard.headers["x-should-retry"] == "false"
    assert len(model.asked) == 3


@both_modes
def test_a_dead_server_is_reported_within_a_second(stream: bool, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [answers()])
    with tree.model("Main", nobody_listens(), retries=2).serve() as live:
        began = time.monotonic()
        heard = hear(live.chat(model="w", stream=stream))
        seconds = time.monotonic() - began

    assert heard.status == 503
    assert heard.error is not None
    assert heard.error["message"].endswith("cannot be reached. Is its model server running?")
    assert seconds < 1.0


def test_a_server_that_comes_back_is_used_at_once_again(tmp_path: Path) -> None:
    url = nobody_listens()
    port = int(url.rsplit(":", 1)[1])
    tree = Tree(tmp_path).workflow("w", [answers()])
    with tree.model("Main", url, retries=2).serve() as live:
        assert hear(live.chat(model="w")).status == 503
        with Upstream(chat("back"), port=port):
            wait_until(lambda: hear(live.chat(model="w")).said == ("back", "stop"), 5)


def test_who_leaves_during_a_pause_is_not_waited_for(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [answers()])
    play = refuses(429, headers={"Retry-After": "4"})
    with (
        Upstream(play) as model,
        tree.model("Main", model.url, retries=2).serve() as live,
    ):
        with live.connect() as client:
            client.send_chat(model="w")
            model.wait_for(1)
        wait_until(live.is_quiet, 2)
        assert len(model.asked) == 1


# -------------------------------------------------------------------------------------- backups


def backed_up(first: Vendor, second: Vendor, root: Path, **user: Any) -> Tree:
    tree = tree_of(first, root, **user).write(f"ApiTypes/{second.id}.json", second.file)
    return tree


@both_modes
@pytest.mark.parametrize("second", VENDORS, ids=str)
@pytest.mark.parametrize("first", [OPENAI_CHAT, COMPLETIONS], ids=str)
def test_a_backup_of_any_kind_gets_a_real_prompt(
    first: Vendor, second: Vendor, stream: bool, tmp_path: Path
) -> None:
    node = answers(systemPrompt="Be brief.", forceGenerationPromptIfEndpointAllows=True)
    tree = backed_up(first, second, tmp_path).workflow("w", [node])
    with Upstream(refuses(500)) as dead, Upstream(second.answer(Said())) as model:
        with_model(tree, first, "Main", dead.url, backupEndpointName="Spare")
        # Those of the backup count, not those of the one that failed.
        own = {
            "removeCustomTextFromResponseStartEndpointWide": True,
            "responseStartTextToRemoveEndpointWide": "Hel",
        }
        with_model(tree, second, "Spare", model.url, **own)
        with tree.serve() as live:
            heard = hear(
                live.chat(model="w", stream=stream, messages=[{"role": "user", "content": "Hi?"}])
            )
            step = live.runs[0]["context"]["steps"][0]

    assert heard.said == ("lo", "stop")
    assert (step["meta"]["endpoint"], step["meta"]["attempts"]) == ("Spare", 2)
    (request,) = model.asked
    if second.is_chat:
        assert "Hi?" in str(request.json)
        assert "Be brief." in str(request.json)
        assert "<|im_start|>" not in str(request.json)
    else:
        assert request.json["prompt"] == (
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi?<|im_end|>\n"
            "<|im_start|>assistant\n"
        )


@both_modes
@pytest.mark.parametrize("vendor", CHATS, ids=str)
def test_an_error_inside_of_a_200_is_a_reason_too(
    vendor: Vendor, stream: bool, tmp_path: Path
) -> None:
    tree = tree_of(vendor, tmp_path).workflow("w", [answers()])
    with Upstream(whole(vendor.error_body)) as bad, Upstream(vendor.answer(Said())) as good:
        with_model(tree, vendor, "Main", bad.url, backupEndpointName="Spare")
        with_model(tree, vendor, "Spare", good.url)
        with tree.serve() as live:
            assert hear(live.chat(model="w", stream=stream)).said == ("Hello", "stop")


def test_backups_may_have_backups_and_presets_of_their_own(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [answers(preset="Warm")])
    tree.write("Presets/Test/Warm.json", {"temperature": 0.9})
    tree.write("Presets/Test/Cold.json", {"temperature": 0.1})
    with Upstream(refuses(500)) as one, Upstream(refuses(503)) as two, Upstream() as three:
        tree.model("Main", one.url, backupEndpointName="B", backupPresetName="Cold")
        tree.model("B", two.url, backupEndpointName="C").model("C", three.url)
        with tree.serve() as live:
            assert hear(live.chat(model="w", stream=True)).said == ("ok", "stop")

    sent = [server.asked[0].json["temperature"] for server in (one, two, three)]
    assert sent == [0.9, 0.1, 0.1]


def test_an_endpoint_that_comes_twice_ends_the_chain(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [answers()])
    with Upstream(refuses(500)) as one, Upstream(refuses(503, "busy")) as two:
        tree.model("Main", one.url, backupEndpointName="B")
        tree.model("B", two.url, backupEndpointName="Main")
        with tree.serve() as live:
            heard = hear(live.chat(model="w", stream=True))

    assert heard.status == 503
    assert heard.error is not None
    assert "busy" in heard.error["message"]
    assert "lead in a circle" in heard.error["message"]
    assert (len(one.asked), len(two.asked)) == (1, 1)


def test_a_backup_out_in_the_world_must_be_allowed(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [answers()])
    with Upstream(refuses(500)) as one:
        tree.model("Main", one.url, backupEndpointName="Cloud")
        tree.model("Cloud", "https://8.8.8.8")
        with tree.serve() as live:
            heard = hear(live.chat(model="w", stream=True))

    assert heard.status == 502
    assert heard.error is not None
    assert "lies outside of the local network" in heard.error["message"]
    assert "allowRemoteBackup" in heard.error["message"]


def test_what_the_client_has_read_is_not_said_again_by_a_backup(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [answers()])
    with Upstream(stream(delta("The answer"), CUT)) as one, Upstream(chat("It is 4.")) as two:
        tree.model("Main", one.url, backupEndpointName="B").model("B", two.url)
        with tree.serve() as live:
            heard = hear(live.chat(model="w", stream=True))

    assert heard.text == "The answer"
    assert heard.error is not None
    assert two.asked == []


def test_what_was_only_collected_is_said_once(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [answers(), SAYS_WHAT_WAS_COLLECTED])
    with Upstream(stream(delta("The answer"), CUT)) as one, Upstream(chat("It is 4.")) as two:
        tree.model("Main", one.url, backupEndpointName="B").model("B", two.url)
        with tree.serve() as live:
            assert hear(live.chat(model="w", stream=True)).said == ("It is 4.", "stop")


CALLS_BELOW = {"type": "CustomWorkflow", "workflowName": "Below", "endpointName": "Main"}


def test_a_failure_below_is_no_reason_for_the_backup_of_a_node_above(tmp_path: Path) -> None:
    tree = Tree(tmp_path).own("Below", [answers("Main")]).workflow("w", [CALLS_BELOW])
    with Upstream(refuses(500)) as one, Upstream(refuses(500)) as two:
        tree.model("Main", one.url, backupEndpointName="B").model("B", two.url)
        with tree.serve() as live:
            assert hear(live.chat(model="w")).status == 502

    # The node below has used both; the one above asks nobody again.
    assert (len(one.asked), len(two.asked)) == (1, 1)


def test_a_backup_that_cannot_be_used_below_is_not_looked_for_above(tmp_path: Path) -> None:
    tree = Tree(tmp_path).own("Below", [answers("Main")]).workflow("w", [CALLS_BELOW])
    with Upstream(refuses(500)) as one:
        tree.model("Main", one.url, backupEndpointName="Cloud")
        tree.model("Cloud", "https://8.8.8.8")
        with tree.serve() as live:
            heard = hear(live.chat(model="w"))

    # The node below has looked for one in vain; the one above does not look again.
    assert heard.error is not None
    assert heard.error["message"].count("Its backup cannot be used") == 1
    assert len(one.asked) == 1


# ---------------------------------------------------------------------------------- concurrency


def test_an_endpoint_gets_as_many_calls_at_once_as_it_may(tmp_path: Path) -> None:
    go_on = Pause()
    start, *rest = chat("ok")(_streamed())
    tree = Tree(tmp_path).workflow("w", [answers()]).workflow("x", [answers("Other")])
    with (
        Upstream([start, go_on, *rest], chat("two")) as model,
        Upstream(chat("other")) as other,
        tree.model("Main", model.url, maxConcurrentRequests=1)
        .model("Other", other.url)
        .serve() as live,
    ):
        results: list[str] = []

        def ask() -> None:
            results.append(hear(live.chat(model="w", stream=True)).text)

        first = threading.Thread(target=ask)
        first.start()
        model.wait_for(1)
        second = threading.Thread(target=ask)
        second.start()
        # Other endpoints do not wait.
        assert hear(live.chat(model="x")).text == "other"
        assert len(model.asked) == 1
        go_on.set()
        for thread in (first, second):
            thread.join(10)

    assert sorted(results) == ["ok", "two"]


def test_who_waits_too_long_for_a_slot_is_told_so_and_no_backup_is_used(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [answers()])
    with Upstream([Pause()]) as model, Upstream() as spare:
        tree.model("Main", model.url, backupEndpointName="Spare").model("Spare", spare.url)
        gate: dict[str, Any] = {
            "concurrency": 1,
            "concurrency_level": "endpoint",
            "concurrency_timeout_seconds": 1,
        }
        with tree.serve(**gate) as live:
            with live.connect() as client:
                client.send_chat(model="w")
                model.wait_for(1)
                heard = hear(live.chat(model="w"))
            wait_until(live.is_quiet)

    assert (heard.status, heard.headers["retry-after"]) == (503, "30")
    assert heard.error is not None
    assert heard.error["code"] == "server_busy"
    assert spare.asked == []


def _streamed() -> Any:
    return Asked("POST", "/", {}, b'{"stream": true}', 1)


# ----------------------------------------------------------------------------------- keep-alive


@pytest.mark.parametrize("vendor", VENDORS, ids=str)
def test_connections_are_kept_alive(vendor: Vendor, tmp_path: Path) -> None:
    tree = tree_of(vendor, tmp_path).workflow("w", [answers()])
    with (
        Upstream(vendor.answer(Said())) as model,
        with_model(tree, vendor, "Main", model.url).serve() as live,
    ):
        for streamed in (True, False, True, False):
            assert hear(live.chat(model="w", stream=streamed)).said == ("Hello", "stop")
        assert model.connections == 1


def test_a_retry_is_told_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    tree = Tree(tmp_path).workflow("w", [answers()])
    with (
        Upstream(refuses(500, "oops"), chat("ok")) as model,
        tree.model("Main", model.url, retries=1).serve() as live,
    ):
        assert hear(live.chat(model="w")).said == ("ok", "stop")

    assert "Endpoint 'Main' answered 500: oops Trying again in 0." in caplog.text
