"""The whole server in front of a real llama.cpp with a real model, as people run it.

Run it alone with ``python3 start.py test tests/real``. A model of 135 million parameters says
little that makes sense, so tests look at what must be true whatever it says.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from Middleware.core.cancellation import CancelToken
from tests.fakes.headrace import Headrace, Tree, answers
from tests.fakes.llama_cpp import WINDOW, LlamaCpp, llama_cpp
from tests.fakes.strict_client import Heard, hear
from tests.fakes.vendors import SHIPPED
from tests.scenarios.modes import both_modes

pytestmark = pytest.mark.slow

STILL = {"presetSamplers": {"temperature": 0}}
"""Without chance: the same question gets the same answer."""
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "big": {"type": "boolean"}},
    "required": ["city", "big"],
    "additionalProperties": False,
}
PARIS = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]


@pytest.fixture(scope="module")
def server() -> Iterator[LlamaCpp]:
    with llama_cpp() as running:
        yield running


@pytest.fixture
def tree(server: LlamaCpp, tmp_path: Path) -> Tree:
    """Endpoints as they ship: ``Chat``, ``Text`` and ``Vectors``."""
    tree = Tree(tmp_path)
    for name in ("LlamaCppServer", "OpenAI-Compatible-Completions", "OpenAI-Embeddings"):
        tree.write(f"ApiTypes/{name}.json", (SHIPPED / f"{name}.json").read_text("utf-8"))
    template = SHIPPED.parent / "PromptTemplates/chatml.json"
    tree.write("PromptTemplates/chatml.json", template.read_text("utf-8"))
    tree.model("Chat", server.chat_url, apiTypeConfigFileName="LlamaCppServer", **STILL)
    text = {"promptTemplate": "chatml", "addGenerationPrompt": True, **STILL}
    kind = "OpenAI-Compatible-Completions"
    tree.model("Text", server.chat_url, apiTypeConfigFileName=kind, **text)
    tree.model("Vectors", server.embeddings_url, apiTypeConfigFileName="OpenAI-Embeddings")
    return tree


def ask(live: Headrace, **fields: Any) -> Heard:
    return hear(live.chat(**{"model": "w", "messages": PARIS, "max_tokens": 12, **fields}))


def test_a_chat_is_the_same_streamed_and_whole(tree: Tree) -> None:
    tree.workflow("w", [answers("Chat")])
    with tree.serve() as live:
        whole = ask(live)
        streamed = ask(live, stream=True, stream_options={"include_usage": True})

    assert "Paris" in whole.text
    assert (streamed.text, streamed.finish_reason) == (whole.text, whole.finish_reason)
    assert whole.usage is not None
    assert streamed.usage == whole.usage
    assert live.runs[0]["tokens"]["estimated"] is False


def test_a_text_completion_gets_the_prompt_that_the_chat_template_makes(tree: Tree) -> None:
    tree.workflow(
        "w", [answers("Text", systemPrompt="Be brief.", forceGenerationPromptIfEndpointAllows=True)]
    )
    tree.workflow("chat", [answers("Chat", systemPrompt="Be brief.")])
    with tree.serve() as live:
        whole = ask(live)
        streamed = ask(live, stream=True)
        chat = ask(live, model="chat")

    assert whole.text
    assert (streamed.text, streamed.finish_reason) == (whole.text, whole.finish_reason)
    # Our template and the model's own come to the same tokens, so to the same words.
    assert whole.text == chat.text
    assert whole.usage == chat.usage


@both_modes
def test_an_answer_that_is_too_long_is_cut_and_says_so(stream: bool, tree: Tree) -> None:
    tree.workflow("w", [answers("Chat")])
    with tree.serve() as live:
        heard = ask(
            live,
            stream=stream,
            max_tokens=3,
            messages=[{"role": "user", "content": "Count from one to a hundred."}],
        )

    assert heard.finish_reason == "length"


def test_embeddings(tree: Tree) -> None:
    with tree.serve() as live:
        config = live.parts.store.snapshot()
        embedder = live.parts.backends.embedder(config, config.endpoint("Vectors"))
        texts = ("A cat sleeps.", "A dog sleeps.", "Invoice number 4711 is overdue.")
        found = embedder.embed(texts, CancelToken())

    cat, dog, invoice = found.vectors
    assert len(cat) == len(dog) == len(invoice) == 576
    assert cosine(cat, dog) > cosine(cat, invoice)
    assert found.usage is not None
    assert found.usage.prompt_tokens > 10


def cosine(one: Any, other: Any) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return float(product / (math.hypot(*one) * math.hypot(*other)))


@both_modes
def test_an_answer_is_held_to_a_schema(stream: bool, tree: Tree) -> None:
    tree.write("StructuredOutputs/place.json", SCHEMA)
    tree.workflow("w", [answers("Chat", structuredOutputFile="place")])
    with tree.serve() as live:
        heard = ask(live, stream=stream, max_tokens=80)

    place = json.loads(heard.text)
    assert isinstance(place["city"], str)
    assert isinstance(place["big"], bool)
    assert place.keys() == SCHEMA["properties"].keys()  # type: ignore[attr-defined]


@both_modes
def test_a_tool_is_called_because_it_must_be(stream: bool, tree: Tree) -> None:
    tree.workflow("w", [answers("Chat", allowTools=True)])
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool = {"type": "function", "function": {"name": "roll", "parameters": parameters}}
    with tree.serve() as live:
        heard = ask(live, stream=stream, max_tokens=60, tools=[tool], tool_choice="required")

    (call,) = heard.tool_calls
    assert call["name"] == "roll"
    assert isinstance(json.loads(call["arguments"])["n"], int)
    assert heard.finish_reason == "tool_calls"


@pytest.mark.parametrize("collects", [False, True], ids=["streaming", "collecting"])
def test_who_leaves_frees_the_slot_within_a_second(
    collects: bool, tree: Tree, server: LlamaCpp
) -> None:
    say = {"type": "StaticResponse", "content": "{agent1Output}"}
    tree.workflow("w", [answers("Chat"), say] if collects else [answers("Chat")])
    story = [{"role": "user", "content": "Tell a very long story about a river."}]
    with tree.serve() as live:
        with live.connect() as client:
            client.send_chat(model="w", messages=story, max_tokens=900, ignore_eos=True)
            server.wait_for_busy_slots(1, 10)
            if not collects:
                client.read_until(b'"content"')
        server.wait_for_busy_slots(0, 1.0)


def test_a_nested_workflow(tree: Tree) -> None:
    tree.own("Below", [answers("Text", title="Below", prompt="Say: {agent1Input}", preset="Still")])
    tree.write("Presets/OpenAiCompatibleApis/Still.json", {"temperature": 0})
    tree.write("Presets/LlamaCppServer/Still.json", {"temperature": 0})
    nodes = [
        answers("Chat", title="Draft", maxResponseSizeInTokens=8),
        {
            "title": "Child",
            "type": "CustomWorkflow",
            "workflowName": "Below",
            "scoped_variables": ["{agent1Output}"],
        },
        answers("Chat", title="Answer", prompt="Repeat: {agent2Output}"),
    ]
    tree.workflow("w", nodes)
    with tree.serve() as live:
        whole = ask(live)
        streamed = ask(live, stream=True)
        parent, child = live.runs[-1], live.runs[-2]

    assert whole.text
    assert streamed.text == whole.text
    draft, middle, answer = parent["context"]["steps"]
    (below,) = child["context"]["steps"]
    assert f"Say: {draft['outputData']['content']}" in below["meta"]["resolvedPrompt"]
    assert middle["outputData"] == below["outputData"]
    (prompt,) = answer["meta"]["resolvedPrompt"]
    assert prompt["content"] == f"Repeat: {middle['outputData']['content']}"


@both_modes
def test_a_prompt_that_is_too_long_is_refused_with_the_servers_words(
    stream: bool, tree: Tree
) -> None:
    tree.workflow("w", [answers("Chat")])
    long = [{"role": "user", "content": "word " * 2 * WINDOW}]
    with tree.serve() as live:
        heard = ask(live, stream=stream, messages=long)

    assert heard.status == 400
    assert heard.error is not None
    assert "context" in heard.error["message"]


def test_with_the_clamp_the_same_conversation_fits(tree: Tree, server: LlamaCpp) -> None:
    tree.model(
        "Chat",
        server.chat_url,
        apiTypeConfigFileName="LlamaCppServer",
        maxContextTokenSize=WINDOW,
        clampPromptToContextWindow=True,
        **STILL,
    )
    tree.workflow("w", [answers("Chat", maxResponseSizeInTokens=20)])
    turns = [
        {"role": role, "content": "word " * 60} for _ in range(40) for role in ("user", "assistant")
    ]
    with tree.serve() as live:
        heard = ask(live, messages=[*turns, *PARIS])

    assert heard.finish_reason in ("stop", "length")
    assert heard.headers["x-headrace-clamped"].startswith("messages=")
