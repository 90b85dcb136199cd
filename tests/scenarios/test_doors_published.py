"""Every route of the running server is asked what its own OpenAPI document allows, and what it does
not allow: no answer may be a fault of ours, and none may have a status, a type or a body that the
document does not promise. What is sent is made up, the same in every run.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.result import Ok

from tests.fakes.headrace import Headrace, Tree, answers, wait_until
from tests.fakes.upstream import Asked, Step, Upstream, whole

pytestmark = pytest.mark.filterwarnings(
    # Of the library that makes up what is sent.
    "ignore::hypothesis.errors.HypothesisDeprecationWarning"
)

TAGS = (
    *("openai", "responses", "conversations", "anthropic", "ollama", "embeddings"),
    *("durable", "health", "metrics", "openapi", "runs", "workflows"),
)
EXAMPLES = 5
SECONDS = 20
"""After so much silence an answer hangs."""
DECIDES = ("background", "conversation", "previous_response_id", "tool_choice")
"""Fields that are refused unless they name something there is; left out of half of the requests."""

load_all_checks()
PROMISES: Any = [
    CHECKS.get_one(name)
    for name in (
        *("not_a_server_error", "status_code_conformance"),
        *("content_type_conformance", "response_schema_conformance"),
    )
]


def vectors(asked: Asked) -> list[Step]:
    """One for each text."""
    texts = asked.json["input"]
    data = [{"index": index, "embedding": [0.25, 0.5]} for index in range(len(texts))]
    return whole({"data": data})


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Headrace]:
    tree = Tree(
        tmp_path_factory.mktemp("published"),
        honourRequestParameters="all",
        embeddingsEndpoint="Vectors",
    )
    tree.scripted("Main", "You said: {input}")
    nodes = [answers(allowTools=True, acceptImages=True)]
    tree.workflow("assistant", nodes).own("_DefaultWorkflow", nodes)
    tree.write("ApiTypes/Vectors.json", {"type": "openAIEmbeddings"})
    with Upstream(vectors) as model:
        tree.model("Vectors", model.url, apiTypeConfigFileName="Vectors")
        with tree.serve() as served:
            yield served


def operations(live: Headrace, tag: str) -> Iterator[Any]:
    schema = schemathesis.openapi.from_dict(live.ask("GET", "/openapi.json").json)
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if tag in (operation.tags or ()):
            yield operation


def ask(live: Headrace, strategy: SearchStrategy[Case[Any]], statuses: dict[int, int]) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def send(case: Case[Any]) -> None:
        settle(case, sum(statuses.values()))
        response = case.call(base_url=live.url, timeout=SECONDS)
        statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
        case.validate_response(response, checks=PROMISES)

    send()


def settle(case: Case[Any], number: int) -> None:
    """Names made of chance say little: in half of the requests they are those of something."""
    if number % 2:
        return
    for name in {"model", "workflow"} & case.path_parameters.keys():
        case.path_parameters[name] = "assistant"
    body = case.body
    if isinstance(body, dict):
        for name in DECIDES:
            body.pop(name, None)
        if isinstance(body.get("model"), str) and body["model"]:
            body["model"] = "assistant"


@pytest.mark.parametrize("tag", TAGS)
def test_answers_are_what_the_document_promises(live: Headrace, tag: str) -> None:
    told: dict[str, Mapping[int, int]] = {}
    for operation in operations(live, tag):
        allowed: dict[int, int] = {}
        ask(live, operation.as_strategy(), allowed)
        told[operation.label] = allowed
        if operation.body or operation.query:
            ask(live, operation.as_strategy(generation_mode=GenerationMode.NEGATIVE), {})

    assert told
    served = [label for label, statuses in told.items() if {200, 201, 202} & statuses.keys()]
    assert served, f"nothing of {tag} was ever answered: {told}"
    wait_until(live.is_quiet)


def test_no_part_of_the_document_is_left_out(live: Headrace) -> None:
    document = live.ask("GET", "/openapi.json").json
    tags = {
        tag
        for methods in document["paths"].values()
        for operation in methods.values()
        for tag in operation["tags"]
    }

    assert tags == {*TAGS}
