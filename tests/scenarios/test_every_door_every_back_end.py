"""Every door in front of every API type: text, thinking, finish, token counts, tools, images."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.doors import (
    CHAT,
    COMPLETIONS,
    MESSAGES,
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
    RESPONSES,
    Door,
    every_door,
    every_tool_door,
)
from tests.fakes.headrace import Headrace, answers
from tests.fakes.upstream import Upstream
from tests.fakes.vendors import CHATS, KOBOLD, OPENAI_CHAT, VENDORS, Call, Said, Vendor
from tests.scenarios.modes import both_modes
from tests.scenarios.test_doors_answers import tools_of
from tests.scenarios.test_every_back_end import usage_of
from tests.scenarios.test_field_cases_back_ends import DATA_URI, PNG, SENT_IMAGE
from tests.scenarios.vendor_ways import tree_of, with_model

PICTURES = tuple(vendor for vendor in VENDORS if vendor.images)
TAGS = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}

every = pytest.mark.parametrize("vendor", VENDORS, ids=str)


@contextmanager
def serving(
    vendor: Vendor,
    root: Path,
    said: Said,
    node: Mapping[str, Any] | None = None,
    endpoint: Mapping[str, Any] | None = None,
    **user: Any,
) -> Iterator[tuple[Headrace, Upstream]]:
    tree = tree_of(vendor, root, **user).workflow("assistant", [answers(**(node or {}))])
    with (
        Upstream(vendor.answer(said)) as model,
        with_model(tree, vendor, "Main", model.url, **(endpoint or {})).serve() as live,
    ):
        yield live, model


@both_modes
@every_door
@every
def test_an_answer_with_thinking(vendor: Vendor, door: Door, stream: bool, tmp_path: Path) -> None:
    """In a field of its own where the server has one, else between tags."""
    apart = "reasoning" in vendor.tells
    said = (
        Said(("It ", "is 5."), reasoning="I add.")
        if apart
        else Said(("<think>I ad", "d.</think>", "It is 5."))
    )
    with serving(vendor, tmp_path, said, endpoint={} if apart else TAGS) as (live, _):
        told = door.ask(live, stream=stream)

    assert (told.status, told.text, told.finish) == (200, "It is 5.", "stop")
    # The old text completions have no place for it.
    assert told.reasoning == ("" if door is COMPLETIONS else "I add.")
    counted = usage_of(vendor, said, stream)
    if told.usage is not None and counted is not None:
        assert told.usage == (counted["prompt_tokens"], counted["completion_tokens"])


@both_modes
@every_door
@pytest.mark.parametrize("vendor", [OPENAI_CHAT, KOBOLD], ids=str)
def test_thinking_that_is_not_to_be_shown(
    vendor: Vendor, door: Door, stream: bool, tmp_path: Path
) -> None:
    apart = "reasoning" in vendor.tells
    said = Said(("5",), reasoning="I add.") if apart else Said(("<think>I add.</think>5",))
    endpoint = {} if apart else TAGS
    with serving(vendor, tmp_path, said, None, endpoint, showThinking=False) as (live, _):
        told = door.ask(live, stream=stream)
        step = live.runs[-1]["context"]["steps"][0]

    assert (told.text, told.reasoning) == ("5", "")
    assert step["thinking"] == "I add."


@both_modes
@every_door
@every
def test_an_answer_that_was_cut_by_its_length(
    vendor: Vendor, door: Door, stream: bool, tmp_path: Path
) -> None:
    with serving(vendor, tmp_path, Said(reason="length")) as (live, _):
        told = door.ask(live, stream=stream)

    assert (told.text, told.finish) == ("Hello", "length")


@both_modes
@every_tool_door
@pytest.mark.parametrize("vendor", CHATS, ids=str)
def test_several_calls(vendor: Vendor, door: Door, stream: bool, tmp_path: Path) -> None:
    said = Said((), calls=(Call("f", {"a": 2}, "c1"), Call("g", {}, "c2")))
    with serving(vendor, tmp_path, said, {"allowTools": True}) as (live, _):
        told = door.ask(live, stream=stream, tools=tools_of(door))

    assert told.finish == "tool_calls"
    assert told.calls == [("f", {"a": 2}), ("g", {})]


# --------------------------------------------------------------------------------------- images

Fields = Callable[[], dict[str, Any]]


def _of_chat() -> dict[str, Any]:
    image = {"type": "image_url", "image_url": {"url": DATA_URI}}
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "What?"}, image]}]}


def _of_responses() -> dict[str, Any]:
    image = {"type": "input_image", "image_url": DATA_URI}
    content = [{"type": "input_text", "text": "What?"}, image]
    return {"input": [{"type": "message", "role": "user", "content": content}]}


def _of_messages() -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "What?"}]
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 100}


def _of_ollama_chat() -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "What?", "images": [PNG]}]}


def _of_ollama_generate() -> dict[str, Any]:
    return {"prompt": "What?", "images": [PNG]}


WITH_IMAGE: list[tuple[Door, Fields]] = [
    (CHAT, _of_chat),
    (RESPONSES, _of_responses),
    (MESSAGES, _of_messages),
    (OLLAMA_CHAT, _of_ollama_chat),
    (OLLAMA_GENERATE, _of_ollama_generate),
]


@pytest.mark.parametrize(("door", "fields"), WITH_IMAGE, ids=lambda one: getattr(one, "id", ""))
@pytest.mark.parametrize("vendor", PICTURES, ids=str)
def test_an_image(vendor: Vendor, door: Door, fields: Fields, tmp_path: Path) -> None:
    with serving(vendor, tmp_path, Said(), {"acceptImages": True}) as (live, model):
        told = door.ask(live, stream=False, **fields())

    assert (told.text, told.finish) == ("Hello", "stop")
    sent = SENT_IMAGE[vendor.path](model.asked[0].json)
    assert sent in (DATA_URI, PNG)
    assert sent.removeprefix("data:image/png;base64,") == PNG


NO_IMAGE = "aGVsbG8gd29ybGQ="


@pytest.mark.parametrize(("door", "fields"), WITH_IMAGE, ids=lambda one: getattr(one, "id", ""))
def test_what_is_no_image_is_refused_at_every_door(
    door: Door, fields: Fields, tmp_path: Path
) -> None:
    body = _replaced(fields(), NO_IMAGE)
    with serving(VENDORS[0], tmp_path, Said(), {"acceptImages": True}) as (live, model):
        told = door.ask(live, stream=True, **body)

    assert told.status == 400
    assert told.error is not None
    assert model.asked == []


def _replaced(value: Any, data: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(one, data) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, data) for one in value]
    return value.replace(PNG, data) if isinstance(value, str) else value
