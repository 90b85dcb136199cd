"""Field cases C-05, C-06, C-07 and C-16: what stands between the chunks, and where they are cut.

KoboldCpp's, Claude's and Ollama's readers of C-06, C-16 are tested in ``tests/wire``.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import (
    DONE,
    Asked,
    Pause,
    Step,
    Upstream,
    byte_by_byte,
    chunk,
    delta,
    frame,
    head,
    reply,
    stream,
    usage_chunk,
    whole,
)
from tests.scenarios.ways import STREAMED, WAYS, Way, answered

ANSWER = [delta("Hel"), delta("lo"), delta(finish_reason="stop"), usage_chunk(5, 7)]

NOISE = [
    b": OPENROUTER PROCESSING\n\n",
    b":\n\n",
    b"event: ping\ndata: {}\n\n",
    b"id: 7\n",
    b"retry: 1000\n",
    b"id: 8\n\n",
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("noise", [*NOISE, b"".join(NOISE)], ids=repr)
def test_c05_comments_and_other_fields_between_chunks_are_no_part_of_the_answer(
    noise: bytes, way: Way, tmp_path: Path
) -> None:
    play = stream(
        noise, ANSWER[0], noise, ANSWER[1], noise, ANSWER[2], noise, ANSWER[3], noise, DONE
    )
    with answered(way, tmp_path, play) as told:
        assert told.heard.said == ("Hello", "stop")


def test_c05_our_own_heartbeats_are_comments(tmp_path: Path) -> None:
    tree = Tree(tmp_path, heartbeatSeconds=0.2).workflow("assistant", [answers()])
    go_on = Pause()
    play = stream(b": OPENROUTER PROCESSING\n\n", ANSWER[0], go_on, *ANSWER[1:], DONE)
    with (
        Upstream(play) as model,
        tree.model("Main", model.url).serve() as live,
        live.connect() as client,
    ):
        client.send_chat(model="assistant")
        begun = client.read_until(b'"content":"Hel"') + client.read_until(b"\n:\n\n")
        go_on.set()
        rest = client.read_until(b"data: [DONE]\n\n")

    lines = [line for line in (begun + rest).split(b"\r\n\r\n", 1)[1].splitlines() if line]
    sizes_and_lines = [line for line in lines if not _is_size(line)]
    assert b":" in sizes_and_lines
    assert all(line == b":" or line.startswith(b"data: ") for line in sizes_and_lines)
    assert b"OPENROUTER" not in begun + rest


def _is_size(line: bytes) -> bool:
    """Whether it is the length of a chunk in chunked transfer encoding."""
    return len(line) <= 4 and all(character in b"0123456789ABCDEFabcdef" for character in line)


def without_space(payload: Any) -> bytes:
    return frame(payload).replace(b"data: ", b"data:", 1)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_c06_a_space_after_the_colon_makes_no_difference(way: Way, tmp_path: Path) -> None:
    heartbeat = b"data:\n\n"
    play = stream(
        without_space(ANSWER[0]),
        heartbeat,
        *map(without_space, ANSWER[1:]),
        without_space("[DONE]"),
    )
    with (
        answered(way, tmp_path / "spaced", stream(*ANSWER, DONE)) as spaced,
        answered(way, tmp_path / "unspaced", play) as told,
    ):
        assert told.heard.said == spaced.heard.said == ("Hello", "stop")
        assert told.run["tokens"] == spaced.run["tokens"]
        assert told.run["status"] == spaced.run["status"] == "succeeded"
        assert [_choices(one) for one in told.heard.chunks] == [
            _choices(one) for one in spaced.heard.chunks
        ]


def _choices(chunk: dict[str, Any]) -> Any:
    return chunk["choices"]


THREE_MIB = "a" * (3 * 1024 * 1024)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_c07_one_frame_of_three_megabytes_arrives_whole(way: Way, tmp_path: Path) -> None:
    play = stream(delta(THREE_MIB), delta("!"), delta(finish_reason="stop"), DONE)
    with answered(way, tmp_path, play) as told:
        # Not compared by pytest: a difference of megabytes would be told character by character.
        assert told.heard.text.count("a") == len(THREE_MIB)
        assert (len(told.heard.text), told.heard.text[-1]) == (len(THREE_MIB) + 1, "!")
        assert told.heard.finish_reason == "stop"
        assert told.run["status"] == "succeeded"


def test_c07_so_does_a_reasoning_trace_of_that_size(tmp_path: Path) -> None:
    play = stream(
        delta(reasoning_content=THREE_MIB), delta("ok"), delta(finish_reason="stop"), DONE
    )
    with answered(STREAMED, tmp_path, play) as told:
        assert len(told.heard.reasoning) == len(THREE_MIB)
        assert told.heard.said == ("ok", "stop")


TEXT = "Grüße 使用 👩‍👩‍👧 🌍"


def raw(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def raw_answer(asked: Asked) -> list[Step]:
    """The text as UTF-8, without escapes, streamed or whole as asked."""
    if not asked.json["stream"]:
        return whole(raw(reply(TEXT)))
    frames = [frame(raw(delta(piece))) for piece in (TEXT[:7], TEXT[7:])]
    return stream(*frames, delta(finish_reason="stop"), DONE)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_c16_characters_cut_in_two_by_the_network_arrive_whole(way: Way, tmp_path: Path) -> None:
    with answered(way, tmp_path, byte_by_byte(raw_answer)) as told:
        assert told.heard.said == (TEXT, "stop")
        assert told.first_step["outputData"]["content"] == TEXT


def test_c16_chunks_of_the_transfer_may_be_one_byte_long_too(tmp_path: Path) -> None:
    body = b"".join(
        frame(raw(piece)) for piece in (delta(TEXT), delta(finish_reason="stop"), "[DONE]")
    )
    pieces = [chunk(body[at : at + 1]) for at in range(len(body))]
    start = head(headers={"Content-Type": "text/event-stream"}, chunked=True)
    with answered(STREAMED, tmp_path, [start, *pieces, b"0\r\n\r\n"]) as told:
        assert told.heard.said == (TEXT, "stop")


def test_c16_the_bytes_that_the_client_sees_are_the_text(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with (
        Upstream(byte_by_byte(raw_answer)) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        received = live.chat(model="assistant")

    assert hear(received).text == TEXT
    assert TEXT.encode() in received.body
    assert "\N{REPLACEMENT CHARACTER}" not in received.body.decode()
