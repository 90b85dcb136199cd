"""Field case C-22: what a client gets while nothing is said."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.config.models import User
from tests.fakes.headrace import Tree, answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Asked, Pause, Step, Upstream, chat

SUB_WORKFLOW = {"title": "Think", "type": "CustomWorkflow", "workflowName": "child"}


@dataclass(frozen=True)
class Silence:
    id: str
    nodes: tuple[dict[str, Any], ...]


SILENCES = [
    Silence("the-answering-node", (answers(),)),
    Silence("a-node-before-it", (answers(), {"type": "StaticResponse", "content": "Hello"})),
    Silence("a-sub-workflow", (SUB_WORKFLOW, {"type": "StaticResponse", "content": "Hello"})),
]


class Slow:
    """A model that says nothing until it is let."""

    def __init__(self) -> None:
        self.go_on = Pause()

    def __call__(self, asked: Asked) -> list[Step]:
        return [self.go_on, *chat("Hel", "lo")(asked)]


@pytest.mark.parametrize("silence", SILENCES, ids=lambda silence: silence.id)
def test_c22_a_silent_stream_has_headers_at_once_and_heartbeats(
    silence: Silence, tmp_path: Path
) -> None:
    tree = Tree(tmp_path, heartbeatSeconds=0.2).workflow("assistant", list(silence.nodes))
    tree.own("child", [answers()])
    slow = Slow()
    with (
        Upstream(slow) as model,
        tree.model("Main", model.url).serve() as live,
        live.connect() as client,
    ):
        began = time.monotonic()
        client.send_chat(model="assistant", stream_options={"include_usage": True})
        _, status, headers = client.receive_head()
        took = time.monotonic() - began
        beats = [client.read_until(b":\n\n") for _ in range(3)]
        at_three = time.monotonic() - began
        slow.go_on.set()
        rest = client.read_until(b"\r\n0\r\n\r\n")

    assert status == 200
    assert took < 2
    assert at_three < 3
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert b"data:" not in b"".join(beats)
    assert b'"content":"Hel' in rest
    assert b'"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}' in rest
    assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def test_c22_heartbeats_are_no_part_of_an_answer_that_is_whole(tmp_path: Path) -> None:
    tree = Tree(tmp_path, heartbeatSeconds=0.2).workflow("assistant", [answers()])
    slow = Slow()
    with (
        Upstream(slow) as model,
        tree.model("Main", model.url).serve() as live,
        live.connect() as client,
    ):
        client.send_chat(model="assistant", stream=False)
        model.wait_for(1)
        client.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.read(1)
        client.socket.settimeout(10)
        slow.go_on.set()
        received = client.receive()

    assert hear(received).said == ("Hello", "stop")
    assert received.body.startswith(b"{")


def test_c22_a_failure_before_the_first_heartbeat_keeps_its_status(tmp_path: Path) -> None:
    tree = Tree(tmp_path, heartbeatSeconds=30).workflow("assistant", [answers()])
    refusal = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    with Upstream([refusal]) as model, tree.model("Main", model.url).serve() as live:
        heard = hear(live.chat(model="assistant", stream=True))

    assert heard.status == 503


def test_c22_a_failure_after_it_is_an_error_frame(tmp_path: Path) -> None:
    tree = Tree(tmp_path, heartbeatSeconds=0.2).workflow("assistant", [answers()])
    go_on = Pause()
    refusal = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"
    with (
        Upstream([go_on, refusal]) as model,
        tree.model("Main", model.url).serve() as live,
        live.connect() as client,
    ):
        client.send_chat(model="assistant")
        client.receive_head()
        client.read_until(b":\n\n")
        go_on.set()
        rest = client.read_until(b"\r\n0\r\n\r\n")

    assert b'data: {"error":{"message":"Workflow' in rest
    assert b"Endpoint 'Main' answered 503: busy" in rest
    assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def test_c22_heartbeats_come_every_few_seconds_when_nothing_is_configured() -> None:
    assert 0 < User().heartbeat_seconds <= 30
