from Middleware.core.messages import Message
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowContext


def test_a_context_that_nobody_filled_streams_nothing_and_answers_nobody() -> None:
    context = ExecutionContext(config={})

    assert not context.stream
    assert not context.answers_client
    assert context.workflow_context == WorkflowContext()
    assert context.scope_for_child() is None


def test_variables_come_from_inputs_outputs_and_messages() -> None:
    context = ExecutionContext(
        config={},
        messages=(Message("user", "Why {so}?"),),
        agent_inputs={"agent1Input": "in"},
        agent_outputs={"agent1Output": "out"},
    )

    assert context.render("{agent1Input} {agent1Output} {nobody}") == "in out {nobody}"
    assert context.render("{chat_user_prompt_last_one}") == "Why {so}?"


def test_what_is_no_text_is_made_text_first() -> None:
    context = ExecutionContext(config={}, agent_outputs={"agent1Output": {"a": 1}})

    assert context.render(5) == "5"
    assert context.render("{agent1Output}") == "{'a': 1}"


def test_jinja_is_used_where_the_node_says_so() -> None:
    context = ExecutionContext(config={"jinja2": True}, agent_outputs={"agent1Output": "out"})

    assert context.render("{{ agent1Output | upper }} {agent1Output}") == "OUT {agent1Output}"


def test_an_override_is_data_but_for_what_the_parent_left_to_the_child() -> None:
    parent = ExecutionContext(config={}, agent_outputs={"agent1Output": "{agent1Input}"})
    child = ExecutionContext(config={}, agent_inputs={"agent1Input": "in"})

    handed_over = parent.render_for_child("{agent1Output} {agent1Input}")

    assert child.prompt("Mine {agent1Input}", None) == "Mine in"
    assert child.prompt("Mine", handed_over) == "{agent1Input} in"
    assert child.prompt("Mine", "Plain {agent1Input}") == "Plain {agent1Input}"
