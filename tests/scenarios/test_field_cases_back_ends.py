"""Field cases C-01 to C-31 for every API type that they apply to.

``APPLIES`` is the table: which cases concern which types. Cases about tools, images and roles are
those of chats; frames of events are SSE's, lines are Ollama's.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import answers, wait_until
from tests.fakes.strict_client import hear
from tests.fakes.upstream import CUT, SILENCE, Asked, Pause, Step, Upstream, whole
from tests.fakes.vendors import (
    CHATS,
    CLAUDE,
    COMPLETIONS,
    DONE,
    KOBOLD,
    LLAMA_CPP,
    MLX,
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
    OPENAI_CHAT,
    VENDORS,
    WEB_UI,
    Call,
    Said,
    Vendor,
    data,
)
from tests.scenarios.modes import both_modes
from tests.scenarios.vendor_ways import asked, text_in, tree_of, with_model

SSE = tuple(vendor for vendor in VENDORS if vendor.framing == "sse")
LINES = (OLLAMA_CHAT, OLLAMA_GENERATE)
OPENAI_TYPES = (OPENAI_CHAT, LLAMA_CPP, WEB_UI, MLX)
PICTURES = tuple(vendor for vendor in VENDORS if vendor.images)

APPLIES: Mapping[str, Sequence[Vendor]] = {
    "C-01": VENDORS,
    "C-02": VENDORS,
    "C-03": VENDORS,
    "C-04": OPENAI_TYPES,
    "C-05": SSE,
    "C-06": SSE,
    "C-07": VENDORS,
    "C-08": LINES,
    "C-09": OPENAI_TYPES,
    "C-10": OPENAI_TYPES,
    "C-11": CHATS,
    "C-12": CHATS,
    "C-13": OPENAI_TYPES,
    "C-14": (*OPENAI_TYPES, COMPLETIONS),
    "C-15": VENDORS,
    "C-16": VENDORS,  # test_every_back_end
    "C-17": VENDORS,
    "C-18": VENDORS,
    "C-19": VENDORS,
    "C-20": VENDORS,
    "C-21": VENDORS,
    "C-22": VENDORS,
    "C-23": VENDORS,
    "C-24": VENDORS,
    "C-25": VENDORS,
    "C-26": PICTURES,
    "C-27": VENDORS,
    "C-28": VENDORS,
    "C-29": VENDORS,
    "C-30": VENDORS,
    "C-31": VENDORS,
}


def applies(case: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vendor", APPLIES[case], ids=str)


BUSY = Said(("Hel", "lo"))


# ------------------------------------------------------------------------------------ streaming


@applies("C-01")
def test_c01_a_stream_that_is_torn_off_is_an_error(vendor: Vendor, tmp_path: Path) -> None:
    body = vendor.frames(BUSY).body
    with asked(vendor, tmp_path, vendor.stream(*body, CUT), stream=True) as told:
        assert told.heard.text == "Hello"
        assert told.heard.finish_reason is None
        assert told.heard.error is not None
        assert "closed the connection in the middle" in told.heard.error["message"]
        assert (told.run["status"], told.run["partialText"]) == ("failed", "Hello")


@applies("C-02")
def test_c02_a_reason_without_an_end_mark_is_an_end(vendor: Vendor, tmp_path: Path) -> None:
    frames = vendor.frames(BUSY)
    play = vendor.stream(*frames.body, *frames.end)
    with asked(vendor, tmp_path, play, stream=True) as told:
        assert told.heard.said == ("Hello", "stop")


@applies("C-02")
def test_c02_an_end_without_a_reason_is_none(vendor: Vendor, tmp_path: Path) -> None:
    with asked(vendor, tmp_path, vendor.stream(*vendor.frames(BUSY).body), stream=True) as told:
        assert told.heard.text == "Hello"
        assert told.heard.finish_reason is None
        assert told.heard.error is not None


def test_c02_of_an_old_koboldcpp_the_end_is_all_there_is(tmp_path: Path) -> None:
    old = [b'event: message\ndata: {"token": "%b"}\n\n' % token for token in (b"Hel", b"lo")]
    with asked(KOBOLD, tmp_path, KOBOLD.stream(*old), stream=True) as told:
        assert told.heard.said == ("Hello", "stop")


@both_modes
@applies("C-03")
def test_c03_the_end_mark_may_be_quoted(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    said = Said(("It ends with ", "data: [DONE]", " on its own line."))
    with asked(vendor, tmp_path, vendor.answer(said), stream=stream) as told:
        assert told.heard.said == (said.text, "stop")
        assert told.step["outputData"]["content"] == said.text


@applies("C-04")
def test_c04_the_first_chunk_may_hold_nothing(vendor: Vendor, tmp_path: Path) -> None:
    first = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}\n\n'
    frames = vendor.frames(Said(("test",)))
    with asked(vendor, tmp_path, vendor.stream(first, *frames.all), stream=True) as told:
        assert told.heard.said == ("test", "stop")


# -------------------------------------------------------------------------------------- framing

NOISE = b": OPENROUTER PROCESSING\n\n:\n\nevent: ping\ndata: {}\n\nid: 7\nretry: 1000\n\n"


@applies("C-05")
def test_c05_comments_and_other_fields_are_no_part_of_an_answer(
    vendor: Vendor, tmp_path: Path
) -> None:
    pieces = [piece for frame in vendor.frames(BUSY).all for piece in (NOISE, frame)]
    with asked(vendor, tmp_path, vendor.stream(*pieces, NOISE), stream=True) as told:
        assert told.heard.said == ("Hello", "stop")


def test_c05_of_koboldcpp_only_its_messages_are_its_words(tmp_path: Path) -> None:
    other = data({"token": "no part of it"}, "something_else")
    frames = [piece for frame in KOBOLD.frames(BUSY).all for piece in (other, frame)]
    with asked(KOBOLD, tmp_path, KOBOLD.stream(*frames), stream=True) as told:
        assert told.heard.said == ("Hello", "stop")


@applies("C-06")
def test_c06_a_space_after_the_colon_makes_no_difference(vendor: Vendor, tmp_path: Path) -> None:
    frames = [frame.replace(b"data: ", b"data:") for frame in vendor.frames(BUSY).all]
    frames.insert(1, b"data:\n\n")
    with asked(vendor, tmp_path, vendor.stream(*frames), stream=True) as told:
        assert told.heard.said == ("Hello", "stop")


@applies("C-07")
def test_c07_one_frame_may_be_megabytes_long(vendor: Vendor, tmp_path: Path) -> None:
    size = 3 * 1024 * 1024
    with asked(vendor, tmp_path, vendor.answer(Said(("a" * size, "!"))), stream=True) as told:
        assert (len(told.heard.text), told.heard.finish_reason) == (size + 1, "stop")


@applies("C-08")
def test_c08_lines_may_come_in_pieces_and_report_errors(vendor: Vendor, tmp_path: Path) -> None:
    (first,) = vendor.frames(Said(("Yes",))).body
    cuts = (first[:20], first[20:33], first[33:])
    play = vendor.stream(*cuts, b"\n", b'{"error":"runner broke"}\n')
    with asked(vendor, tmp_path, play, stream=True) as told:
        assert told.heard.text == "Yes"
        assert told.heard.finish_reason is None
        assert told.heard.error is not None
        assert told.heard.error["message"].endswith("reported an error: runner broke")


# ---------------------------------------------------------------------------------------- tools

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]


def calls_frame(*calls: Mapping[str, Any]) -> bytes:
    return data({"choices": [{"index": 0, "delta": {"tool_calls": list(calls)}}]})


def call(name: str | None, arguments: str, **others: Any) -> dict[str, Any]:
    return {**others, "function": {"name": name, "arguments": arguments}}


TWO_CALLS = {
    "C-09": (calls_frame(call("f", '{"x":1}', id="a1"), call("g", '{"y":2}', id="a2")),),
    "C-10": (
        calls_frame(call("f", '{"x":1}', id="a1", index=0)),
        calls_frame(call("g", '{"y":2}', id="a2", index=0)),
    ),
}


@pytest.mark.parametrize("case", TWO_CALLS)
@applies("C-09")
def test_c09_c10_calls_are_told_apart(vendor: Vendor, case: str, tmp_path: Path) -> None:
    end = vendor.frames(Said((), calls=(Call(),))).end
    play = vendor.stream(*TWO_CALLS[case], *end, DONE)
    node = {"allowTools": True}
    with asked(vendor, tmp_path, play, stream=True, node=node, tools=TOOLS) as told:
        assert told.heard.finish_reason == "tool_calls"
        assert told.heard.tool_calls == [
            {"id": "a1", "name": "f", "arguments": '{"x":1}'},
            {"id": "a2", "name": "g", "arguments": '{"y":2}'},
        ]


@both_modes
@applies("C-11")
def test_c11_calls_end_with_tool_calls_whatever_was_said(
    vendor: Vendor, stream: bool, tmp_path: Path
) -> None:
    said = Said((), calls=(Call("f", {"x": 1}),))

    node = {"allowTools": True}
    with asked(
        vendor, tmp_path, vendor.answer(said), stream=stream, node=node, tools=TOOLS
    ) as told:
        assert told.heard.finish_reason == "tool_calls"
        (only,) = told.heard.tool_calls
        assert only["id"]
        assert only["arguments"].replace(" ", "") == '{"x":1}'


EMPTY_ARGUMENTS: Mapping[str, Callable[[Any], Any]] = {
    "/v1/chat/completions": lambda body: body["messages"][1]["tool_calls"][0]["function"][
        "arguments"
    ],
    "/api/chat": lambda body: body["messages"][1]["tool_calls"][0]["function"]["arguments"],
    "/v1/messages": lambda body: body["messages"][1]["content"][0]["input"],
    "/v1/responses": lambda body: body["input"][1]["arguments"],
}


@applies("C-12")
def test_c12_a_call_without_arguments_is_sent_as_an_empty_object(
    vendor: Vendor, tmp_path: Path
) -> None:
    calls = [{"id": "t1", "type": "function", "function": {"name": "snooze", "arguments": ""}}]
    history = [
        {"role": "user", "content": "Sleep."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "t1", "content": "done"},
    ]
    with asked(vendor, tmp_path, vendor.answer(BUSY), stream=False, messages=history) as told:
        assert told.heard.said == ("Hello", "stop")
        assert EMPTY_ARGUMENTS[vendor.path](told.sent) in ("{}", {})


@applies("C-13")
def test_c13_a_name_is_told_once(vendor: Vendor, tmp_path: Path) -> None:
    first = calls_frame(call("count", "", index=0, id="c1", type="function"))
    later = [
        calls_frame(call(None, '{"n"', index=0)),
        calls_frame(call("", ": 3", index=0)),
        calls_frame({"index": 0, "function": {"arguments": "}"}}),
    ]
    end = vendor.frames(Said((), calls=(Call(),))).end
    play = vendor.stream(first, *later, *end, DONE)
    node = {"allowTools": True}
    with asked(vendor, tmp_path, play, stream=True, node=node, tools=TOOLS) as told:
        assert told.heard.tool_calls == [{"id": "c1", "name": "count", "arguments": '{"n": 3}'}]


# ---------------------------------------------------------------------------------------- usage


@applies("C-14")
def test_c14_token_counts_may_come_last(vendor: Vendor, tmp_path: Path) -> None:
    said = Said(prompt_tokens=26, completion_tokens=3)
    with asked(vendor, tmp_path, vendor.answer(said), stream=True) as told:
        assert told.heard.said == ("Hello", "stop")
        assert told.heard.usage is None
        tokens = told.run["tokens"]
        assert (tokens["prompt"], tokens["completion"], tokens["estimated"]) == (26, 3, False)


@applies("C-15")
def test_c15_who_asks_for_token_counts_gets_them_once(vendor: Vendor, tmp_path: Path) -> None:
    wish = {"stream_options": {"include_usage": True}}
    with asked(vendor, tmp_path, vendor.answer(BUSY), stream=True, **wish) as told:
        assert told.heard.usage is not None
        assert told.heard.usage["total_tokens"] > 0


# -------------------------------------------------------------------------------------- unicode


@applies("C-17")
def test_c17_half_a_character_is_never_sent_on(vendor: Vendor, tmp_path: Path) -> None:
    tree = tree_of(vendor, tmp_path).workflow("assistant", [answers()])
    raw = b'{"model":"assistant","messages":[{"role":"user","content":"bad \\ud800 end"}]}'
    with (
        Upstream(vendor.answer(BUSY)) as model,
        with_model(tree, vendor, "Main", model.url).serve() as live,
    ):
        assert live.ask("POST", "/v1/chat/completions", raw).status == 200
        assert "bad \ufffd end" in text_in(model.asked[0].json)


# ------------------------------------------------------------------------------------ cancelling


@applies("C-18")
def test_c18_who_leaves_frees_the_model_server(vendor: Vendor, tmp_path: Path) -> None:
    body = vendor.frames(Said(("one", "two", "three"))).body
    tree = tree_of(vendor, tmp_path).workflow("assistant", [answers()])
    with (
        Upstream(vendor.stream(*body, Pause())) as model,
        with_model(tree, vendor, "Main", model.url).serve() as live,
    ):
        with live.connect() as client:
            client.send_chat(model="assistant")
            client.read_until(b"three")
        assert model.asked[0].left.wait(2)
        wait_until(lambda: live.runs and live.runs[-1]["status"] == "cancelled")
        assert live.runs[-1]["partialText"].endswith("three")
        wait_until(live.is_quiet)


@applies("C-18")
def test_c18_so_it_is_with_an_answer_that_is_not_streamed(vendor: Vendor, tmp_path: Path) -> None:
    tree = tree_of(vendor, tmp_path).workflow("assistant", [answers()])
    with (
        Upstream([Pause()]) as model,
        with_model(tree, vendor, "Main", model.url).serve() as live,
    ):
        with live.connect() as client:
            client.send_chat(model="assistant", stream=False)
            first = model.wait_for(1)
        assert first.left.wait(2)
        wait_until(lambda: live.runs and live.runs[-1]["status"] == "cancelled")
        wait_until(live.is_quiet)


@applies("C-19")
def test_c19_cancelled_between_nodes_nothing_more_is_asked(vendor: Vendor, tmp_path: Path) -> None:
    nodes = [answers(title="first"), answers(title="second")]
    tree = tree_of(vendor, tmp_path).workflow("assistant", nodes)
    with (
        Upstream([Pause()]) as model,
        with_model(tree, vendor, "Main", model.url).serve() as live,
    ):
        with live.connect() as client:
            client.send_chat(model="assistant")
            first = model.wait_for(1)
        assert first.left.wait(2)
        wait_until(lambda: live.runs and live.runs[-1]["status"] == "cancelled")
        asked_for = [one.path for one in model.asked]
        assert [path for path in asked_for if not path.endswith("/abort")] == [first.path]


@both_modes
@pytest.mark.parametrize("begun", [False, True], ids=["not begun", "begun"])
def test_c18_a_koboldcpp_is_told_to_stop_what_it_does_for_us(
    stream: bool, begun: bool, tmp_path: Path
) -> None:
    """Two are asked at once and one leaves: the server ends that one's answer and no other."""
    aborted = {"one": Pause(), "two": Pause()}
    keys: dict[str, str] = {}

    def koboldcpp(asked: Asked) -> list[Step]:
        if asked.path.endswith("/abort"):
            ended = [name for name, key in keys.items() if key == asked.json["genkey"]]
            for name in ended:
                aborted[name].set()
            return whole({"success": "true", "done": "true" if ended else "false"})
        name = "one" if "one" in asked.json["prompt"] else "two"
        keys[name] = asked.json["genkey"]
        if begun and stream:
            first, *_ = KOBOLD.frames(BUSY).body
            return [*KOBOLD.stream(first)[:-1], aborted[name]]
        return [aborted[name]]

    tree = tree_of(KOBOLD, tmp_path).workflow("assistant", [answers()])
    with (
        Upstream(koboldcpp) as model,
        with_model(tree, KOBOLD, "Main", model.url).serve() as live,
        live.connect() as stays,
    ):
        with live.connect() as leaves:
            leaves.send_chat(model="assistant", stream=stream, messages=says("one"))
            model.wait_for(1)
            stays.send_chat(model="assistant", stream=stream, messages=says("two"))
            model.wait_for(2)
        abort = model.wait_for(3)
        assert abort.path == "/api/extra/abort"
        assert aborted["one"].wait(5)
        assert not aborted["two"].is_set()
    assert keys["one"] != keys["two"]


def says(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def test_a_koboldcpp_keeps_the_key_that_a_preset_gives(tmp_path: Path) -> None:
    tree = tree_of(KOBOLD, tmp_path).workflow("assistant", [answers(preset="Mine")])
    tree.write("Presets/KoboldCpp/Mine.json", {"genkey": "KCPP1"})
    with (
        Upstream([Pause()], whole({"success": "true"})) as model,
        with_model(tree, KOBOLD, "Main", model.url).serve() as live,
    ):
        with live.connect() as client:
            client.send_chat(model="assistant")
            assert model.wait_for(1).json["genkey"] == "KCPP1"
        assert model.wait_for(2).json == {"genkey": "KCPP1"}


def test_a_koboldcpp_that_has_answered_is_not_told_to_stop(tmp_path: Path) -> None:
    with asked(KOBOLD, tmp_path, KOBOLD.answer(BUSY), stream=True) as told:
        assert told.heard.said == ("Hello", "stop")
        wait_until(told.live.is_quiet)
        assert [one.path for one in told.model.asked] == ["/api/extra/generate/stream"]


# ------------------------------------------------------------------------- refusals and retries


@both_modes
@pytest.mark.parametrize("dated", [False, True], ids=["seconds", "date"])
@applies("C-20")
def test_c20_the_time_to_wait_is_passed_on(
    vendor: Vendor, stream: bool, dated: bool, tmp_path: Path
) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True) if dated else "70"
    body = {"error": {"message": "slow down", "type": "rate_limit_error"}}
    play = whole(body, 429, {"Retry-After": later})
    with asked(vendor, tmp_path, play, stream=stream, endpoint={"retries": 2}) as told:
        assert (told.heard.status, told.heard.headers["retry-after"]) == (429, later)
        assert told.heard.error is not None
        assert told.heard.error["message"].endswith("answered 429: slow down")
        # It asks for more patience than a proxy has.
        assert len(told.model.asked) == 1


@applies("C-21")
def test_c21_what_was_passed_on_is_not_said_twice(vendor: Vendor, tmp_path: Path) -> None:
    body = vendor.frames(Said(("The ", "answer"))).body
    other = vendor.answer(Said(("The answer is 4.",)))
    with asked(
        vendor, tmp_path, vendor.stream(*body, CUT), other, stream=True, endpoint={"retries": 2}
    ) as told:
        assert told.heard.text == "The answer"
        assert told.heard.error is not None
        assert len([one for one in told.model.asked if not one.path.endswith("abort")]) == 1


@pytest.mark.parametrize("collects", [True, False], ids=["collected", "answered"])
@applies("C-21")
def test_c21_what_nobody_has_heard_is_asked_for_again(
    vendor: Vendor, collects: bool, tmp_path: Path
) -> None:
    cut = [vendor.stream()[0], CUT]
    other = vendor.answer(Said(("The answer is 4.",)))
    with asked(
        vendor, tmp_path, cut, other, stream=True, endpoint={"retries": 2}, collects=collects
    ) as told:
        assert told.heard.said == ("The answer is 4.", "stop")
        first, second = ({**one.json, "genkey": None} for one in told.model.asked)
        assert first == second


@applies("C-22")
def test_c22_silence_before_the_first_token_is_filled(vendor: Vendor, tmp_path: Path) -> None:
    go_on = Pause()
    start, *rest = vendor.stream(*vendor.frames(BUSY).all)
    tree = tree_of(vendor, tmp_path, heartbeatSeconds=0.05).workflow("assistant", [answers()])
    with (
        Upstream([go_on, start, *rest]) as model,
        with_model(tree, vendor, "Main", model.url).serve() as live,
        live.connect() as client,
    ):
        client.send_chat(model="assistant")
        begun = client.read_until(b"\n:\n\n")
        go_on.set()
        client.read_until(b"data: [DONE]\n\n")

    assert b"text/event-stream" in begun
    assert b"content" not in begun.split(b"\r\n\r\n", 1)[1]


@both_modes
@applies("C-22")
def test_c22_silence_has_an_end(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    endpoint = {"readTimeoutInSeconds": 1}
    with asked(vendor, tmp_path, [SILENCE], stream=stream, endpoint=endpoint) as told:
        assert told.heard.error is not None
        assert "Endpoint 'Main'" in told.heard.error["message"]
        assert told.heard.finish_reason is None
        assert told.run["status"] == "failed"
        assert told.model.asked[0].left.wait(2)


@pytest.mark.parametrize("vendor", [OPENAI_CHAT, CLAUDE, OLLAMA_CHAT, KOBOLD], ids=str)
def test_c22_so_has_silence_in_the_middle(vendor: Vendor, tmp_path: Path) -> None:
    play = vendor.stream(*vendor.frames(BUSY).body, SILENCE)
    endpoint = {"readTimeoutInSeconds": 1}
    with asked(vendor, tmp_path, play, stream=True, endpoint=endpoint) as told:
        assert told.heard.text == "Hello"
        assert told.heard.error is not None
        assert told.heard.finish_reason is None
        assert told.run["partialText"] == "Hello"


NONSENSE = {"html": b"<html>Sign in</html>", "empty": b"", "nothing in it": b"{}"}


@both_modes
@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE)
@applies("C-23")
def test_c23_a_200_without_an_answer_is_an_error(
    vendor: Vendor, body: bytes, stream: bool, tmp_path: Path
) -> None:
    with asked(vendor, tmp_path, whole(body), stream=stream) as told:
        assert told.heard.status == 502
        assert told.heard.error is not None
        assert "Endpoint 'Main'" in told.heard.error["message"]
        assert told.run["status"] == "failed"


@both_modes
@applies("C-23")
def test_c23_an_error_in_place_of_an_answer_is_an_error(
    vendor: Vendor, stream: bool, tmp_path: Path
) -> None:
    with asked(vendor, tmp_path, whole(vendor.error_body), stream=stream) as told:
        assert told.heard.status in (502, 503)
        assert told.heard.error is not None
        assert told.heard.error["message"].endswith("boom")


@applies("C-23")
def test_c23_so_it_is_in_the_middle_of_a_stream(vendor: Vendor, tmp_path: Path) -> None:
    frame = vendor.error_frame()
    if vendor is KOBOLD:
        frame = b"event: message\n" + frame
    play = vendor.stream(*vendor.frames(BUSY).body, frame)
    with asked(vendor, tmp_path, play, stream=True) as told:
        assert told.heard.text == "Hello"
        assert told.heard.finish_reason is None
        assert told.heard.error is not None
        assert told.heard.error["message"].endswith("boom")


# ------------------------------------------------------------------------------------- thinking

TAGS = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
LED = {**TAGS, "expectOnlyClosingThinkTag": True, "trimBeginningAndEndLineBreaks": True}


@both_modes
@applies("C-24")
def test_c24_only_a_closing_tag_cut_in_two(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    said = Said(("internal", " reasoning</thi", "nk>\nanswer"))
    with asked(vendor, tmp_path, vendor.answer(said), stream=stream, endpoint=LED) as told:
        assert told.heard.said == ("answer", "stop")
        assert told.heard.reasoning == "internal reasoning"


@both_modes
@applies("C-24")
def test_c24_tags_cut_in_two(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    said = Said(("<th", "ink>a</think>", "b"))
    with asked(vendor, tmp_path, vendor.answer(said), stream=stream, endpoint=TAGS) as told:
        assert (told.heard.text, told.heard.reasoning) == ("b", "a")


@both_modes
@applies("C-24")
def test_c24_thinking_that_is_not_to_be_shown_is_in_the_record_alone(
    vendor: Vendor, stream: bool, tmp_path: Path
) -> None:
    said = Said(("<think>a</think>", "b"))
    with asked(
        vendor,
        tmp_path,
        vendor.answer(said),
        stream=stream,
        endpoint=TAGS,
        user={"showThinking": False},
    ) as told:
        assert (told.heard.text, told.heard.reasoning) == ("b", "")
        assert told.step["thinking"] == "a"


C25 = {
    "no tag": (("Just an", " answer."), "Just an answer."),
    "never closed": (("<think>half", " a thought"), "<think>half a thought"),
    "quoted": (
        ('<think>I write "</think> now" here</think>\n', "Real"),
        'now" here</think>\nReal',
    ),
}


@both_modes
@pytest.mark.parametrize("case", C25)
@applies("C-25")
def test_c25_stripping_never_eats_the_answer(
    vendor: Vendor, case: str, stream: bool, tmp_path: Path
) -> None:
    texts, expected = C25[case]
    with asked(vendor, tmp_path, vendor.answer(Said(texts)), stream=stream, endpoint=TAGS) as told:
        assert told.heard.said == (expected, "stop")


# --------------------------------------------------------------------------------------- images

PNG = "iVBORw0KGgo="
DATA_URI = f"data:image/png;base64,{PNG}"
SENT_IMAGE: Mapping[str, Callable[[Any], Any]] = {
    "/v1/chat/completions": lambda body: body["messages"][0]["content"][1]["image_url"]["url"],
    "/api/chat": lambda body: body["messages"][0]["images"][0],
    "/v1/messages": lambda body: body["messages"][0]["content"][0]["source"]["data"],
    "/v1/responses": lambda body: body["input"][0]["content"][1]["image_url"],
    "/api/generate": lambda body: body["images"][0],
    "/api/v1/generate": lambda body: body["images"][0],
}


def picture(url: str) -> list[dict[str, Any]]:
    image = {"type": "image_url", "image_url": {"url": url}}
    return [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}]


@pytest.mark.parametrize("image", [DATA_URI, PNG], ids=["data URI", "bare base64"])
@applies("C-26")
def test_c26_an_image_is_sent_in_the_way_of_the_server(
    vendor: Vendor, image: str, tmp_path: Path
) -> None:
    with asked(
        vendor,
        tmp_path,
        vendor.answer(BUSY),
        stream=False,
        node={"acceptImages": True},
        messages=picture(image),
    ) as told:
        assert told.heard.said == ("Hello", "stop")
        wants_uri = vendor.images == "urls" and vendor is not CLAUDE
        assert SENT_IMAGE[vendor.path](told.sent) == (DATA_URI if wants_uri else PNG)


@applies("C-26")
def test_c26_addresses_are_refused_unless_the_user_allows_their_host(
    vendor: Vendor, tmp_path: Path
) -> None:
    with asked(
        vendor,
        tmp_path,
        vendor.answer(BUSY),
        stream=True,
        node={"acceptImages": True},
        messages=picture("https://pics.test/a.png"),
    ) as told:
        assert told.heard.status == 400
        assert told.heard.error is not None
        assert told.heard.error["param"] == "messages.0"
        assert "`allowedImageHosts`" in told.heard.error["message"]
        assert told.model.asked == []


@applies("C-26")
def test_c26_an_address_that_is_allowed_is_passed_on_or_fetched(
    vendor: Vendor, tmp_path: Path
) -> None:
    with Upstream(whole(b"\x89PNG\r\n\x1a\n", headers={"Content-Type": "image/png"})) as pictures:
        url = f"{pictures.url}/a.png"
        with asked(
            vendor,
            tmp_path,
            vendor.answer(BUSY),
            stream=False,
            node={"acceptImages": True},
            user={"allowedImageHosts": ["127.0.0.1"]},
            messages=picture(url),
        ) as told:
            assert told.heard.said == ("Hello", "stop")
            if vendor.images == "data":
                assert SENT_IMAGE[vendor.path](told.sent) == PNG
                assert [one.path for one in pictures.asked] == ["/a.png"]
            else:
                assert url in text_in(told.sent)
                assert pictures.asked == []


BAD_IMAGES = {
    "no image": "data:image/png;base64,aGVsbG8gd29ybGQ=",
    "a file": "file:///etc/passwd",
    "too large": "data:image/png;base64," + PNG[:-1] + "A" * 2_000_000,
}


@pytest.mark.parametrize("image", BAD_IMAGES.values(), ids=BAD_IMAGES)
@applies("C-26")
def test_c26_what_is_no_image_is_refused(vendor: Vendor, image: str, tmp_path: Path) -> None:
    with asked(
        vendor,
        tmp_path,
        vendor.answer(BUSY),
        stream=False,
        node={"acceptImages": True},
        user={"maxImageMegabytes": 1},
        messages=picture(image),
    ) as told:
        assert told.heard.status == 400
        assert told.heard.error is not None
        assert told.heard.error["param"] == "messages.0"


# ---------------------------------------------------------------------------- roles and contents


@applies("C-27")
def test_c27_the_developers_words_reach_the_model_as_instructions(
    vendor: Vendor, tmp_path: Path
) -> None:
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Rhyme."},
        {"role": "user", "content": "Hi"},
    ]
    with asked(
        vendor,
        tmp_path,
        vendor.answer(BUSY),
        stream=False,
        node={"systemPrompt": "{chat_system_prompt}"},
        messages=history,
    ) as told:
        sent = text_in(told.sent)
        assert sent.index("Be brief.") < sent.index("Rhyme.")
        assert "developer" not in sent


NULL_CONTENT = [
    {"role": "user", "content": "2+3?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "t1", "content": [{"type": "text", "text": "five"}]},
]


@applies("C-28")
def test_c28_null_beside_calls_and_parts_in_results(vendor: Vendor, tmp_path: Path) -> None:
    with asked(vendor, tmp_path, vendor.answer(BUSY), stream=False, messages=NULL_CONTENT) as told:
        assert told.heard.said == ("Hello", "stop")
        assert "five" in text_in(told.sent)
        assert "None" not in text_in(told.sent)


@applies("C-29")
def test_c29_parts_become_one_text(vendor: Vendor, tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "aa"}, {"type": "text", "text": "bb"}]
    with asked(
        vendor,
        tmp_path,
        vendor.answer(BUSY),
        stream=False,
        messages=[{"role": "assistant", "content": []}, {"role": "user", "content": parts}],
    ) as told:
        assert told.heard.said == ("Hello", "stop")
        assert "aa\\nbb" in text_in(told.sent)


# ------------------------------------------------------------------------- long conversations

WINDOW = {"maxContextTokenSize": 4096, "clampPromptToContextWindow": True}
LONG = [{"role": "system", "content": "Code word: PINE-7"}]
LONG += [
    {"role": "assistant" if i % 2 else "user", "content": f"no. {i} " + "word " * 40}
    for i in range(400)
]
LONG += [{"role": "user", "content": "What is the code word?"}]
WINDOW_FIELDS = {"OllamaApiChat": "num_ctx", "OllamaApiGenerate": "num_ctx"}


@both_modes
@applies("C-30")
def test_c30_a_clamped_conversation_keeps_what_matters(
    vendor: Vendor, stream: bool, tmp_path: Path
) -> None:
    with asked(
        vendor,
        tmp_path,
        vendor.answer(BUSY),
        stream=stream,
        node={"systemPrompt": "{chat_system_prompt}"},
        endpoint=WINDOW,
        messages=LONG,
    ) as told:
        sent = text_in(told.sent)
        assert "Code word: PINE-7" in sent
        assert "What is the code word?" in sent
        assert "no. 398 " in sent
        assert "no. 0 " not in sent
        assert len(sent) / 3.5 < 4096
        dropped = told.heard.headers["x-headrace-clamped"].removeprefix("messages=")
        assert 300 < int(dropped) < 400
        assert told.step["meta"]["clampedMessages"] == int(dropped)
        if vendor.id in WINDOW_FIELDS:
            assert told.sent["options"]["num_ctx"] == 4096


@applies("C-30")
def test_c30_without_the_clamp_all_is_sent_and_a_cut_is_noticed(
    vendor: Vendor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    said = Said(prompt_tokens=2000)
    with asked(vendor, tmp_path, vendor.answer(said), stream=False, messages=LONG) as told:
        assert "no. 0 " in text_in(told.sent)
        assert "x-headrace-clamped" not in told.heard.headers
        assert "clampedMessages" not in told.step["meta"]

    assert "counted far fewer tokens than it was sent" in caplog.text


def test_c30_a_cut_is_told_once_until_the_endpoint_is_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    vendor, said = VENDORS[0], Said(prompt_tokens=2000)
    tree = tree_of(vendor, tmp_path).workflow("w", [answers()])
    with (
        Upstream(*[vendor.answer(said)] * 4) as model,
        with_model(tree, vendor, "Main", model.url).serve() as live,
    ):
        for _ in range(3):
            assert hear(live.chat(model="w", messages=LONG)).status == 200
        assert caplog.text.count("counted far fewer tokens") == 1
        with_model(tree, vendor, "Main", model.url, maxContextTokenSize=65536)
        tree.clock.advance(10)
        assert hear(live.chat(model="w", messages=LONG)).status == 200

    assert caplog.text.count("counted far fewer tokens") == 2


LONG_PROMPT = [{"role": "user", "content": "word " * 2000}]


@pytest.mark.parametrize("whose", ["client", "author"])
@applies("C-31")
def test_c31_a_long_answer_does_not_push_out_the_prompt(
    vendor: Vendor, whose: str, tmp_path: Path
) -> None:
    fields: dict[str, Any] = {"max_tokens": 15821} if whose == "client" else {}
    node = {"maxResponseSizeInTokens": 15821} if whose == "author" else {}
    with asked(
        vendor,
        tmp_path,
        vendor.answer(BUSY),
        stream=False,
        node=node,
        endpoint={"maxContextTokenSize": 4096},
        messages=LONG_PROMPT,
        **fields,
    ) as told:
        assert told.heard.said == ("Hello", "stop")
        assert "word " * 1999 in text_in(told.sent)
        assert 256 <= vendor.length_in(told.sent) < 4096 - 2000


def test_every_case_of_the_table_is_tested_for_its_types() -> None:
    assert [f"C-{number:02}" for number in range(1, 32)] == list(APPLIES)
    assert all(vendor in VENDORS for vendors in APPLIES.values() for vendor in vendors)
