from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import ChatRequest, Message, ToolCall
from Middleware.wire import openai_responses
from Middleware.wire.openai_responses import Approval, ResponsesRequest
from Middleware.wire.openai_responses_tools import ToolNames, parse_tools

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
TOOL_READ = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object"}, "strict": False},
}
GROUP = {
    "type": "namespace",
    "name": "mcp__files",
    "description": "files",
    "tools": [{"type": "function", "name": "read", "description": "reads"}, {"type": "custom"}],
}
GROUP_READ = {"type": "function", "function": {"name": "mcp__files__read", "description": "reads"}}
NAMES = ToolNames({"mcp__files__read": ("mcp__files", "read")})
HI = {"type": "message", "role": "user", "content": "hi"}
SCHEMA = {"type": "object"}


def hi(**changes: Any) -> ChatRequest:
    return ChatRequest(**{"model": "m", "messages": (Message("user", "hi"),), **changes})


@dataclass(frozen=True)
class Accepts:
    id: str
    body: dict[str, Any]
    expected: ResponsesRequest


ACCEPTS = [
    Accepts(
        "smallest: a text",
        {"model": "m", "input": "hi"},
        ResponsesRequest(chat=hi(), items=(HI,)),
    ),
    Accepts(
        "nulls say nothing, and so does what is the rule anyway",
        {
            "model": "m",
            "input": [HI],
            "instructions": None,
            "tools": None,
            "tool_choice": None,
            "previous_response_id": None,
            "conversation": None,
            "store": None,
            "background": None,
            "reasoning": None,
            "text": {"format": {"type": "text"}},
            "parallel_tool_calls": True,
            "temperature": None,
            "metadata": None,
            "stream": None,
        },
        ResponsesRequest(
            chat=hi(),
            items=(HI,),
            repeated={"text": {"format": {"type": "text"}}, "parallel_tool_calls": True},
        ),
    ),
    Accepts(
        "all fields",
        {
            "model": "m",
            "input": "hi",
            "instructions": "Be kind.",
            "stream": True,
            "max_output_tokens": 100,
            "temperature": 0.5,
            "top_p": 0.9,
            "user": "u",
            "parallel_tool_calls": False,
            "reasoning": {"effort": "low", "summary": "auto"},
            "text": {
                "verbosity": "low",
                "format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True},
            },
            "metadata": {"a": "b"},
            "store": False,
            "previous_response_id": "resp_0",
            "include": [],
        },
        ResponsesRequest(
            chat=hi(
                messages=(Message("system", "Be kind."), Message("user", "hi")),
                stream=True,
                metadata={"a": "b"},
                parameters={
                    "max_tokens": 100,
                    "temperature": 0.5,
                    "top_p": 0.9,
                    "user": "u",
                    "parallel_tool_calls": False,
                    "reasoning_effort": "low",
                    "verbosity": "low",
                    "response_format": {
                        "type": "json_schema",
                        "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
                    },
                },
                unknown_fields=("include",),
            ),
            items=(HI,),
            instructions="Be kind.",
            previous_response_id="resp_0",
            store=False,
            repeated={
                "instructions": "Be kind.",
                "max_output_tokens": 100,
                "temperature": 0.5,
                "top_p": 0.9,
                "parallel_tool_calls": False,
                "reasoning": {"effort": "low", "summary": "auto"},
                "text": {
                    "verbosity": "low",
                    "format": {
                        "type": "json_schema",
                        "name": "n",
                        "schema": SCHEMA,
                        "strict": True,
                    },
                },
                "user": "u",
                "metadata": {"a": "b"},
                "previous_response_id": "resp_0",
                "store": False,
            },
        ),
    ),
    Accepts(
        "a conversation by object, in the background, with an approval only",
        {
            "model": "m",
            "conversation": {"id": "conv_1"},
            "background": True,
            "input": [
                {
                    "type": "mcp_approval_response",
                    "approval_request_id": "mcpr_1",
                    "approve": True,
                    "reason": "fine",
                }
            ],
        },
        ResponsesRequest(
            chat=hi(messages=()),
            items=(
                {
                    "type": "mcp_approval_response",
                    "approval_request_id": "mcpr_1",
                    "approve": True,
                    "reason": "fine",
                },
            ),
            conversation="conv_1",
            background=True,
            approvals=(Approval(request_id="mcpr_1", approve=True, reason="fine"),),
            repeated={"background": True},
        ),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in ACCEPTS])
def test_parse_request(case: Accepts) -> None:
    assert openai_responses.parse_request(case.body) == case.expected


def test_codex() -> None:
    """C-53: what Codex sends, groups of tools and a developer item included."""
    items = [
        {
            "type": "message",
            "role": "developer",
            "id": "x",
            "content": [{"type": "input_text", "text": "Long."}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "e"},
        {
            "type": "function_call",
            "name": "read",
            "namespace": "mcp__files",
            "call_id": "c1",
            "arguments": '{"x":1}',
        },
        {"type": "function_call_output", "call_id": "c1", "output": "text"},
        {"type": "web_search_call", "status": "completed"},
    ]
    body = {
        "model": "m",
        "stream": True,
        "input": items,
        "tools": [TOOL, GROUP, {"type": "web_search"}],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"summary": "auto"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k",
        "client_metadata": {},
    }

    asked = openai_responses.parse_request(body)

    assert asked.chat == ChatRequest(
        model="m",
        messages=(
            Message("developer", "Long."),
            Message("user", "hi"),
            Message(
                "assistant",
                tool_calls=(ToolCall(id="c1", name="mcp__files__read", arguments='{"x":1}'),),
            ),
            Message("tool", "text", tool_call_id="c1"),
        ),
        stream=True,
        tools=(TOOL_READ, GROUP_READ),
        tool_choice="auto",
        unknown_fields=(
            "include",
            "prompt_cache_key",
            "client_metadata",
            "tools.custom",
            "tools.web_search",
            "input.web_search_call",
        ),
    )
    assert asked.names == NAMES


@dataclass(frozen=True)
class Tells:
    id: str
    items: list[dict[str, Any]]
    expected: tuple[Message, ...]


def call(id_: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": id_, "name": "f", "arguments": "{}", **fields}


def output(id_: str, value: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id_, "output": value}


def called(id_: str, arguments: str = "{}", name: str = "f") -> ToolCall:
    return ToolCall(id=id_, name=name, arguments=arguments)


TELLS = [
    Tells(
        "a message needs no type; contents of all kinds",
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "input_image", "image_url": "https://p.test/a"}]},
            {
                "role": "assistant",
                "content": [{"type": "output_text", "text": "a", "logprobs": []}],
            },
            {"role": "user", "content": None},
        ],
        (
            Message("system", "s"),
            Message("user", images=("https://p.test/a",)),
            Message("assistant", "a"),
            Message("user"),
        ),
    ),
    Tells(
        "calls in a row and the words before them are one message",
        [
            {"role": "assistant", "content": "ok"},
            call("1"),
            {"type": "reasoning", "summary": []},
            call("2", arguments=""),
            output("1", "one"),
            output(
                "2", [{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}]
            ),
            call("3", arguments='{"x":1}'),
            output("3", None),
        ],
        (
            Message("assistant", "ok", tool_calls=(called("1"), called("2"))),
            Message("tool", "one", tool_call_id="1"),
            Message("tool", "a\nb", tool_call_id="2"),
            Message("assistant", tool_calls=(called("3", '{"x":1}'),)),
            Message("tool", "", tool_call_id="3"),
        ),
    ),
    Tells(
        "images of results are shown behind all results",
        [
            call("1"),
            call("2"),
            output("1", [{"type": "input_image", "image_url": "data:image/png;base64,AA"}]),
            output("2", "two"),
            {"role": "user", "content": "and?"},
        ],
        (
            Message("assistant", tool_calls=(called("1"), called("2"))),
            Message("tool", "", tool_call_id="1"),
            Message("tool", "two", tool_call_id="2"),
            Message("user", images=("data:image/png;base64,AA",)),
            Message("user", "and?"),
        ),
    ),
    Tells(
        "free-form calls",
        [
            {"type": "custom_tool_call", "call_id": "1", "name": "patch", "input": "*** x"},
            {"type": "custom_tool_call_output", "call_id": "1", "output": "done"},
        ],
        (
            Message("assistant", tool_calls=(called("1", '{"input":"*** x"}', "patch"),)),
            Message("tool", "done", tool_call_id="1"),
        ),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in TELLS])
def test_items_tell_a_conversation(case: Tells) -> None:
    assert openai_responses.messages_of(case.items) == case.expected


def test_a_kept_conversation_comes_before_the_input_and_behind_the_instructions() -> None:
    asked = openai_responses.parse_request(
        {"input": [output("1", "one")], "instructions": "New.", "previous_response_id": "resp_0"}
    )
    earlier = [{"role": "user", "content": "go"}, call("1")]

    assert openai_responses.with_history(asked, earlier).messages == (
        Message("system", "New."),
        Message("user", "go"),
        Message("assistant", tool_calls=(called("1"),)),
        Message("tool", "one", tool_call_id="1"),
    )


def test_items_are_kept_with_ids_and_parts() -> None:
    items = (
        {"role": "user", "content": "hi"},
        {**HI, "id": "mine", "role": "assistant"},
        call("1"),
    )

    assert openai_responses.stored_items(items, "r1") == [
        {
            "type": "message",
            "id": "msg_r1_0",
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_text", "text": "hi"}],
        },
        {
            "type": "message",
            "id": "mine",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hi"}],
        },
        {**call("1"), "id": "item_r1_2"},
    ]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": 1}, "model"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": 5}, "input"),
        ({"input": [{"type": "reasoning"}]}, "input"),
        ({"input": ["hi"]}, "input.0"),
        ({"input": [HI, {}]}, "input.1.type"),
        ({"input": [{"role": "wizard", "content": ""}]}, "input.0.role"),
        ({"input": [{"type": "message", "content": ""}]}, "input.0.role"),
        ({"input": [{"role": "user"}]}, "input.0.content"),
        ({"input": [{"role": "user", "content": 5}]}, "input.0.content"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
            "input.0.content.0.type",
        ),
        ({"input": [HI, call("")]}, "input.1.call_id"),
        ({"input": [HI, call("1", name=None)]}, "input.1.name"),
        ({"input": [HI, call("1", arguments="{")]}, "input.1.arguments"),
        ({"input": [HI, {"type": "function_call_output", "output": ""}]}, "input.1.call_id"),
        ({"input": [HI, output("1", [{"type": "x"}])]}, "input.1.output.0.type"),
        (
            {"input": [{"type": "mcp_approval_response", "approval_request_id": "a"}]},
            "input.0.approve",
        ),
        ({"instructions": 5}, "instructions"),
        ({"stream": "yes"}, "stream"),
        ({"store": 1}, "store"),
        ({"store": False, "background": True}, "background"),
        ({"previous_response_id": "a", "conversation": "b"}, "previous_response_id"),
        ({"conversation": 5}, "conversation"),
        ({"max_output_tokens": "x"}, "max_output_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"reasoning": "low"}, "reasoning"),
        ({"reasoning": {"effort": 1}}, "reasoning.effort"),
        ({"text": []}, "text"),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
        ({"tools": {}}, "tools"),
        ({"tools": [1]}, "tools.0"),
        ({"tools": [{"name": "f"}]}, "tools.0.type"),
        ({"tools": [{"type": "function"}]}, "tools.0.name"),
        ({"tools": [{**GROUP, "tools": [{"type": "function"}]}]}, "tools.0.tools.0.name"),
        ({"tools": [{"type": "namespace", "tools": []}]}, "tools.0.name"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "perhaps"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "g"}, "tools": [TOOL]}, "tool_choice"),
        ({"tool_choice": {"type": "function"}, "tools": [TOOL]}, "tool_choice.name"),
    ],
)
def test_a_wrong_field_is_refused_by_name(change: dict[str, Any], param: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        openai_responses.parse_request({"model": "m", "input": "hi", **change})

    assert caught.value.param == param
    assert caught.value.text.startswith(f"`{param}` ")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("required", "required"),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        (
            {"type": "function", "name": "read", "namespace": "mcp__files"},
            {"type": "function", "function": {"name": "mcp__files__read"}},
        ),
        ({"type": "allowed_tools", "mode": "required", "tools": []}, "required"),
        ({"type": "web_search"}, None),
    ],
)
def test_tool_choices(choice: Any, expected: Any) -> None:
    body = {"input": "hi", "tools": [TOOL, GROUP], "tool_choice": choice}

    assert openai_responses.parse_request(body).chat.tool_choice == expected


def group(name: str, *tools: str) -> dict[str, Any]:
    return {
        "type": "namespace",
        "name": name,
        "tools": [{"type": "function", "name": tool} for tool in tools],
    }


def test_names_of_groups_are_joined_and_parted() -> None:
    found = parse_tools(
        [group("functions", "exec"), group("a__", "b"), group("x.y", "z"), group("n" * 70, "b")]
    )
    names = [tool["function"]["name"] for tool in found.tools]

    assert names == ["exec", "a__b", "x_y__z", "n" * 61 + "__b"]
    assert [found.names.parted(name) for name in names] == [
        {"name": "exec"},
        {"name": "b", "namespace": "a__"},
        {"name": "z", "namespace": "x.y"},
        {"name": "b", "namespace": "n" * 70},
    ]
    assert found.names.joined("functions", "exec") == "exec"
    assert found.names.joined("n" * 70, "b") == names[3]
    assert found.names.joined("gone", "b") == "gone__b"


def test_joined_names_that_would_be_equal_are_numbered() -> None:
    found = parse_tools([group("a", "b__c"), group("a__b", "c")])

    assert [tool["function"]["name"] for tool in found.tools] == ["a__b__c", "a__b__c_2"]
    assert found.names.parted("a__b__c_2") == {"name": "c", "namespace": "a__b"}
