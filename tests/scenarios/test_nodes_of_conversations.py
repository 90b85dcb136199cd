"""Nodes that work through a conversation, through the front door."""

from pathlib import Path
from typing import Any

from tests.fakes.headrace import Tree, answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Upstream, chat
from tests.scenarios.modes import both_modes

TALK = [
    {"role": "user", "content": "[DiscussionId]talk[/DiscussionId]m1"},
    *({"role": "user", "content": f"m{number}"} for number in range(2, 8)),
]


@both_modes
def test_blocks_of_a_conversation_are_processed_once(stream: bool, tmp_path: Path) -> None:
    state = tmp_path / "state"
    chunks = {
        "type": "ConversationChunkProcessor",
        "id": "events",
        "workflowName": "Note",
        "cursorDirectory": "{state}",
        "chunkSize": 2,
        "lookbackMessages": 2,
        "returnFile": "{state}/notes.txt",
        "scoped_variables": ["of {Discussion_Id}"],
    }
    note = {
        "type": "SaveCustomFile",
        "filepath": str(state / "notes.txt"),
        "mode": "append",
        "content": "{agent1Input} {agent2Input} {chat_user_prompt_last_one};",
    }
    tree = Tree(tmp_path).own("Note", [note]).workflow("w", [chunks], state=str(state))
    with tree.serve() as live:
        said = [
            hear(live.chat(model="w", stream=stream, messages=TALK[:count])).said[0]
            for count in (3, 5, 5, 7)
        ]

    one, two = "m1\nm2 of talk m2;", "m3\nm4 of talk m4;"
    assert said == ["", one, one, one + two]


@both_modes
def test_a_search_of_the_conversation_is_the_answer(stream: bool, tmp_path: Path) -> None:
    node = {
        "type": "ConversationalKeywordSearchPerformerTool",
        "keywords": "{chat_user_prompt_last_one}",
    }
    messages = [
        {"role": "user", "content": "The fox is red."},
        {"role": "user", "content": "fox"},
    ]
    with Tree(tmp_path).workflow("w", [node]).serve() as live:
        heard = hear(live.chat(model="w", stream=stream, messages=messages))

    assert heard.said == ("The fox is red.", "stop")


@both_modes
def test_pieces_of_a_text_are_asked_about_one_after_the_other(stream: bool, tmp_path: Path) -> None:
    nodes: list[dict[str, Any]] = [
        {"type": "StaticResponse", "content": "first--ChunkBreak--second"},
        {
            "type": "SlowButQualityRAG",
            "ragTarget": "{agent1Output}",
            "ragType": "CurrentConversation",
            "endpointName": "Main",
            "prompt": "[TextChunk] after [Memory_file]",
        },
    ]
    tree = Tree(tmp_path).workflow("w", nodes)
    with (
        Upstream(chat("one."), chat("two.")) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        heard = hear(live.chat(model="w", stream=stream, messages=TALK[:1]))

    assert heard.said == ("one.two.", "stop")
    prompts = [call.json["messages"][-1]["content"] for call in model.asked]
    assert prompts == ["first after ", "second after one."]


def test_memories_may_be_made_by_a_workflow(tmp_path: Path) -> None:
    rag = {
        "type": "SlowButQualityRAG",
        "ragTarget": "a--ChunkBreak--b",
        "ragType": "x",
        "fileMemoryWorkflowName": "Remember",
    }
    say = {"type": "StaticResponse", "content": "({agent1Input} after {agent2Input})"}
    tree = Tree(tmp_path).own("Remember", [say, answers("Main", is_responder=False)])
    tree.own("Remember", [say]).workflow("w", [rag])
    with tree.serve() as live:
        heard = hear(live.chat(model="w", messages=TALK[:1]))

    assert heard.said == ("(a after )(b after (a after ))", "stop")
