import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.wire.logprobs import Confidence
from tests.fakes.headrace import Tree, answers
from tests.fakes.upstream import DONE, Asked, Step, Upstream, reply, stream, whole


@dataclass(frozen=True)
class Case:
    id: str
    reported: list[Any]
    expected: float | None


def tokens(*probabilities: float) -> dict[str, Any]:
    return {"content": [{"token": "x", "logprob": math.log(one)} for one in probabilities]}


CASES = [
    Case("one token", [tokens(0.5)], 0.5),
    Case("several, in several chunks", [tokens(0.9, 0.4), tokens(0.6)], 0.6),
    Case("the older form", [{"token_logprobs": [None, math.log(0.25)]}], 0.25),
    Case("nothing", [None, {}, {"content": None}, {"content": []}], None),
    Case("what is no probability", [{"content": [{"logprob": "no"}, 7, {"logprob": 3}]}], None),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_confidence_is_the_mean_of_what_was_reported(case: Case) -> None:
    confidence = Confidence()
    for logprobs in case.reported:
        confidence.add(logprobs)

    assert confidence.value() == case.expected


def model(asked: Asked) -> list[Step]:
    """It reports probabilities, as one does whose preset asks for them."""
    if not asked.json.get("stream"):
        body = reply("Hello")
        body["choices"][0]["logprobs"] = tokens(0.9, 0.4)
        return whole(body)
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": text}, "logprobs": tokens(probability)}]}
        for text, probability in (("Hel", 0.9), ("lo", 0.4))
    ]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return stream(*chunks, end, DONE)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_the_step_of_the_call_has_it(tmp_path: Path, streamed: bool) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers(), answers()])
    with Upstream(model) as server, tree.model("Main", server.url).serve() as live:
        assert live.says(stream=streamed) == "Hello"
        (run,) = live.finished()

    assert [step["confidenceScore"] for step in run["context"]["steps"]] == [0.6, 0.6]
