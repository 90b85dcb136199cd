from Middleware.core.events import Usage
from Middleware.core.messages import Message, ToolCall
from Middleware.workflows.models.step_notes import StepNotes


def test_notes_without_a_value_are_left_out() -> None:
    assert StepNotes().to_dict() == {}


def test_the_prompt_is_shown_as_it_went_to_the_model() -> None:
    call = ToolCall(id="call_1", name="weather", arguments="{}")
    messages = (
        Message("system", "Be brief."),
        Message("user", "Look", images=("data:image/png;base64,AAAA",)),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "sunny", tool_call_id="call_1"),
    )

    notes = StepNotes(endpoint="fast", resolved_prompt=messages)

    assert notes.to_dict() == {
        "endpoint": "fast",
        "resolvedPrompt": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look", "images": ["data:image/png;base64,AAAA"]},
            {
                "role": "assistant",
                "content": "",
                "toolCalls": [{"id": "call_1", "name": "weather", "arguments": "{}"}],
            },
            {"role": "tool", "content": "sunny", "toolCallId": "call_1"},
        ],
    }


def test_a_text_prompt_and_what_it_cost_and_how_it_failed_are_shown() -> None:
    notes = StepNotes(
        resolved_prompt="### Hello",
        usage=Usage(prompt_tokens=3, completion_tokens=0),
        attempts=3,
        child_run_id="r2",
        error="Endpoint 'fast' cannot be reached.",
    )

    assert notes.to_dict() == {
        "resolvedPrompt": "### Hello",
        "tokens": {"prompt": 3, "completion": 0, "total": 3, "estimated": False},
        "attempts": 3,
        "childRunId": "r2",
        "error": "Endpoint 'fast' cannot be reached.",
    }
