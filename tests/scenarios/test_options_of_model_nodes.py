"""What each option of a node that calls a model does to the call, from the file to the wire."""

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers
from tests.fakes.upstream import Upstream, chat, whole

TALK = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "three"},
    {"role": "assistant", "content": "four"},
    {"role": "user", "content": "five"},
]
TWICE = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "assistant", "content": "three"},
    {"role": "user", "content": "four"},
]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
EXCHANGE: list[dict[str, Any]] = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "two"},
]


def picture(text: str, pixels: bytes) -> dict[str, Any]:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + pixels).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    return {"role": "user", "content": [{"type": "text", "text": text}, image]}


PICTURES = [picture("one", b"1"), picture("two", b"2")]


@dataclass(frozen=True)
class Case:
    id: str
    options: dict[str, Any]
    sent: list[str]
    """``role: content`` of each message that the model gets."""
    talk: list[dict[str, Any]] = field(default_factory=lambda: TALK)


def prompt(text: str, **options: Any) -> dict[str, Any]:
    return {"prompt": text, **options}


CASES = [
    Case(
        "the default",
        {"lastMessagesToSendInsteadOfPrompt": None},
        ["u one", "a two", "u three", "a four", "u five"],
        [{"role": "user", "content": "zero"}, *TALK],
    ),
    Case("lastMessages", {"lastMessagesToSendInsteadOfPrompt": 2}, ["a four", "u five"]),
    Case("lastMessages, as text", {"lastMessagesToSendInsteadOfPrompt": "1"}, ["u five"]),
    Case(
        "its ceiling, of which one is always sent",
        {"lastMessagesToSendInsteadOfPromptMaxTokenSize": 1},
        ["u five"],
    ),
    Case(
        "a higher ceiling",
        {"lastMessagesToSendInsteadOfPromptMaxTokenSize": 500},
        ["u one", "a two", "u three", "a four", "u five"],
    ),
    Case(
        "systemPrompt",
        {"systemPrompt": "Be {tone}.", "lastMessagesToSendInsteadOfPrompt": 1},
        ["s Be kind.", "u five"],
    ),
    Case("prompt", prompt("Say {agent1Output}!"), ["u Say hello!"]),
    Case("an empty prompt", {"prompt": "", "lastMessagesToSendInsteadOfPrompt": 1}, ["u five"]),
    Case("jinja2", prompt("{{ tone | upper }} {tone}", jinja2=True), ["u KIND {tone}"]),
    Case("two assistants", {}, ["u one", "a two", "a three", "u four"], TWICE),
    Case(
        "merged",
        {"mergeConsecutiveAssistantMessages": True},
        ["u one", "a two\nthree", "u four"],
        TWICE,
    ),
    Case(
        "merged with a text of its own",
        {
            "mergeConsecutiveAssistantMessages": True,
            "mergeConsecutiveAssistantMessagesDelimiter": " | ",
        },
        ["u one", "a two | three", "u four"],
        TWICE,
    ),
    Case(
        "a user between",
        {"insertUserTurnBetweenAssistantMessages": True},
        ["u one", "a two", "u Continue.", "a three", "u four"],
        TWICE,
    ),
    Case(
        "a user between, in words of its own",
        {"insertUserTurnBetweenAssistantMessages": True, "insertedUserTurnText": "And?"},
        ["u one", "a two", "u And?", "a three", "u four"],
        TWICE,
    ),
    Case(
        "merging wins over inserting",
        {
            "insertUserTurnBetweenAssistantMessages": True,
            "mergeConsecutiveAssistantMessages": True,
        },
        ["u one", "a two\nthree", "u four"],
        TWICE,
    ),
    Case("images", {}, ["u one", "u two"], PICTURES),
    Case("acceptImages", {"acceptImages": True}, ["u one +1", "u two +1"], PICTURES),
    Case(
        "maxImagesToSend",
        {"acceptImages": True, "maxImagesToSend": 1},
        ["u one", "u two +1"],
        PICTURES,
    ),
    Case("maxImagesToSend alone", {"maxImagesToSend": 1}, ["u one", "u two"], PICTURES),
    Case("images of a prompt", prompt("x", acceptImages=True), ["u x +2"], PICTURES),
    Case("a tool exchange in a prompt", prompt("{chat_user_prompt_last_one}"), ["u two"], EXCHANGE),
    Case(
        "appendNativeToolExchange",
        prompt("{chat_user_prompt_last_one}", appendNativeToolExchange=True),
        ["u one", "a  calls f", "t two"],
        EXCHANGE,
    ),
    Case(
        "nMessagesToIncludeInVariable",
        prompt("{chat_user_prompt_n_messages}", nMessagesToIncludeInVariable=2),
        ["u four\nfive"],
    ),
    Case(
        "estimatedTokensToIncludeInVariable",
        prompt("{chat_user_prompt_estimated_token_limit}", estimatedTokensToIncludeInVariable=1),
        ["u five"],
    ),
    Case(
        "estimatedTokensToIncludeInVariable, enough",
        prompt("{chat_user_prompt_estimated_token_limit}", estimatedTokensToIncludeInVariable=99),
        ["u one\ntwo\nthree\nfour\nfive"],
    ),
    Case(
        "minMessagesInVariable",
        prompt(
            "{chat_user_prompt_min_n_max_tokens}",
            minMessagesInVariable=2,
            maxEstimatedTokensInVariable=1,
        ),
        ["u four\nfive"],
    ),
    Case(
        "maxEstimatedTokensInVariable",
        prompt(
            "{chat_user_prompt_min_n_max_tokens}",
            minMessagesInVariable=1,
            maxEstimatedTokensInVariable="99",
        ),
        ["u one\ntwo\nthree\nfour\nfive"],
    ),
    Case(
        "addUserAssistantTags",
        prompt("{chat_user_prompt_last_two}", addUserAssistantTags=True),
        ["u Assistant: four\nUser: five"],
    ),
    Case(
        "includeToolCallsInConversation",
        prompt("{chat_user_prompt_last_one}", includeToolCallsInConversation=True),
        ["u [Tool Result: f {}] two"],
        EXCHANGE,
    ),
]


def shown(message: dict[str, Any]) -> str:
    content = message["content"]
    images = 0
    if isinstance(content, list):
        images = sum(part["type"] == "image_url" for part in content)
        content = "".join(part.get("text", "") for part in content)
    calls = [call["function"]["name"] for call in message.get("tool_calls") or []]
    text = f"{message['role'][0]} {content or ''}"
    return text + (f" +{images}" if images else "") + "".join(f" calls {name}" for name in calls)


@pytest.mark.parametrize("kind", ["Standard", "Conversational"])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_what_a_chat_model_gets(case: Case, kind: str, tmp_path: Path) -> None:
    hello = {"type": "StaticResponse", "content": "hello"}
    node = {**answers(), "type": kind, **case.options}
    tree = Tree(tmp_path).workflow("w", [hello, node], tone="kind")
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        assert live.says(stream=False, model="w", messages=case.talk) == "ok"

    (asked,) = model.asked
    assert [shown(message) for message in asked.json["messages"]] == case.sent


TEMPLATE = {
    **{f"promptTemplate{who}Prefix": f"<{who[0]}>" for who in ("System", "User", "Assistant")},
    **{f"promptTemplate{who}Suffix": f"</{who[0]}>" for who in ("System", "User", "Assistant")},
    "promptTemplateEndToken": "",
}
TEXT_TYPE = {
    "type": "openAIV1Completion",
    "presetType": "Test",
    "maxNewTokensPropertyName": "max_tokens",
    "streamPropertyName": "stream",
}


@pytest.mark.parametrize(
    ("options", "endpoint", "sent"),
    [
        pytest.param({}, {}, "<S>sys</S>hello", id="nothing more"),
        pytest.param(
            {"addUserTurnTemplate": True}, {}, "<S>sys</S><U>hello</U>", id="addUserTurnTemplate"
        ),
        pytest.param(
            {"addOpenEndedAssistantTurnTemplate": True},
            {},
            "<S>sys</S>hello<A>",
            id="addOpenEndedAssistantTurnTemplate",
        ),
        pytest.param(
            {"addUserTurnTemplate": True, "addOpenEndedAssistantTurnTemplate": True},
            {},
            "<S>sys</S><U>hello</U><A>",
            id="both",
        ),
        pytest.param(
            {"forceGenerationPromptIfEndpointAllows": True},
            {"addGenerationPrompt": True},
            "<S>sys</S>hello<A>",
            id="forceGenerationPromptIfEndpointAllows",
        ),
        pytest.param(
            {"forceGenerationPromptIfEndpointAllows": True},
            {"addGenerationPrompt": False},
            "<S>sys</S>hello",
            id="which it does not",
        ),
        pytest.param(
            {"forceGenerationPromptIfEndpointAllows": True, "blockGenerationPrompt": True},
            {"addGenerationPrompt": True},
            "<S>sys</S>hello",
            id="blockGenerationPrompt",
        ),
    ],
)
def test_what_a_text_model_gets(
    options: dict[str, Any], endpoint: dict[str, Any], sent: str, tmp_path: Path
) -> None:
    node = answers(systemPrompt="sys", prompt="hello", **options)
    tree = Tree(tmp_path).workflow("w", [node]).write("ApiTypes/Text.json", TEXT_TYPE)
    tree.write("PromptTemplates/T.json", TEMPLATE)
    text = {"object": "text_completion", "choices": [{"text": "ok", "finish_reason": "stop"}]}
    with Upstream(whole(text)) as model:
        settings = {"apiTypeConfigFileName": "Text", "promptTemplate": "T", **endpoint}
        with tree.model("Main", model.url, **settings).serve() as live:
            assert live.says(stream=False, model="w") == "ok"

    assert model.asked[0].json["prompt"] == sent


def test_an_image_processor_sends_its_image_whatever_it_says_of_images(tmp_path: Path) -> None:
    """`acceptImages` and `maxImagesToSend` are ignored there; all else applies to each call."""
    node = {
        **{"type": "ImageProcessor", "endpointName": "Main", "prompt": "{agent1Input} What?"},
        **{"systemPrompt": "Look.", "acceptImages": False, "maxImagesToSend": 1},
    }
    tree = Tree(tmp_path).workflow("w", [node])
    with Upstream(chat("a cat")) as model, tree.model("Main", model.url).serve() as live:
        said = live.says(stream=False, model="w", messages=PICTURES)

    sent = [[shown(message) for message in asked.json["messages"]] for asked in model.asked]
    assert sent == [["s Look.", "u {agent1Input} What? +1"]] * 2
    assert said == "a cat\n-------------\na cat"


def test_what_has_no_effect_any_more_is_taken(tmp_path: Path) -> None:
    """`chunksPerMemory` stands in old files."""
    node = {
        **{"type": "SlowButQualityRAG", "ragTarget": "a--ChunkBreak--b", "ragType": "x"},
        **{"endpointName": "Main", "prompt": "[TextChunk]", "chunksPerMemory": 1},
    }
    tree = Tree(tmp_path).workflow("w", [node])
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        headers = {"X-Conversation-Id": "talk"}
        received = live.ask("POST", "/v1/chat/completions", BODY, **headers)

    assert received.json["choices"][0]["message"]["content"] == "okok"


BODY = {"model": "w", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({}, "hi", id="the question"),
        pytest.param({"inputVariable": "topic"}, "tea", id="inputVariable"),
        pytest.param({"inputVariable": ""}, "hi", id="an empty one"),
        pytest.param({"inputVariable": "nobody"}, "", id="one that is not there"),
    ],
)
def test_a_graph_begins_with_its_variable(
    options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    nodes = [{"type": "Start", "id": "s", **options}]
    tree = Tree(tmp_path).workflow("w", nodes, edges=[], globalVariables={"topic": "tea"})
    with tree.serve() as live:
        assert live.says(stream=False, model="w", messages=BODY["messages"]) == said


def test_a_node_without_a_title_goes_by_its_agents_name(tmp_path: Path) -> None:
    nodes = [
        {"type": "StaticResponse", "content": "x", "agentName": "The Clerk"},
        {"type": "StaticResponse", "content": "y", "title": "The Boss"},
        {"type": "StaticResponse", "content": "{{the_clerk}} {{the_boss}} {{node_1}}"},
    ]
    tree = Tree(tmp_path).workflow("w", nodes, placeholders=True)
    with tree.serve() as live:
        assert live.says(stream=False, model="w") == "x y x"
