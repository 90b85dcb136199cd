"""The published document, held against the running server."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from Middleware.wire.openai_parameters import OPENAI_FIELDS, SAMPLER_FIELDS
from tests.fakes.doors import DOORS, MODEL, Door
from tests.fakes.headrace import Headrace, Tree, answers, static
from tests.fakes.live_site import Received
from tests.fakes.upstream import Upstream, chat

METHODS = ("get", "post", "put", "patch", "delete")
SENT: tuple[Any, ...] = (
    *(0.5, 3, "x", True, ["x"]),
    {"effort": "low", "verbosity": "low"},
    {"type": "json_object"},
)
"""Something for a field of any kind."""
DOOR_OF = {door.path: door for door in DOORS}
ALWAYS_SENT = {"model", "messages", "prompt", "input", "stream", "max_tokens"}
"""What a request has anyway, or what decides how it is answered."""
WRONG: tuple[Any, ...] = (5, "no such word", True, [7], {})
OF_TOOLS = {"tools", "tool_choice"}
"""Tested with the doors: one makes no sense without the other."""
OF_CONVERSATIONS = {"background", "conversation", "previous_response_id"}
"""Used, and refused where there is no such conversation."""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Headrace]:
    tree = Tree(tmp_path_factory.mktemp("openapi"), honourRequestParameters="none")
    tree.workflow("assistant", [static("Hello")])
    with tree.serve() as served:
        yield served


@pytest.fixture(scope="module")
def document(live: Headrace) -> Any:
    received = live.ask("GET", "/openapi.json")
    assert received.status == 200
    assert received.headers["content-type"] == "application/json"
    return received.json


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_route_is_there_and_no_other(live: Headrace, document: Any) -> None:
    # Paths that differ in nothing but the names of their places are one, as OpenAPI has it.
    served = {
        (re.sub(r"<.*?>", "{}", path), route.method.lower())
        for route in live.site.routes()
        for path in route.paths
    }
    told = {(re.sub("{.*?}", "{}", path), method) for path, method, _ in operations(document)}

    assert told == served
    assert len({path for path, _ in told}) == len(document["paths"])


def test_a_method_that_is_not_there_is_not_served(live: Headrace, document: Any) -> None:
    for path, methods in document["paths"].items():
        asked = path.replace("{turn}", "1").replace("{", "").replace("}", "")
        allow = ""
        for method in {*METHODS} - {*methods}:
            received = live.ask(method.upper(), asked)
            assert received.status == 405, (method, path)
            allow = received.headers["allow"]
        assert {*allow.lower().split(", ")} >= {*methods}


def test_it_is_a_document_that_programs_can_read(document: Any) -> None:
    assert document["openapi"] == "3.1.0"
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len({*ids}) == len(ids)
    for name, schema in document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert name.isidentifier()
    for found in _refs(document):
        assert found.removeprefix("#/components/schemas/") in document["components"]["schemas"]
    for path, method, operation in operations(document):
        placed = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
        assert placed == {*_places(path)}
        assert operation["summary"], f"{method} {path} says nothing of itself"


def _refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for one in value.values():
            yield from _refs(one)
    elif isinstance(value, list):
        for one in value:
            yield from _refs(one)


def _places(path: str) -> Iterator[str]:
    for piece in path.split("{")[1:]:
        yield piece.partition("}")[0]


def test_errors_have_the_shape_of_their_door(live: Headrace, document: Any) -> None:
    for path, method, operation in operations(document):
        if operation.get("requestBody", {}).get("required"):
            asked = path.replace("{", "").replace("}", "")
            received = live.ask(method.upper(), asked, b"{")
            assert received.status == 400, (method, path, received.body)
            check(received.json, operation["responses"]["400"]["content"], document)


def check(value: Any, content: Any, document: Any) -> None:
    jsonschema.validate(value, {**content["application/json"]["schema"], **_components(document)})


def _components(document: Any) -> dict[str, Any]:
    return {"components": document["components"]}


def is_valid(value: Any, schema: Any, document: Any) -> bool:
    return jsonschema.Draft202012Validator({**schema, **_components(document)}).is_valid(value)


def fields_of(door: Door, document: Any) -> dict[str, Any]:
    schema = document["paths"][door.path]["post"]["requestBody"]["content"]["application/json"]
    name = schema["schema"]["$ref"].rpartition("/")[2]
    found: dict[str, Any] = document["components"]["schemas"][name]["properties"]
    return found


def ask(live: Headrace, door: Door, **fields: Any) -> Received:
    return live.ask("POST", door.path, {**door.body(), **fields})


def ignored(received: Received) -> list[str]:
    assert received.status == 200, received.body
    return [name for name in received.headers.get("x-headrace-ignored", "").split(", ") if name]


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_what_becomes_of_each_field_is_true(live: Headrace, document: Any, door: Door) -> None:
    fields = fields_of(door, document)
    plain = ignored(ask(live, door))
    for name, schema in fields.items():
        assert ask(live, door, **({} if name in ALWAYS_SENT else {name: None})).status == 200, name
        if name in ALWAYS_SENT | OF_CONVERSATIONS | OF_TOOLS:
            continue
        fitting = (one for one in SENT if is_valid(one, schema, document))
        # True is what a missing one means.
        value = False if name == "parallel_tool_calls" else next(fitting)
        named = ignored(ask(live, door, **{name: value}))
        match schema["x-headrace-field"]:
            case "ignored":
                assert named == [*plain, name]
            case "passed on":
                new = [one for one in named if one not in plain]
                assert new, f"{name} was not passed on, and is not named"
                assert {one.partition(".")[0] for one in new} == {name}
            case fate:
                assert (fate, named) == ("used", plain), name


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_a_field_that_holds_something_else_is_refused(
    live: Headrace, document: Any, door: Door
) -> None:
    refused = 0
    for name, schema in fields_of(door, document).items():
        for value in WRONG:
            if schema.get("x-headrace-field") == "ignored" or is_valid(value, schema, document):
                continue
            received = ask(live, door, **{name: value})
            assert received.status == 400, (name, value, received.body)
            said = door.read_error(received.json)
            assert name in said, (name, value, said)
            refused += 1
    assert refused > 10


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_whole_answers_are_as_the_document_says(live: Headrace, document: Any, door: Door) -> None:
    content = document["paths"][door.path]["post"]["responses"]["200"]["content"]
    received = ask(live, door, stream=False)
    streamed = ask(live, door, stream=True)

    check(received.json, content, document)
    kind = streamed.headers["content-type"].partition(";")[0]
    assert kind in content
    assert kind != "application/json"


def test_it_asks_for_a_key_where_keys_are_demanded(tmp_path: Path) -> None:
    tree = Tree(tmp_path, apiKeys=["secret"]).workflow("assistant", [static("Hello")])
    with tree.serve() as live:
        stranger = live.ask("GET", "/openapi.json")
        known = live.ask("GET", "/openapi.json", authorization="Bearer secret")

    assert (stranger.status, known.status) == (401, 200)
    assert stranger.json["error"]["code"] == "invalid_api_key"


def test_parameters_that_are_passed_on_reach_the_model(tmp_path: Path, document: Any) -> None:
    """As far as a back end of OpenAI's kind knows them."""
    sent = {
        name: next(one for one in SENT if is_valid(one, schema, document))
        for name, schema in fields_of(DOOR_OF["/v1/chat/completions"], document).items()
        if name in ("temperature", "top_p", "seed", "stop", "user", "logit_bias")
    }
    tree = Tree(tmp_path, honourRequestParameters="all").workflow("assistant", [answers()])
    with Upstream(chat("Hello")) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model=MODEL, **sent)

    assert received.status == 200
    assert {name: model.asked[0].json.get(name) for name in sent} == sent
    assert len(sent) == 6


PAGE = Path(__file__).resolve().parents[2] / "docs" / "doors.md"


def test_the_page_about_doors_leaves_out_no_route(document: Any) -> None:
    text = PAGE.read_text(encoding="utf-8")
    own = ("/durable/", "/api/runs", "/api/workflows")
    missing = [
        path
        for path in document["paths"]
        if path.replace("{model}", "{id}") not in text and not path.startswith(own)
    ]

    assert missing == []
    assert all(prefix in text for prefix in own)


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_the_page_about_doors_leaves_out_no_field(document: Any, door: Door) -> None:
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")
    section = next(one for one in sections if f"`POST {door.path}`" in one)
    words = {*re.findall(r"`([\w.*]+)`", section)}
    named = {word.partition(".")[0] for word in words}
    fields = {*fields_of(door, document)} - SAMPLER_FIELDS.keys()
    if "sampling fields" in section:
        fields -= OPENAI_FIELDS.keys() - {"logprobs"}

    assert fields - named == set()
