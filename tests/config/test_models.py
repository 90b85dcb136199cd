from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import ValidationError

from Middleware.config.models import (
    ApiType,
    Endpoint,
    FileModel,
    McpServer,
    PromptTemplate,
    ThinkingRule,
    User,
)


@dataclass(frozen=True)
class Lenient:
    id: str
    model: type[FileModel]
    key: str
    written: Any
    field: str
    read: Any


LENIENT = [
    Lenient("number as text", User, "port", "5000", "port", 5000),
    Lenient("number with a fraction", User, "port", 5000.0, "port", 5000),
    Lenient("no number", User, "port", "", "port", None),
    Lenient("null for a number with a default", User, "maxSteps", None, "max_steps", 200),
    Lenient("blank for a number with a default", User, "maxSteps", " ", "max_steps", 200),
    Lenient(
        "fewer than one attempt",
        User,
        "maxCategorizationAttempts",
        0,
        "max_categorization_attempts",
        1,
    ),
    Lenient(
        "no time to connect", User, "connectTimeoutInSeconds", 0, "connect_timeout_in_seconds", 1
    ),
    Lenient(
        "yes as text",
        User,
        "customWorkflowOverride",
        " Yes",
        "custom_workflow_override",
        True,
    ),
    Lenient(
        "false as text", User, "customWorkflowOverride", "false", "custom_workflow_override", False
    ),
    Lenient(
        "null for true or false",
        User,
        "allowSharedWorkflows",
        None,
        "allow_shared_workflows",
        False,
    ),
    Lenient("null for text", User, "customWorkflow", None, "custom_workflow", ""),
    Lenient(
        "null for an object",
        User,
        "userWideWorkflowVariables",
        None,
        "user_wide_workflow_variables",
        {},
    ),
    Lenient(
        "null for a separator",
        User,
        "conversationSeparationDelimiter",
        None,
        "conversation_separation_delimiter",
        "\n",
    ),
    Lenient(
        "empty separator",
        User,
        "conversationSeparationDelimiter",
        "",
        "conversation_separation_delimiter",
        "",
    ),
    Lenient("capitals in a word of ours", User, "dialect", "Headrace", "dialect", "headrace"),
    Lenient(
        "odd key",
        User,
        "interceptOpenWebUIToolRequests",
        True,
        "intercept_open_web_ui_tool_requests",
        True,
    ),
    Lenient("capital key", User, "MCPO_URL", "http://x", "mcpo_url", "http://x"),
    Lenient(
        "number for text",
        Endpoint,
        "modelNameToSendToAPI",
        7,
        "model_name_to_send_to_api",
        "7",
    ),
    Lenient("null template", Endpoint, "promptTemplate", None, "prompt_template", ""),
    Lenient(
        "clamp inherits",
        Endpoint,
        "clampPromptToContextWindow",
        None,
        "clamp_prompt_to_context_window",
        None,
    ),
    Lenient(
        "clamp as text",
        Endpoint,
        "clampPromptToContextWindow",
        "on",
        "clamp_prompt_to_context_window",
        True,
    ),
    Lenient(
        "one text for a list",
        Endpoint,
        "responseStartTextToRemoveEndpointWide",
        "Sure,",
        "response_start_text_to_remove_endpoint_wide",
        ("Sure,",),
    ),
    Lenient(
        "list of texts",
        Endpoint,
        "responseStartTextToRemoveEndpointWide",
        ["a", "b"],
        "response_start_text_to_remove_endpoint_wide",
        ("a", "b"),
    ),
    Lenient("no samplers", Endpoint, "presetSamplers", None, "preset_samplers", None),
    Lenient(
        "null property name",
        ApiType,
        "truncateLengthPropertyName",
        None,
        "truncate_length_property_name",
        None,
    ),
    Lenient("blank property name", ApiType, "streamPropertyName", "", "stream_property_name", None),
    Lenient("null thinking", ApiType, "thinking", None, "thinking", ThinkingRule()),
    Lenient(
        "unmapped sampler",
        ApiType,
        "samplerFieldMap",
        {"top_k": None, "seed": "s"},
        "sampler_field_map",
        {"seed": "s"},
    ),
    Lenient("header that is a number", McpServer, "headers", {"X": 1}, "headers", {"X": "1"}),
]

NEEDED = {User: {}, Endpoint: {}, ApiType: {"type": "x"}, McpServer: {"transport": "sse"}}


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in LENIENT])
def test_what_existing_files_hold_is_understood(case: Lenient) -> None:
    value = case.model.model_validate({**NEEDED[case.model], case.key: case.written})

    assert getattr(value, case.field) == case.read


@pytest.mark.parametrize("number", [float("inf"), float("nan"), "many", [1]])
def test_what_is_no_number_is_refused(number: Any) -> None:
    with pytest.raises(ValidationError):
        User.model_validate({"port": number})


@dataclass(frozen=True)
class Dialect:
    id: str
    written: dict[str, Any]
    honours: str
    front_end_ids: bool


DIALECTS = [
    Dialect("absent means the reference", {}, "none", False),
    Dialect("reference", {"dialect": "reference"}, "none", False),
    Dialect("ours", {"dialect": "headrace"}, "responder", True),
    Dialect(
        "what the file says wins",
        {
            "dialect": "headrace",
            "honourRequestParameters": "none",
            "conversationIdFromFrontEnd": False,
        },
        "none",
        False,
    ),
    Dialect(
        "in the reference's dialect too",
        {"honourRequestParameters": "all", "conversationIdFromFrontEnd": "true"},
        "all",
        True,
    ),
    Dialect(
        "null says nothing",
        {"dialect": "headrace", "honourRequestParameters": None},
        "responder",
        True,
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in DIALECTS])
def test_the_dialect_decides_what_the_file_leaves_open(case: Dialect) -> None:
    user = User.model_validate(case.written)

    assert (user.honour_request_parameters, user.conversation_id_from_front_end) == (
        case.honours,
        case.front_end_ids,
    )


def test_defaults_of_a_user() -> None:
    user = User()

    assert (user.port, user.heartbeat_seconds, user.max_workflow_depth, user.max_steps) == (
        None,
        1.0,
        16,
        200,
    )
    assert (user.read_timeout_in_seconds, user.connect_timeout_in_seconds) == (14400, 30)
    assert (user.run_log.max_runs, user.run_log.max_days, user.run_log.max_megabytes) == (
        10_000,
        30,
        500,
    )
    assert user.route_overrides_lookup == "capitalized"


def test_folders_of_a_user_are_named_after_the_user_unless_the_file_says_otherwise() -> None:
    plain = User(name="Bob")
    moved = User(
        name="Bob",
        workflow_configs_sub_directory_override="w",
        shared_workflows_sub_directory_override="s",
        preset_configs_sub_directory_override="p",
        structured_output_configs_sub_directory="o",
    )

    assert [
        (u.workflow_folder, u.shared_folder, u.preset_folder, u.structured_output_folder)
        for u in (plain, moved)
    ] == [("Bob", "_shared", "Bob", "Bob"), ("w", "s", "p", "o")]


def test_keys_are_plain_or_named_or_hashed() -> None:
    digest = "AB" * 32
    user = User.model_validate(
        {"apiKeys": ["one", {"name": "laptop", "key": "two"}, {"name": "ci", "sha256": digest}]}
    )

    assert [(key.name, key.key, key.sha256) for key in user.api_keys] == [
        ("key 1", "one", ""),
        ("laptop", "two", ""),
        ("ci", "", digest.lower()),
    ]


@pytest.mark.parametrize(
    "key", [{}, {"name": "x"}, {"key": "a", "sha256": "b"}, {"sha256": "abc"}, "", {"key": ""}]
)
def test_a_key_that_could_let_anybody_in_is_refused(key: Any) -> None:
    with pytest.raises(ValidationError):
        User.model_validate({"apiKeys": [key]})


def test_no_secret_is_in_the_text_of_a_value() -> None:
    user = User.model_validate({"apiKeys": ["hush"], "MCPO_URL": "http://hush"})
    endpoint = Endpoint.model_validate({"apiKey": "hush", "endpoint": "http://u:hush@h"})
    server = McpServer.model_validate(
        {"transport": "sse", "url": "http://hush", "headers": {"A": "hush"}, "env": {"B": "hush"}}
    )

    assert "hush" not in f"{user!r} {user} {endpoint!r} {server!r} {user.api_keys!r}"


def test_a_template_knows_the_tokens_of_any_role() -> None:
    template = PromptTemplate.model_validate(
        {
            "promptTemplateSystemPrefix": "<s>",
            "promptTemplateUserPrefix": "<u>",
            "promptTemplateUserSuffix": "</u>",
            "promptTemplateSystemmesPrefix": "<m>",
            "promptTemplateToolSuffix": "</t>",
        }
    )

    assert {
        role: template.around(role) for role in ("system", "user", "systemMes", "tool", "x")
    } == {
        "system": ("<s>", ""),
        "user": ("<u>", "</u>"),
        "systemMes": ("<m>", ""),
        "tool": ("", "</t>"),
        "x": ("", ""),
    }
