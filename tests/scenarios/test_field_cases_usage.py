"""Field cases C-14 and C-15: the numbers at the end of an answer."""

from pathlib import Path

import pytest

from tests.fakes.headrace import Tree, answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import DONE, Upstream, delta, reply, stream, usage_chunk, usage_of, whole
from tests.scenarios.ways import STREAMED, WAYS, WHOLE, Way, answered

REPORTED = stream(delta("Hello"), delta(finish_reason="stop"), usage_chunk(26, 3), DONE)
COUNTED = {"prompt": 26, "completion": 3, "total": 29, "estimated": False}


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_c14_usage_after_the_finish_chunk_goes_to_the_run_log(way: Way, tmp_path: Path) -> None:
    with answered(way, tmp_path, REPORTED) as told:
        assert told.heard.said == ("Hello", "stop")
        assert told.run["tokens"] == COUNTED
        assert told.first_step["meta"]["tokens"] == COUNTED


def test_c14_a_client_that_did_not_ask_gets_no_usage_chunk(tmp_path: Path) -> None:
    with answered(STREAMED, tmp_path, REPORTED) as told:
        assert told.heard.usage is None
        assert [len(one["choices"]) for one in told.heard.chunks] == [1, 1, 1]
        assert not any("usage" in one for one in told.heard.chunks)


def test_c14_whole_answers_always_carry_their_usage(tmp_path: Path) -> None:
    play = whole(reply("Hello") | {"usage": usage_of(26, 3)})
    with answered(WHOLE, tmp_path, play) as told:
        assert told.heard.usage == usage_of(26, 3)
        assert told.run["tokens"] == COUNTED


def test_c15_the_usage_chunk_stands_right_before_the_end(tmp_path: Path) -> None:
    with answered(STREAMED, tmp_path, REPORTED, stream_options={"include_usage": True}) as told:
        *others, last = told.heard.chunks
        assert last["choices"] == []
        assert last["usage"] == usage_of(26, 3)
        assert {key: last[key] for key in ("id", "model", "created")} == {
            key: others[0][key] for key in ("id", "model", "created")
        }
        assert {one.get("usage") for one in others} == {None}
        assert len({"usage" in one for one in others}) == 1


def test_c15_the_chunk_before_it_is_the_finish_chunk(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with Upstream(REPORTED) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="assistant", stream=True, stream_options={"include_usage": True})

    assert hear(received).usage == usage_of(26, 3)
    *_, finish, usage, done = received.frames
    assert '"finish_reason":"stop"' in finish
    assert '"choices":[],"usage":{' in usage
    assert done == "data: [DONE]"


def test_c15_a_client_that_says_no_gets_none(tmp_path: Path) -> None:
    with answered(STREAMED, tmp_path, REPORTED, stream_options={"include_usage": False}) as told:
        assert told.heard.usage is None
        assert len(told.heard.chunks) == 3


def test_c15_usage_is_the_sum_over_all_nodes_of_the_run(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow(
        "assistant", [answers(), answers(prompt="Say it again: {agent1Output}")]
    )
    with Upstream(REPORTED) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="assistant", stream=True, stream_options={"include_usage": True})
        heard = hear(received)

    assert heard.usage == usage_of(52, 6)
    assert live.runs[0]["tokens"] == {
        "prompt": 52,
        "completion": 6,
        "total": 58,
        "estimated": False,
    }


def test_c15_a_backend_that_reports_nothing_is_estimated_and_marked_so(tmp_path: Path) -> None:
    play = stream(delta("Hello there"), delta(finish_reason="stop"), DONE)
    with answered(STREAMED, tmp_path, play, stream_options={"include_usage": True}) as told:
        assert told.heard.usage is not None
        assert told.heard.usage["prompt_tokens"] > 0
        assert told.heard.usage["completion_tokens"] > 0
        assert told.run["tokens"]["estimated"] is True
