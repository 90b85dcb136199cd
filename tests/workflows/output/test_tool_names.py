from Middleware.core.events import Event, Finish, TextDelta, ToolCallDelta
from Middleware.workflows.output.cleaning import CleaningRules, clean


def test_names_of_called_functions_become_lower_case_and_nothing_else_does() -> None:
    events: list[Event] = [
        TextDelta("Text"),
        ToolCallDelta(0, '{"City":', "Call_1", "Get_Weather"),
        ToolCallDelta(0, '"Rome"}'),
        Finish("tool_calls"),
    ]

    changed = list(clean(iter(events), CleaningRules(lowercase_tool_names=True)))

    assert changed == [
        events[0],
        ToolCallDelta(0, '{"City":', "Call_1", "get_weather"),
        events[2],
        events[3],
    ]
