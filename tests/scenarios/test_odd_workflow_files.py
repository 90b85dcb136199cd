"""Workflow files of odd sizes and with odd numbers: an answer, or the place that is wrong."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, static

FILE = "Workflows/_shared/w/_DefaultWorkflow.json"


@pytest.mark.parametrize(
    ("options", "place"),
    [
        pytest.param('"timeoutSeconds": 1e999', "timeoutSeconds", id="a time without end"),
        pytest.param('"timeoutSeconds": 1e300', "timeoutSeconds", id="a time beyond all clocks"),
        pytest.param(
            '"retry": {"times": 1, "delaySeconds": 1e300}', "retry", id="a pause beyond all clocks"
        ),
    ],
)
def test_a_time_that_no_clock_counts_to_is_told_with_its_place(
    options: str, place: str, tmp_path: Path
) -> None:
    node = f'[{{"type": "StaticResponse", "content": "x", {options}}}]'
    with Tree(tmp_path).write(FILE, node).serve() as live:
        received = live.chat(model="w")

    assert received.status == 400
    assert f"nodes[0].{place}" in received.json["error"]["message"]


def test_a_number_that_is_none_gets_its_default(tmp_path: Path) -> None:
    node = '[{"type": "StaticResponse", "content": "x", "maxResponseSizeInTokens": 1e999}]'
    with Tree(tmp_path).write(FILE, node).serve() as live:
        assert live.says(stream=False, model="w") == "x"


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        pytest.param([static("x" * 5_000_000)], "x" * 5_000_000, id="one text of five megabytes"),
        pytest.param([static(f"{n}") for n in range(3000)], "2999", id="three thousand nodes"),
    ],
)
def test_a_large_file_is_an_ordinary_one(
    nodes: list[dict[str, Any]], said: str, tmp_path: Path
) -> None:
    with Tree(tmp_path).workflow("w", nodes).serve() as live:
        received = live.chat(model="w")

    assert received.json["choices"][0]["message"]["content"] == said
